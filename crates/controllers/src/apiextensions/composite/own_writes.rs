//! Remembers the control plane's own writes, whose watch events need no reconcile.

/// Our own writes to one composite resource and its composed resources.
#[derive(Debug, Default)]
pub(super) struct OwnWrites {
    /// The versions of our writes, and those that the last reconcile has read.
    known: Vec<u64>,
    /// Whether the result of our last write of references is unknown: the cached references cannot be trusted.
    is_uncertain: bool,
}

impl OwnWrites {
    /// Replace the known versions.
    pub(super) fn reset(&mut self, known: Vec<u64>) {
        self.known = known;
    }

    /// Add the version of a write.
    pub(super) fn add(&mut self, version: u64) {
        self.known.push(version);
    }

    pub(super) fn contains(&self, version: u64) -> bool {
        version != 0 && self.known.contains(&version)
    }

    /// Set whether the result of our last write of references is unknown.
    pub(super) fn mark_uncertain(&mut self, is_uncertain: bool) {
        self.is_uncertain = is_uncertain;
    }

    pub(super) fn is_uncertain(&self) -> bool {
        self.is_uncertain
    }
}
