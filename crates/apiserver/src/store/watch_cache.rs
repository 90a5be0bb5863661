//! What happened lately, for those who watch. One ring of events for all watchers of a collection, no queue for any.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use tokio::sync::Notify;

use super::entry::Entry;
use super::key::Collection;

/// How many events a watcher takes at once. A client that is far behind must not hold the lock, which the writer needs, while it
/// copies a hundred thousand of them.
const BATCH: usize = 256;

/// Something that happened to an object. Shared by everyone who watches.
#[derive(Debug)]
pub struct Event {
    entry: Arc<Entry>,
    previous: Option<Arc<Entry>>,
}

/// What kind of thing happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    Added,
    Modified,
    Deleted,
}

impl Event {
    pub(super) fn new(entry: Arc<Entry>, previous: Option<Arc<Entry>>) -> Self {
        Self { entry, previous }
    }

    pub fn kind(&self) -> EventKind {
        match (&self.previous, self.entry.is_deleted()) {
            (_, true) => EventKind::Deleted,
            (None, false) => EventKind::Added,
            (Some(_), false) => EventKind::Modified,
        }
    }

    pub fn revision(&self) -> u64 {
        self.entry.revision()
    }

    /// The object afterwards. If it was deleted, its last state, with the revision of the deletion.
    pub fn entry(&self) -> &Arc<Entry> {
        &self.entry
    }

    /// The object before, if there was one.
    pub fn previous(&self) -> Option<&Arc<Entry>> {
        self.previous.as_ref()
    }

    pub(super) fn collection(&self) -> &Collection {
        self.entry.key().collection()
    }

    /// How many bytes are in memory only because of this event.
    pub(super) fn weight(&self) -> usize {
        let before = self.previous.as_ref().map_or(0, |entry| entry.bytes().len());
        before + if self.entry.is_deleted() { self.entry.bytes().len() } else { 0 }
    }
}

/// Why a watch cannot begin, or continue.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WatchError {
    /// The events after the revision are no longer known: list, and watch from there.
    #[error("too old resource version: {revision} ({floor})")]
    TooOld { revision: u64, floor: u64 },
    /// The revision has not been given out yet.
    #[error("too large resource version: {revision}, current: {current}")]
    TooNew { revision: u64, current: u64 },
}

/// Where a collection's events go through.
pub(super) struct WatchCache {
    ring: RwLock<Ring>,
    /// Wakes the watchers of this collection only, in the order in which they began to wait.
    arrival: Notify,
}

/// A collection's latest events, oldest first.
#[derive(Debug, Default)]
pub(super) struct Ring {
    events: VecDeque<Arc<Event>>,
    /// Events up to this revision may be missing.
    floor: u64,
}

impl WatchCache {
    pub(super) fn new(floor: u64) -> Self {
        Self { ring: RwLock::new(Ring { events: VecDeque::new(), floor }), arrival: Notify::new() }
    }

    pub(super) fn read(&self) -> RwLockReadGuard<'_, Ring> {
        self.ring.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn write(&self) -> RwLockWriteGuard<'_, Ring> {
        self.ring.write().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn wake(&self) {
        self.arrival.notify_waiters();
    }
}

impl Ring {
    pub(super) fn push(&mut self, event: Arc<Event>) {
        self.events.push_back(event);
    }

    /// Forget the oldest event.
    pub(super) fn pop(&mut self) {
        if let Some(event) = self.events.pop_front() {
            self.floor = event.revision();
        }
        // A deque never shrinks by itself, and would keep the memory of its worst moment.
        if self.events.len() * 4 < self.events.capacity() {
            self.events.shrink_to(self.events.len() * 2);
        }
    }

    /// The events after a revision, oldest first.
    pub(super) fn after(
        &self,
        revision: u64,
    ) -> Result<impl DoubleEndedIterator<Item = &Arc<Event>>, WatchError> {
        if revision < self.floor {
            return Err(WatchError::TooOld { revision, floor: self.floor });
        }
        let start = self.events.partition_point(|event| event.revision() <= revision);
        Ok(self.events.range(start..))
    }
}

/// Follows a collection. Everyone sees the same events in the same order, none twice and none left out; a watch that falls behind further
/// than the window ends with an error.
#[derive(Debug)]
pub struct Watcher {
    collection: Collection,
    /// Everything up to this revision has been seen.
    cursor: u64,
    published: Arc<AtomicU64>,
}

impl Watcher {
    pub(super) fn new(
        collection: &Collection,
        revision: u64,
        published: Arc<AtomicU64>,
    ) -> Result<Self, WatchError> {
        let current = published.load(Ordering::Acquire);
        if revision > current {
            return Err(WatchError::TooNew { revision, current });
        }
        // Only checks that the window reaches back so far, so that the error comes now and not with the first
        // event.
        drop(collection.watch_cache().read().after(revision)?);
        Ok(Self { collection: collection.clone(), cursor: revision, published })
    }

    /// Wait for the next events: at least one, in order. Can be cancelled without loss.
    pub async fn next(&mut self) -> Result<Vec<Arc<Event>>, WatchError> {
        let collection = self.collection.clone();
        loop {
            // From before looking, so that what comes while looking wakes us.
            let arrival = collection.watch_cache().arrival.notified();
            let events = self.take()?;
            if !events.is_empty() {
                return Ok(events);
            }
            arrival.await;
        }
    }

    /// The events that are there already, possibly none.
    pub fn take(&mut self) -> Result<Vec<Arc<Event>>, WatchError> {
        let events: Vec<_> =
            self.collection.watch_cache().read().after(self.cursor)?.take(BATCH).cloned().collect();
        if let Some(last) = events.last() {
            self.cursor = last.revision();
        }
        Ok(events)
    }

    /// The revision up to which everything has been seen: what a bookmark says. Grows with the whole store, not only with
    /// this collection.
    pub fn progress(&mut self) -> u64 {
        // Read before looking at the ring: up to this revision every ring is complete.
        let published = self.published.load(Ordering::Acquire);
        let is_behind = self
            .collection
            .watch_cache()
            .read()
            .after(self.cursor)
            .map_or(true, |mut events| events.next().is_some_and(|event| event.revision() <= published));
        if !is_behind {
            self.cursor = self.cursor.max(published);
        }
        self.cursor
    }
}
