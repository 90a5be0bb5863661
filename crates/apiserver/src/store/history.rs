//! How far back the store remembers, and which rows it may therefore forget.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::watch_cache::Event;

/// How much of the past is kept. What exceeds any of these limits is forgotten, oldest first.
#[derive(Clone, Debug)]
pub struct Window {
    pub events: usize,
    /// Bytes of objects that are kept only as a part of the past.
    pub bytes: usize,
    pub age: Duration,
}

impl Default for Window {
    fn default() -> Self {
        Self { events: 100_000, bytes: 64 << 20, age: Duration::from_mins(10) }
    }
}

/// Stamps are this far apart at least, so that they cost nothing beside the events.
const STAMP: Duration = Duration::from_secs(1);

/// The events of all collections, oldest first, and the rows that those already forgotten leave behind.
#[derive(Debug)]
pub(super) struct History {
    window: Window,
    /// The floor that the log has. It never falls.
    floor: u64,
    events: VecDeque<Arc<Event>>,
    bytes: usize,
    /// When the store had come to which revision.
    stamps: VecDeque<(Instant, u64)>,
    releases: VecDeque<Release>,
}

/// An event that has left the window, as far as the log is concerned.
#[derive(Clone, Copy, Debug)]
struct Release {
    revision: u64,
    /// The row that it superseded.
    previous: Option<u64>,
    /// Whether its own row says only that something is gone.
    is_deletion: bool,
}

/// Rows that can go, and the floor that goes with it.
#[derive(Clone, Debug, Default)]
pub(super) struct Due {
    pub(super) rows: Vec<u64>,
    pub(super) floor: u64,
    releases: usize,
}

impl History {
    pub(super) fn new(window: Window, floor: u64) -> Self {
        Self {
            window,
            floor,
            events: VecDeque::new(),
            bytes: 0,
            stamps: VecDeque::new(),
            releases: VecDeque::new(),
        }
    }

    /// Remember an event.
    pub(super) fn push(&mut self, event: Arc<Event>) {
        self.bytes += event.weight();
        self.events.push_back(event);
    }

    /// Drop an event that no client can request.
    pub(super) fn release(&mut self, event: &Event) {
        let release = Release {
            revision: event.revision(),
            previous: event.previous().map(|previous| previous.revision()),
            is_deletion: event.entry().is_deleted(),
        };
        // A creation leaves nothing behind: its row stays until something supersedes it.
        if release.previous.is_some() || release.is_deletion {
            self.releases.push_back(release);
        }
    }

    /// Forget what no longer fits into the window.
    pub(super) fn evict(&mut self, now: Instant) {
        let expired = self.expire(now);
        while let Some(event) = self.events.front() {
            let is_over = self.events.len() > self.window.events || self.bytes > self.window.bytes;
            if !is_over && event.revision() > expired {
                break;
            }
            self.bytes -= event.weight();
            event.collection().watch_cache().write().pop();
            if let Some(event) = self.events.pop_front() {
                self.release(&event);
            }
        }
    }

    /// The revision up to which everything is too old by now.
    fn expire(&mut self, now: Instant) -> u64 {
        if self.is_unstamped()
            && self.stamps.back().is_none_or(|(time, _)| now.duration_since(*time) >= STAMP)
        {
            self.stamps.extend(self.events.back().map(|event| (now, event.revision())));
        }
        let mut expired = 0;
        while let Some((_, revision)) =
            self.stamps.pop_front_if(|(time, _)| now.duration_since(*time) >= self.window.age)
        {
            expired = revision;
        }
        expired
    }

    /// When to look again, if nothing happens before.
    pub(super) fn patience(&self, now: Instant) -> Option<Duration> {
        let (oldest, _) = self.stamps.front()?;
        if self.is_unstamped() {
            return Some(STAMP);
        }
        Some(self.window.age.saturating_sub(now.duration_since(*oldest)).max(STAMP))
    }

    /// Whether the age of the newest event is not noted yet.
    fn is_unstamped(&self) -> bool {
        let stamped = self.stamps.back().map_or(0, |(_, revision)| *revision);
        self.events.back().is_some_and(|event| event.revision() > stamped)
    }

    /// The rows to forget next, about so many.
    pub(super) fn due(&self, limit: usize) -> Due {
        let mut due = Due { floor: self.floor, ..Due::default() };
        for release in self.releases.iter().take(limit) {
            due.rows.extend(release.previous);
            due.rows.extend(release.is_deletion.then_some(release.revision));
            due.floor = due.floor.max(release.revision);
            due.releases += 1;
        }
        due
    }

    /// What was due has been done.
    pub(super) fn settle(&mut self, due: &Due) {
        self.floor = due.floor;
        self.releases.drain(..due.releases);
        // As with the events: nothing else gives back the memory of a burst.
        if self.releases.len() * 4 < self.releases.capacity() {
            self.releases.shrink_to(self.releases.len() * 2);
        }
    }

    pub(super) fn is_anything_due(&self) -> bool {
        !self.releases.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::entry::{Draft, Entry};
    use super::super::key::Collection;
    use super::*;

    /// A history in which something was created, changed and deleted, a minute after the other.
    fn history(window: Window, started: Instant) -> (History, Collection) {
        let collection = Collection::new("things", 0, 0);
        let draft =
            |value: u64| Draft::new(json!({"metadata": {}, "value": value}).as_object().unwrap()).unwrap();
        let written =
            |revision| Arc::new(Entry::written(collection.key("", "one"), draft(revision), revision));
        let (one, two) = (written(1), written(2));
        let three = Arc::new(two.deleted(3));
        let mut history = History::new(window, 0);
        for event in [(one.clone(), None), (two.clone(), Some(one)), (three, Some(two))] {
            let event = Arc::new(Event::new(event.0, event.1));
            collection.watch_cache().write().push(event.clone());
            let now = started + Duration::from_mins(event.revision());
            history.push(event);
            history.evict(now);
        }
        (history, collection)
    }

    fn known(collection: &Collection) -> Vec<u64> {
        (0..=3).filter(|revision| collection.watch_cache().read().after(*revision).is_ok()).collect()
    }

    #[test]
    fn events_are_forgotten_when_they_are_too_old() {
        let started = Instant::now();
        let (mut history, collection) = history(Window::default(), started);
        let mut at = |minutes| {
            history.evict(started + Duration::from_mins(minutes));
            (known(&collection), history.due(10).rows)
        };
        assert_eq!(at(10), (vec![0, 1, 2, 3], vec![]));
        assert_eq!(at(11), (vec![1, 2, 3], vec![]), "what was created is still needed");
        assert_eq!(at(12), (vec![2, 3], vec![1]));
        assert_eq!(at(13), (vec![3], vec![1, 2, 3]));
    }

    #[test]
    fn rows_are_due_in_portions_that_leave_the_rest_complete() {
        let (mut history, _) = history(Window { events: 0, ..Window::default() }, Instant::now());
        let first = history.due(1);
        assert_eq!((&first.rows[..], first.floor), (&[1][..], 2));
        history.settle(&first);
        let second = history.due(1);
        assert_eq!((&second.rows[..], second.floor), (&[2, 3][..], 3));
        history.settle(&second);
        assert!(!history.is_anything_due());
    }

    #[test]
    fn bytes_that_only_the_past_needs_are_limited() {
        let (_, collection) = history(Window { bytes: 100, ..Window::default() }, Instant::now());
        assert_eq!(known(&collection), [2, 3]);
    }
}
