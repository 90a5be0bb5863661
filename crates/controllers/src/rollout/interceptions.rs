//! Keeps the results of calls that were sent to developers' processes.
//!
//! In-memory state is a cache: after a restart, the processes are called again.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::{Mutex, PoisonError};

use ferroplane_api::{FunctionInterceptStatus, InterceptComparison};

/// How many comparisons are reported.
const MOST_COMPARISONS: usize = 8;

/// By the uid of the intercept.
#[derive(Debug, Default)]
pub(crate) struct Interceptions {
    intercepts: Mutex<HashMap<String, Intercepted>>,
}

#[derive(Debug, Default)]
struct Intercepted {
    /// The uids of the composite resources whose calls were sent, with the round in which they were.
    composites: BTreeMap<String, i64>,
    differences: BTreeMap<String, i64>,
    comparisons: VecDeque<InterceptComparison>,
    count: i64,
    /// Why calls for a composite resource are not sent.
    denied: Option<String>,
}

impl Interceptions {
    /// Whether calls for a composite resource were sent in this round.
    pub(crate) fn has(&self, intercept: &str, composite: &str, round: i64) -> bool {
        self.lock().get(intercept).is_some_and(|it| it.composites.get(composite) == Some(&round))
    }

    /// Calls for a composite resource are sent. Returns whether that is the first time.
    pub(crate) fn note(&self, intercept: &str, composite: &str, round: i64) -> bool {
        let mut intercepts = self.lock();
        let intercepted = intercepts.entry(intercept.to_owned()).or_default();
        intercepted.denied = None;
        intercepted.composites.insert(composite.to_owned(), round).is_none()
    }

    /// The process was compared with the control plane's own revision.
    pub(crate) fn compare(&self, intercept: &str, comparison: InterceptComparison) {
        let mut intercepts = self.lock();
        let intercepted = intercepts.entry(intercept.to_owned()).or_default();
        intercepted.count += 1;
        *intercepted.differences.entry(comparison.difference.clone()).or_default() += 1;
        intercepted.comparisons.push_back(InterceptComparison { number: intercepted.count, ..comparison });
        if intercepted.comparisons.len() > MOST_COMPARISONS {
            intercepted.comparisons.pop_front();
        }
    }

    /// Calls for a composite resource are denied. Returns whether that is new.
    pub(crate) fn deny(&self, intercept: &str, composite: &str, why: &str) -> bool {
        let mut intercepts = self.lock();
        let intercepted = intercepts.entry(intercept.to_owned()).or_default();
        intercepted.composites.remove(composite);
        intercepted.denied.replace(why.to_owned()).as_deref() != Some(why)
    }

    /// Why calls are denied, and the results of those that were sent.
    pub(crate) fn status(&self, intercept: &str) -> (Option<String>, FunctionInterceptStatus) {
        let intercepts = self.lock();
        let Some(intercepted) = intercepts.get(intercept) else {
            return (None, FunctionInterceptStatus::default());
        };
        let status = FunctionInterceptStatus {
            composites: i64::try_from(intercepted.composites.len()).unwrap_or(i64::MAX),
            differences: intercepted.differences.clone(),
            comparisons: intercepted.comparisons.iter().cloned().collect(),
            client_ca: None,
        };
        (intercepted.denied.clone(), status)
    }

    /// Drop all intercepts but these.
    pub(crate) fn keep(&self, intercepts: &BTreeSet<&str>) {
        self.lock().retain(|intercept, _| intercepts.contains(intercept.as_str()));
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<String, Intercepted>> {
        self.intercepts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_comparisons_are_told_and_all_are_counted() {
        let interceptions = Interceptions::default();
        for _ in 0..20 {
            let difference = "Changed".to_owned();
            interceptions.compare("1", InterceptComparison { difference, ..InterceptComparison::default() });
        }
        let (_, status) = interceptions.status("1");
        assert_eq!(status.comparisons.len(), MOST_COMPARISONS);
        assert_eq!(status.comparisons.last().unwrap().number, 20);
        assert_eq!(status.differences["Changed"], 20);
    }

    #[test]
    fn composite_resource_is_asked_about_once_in_a_round() {
        let interceptions = Interceptions::default();
        assert!(interceptions.note("1", "blog", 0), "it is the first time");
        assert!(interceptions.has("1", "blog", 0) && !interceptions.has("1", "blog", 1));
        assert!(!interceptions.note("1", "blog", 1), "only another round");
        interceptions.keep(&BTreeSet::new());
        assert!(!interceptions.has("1", "blog", 1));
    }
}
