//! Judges submissions that will be committed together, each as if those before it had been.

use std::collections::HashMap;
use std::sync::Arc;

use super::Refused;
use super::entry::{Change, Entry, Operation};
use super::key::Key;
use super::state::State;
use super::watch_cache::Event;

/// What is about to be written, on top of a state that does not know of it.
#[derive(Debug)]
pub(super) struct Pending {
    revision: u64,
    events: Vec<Arc<Event>>,
    /// What is at each key that the events changed.
    changed: HashMap<Key, Option<Arc<Entry>>>,
}

impl Pending {
    /// Begin after a revision.
    pub(super) fn after(revision: u64) -> Self {
        Self { revision, events: Vec::new(), changed: HashMap::new() }
    }

    /// The revision of the last event.
    pub(super) fn revision(&self) -> u64 {
        self.revision
    }

    pub(super) fn events(&self) -> &[Arc<Event>] {
        &self.events
    }

    /// Take up a submission: all of it, or nothing.
    pub(super) fn admit(
        &mut self,
        state: &State,
        operations: Vec<Operation>,
    ) -> Result<Vec<Arc<Entry>>, Refused> {
        let (revision, length) = (self.revision, self.events.len());
        let mut entries = Vec::with_capacity(operations.len());
        for (index, operation) in operations.into_iter().enumerate() {
            match self.perform(state, operation) {
                Ok(entry) => entries.push(entry),
                Err(found) => {
                    self.retract(revision, length);
                    return Err(Refused { index, found });
                }
            }
        }
        Ok(entries)
    }

    /// Perform one operation, or return what is there instead of what was expected.
    fn perform(&mut self, state: &State, operation: Operation) -> Result<Arc<Entry>, Option<Arc<Entry>>> {
        let Operation { key, expect, change } = operation;
        let current = match self.changed.get(&key) {
            Some(changed) => changed.as_ref(),
            None => state.get(&key),
        };
        if !expect.is_met_by(current) {
            return Err(current.cloned());
        }
        let previous = current.cloned();
        // Counted up only for what is really written: a refusal leaves no gap.
        let revision = self.revision + 1;
        let entry = match (change, &previous) {
            // A write that changes nothing must not move the revision: its watchers would wake, write, and wake again.
            (Change::Put(draft), Some(current)) if current.is_same_as(&draft) => return Ok(current.clone()),
            (Change::Put(draft), _) => Arc::new(Entry::written(key.clone(), draft, revision)),
            (Change::Delete, Some(current)) => Arc::new(current.deleted(revision)),
            (Change::Nothing, Some(current)) => return Ok(current.clone()),
            (Change::Delete | Change::Nothing, None) => return Err(None),
        };
        self.revision = revision;
        self.changed.insert(key, (!entry.is_deleted()).then(|| entry.clone()));
        self.events.push(Arc::new(Event::new(entry.clone(), previous)));
        Ok(entry)
    }

    /// Take back everything after the first events.
    fn retract(&mut self, revision: u64, length: usize) {
        self.revision = revision;
        // From the newest back, so that of several changes of one object the oldest previous state remains.
        for event in self.events.drain(length..).rev() {
            // Possibly the same as the state has, which does no harm.
            self.changed.insert(event.entry().key().clone(), event.previous().cloned());
        }
    }
}
