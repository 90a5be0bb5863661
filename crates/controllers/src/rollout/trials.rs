//! Keeps the results of trials of candidates.
//!
//! In-memory state is a cache: after a restart, a composite resource that was moved and not yet composed by the candidate is tried again.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use ferroplane_api::RolloutDifference;
use ferroplane_engine::rollout::{Comparison, Differences, Example, Tried};

/// How many differences are described.
const MOST_EXAMPLES: usize = 5;

/// The results of candidates, by the name of the revision.
#[derive(Debug, Default)]
pub(crate) struct Trials {
    candidates: Mutex<BTreeMap<String, CandidateTrials>>,
    /// Increases when a composite resource or a trial changes.
    news: AtomicU64,
}

#[derive(Debug, Default)]
struct CandidateTrials {
    /// By the uid of the composite resource.
    differences: HashMap<String, Differences>,
    examples: Vec<(RolloutDifference, Example)>,
}

/// A trial of a candidate for a composite resource.
#[derive(Debug)]
pub(crate) struct Trial<'a> {
    pub(crate) candidate: &'a str,
    pub(crate) uid: &'a str,
    /// The name of the composite resource, for people.
    pub(crate) name: &'a str,
    pub(crate) comparison: Comparison,
    /// The recording that shows it, for `ferroplane replay show`.
    pub(crate) recording: &'a str,
}

impl Trials {
    /// Record a trial. It replaces an earlier one for the same composite resource.
    pub(crate) fn note(&self, trial: Trial<'_>) {
        let Trial { candidate, uid, name, comparison: Comparison { differences, detail }, recording } = trial;
        let mut candidates = self.lock();
        let trials = candidates.entry(candidate.to_owned()).or_default();
        if trials.differences.insert(uid.to_owned(), differences) == Some(differences) {
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
    }

    /// Increases when a composite resource or a trial changes.
    pub(crate) fn news(&self) -> u64 {
        self.news.load(Ordering::Acquire)
    }

    /// Whether a candidate was tried for a composite resource.
    pub(crate) fn has(&self, candidate: &str, uid: &str) -> bool {
        self.lock().get(candidate).is_some_and(|trials| trials.differences.contains_key(uid))
    }

    /// The differences of a candidate, by the uid of the composite resource.
    pub(crate) fn of(&self, candidate: &str) -> HashMap<String, Differences> {
        self.lock().get(candidate).map(|trials| trials.differences.clone()).unwrap_or_default()
    }

    /// The differences of a candidate, counted and described.
    pub(crate) fn tried(&self, candidate: &str) -> Tried {
        let candidates = self.lock();
        let Some(trials) = candidates.get(candidate) else { return Tried::default() };
        let mut differences = BTreeMap::new();
        for difference in trials.differences.values().flat_map(|differences| differences.iter()) {
            *differences.entry(difference.as_str().to_owned()).or_default() += 1;
        }
        let examples = trials.examples.iter().map(|(_, example)| example.clone()).collect();
        Tried { differences, examples }
    }

    /// Drop all candidates but these.
    pub(crate) fn keep(&self, candidates: &BTreeSet<&str>) {
        self.lock().retain(|candidate, _| candidates.contains(candidate.as_str()));
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, CandidateTrials>> {
        self.candidates.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
