//! Clocks and random numbers for code that was granted neither: the same at every call with the same request.

use std::convert::Infallible;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rand::TryRng;
use wasmtime_wasi::{HostMonotonicClock, HostWallClock};

/// A wall clock that stands.
#[derive(Debug)]
pub(crate) struct StillWallClock(pub(crate) Duration);

impl HostWallClock for StillWallClock {
    fn resolution(&self) -> Duration {
        Duration::from_millis(1)
    }

    fn now(&self) -> Duration {
        self.0
    }
}

/// A monotonic clock that moves by a millisecond each time it is read, and for no other reason.
///
/// One that stood would hang code that waits for it, as the scheduler of Go's runtime does.
#[derive(Debug, Default)]
pub(crate) struct StillMonotonicClock(AtomicU64);

const STEP: u64 = 1_000_000;

impl HostMonotonicClock for StillMonotonicClock {
    fn resolution(&self) -> u64 {
        STEP
    }

    fn now(&self) -> u64 {
        self.0.fetch_add(STEP, Ordering::Relaxed)
    }
}

/// Numbers that look random and follow from a seed. The generator is `SplitMix64`: its numbers must not change with the version of
/// a library, because recorded calls are replayed.
#[derive(Debug)]
pub(crate) struct Seeded(u64);

impl Seeded {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

impl TryRng for Seeded {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        let upper = (self.next() >> 32) as u32;
        Ok(upper)
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        Ok(self.next())
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Infallible> {
        for chunk in bytes.chunks_mut(8) {
            chunk.copy_from_slice(&self.next().to_le_bytes()[..chunk.len()]);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeded_numbers_are_those_of_splitmix64() {
        let mut numbers = Seeded::new(1_234_567);

        let drawn = [numbers.next(), numbers.next(), numbers.next()];

        assert_eq!(drawn, [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]);
    }

    #[test]
    fn monotonic_clock_moves_when_it_is_read() {
        let clock = StillMonotonicClock::default();

        assert_eq!([clock.now(), clock.now(), clock.now()], [0, STEP, 2 * STEP]);
    }
}
