//! Random identifiers, and in simulations repeatable ones.
//!
//! A simulation that shall do the same each time draws from a seed instead: on its thread alone, all servers on which
//! make the same identifiers in the same order, at the same times.

use std::cell::Cell;

use uuid::{Builder, Uuid};

use crate::clock;

thread_local! {
    static SEED: Cell<Option<u64>> = const { Cell::new(None) };
}

/// From now on, identifiers and times on this thread can be repeated. Never for anything but simulations: what can be
/// repeated can be guessed.
pub fn simulate(seed: u64) {
    SEED.set(Some(seed));
    clock::simulate();
}

/// A new UUID, of version 4.
pub(crate) fn uuid() -> Uuid {
    match SEED.get() {
        None => Uuid::new_v4(),
        Some(seed) => {
            let (first, seed) = mix(seed);
            let (second, seed) = mix(seed);
            SEED.set(Some(seed));
            let bytes = (u128::from(first) << 64 | u128::from(second)).to_be_bytes();
            Builder::from_random_bytes(bytes).into_uuid()
        }
    }
}

/// The next number, and what the one after that comes from (`SplitMix64`).
fn mix(seed: u64) -> (u64, u64) {
    let seed = seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mixed = (seed ^ (seed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    (mixed ^ (mixed >> 31), seed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn same_seed_makes_the_same_names() {
        let draw = |seed| {
            simulate(seed);
            [uuid(), uuid()]
        };
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
        let [one, other] = draw(1);
        assert_ne!(one, other);
        assert_eq!(one.get_version_num(), 4);
    }
}
