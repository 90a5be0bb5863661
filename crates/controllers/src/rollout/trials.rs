//! Keeps the results of trials of candidates.
//!
//! In-memory state is a cache: after a restart, a composite resource that was moved and not yet composed by the candidate is tried again.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use ferroplane_api::RolloutDifference;
use ferroplane_engine::rollout::{Comparison, Differences, Example, Tried};

/// How many differences are described.
const MOST_EXAMPLES: usize = 5;
/// How many resources are named that only the candidate composes.
const MOST_ADDED: usize = 5;
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
    /// The kinds and names of some resources that only the candidate composes.
    added: BTreeSet<String>,
    /// For how many composite resources a preview calls it twice.
    sampled: usize,
}

/// A hash of all inputs of a comparison, and of what the candidate would do with them.
pub(crate) type Proof = [u8; 32];

/// What a trial found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Compared {
    pub(crate) differences: Differences,
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
    pub(crate) comparison: Comparison,
    pub(crate) proof: Option<Proof>,
    /// The recording that shows it, for `ferroplane replay show`.
    pub(crate) recording: &'a str,
}

impl Trials {
    /// Record a trial. It replaces an earlier one for the same composite resource.
    pub(crate) fn note(&self, trial: Trial<'_>) {
        let Trial { candidate, uid, name, comparison, proof, recording } = trial;
        let Comparison { differences, detail, added } = comparison;
        let mut candidates = self.lock();
        let trials = candidates.entry(candidate.to_owned()).or_default();
        trials.added.extend(added);
        while trials.added.len() > MOST_ADDED {
            trials.added.pop_last();
        }
        let before = trials.compared.insert(uid.to_owned(), Compared { differences, proof });
        if before.is_some_and(|before| before.differences == differences) {
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

    /// Whether a preview has to call a candidate a second time, to see whether it answers the same again. To do that for all would
    /// cost as much as the preview.
    pub(crate) fn is_sampled(&self, candidate: &str) -> bool {
        let mut candidates = self.lock();
        let trials = candidates.entry(candidate.to_owned()).or_default();
        let is_due = trials.sampled * SAMPLED <= trials.compared.len();
        trials.sampled += usize::from(is_due);
        is_due
    }

    /// What the last trial of a candidate found for a composite resource.
    pub(crate) fn compared(&self, candidate: &str, uid: &str) -> Option<Compared> {
        self.lock().get(candidate)?.compared.get(uid).copied()
    }

    /// The differences of a candidate, by the uid of the composite resource.
    pub(crate) fn of(&self, candidate: &str) -> HashMap<String, Differences> {
        let candidates = self.lock();
        let compared = candidates.get(candidate).map(|trials| trials.compared.iter());
        compared.into_iter().flatten().map(|(uid, it)| (uid.clone(), it.differences)).collect()
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
        Tried { differences, examples, added: trials.added.iter().cloned().collect() }
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

    #[test]
    fn preview_samples_one_of_a_hundred_and_at_least_one() {
        for (count, expected) in [(1, 1), (5, 1), (100, 1), (101, 2), (1000, 10)] {
            let trials = Trials::default();
            let mut sampled = 0;
            for number in 0..count {
                sampled += usize::from(trials.is_sampled("two"));
                let comparison = Comparison::new(RolloutDifference::Equal, "");
                let (uid, proof) = (format!("uid-{number}"), None);
                trials.note(Trial {
                    candidate: "two",
                    uid: &uid,
                    name: "any",
                    comparison,
                    proof,
                    recording: "",
                });
            }
            assert_eq!(sampled, expected, "of {count}");
        }
    }
}
