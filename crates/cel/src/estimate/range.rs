//! From least to most: what something costs, or how large it is.
//!
//! Follows cel-go 0.29.2, `checker/cost.go`.

/// A range of costs or sizes. Nothing overflows: the largest number stands for more than can be said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Range {
    pub(super) least: u64,
    pub(super) most: u64,
}

impl Range {
    pub(super) const UNKNOWN: Self = Self { least: 0, most: u64::MAX };
    /// What to begin with where ranges are united.
    pub(super) const NONE: Self = Self { least: u64::MAX, most: 0 };

    pub(super) const fn fixed(value: u64) -> Self {
        Self { least: value, most: value }
    }

    pub(super) const fn up_to(most: u64) -> Self {
        Self { least: 0, most }
    }

    pub(super) fn plus(self, other: Self) -> Self {
        Self { least: self.least.saturating_add(other.least), most: self.most.saturating_add(other.most) }
    }

    pub(super) fn times(self, other: Self) -> Self {
        Self { least: self.least.saturating_mul(other.least), most: self.most.saturating_mul(other.most) }
    }

    /// A part or a multiple, rounded up.
    pub(super) fn scaled(self, factor: f64) -> Self {
        Self { least: scale(self.least, factor), most: scale(self.most, factor) }
    }

    /// What it costs to check all of a text that is so long.
    pub(super) fn traversed(self) -> Self {
        self.scaled(0.1)
    }

    /// What a regular expression costs that is so long.
    pub(super) fn as_pattern(self) -> Self {
        self.scaled(0.25)
    }

    /// The smallest range that has both in it.
    pub(super) fn union(self, other: Self) -> Self {
        Self { least: self.least.min(other.least), most: self.most.max(other.most) }
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "an estimate"
)]
fn scale(value: u64, factor: f64) -> u64 {
    // A cast stops at the largest number.
    (value as f64 * factor).ceil() as u64
}

/// How often something so short fits into something so long, rounded up.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "an estimate"
)]
pub(super) fn fits(long: u64, short: u64) -> u64 {
    (long as f64 / short as f64).ceil() as u64
}
