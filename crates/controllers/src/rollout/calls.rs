//! Counts calls of the revisions that rollouts compare, their failures, and their durations.
//!
//! In-memory state is a cache: after a restart the counts start from zero, and a gate has to wait for as many calls again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use ferroplane_engine::rollout::CallStatistics;

/// How many buckets times are counted in: four for each doubling, from a microsecond to more than an hour.
const BUCKETS: usize = 128;

/// Calls, by the name of the revision.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    revisions: Mutex<BTreeMap<String, Counted>>,
}

#[derive(Debug)]
struct Counted {
    total: u64,
    errors: u64,
    /// How many calls had a duration in each bucket.
    times: [u32; BUCKETS],
    /// Whether it has responded at all.
    has_answered: bool,
}

impl Default for Counted {
    fn default() -> Self {
        Self { total: 0, errors: 0, times: [0; BUCKETS], has_answered: false }
    }
}

impl Calls {
    /// Count calls of these revisions from now on, and drop all others. Existing counts continue.
    pub(crate) fn watch(&self, revisions: &BTreeSet<String>) {
        let mut counted = self.lock();
        counted.retain(|revision, _| revisions.contains(revision));
        for revision in revisions {
            counted.entry(revision.clone()).or_default();
        }
    }

    /// Count a call.
    pub(crate) fn note(&self, revision: &str, took: Duration, is_error: bool) {
        if let Some(counted) = self.lock().get_mut(revision) {
            counted.total += 1;
            counted.errors += u64::from(is_error);
            counted.times[bucket(took)] += 1;
        }
    }

    /// A revision responds. Failures before its first response do not count: it had not started.
    pub(crate) fn note_answer(&self, revision: &str) {
        if let Some(counted) = self.lock().get_mut(revision)
            && !counted.has_answered
        {
            *counted = Counted { has_answered: true, ..Counted::default() };
        }
    }

    /// Whether a revision has responded since its calls are counted.
    pub(crate) fn has_answered(&self, revision: &str) -> bool {
        self.lock().get(revision).is_some_and(|counted| counted.has_answered)
    }

    pub(crate) fn of(&self, revision: &str) -> CallStatistics {
        self.lock().get(revision).map(Counted::statistics).unwrap_or_default()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, Counted>> {
        self.revisions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Counted {
    fn statistics(&self) -> CallStatistics {
        // With less than 100 calls it is the slowest.
        let wanted = (self.total * 99).div_ceil(100);
        let mut seen = 0;
        let slowest = self.times.iter().position(|count| {
            seen += u64::from(*count);
            seen >= wanted && seen > 0
        });
        let p99 = slowest.map(upper_bound).unwrap_or_default();
        CallStatistics { total: self.total, errors: self.errors, p99 }
    }
}

fn bucket(took: Duration) -> usize {
    let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX).max(1);
    let doublings = micros.ilog2();
    // The two bits after the highest one select the quarter of the doubling.
    let leading = if doublings >= 2 { micros >> (doublings - 2) } else { micros << (2 - doublings) };
    let quarter = leading & 3;
    let bucket = usize::try_from(u64::from(doublings) * 4 + quarter).unwrap_or(BUCKETS);
    bucket.min(BUCKETS - 1)
}

/// The longest duration in a bucket.
fn upper_bound(bucket: usize) -> Duration {
    let (doublings, quarter) = (bucket / 4, u64::try_from(bucket % 4).unwrap_or_default());
    Duration::from_micros(((1 << doublings) * (5 + quarter)) / 4)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slowest_of_a_hundred_calls_is_left_out() {
        let calls = Calls::default();
        calls.watch(&BTreeSet::from(["one".to_owned()]));
        for call in 0..99 {
            calls.note("one", Duration::from_millis(10), call < 3);
            calls.note("other", Duration::from_secs(1), true);
        }
        let ten = calls.of("one");
        assert_eq!((ten.total, ten.errors), (99, 3));
        assert!((10..=12).contains(&ten.p99.as_millis()), "{:?}", ten.p99);
        calls.note("one", Duration::from_secs(9), false);
        assert_eq!(calls.of("one").p99, ten.p99);
        calls.note("one", Duration::from_secs(9), false);
        calls.note("one", Duration::from_secs(9), false);
        assert!((9..=11).contains(&calls.of("one").p99.as_secs()));
        assert_eq!(calls.of("other"), CallStatistics::default(), "nobody asked for it");
    }

    #[test]
    fn calls_count_from_the_first_answer() {
        let calls = Calls::default();
        calls.watch(&BTreeSet::from(["one".to_owned()]));
        for _ in 0..30 {
            calls.note("one", Duration::from_secs(5), true);
        }
        assert_eq!((calls.has_answered("one"), calls.of("one").errors), (false, 30));
        for _ in 0..2 {
            calls.note_answer("one");
            calls.note("one", Duration::from_millis(1), false);
        }
        calls.note("one", Duration::from_millis(1), true);
        assert_eq!((calls.has_answered("one"), calls.has_answered("other")), (true, false));
        assert_eq!((calls.of("one").total, calls.of("one").errors), (3, 1));
    }

    #[test]
    fn every_time_is_in_a_bucket_that_is_not_much_larger() {
        for micros in [0, 1, 2, 3, 5, 7, 100, 1023, 1024, 1_000_000, 60_000_000, u64::MAX] {
            let took = Duration::from_micros(micros);
            let bound = upper_bound(bucket(took));
            let is_close = bound >= took && bound <= took.saturating_mul(2) + Duration::from_micros(2);
            assert!(is_close || bucket(took) == BUCKETS - 1, "{took:?} is counted as {bound:?}");
        }
    }
}
