//! Exponential backoff.

use std::time::Duration;

/// The pause after so many attempts.
pub(crate) fn pause(first: Duration, longest: Duration, tries: u32) -> Duration {
    first.saturating_mul(1 << tries.min(30)).min(longest)
}
