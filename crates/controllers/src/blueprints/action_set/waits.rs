//! What the actions of an ActionSet wait for together, and when the ActionSet is reconciled again.

use std::time::Duration;

use ferroplane_engine::action::Address;

use crate::blueprints::wake::Noted;
use crate::runtime::queue::Next;

/// How often to check objects that cannot be watched.
const POLL: Duration = Duration::from_secs(10);

/// What the actions of an ActionSet wait for.
#[derive(Default)]
pub(super) struct Waits {
    pub(super) wake_at: Option<i64>,
    pub(super) watch: Vec<Address>,
    /// The outcome of a request is unknown: its action tries again.
    pub(super) has_unknown: bool,
}

impl Waits {
    pub(super) fn add(&mut self, wake_at: Option<i64>, watch: Vec<Address>) {
        self.wake_at = self.wake_at.into_iter().chain(wake_at).min();
        self.watch.extend(watch);
    }

    /// How to requeue the ActionSet at this time, now that its waits are registered.
    pub(super) fn next(&self, noted: &Noted, now: i64) -> Next {
        if noted.is_new {
            // Reconcile again at once.
            return Next::After(Duration::ZERO);
        }
        let wake_in = self
            .wake_at
            .map(|time| Duration::from_millis(u64::try_from(time.saturating_sub(now)).unwrap_or_default()));
        // The pauses after failures become longer than the other actions may wait.
        let tries_again = self.has_unknown && wake_in.is_some();
        let poll = (noted.has_to_poll || tries_again).then_some(POLL);
        match wake_in.into_iter().chain(poll).min() {
            Some(pause) => Next::After(pause),
            None if self.has_unknown => Next::Retry,
            None => Next::Rest,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_000_000;

    /// The next step of an ActionSet that is to wake after so many seconds.
    fn next(wake_in: Option<i64>, has_to_poll: bool, has_unknown: bool) -> Next {
        let wake_at = wake_in.map(|seconds| NOW + seconds * 1000);
        let waits = Waits { wake_at, watch: Vec::new(), has_unknown };
        waits.next(&Noted { is_new: false, has_to_poll }, NOW)
    }

    fn after(seconds: u64) -> Next {
        Next::After(Duration::from_secs(seconds))
    }

    #[test]
    fn unknown_outcome_for_one_action_does_not_delay_the_others() {
        assert_eq!(next(Some(3), false, true), after(3));
        assert_eq!(next(Some(3600), false, true), Next::After(POLL));
        assert_eq!(next(None, true, true), Next::After(POLL));
        assert_eq!(next(Some(3), true, true), after(3));
        assert_eq!(next(None, false, true), Next::Retry);
    }

    #[test]
    fn actions_wait_until_the_first_of_them_wakes() {
        assert_eq!(next(None, false, false), Next::Rest);
        assert_eq!(next(Some(-5), false, false), after(0));
        assert_eq!(next(Some(3600), false, false), after(3600));
        assert_eq!(next(Some(3600), true, false), Next::After(POLL));
        assert_eq!(next(None, true, false), Next::After(POLL));
    }

    #[test]
    fn object_that_was_not_watched_before_is_looked_at_again_whatever_else_is_unknown() {
        for has_unknown in [false, true] {
            let waits = Waits { has_unknown, ..Waits::default() };
            assert_eq!(waits.next(&Noted { is_new: true, has_to_poll: false }, NOW), after(0));
        }
    }
}
