//! How long to wait before trying again what did not work.

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
        let pause = pause(self.first, self.longest, self.tries);
        self.tries = self.tries.saturating_add(1);
        pause
    }

    /// It worked.
    pub(crate) fn reset(&mut self) {
        self.tries = 0;
    }
}

/// The pause after so many tries.
pub(crate) fn pause(first: Duration, longest: Duration, tries: u32) -> Duration {
    first.saturating_mul(1 << tries.min(30)).min(longest)
}
