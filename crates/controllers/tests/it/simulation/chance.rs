//! Chance that can be repeated: the same seed, the same luck.

use std::sync::Mutex;
use std::time::Duration;

/// A stream of numbers (`SplitMix64`).
#[derive(Debug)]
pub(super) struct Chance(Mutex<u64>);

impl Chance {
    /// Streams of the same seed for different purposes have nothing to do with each other.
    pub(super) fn new(seed: u64, purpose: u64) -> Self {
        let chance = Self(Mutex::new(seed.wrapping_mul(0x2545_F491_4F6C_DD1D) ^ purpose.rotate_left(32)));
        chance.next();
        chance
    }

    fn next(&self) -> u64 {
        let mut state = self.0.lock().unwrap();
        *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = *state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    pub(super) fn below(&self, limit: u64) -> u64 {
        self.next() % limit
    }

    pub(super) fn happens(&self, percent: u64) -> bool {
        self.below(100) < percent
    }

    pub(super) fn pick<'a, T>(&self, choices: &'a [T]) -> &'a T {
        let index = self.below(choices.len() as u64);
        &choices[usize::try_from(index).unwrap()]
    }

    pub(super) fn up_to(&self, longest: Duration) -> Duration {
        Duration::from_millis(self.below(u64::try_from(longest.as_millis()).unwrap() + 1))
    }
}
