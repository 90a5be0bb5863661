//! Keeps the results of trials of candidates.
//!
//! In-memory state is a cache: after a restart, a composite resource that was moved and not yet composed by the candidate is tried again.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use ferroplane_api::RolloutDifference;
use ferroplane_engine::rollout::{Comparison, Differences, Example, MOST_ADDED, Tried};

/// How many differences are described.
const MOST_EXAMPLES: usize = 5;
/// In a preview, the candidate is called a second time for the first of so many composite resources.
const SAMPLED: usize = 100;

/// The results of candidates, by the name of the revision.
#[derive(Default)]
pub(crate) struct Trials {
    candidates: Mutex<BTreeMap<String, CandidateTrials>>,
    /// Increases when a composite resource or a trial changes.
    news: AtomicU64,
    listener: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

impl fmt::Debug for Trials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Trials").field("news", &self.news).finish_non_exhaustive()
    }
}

#[derive(Debug, Default)]
struct CandidateTrials {
    /// By the uid of the composite resource.
    compared: HashMap<String, Compared>,
    examples: Vec<(RolloutDifference, Example)>,
    /// The kinds and names of some resources that only the candidate composes, by the uid of the composite resource.
    added: HashMap<String, Vec<String>>,
    /// For how many composite resources a preview calls it twice.
    sampled: usize,
}

/// A hash of all inputs of a comparison, and of what the candidate would do with them.
pub(crate) type Proof = [u8; 32];

/// What a trial found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Compared {
    pub(crate) differences: Differences,
    /// Whether the candidate composed it before one of its trials.
    pub(crate) has_composed: bool,
    /// Where the same would be found again.
    pub(crate) proof: Option<Proof>,
}

/// A trial of a candidate for a composite resource.
#[derive(Debug)]
pub(crate) struct Trial<'a> {
    pub(crate) candidate: &'a str,
    pub(crate) uid: &'a str,
    /// The name of the composite resource, for people.
    pub(crate) name: &'a str,
    /// What it adds is empty if the rollout refuses it, as it is not composed.
    pub(crate) comparison: Comparison,
    /// Whether the candidate composed it before.
    pub(crate) has_composed: bool,
    pub(crate) proof: Option<Proof>,
    /// The recording that shows it, for `ferroplane replay show`.
    pub(crate) recording: &'a str,
}

impl Trials {
    /// Record a trial. It replaces an earlier one for the same composite resource.
    pub(crate) fn note(&self, trial: Trial<'_>) {
        let Trial { candidate, uid, name, comparison, has_composed, proof, recording } = trial;
        let Comparison { differences, detail, added } = comparison;
        let mut candidates = self.lock();
        let trials = candidates.entry(candidate.to_owned()).or_default();
        let added_before = if added.is_empty() {
            trials.added.remove(uid)
        } else {
            trials.added.insert(uid.to_owned(), added.clone())
        };
        let is_same_added = added_before.unwrap_or_default() == added;
        let has_composed = has_composed || trials.compared.get(uid).is_some_and(|before| before.has_composed);
        let before = trials.compared.insert(uid.to_owned(), Compared { differences, has_composed, proof });
        let is_same =
            |before: Compared| before.differences == differences && before.has_composed == has_composed;
        if is_same_added && before.is_some_and(is_same) {
            return;
        }
        if !detail.is_empty() {
            let example = Example { message: format!("{name}: {detail}"), recording: recording.to_owned() };
            trials.examples.push((differences.gravest(), example));
            // The most severe ones are kept, and of those the first.
            trials.examples.sort_by_key(|(difference, _)| std::cmp::Reverse(*difference));
            trials.examples.truncate(MOST_EXAMPLES);
        }
        // The number grows after the results are stored: a controller that sees it has to find them.
        drop(candidates);
        self.note_change();
    }

    /// A composite resource may have changed for a rollout.
    pub(crate) fn note_change(&self) {
        self.news.fetch_add(1, Ordering::AcqRel);
        // After the number has grown: the listener has to see it.
        if let Some(listener) = self.listener.get() {
            listener();
        }
    }

    /// Call a listener after each change. There is one controller of rollouts, so that there is one listener.
    pub(crate) fn on_change(&self, listener: impl Fn() + Send + Sync + 'static) {
        let _ = self.listener.set(Box::new(listener));
    }

    /// Increases when a composite resource or a trial changes.
    pub(crate) fn news(&self) -> u64 {
        self.news.load(Ordering::Acquire)
    }

    /// Whether a candidate was tried for a composite resource.
    pub(crate) fn has(&self, candidate: &str, uid: &str) -> bool {
        self.lock().get(candidate).is_some_and(|trials| trials.compared.contains_key(uid))
    }

    /// Whether a preview has to call a candidate a second time, to see whether it answers the same again.
    pub(crate) fn take_sample(&self, candidate: &str) -> bool {
        let mut candidates = self.lock();
        let trials = candidates.entry(candidate.to_owned()).or_default();
        let is_due = trials.sampled * SAMPLED <= trials.compared.len();
        trials.sampled += usize::from(is_due);
        is_due
    }

    /// A second call showed nothing: another one has to be made.
    pub(crate) fn return_sample(&self, candidate: &str) {
        if let Some(trials) = self.lock().get_mut(candidate) {
            trials.sampled = trials.sampled.saturating_sub(1);
        }
    }

    /// What the last trial of a candidate found for a composite resource.
    pub(crate) fn compared(&self, candidate: &str, uid: &str) -> Option<Compared> {
        self.lock().get(candidate)?.compared.get(uid).copied()
    }

    /// What the last trials of a candidate found, by the uid of the composite resource.
    pub(crate) fn of(&self, candidate: &str) -> HashMap<String, Compared> {
        self.lock().get(candidate).map(|trials| trials.compared.clone()).unwrap_or_default()
    }

    /// The differences of a candidate, counted and described.
    pub(crate) fn tried(&self, candidate: &str) -> Tried {
        let candidates = self.lock();
        let Some(trials) = candidates.get(candidate) else { return Tried::default() };
        let mut differences = BTreeMap::new();
        for difference in trials.compared.values().flat_map(|it| it.differences.iter()) {
            *differences.entry(difference.as_str().to_owned()).or_default() += 1;
        }
        let examples = trials.examples.iter().map(|(_, example)| example.clone()).collect();
        let added: BTreeSet<_> = trials.added.values().flatten().collect();
        Tried { differences, examples, added: added.into_iter().take(MOST_ADDED).cloned().collect() }
    }

    /// Drop all candidates but these.
    pub(crate) fn keep(&self, candidates: &BTreeSet<&str>) {
        self.lock().retain(|candidate, _| candidates.contains(candidate.as_str()));
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, CandidateTrials>> {
        self.candidates.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(trials: &Trials, uid: &str, added: &[&str], has_composed: bool) {
        let mut comparison = Comparison::new(RolloutDifference::Equal, "");
        comparison.added = added.iter().map(|&name| name.to_owned()).collect();
        let (name, proof, recording) = ("any", None, "");
        trials.note(Trial { candidate: "two", uid, name, comparison, has_composed, proof, recording });
    }

    #[test]
    fn preview_samples_one_of_a_hundred_and_at_least_one() {
        for (count, expected) in [(1, 1), (5, 1), (100, 1), (101, 2), (1000, 10)] {
            let trials = Trials::default();
            let mut sampled = 0;
            for number in 0..count {
                sampled += usize::from(trials.take_sample("two"));
                note(&trials, &format!("uid-{number}"), &[], false);
            }
            assert_eq!(sampled, expected, "of {count}");
        }
    }

    #[test]
    fn second_call_that_shows_nothing_is_made_for_another_composite_resource() {
        let trials = Trials::default();
        assert!(trials.take_sample("two"));
        assert!(!trials.take_sample("two"), "one of a hundred is enough");
        trials.return_sample("two");
        note(&trials, "uid-1", &[], false);
        assert!(trials.take_sample("two"));
    }

    #[test]
    fn names_of_resources_hold_until_another_trial_of_the_composite_resource() {
        let trials = Trials::default();
        let added = || trials.tried("two").added;
        note(&trials, "uid-1", &["Secret `s`", "ConfigMap `c`"], false);
        note(&trials, "uid-2", &["ConfigMap `c`"], false);
        assert_eq!(added(), ["ConfigMap `c`", "Secret `s`"]);
        let news = trials.news();
        note(&trials, "uid-1", &[], false);
        assert_eq!(added(), ["ConfigMap `c`"]);
        assert!(trials.news() > news, "the rollout has to know");
        note(&trials, "uid-2", &[], false);
        assert_eq!(added(), Vec::<String>::new());
        let many: Vec<_> = (0..9).map(|number| format!("ConfigMap `{number}`")).collect();
        note(&trials, "uid-3", &many.iter().map(String::as_str).collect::<Vec<_>>(), false);
        assert_eq!(added(), many[..MOST_ADDED]);
    }

    #[test]
    fn candidate_that_composed_a_resource_before_is_not_forgotten() {
        let trials = Trials::default();
        for (has_composed, expected) in [(false, false), (true, true), (false, true)] {
            note(&trials, "uid-1", &[], has_composed);
            assert_eq!(trials.of("two")["uid-1"].has_composed, expected);
        }
    }
}
