//! One collection at one revision.

use std::sync::Arc;

use super::entry::Entry;
use super::key::path;
use super::tree::Tree;
use super::watch_cache::Event;

/// A collection as it was at a revision. Costs nothing to take, and little to keep.
#[derive(Clone, Debug)]
pub struct Snapshot {
    revision: u64,
    tree: Tree,
}

impl Snapshot {
    pub(super) fn new(revision: u64, tree: Tree) -> Self {
        Self { revision, tree }
    }

    /// The same collection before some events, which are given newest first.
    pub(super) fn before<'a>(mut self, revision: u64, events: impl Iterator<Item = &'a Arc<Event>>) -> Self {
        for event in events {
            match event.previous() {
                Some(previous) => drop(self.tree.insert(previous.clone())),
                None => drop(self.tree.remove(event.entry().key().path())),
            }
        }
        Self { revision, tree: self.tree }
    }

    /// The revision of the whole store that this shows.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    pub fn len(&self) -> usize {
        self.tree.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn get(&self, namespace: &str, name: &str) -> Option<&Arc<Entry>> {
        self.tree.get(&path(namespace, name))
    }

    /// Everything, in order of paths.
    pub fn iter(&self) -> Range<'_> {
        self.range(None, None)
    }

    /// What is in a namespace, or everywhere, after a path ([`super::Key::path`]).
    pub fn range(&self, namespace: Option<&str>, after: Option<&str>) -> Range<'_> {
        let (first, end) = match namespace.filter(|namespace| !namespace.is_empty()) {
            // `0` is what follows `/`.
            Some(namespace) => {
                (self.tree.rank(&format!("{namespace}/")), self.tree.rank(&format!("{namespace}0")))
            }
            None => (0, self.tree.len()),
        };
        // Nothing sorts between a path and the same with a zero byte behind it.
        let start = after.map_or(0, |after| self.tree.rank(&format!("{after}\0")));
        Range { tree: &self.tree, run: &[], place: start.max(first).min(end), end }
    }
}

impl<'a> IntoIterator for &'a Snapshot {
    type Item = &'a Arc<Entry>;
    type IntoIter = Range<'a>;

    fn into_iter(self) -> Range<'a> {
        self.iter()
    }
}

/// Entries one after another. Knows how many are left.
#[derive(Clone, Debug)]
pub struct Range<'a> {
    tree: &'a Tree,
    run: &'a [Arc<Entry>],
    place: usize,
    end: usize,
}

impl<'a> Iterator for Range<'a> {
    type Item = &'a Arc<Entry>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.place >= self.end {
            return None;
        }
        if self.run.is_empty() {
            self.run = self.tree.run_at(self.place);
        }
        let (first, rest) = self.run.split_first()?;
        self.run = rest;
        self.place += 1;
        Some(first)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.end - self.place;
        (left, Some(left))
    }
}

impl ExactSizeIterator for Range<'_> {}
