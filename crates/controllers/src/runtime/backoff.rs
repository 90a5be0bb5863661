//! Exponential backoff, and how long anything is put off at most.

use std::time::Duration;

use tokio::time::Instant;

/// The longest delay.
pub(crate) const LONGEST_DELAY: Duration = Duration::from_hours(365 * 24);

/// The pause after so many attempts.
pub(crate) fn pause(first: Duration, longest: Duration, tries: u32) -> Duration {
    first.saturating_mul(1 << tries.min(30)).min(longest)
}

/// The instant after a delay. Functions and users choose delays, and an instant cannot be arbitrarily far away: adding a time to live of
/// `i64::MAX` seconds would panic.
pub(crate) fn after(delay: Duration) -> Instant {
    Instant::now() + delay.min(LONGEST_DELAY)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn delay_that_no_clock_can_count_is_a_long_one() {
        let second = Duration::from_secs(1);
        assert!(after(second) <= Instant::now() + second);
        assert!(after(Duration::MAX) > Instant::now() + LONGEST_DELAY / 2);
    }
}
