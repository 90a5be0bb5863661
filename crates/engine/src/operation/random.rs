//! Random numbers for models of schedules and watches. The same seed gives the same numbers.

pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(super) fn below(&mut self, limit: u64) -> u64 {
        // Xorshift, by Marsaglia.
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }

    pub(super) fn is_one_of(&mut self, many: u64) -> bool {
        self.below(many) == 0
    }
}
