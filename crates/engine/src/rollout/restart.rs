//! How long functions may take to start again with the control plane, before a rollout counts it as a failure that they cannot be called.

use std::time::Duration;

use ferroplane_api::Cause;

/// How many seconds functions may take to start. Images are cached, but all programs start at once.
const START_UP_SECONDS: i64 = 120;

/// What a rollout knows about the start of the controllers. By default, it began after that.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Restart {
    /// How long the controllers have been running, by a monotonic clock.
    pub uptime: Duration,
    /// Whether the candidate was being rolled out when they started.
    pub is_resumed: bool,
    /// Whether the candidate has responded since.
    pub has_answered: bool,
}

impl Restart {
    /// For how many more seconds functions may be starting. None if that time is over. It is never longer than the progress deadline.
    pub fn time_left(self, progress_deadline_seconds: i64) -> Option<i64> {
        let uptime = i64::try_from(self.uptime.as_secs()).unwrap_or(i64::MAX);
        let left = START_UP_SECONDS.min(progress_deadline_seconds).saturating_sub(uptime);
        (self.is_resumed && left > 0).then_some(left)
    }
}

/// Whether a failure means that a function cannot be called, which may be because it has not started yet.
pub fn is_uncallable(cause: Cause) -> bool {
    matches!(cause, Cause::FunctionNotConnectable | Cause::FunctionUnreachable)
}
