//! The delay before the next attempt.

use std::time::Duration;

/// Pauses that double, up to a limit.
#[derive(Debug, Clone)]
pub(crate) struct Backoff {
    first: Duration,
    longest: Duration,
    tries: u32,
}

impl Backoff {
    pub(crate) fn new(first: Duration, longest: Duration) -> Self {
        Self { first, longest, tries: 0 }
    }

    /// How long to wait now.
    pub(crate) fn next(&mut self) -> Duration {
        // Bounded before shifting, which would overflow after 31 tries.
        let pause = self.first.saturating_mul(1 << self.tries.min(30)).min(self.longest);
        self.tries = self.tries.saturating_add(1);
        pause
    }

    /// A try succeeded: the next pause is the first again.
    pub(crate) fn reset(&mut self) {
        self.tries = 0;
    }
}
