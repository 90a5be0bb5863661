//! Decides when recorded times of schedules that are too far in the future are ignored.
//!
//! Such a time was recorded by a clock that was ahead, or the clock of this machine is behind. Most clocks that are behind are corrected
//! soon after the machine has booted, so that a time is ignored only after this process has seen it in the future for a while.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use ferroplane_api::{Object, meta};
use tokio::time::Instant;

/// For how long a time has to be in the future. Measured without the clock that may be wrong.
const PATIENCE: Duration = Duration::from_mins(10);

/// The `CronOperation`s with times in the future, by their names. In memory only: a restart begins again.
#[derive(Debug, Default)]
pub(super) struct FutureTimes(Mutex<HashMap<String, Seen>>);

#[derive(Debug)]
struct Seen {
    uid: String,
    since: Instant,
}

impl FutureTimes {
    /// Report whether a `CronOperation` has a time in the future. Returns whether it may be ignored.
    pub(super) fn may_ignore(&self, cron: &Object, has_future_time: bool) -> bool {
        let (name, uid) = (meta::name(cron), meta::uid(cron));
        if !has_future_time {
            self.forget(name);
            return false;
        }
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(seen) = seen.get(name).filter(|seen| seen.uid == uid) {
            return seen.since.elapsed() >= PATIENCE;
        }
        seen.insert(name.to_owned(), Seen { uid: uid.to_owned(), since: Instant::now() });
        false
    }

    pub(super) fn forget(&self, name: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(name);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn cron(uid: &str) -> Object {
        json!({"metadata": {"name": "c", "uid": uid}}).as_object().unwrap().clone()
    }

    #[tokio::test(start_paused = true)]
    async fn time_is_ignored_once_it_was_in_the_future_for_ten_minutes_without_a_break() {
        let times = FutureTimes::default();
        let it = cron("u");
        let minutes = |minutes| tokio::time::advance(Duration::from_mins(minutes));
        assert!(!times.may_ignore(&it, true));
        minutes(9).await;
        assert!(!times.may_ignore(&it, true));
        minutes(1).await;
        assert!(times.may_ignore(&it, true));
        assert!(!times.may_ignore(&cron("v"), true), "another one of the same name");
        minutes(5).await;
        assert!(!times.may_ignore(&cron("v"), false), "the clock was corrected");
        minutes(5).await;
        assert!(!times.may_ignore(&cron("v"), true));
        minutes(10).await;
        times.forget("c");
        assert!(!times.may_ignore(&cron("v"), true));
    }
}
