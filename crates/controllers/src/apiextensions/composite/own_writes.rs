//! What the plane wrote itself: to be told of it by a watch is no news.

/// What is known of our own writes to one composite resource and what it composes.
#[derive(Debug, Default)]
pub(super) struct OwnWrites {
    /// The versions that our writes came to, and those that were seen by the last reconcile.
    known: Vec<u64>,
    /// Whether it is not known what our last record of references came to: what seems to be recorded is not to be believed.
    is_uncertain: bool,
}

impl OwnWrites {
    /// These versions, and no others, are known.
    pub(super) fn reset(&mut self, known: Vec<u64>) {
        self.known = known;
    }

    /// A write of ours came to this version.
    pub(super) fn add(&mut self, version: u64) {
        self.known.push(version);
    }

    pub(super) fn contains(&self, version: u64) -> bool {
        version != 0 && self.known.contains(&version)
    }

    /// It is not known, or is known again, what our last record came to.
    pub(super) fn mark_uncertain(&mut self, is_uncertain: bool) {
        self.is_uncertain = is_uncertain;
    }

    pub(super) fn is_uncertain(&self) -> bool {
        self.is_uncertain
    }
}
