//! Deletes events that were not written for an hour.
//!
//! Nothing is listed: every event is recorded when it is written, and checked again when its time is over.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;
use tokio::time::Instant;
use tracing::warn;

use super::PAUSE;
use crate::builtin::EVENTS;
use crate::server::ServerState;
use crate::store::{Change, Collection, Entry, EventKind, Expect, Operation, SubmitError};

const LIFETIME: Duration = Duration::from_hours(1);
/// How many are forgotten at once.
const BATCH: usize = 100;

/// Works until it is stopped.
pub(super) async fn run(server: Arc<ServerState>) {
    let collection = server.store.collection(EVENTS);
    loop {
        let snapshot = server.store.snapshot(&collection);
        let mut queue = ExpiryQueue::default();
        for entry in &snapshot {
            queue.insert(entry.key().path(), entry.revision(), Instant::now() + left(entry));
        }
        let Ok(mut watcher) = server.store.watch(&collection, snapshot.revision()) else { continue };
        loop {
            let events = tokio::select! {
                biased;
                // Changes first: an event that was written again since has a new time, and must not be deleted by
                // its old one.
                events = watcher.next() => events,
                () = queue.next() => {
                    forget(&server, &collection, &mut queue).await;
                    continue;
                }
            };
            let Ok(events) = events else { break };
            for event in &events {
                let (path, revision) = (event.entry().key().path(), event.entry().revision());
                match event.kind() {
                    EventKind::Deleted => queue.remove(path),
                    _ => queue.insert(path, revision, Instant::now() + LIFETIME),
                }
            }
        }
    }
}

/// When to check which event.
#[derive(Debug, Default)]
struct ExpiryQueue {
    /// Each event is here once. If it was written to since, it is put back.
    due: BinaryHeap<Reverse<(Instant, Arc<str>)>>,
    /// When the time of an event is really over, and the revision at which it was last written.
    expiries: HashMap<Arc<str>, (Instant, u64)>,
}

impl ExpiryQueue {
    fn insert(&mut self, path: &str, revision: u64, end: Instant) {
        let path: Arc<str> = path.into();
        if self.expiries.insert(Arc::clone(&path), (end, revision)).is_none() {
            self.due.push(Reverse((end, path)));
        }
    }

    fn remove(&mut self, path: &str) {
        self.expiries.remove(path);
    }

    /// Waits until there may be something to do, for ever if there are no events.
    async fn next(&self) {
        match self.due.peek() {
            Some(Reverse((day, _))) => tokio::time::sleep_until(*day).await,
            None => std::future::pending().await,
        }
    }

    /// Some events whose time is over, and their revisions.
    fn due(&mut self, now: Instant) -> Vec<(Arc<str>, u64)> {
        let mut due = Vec::new();
        while due.len() < BATCH
            && let Some(Reverse((day, _))) = self.due.peek()
            && *day <= now
            && let Some(Reverse((_, path))) = self.due.pop()
        {
            match self.expiries.get(&path) {
                None => {}
                Some((end, _)) if *end > now => self.due.push(Reverse((*end, path))),
                Some((_, revision)) => {
                    due.push((Arc::clone(&path), *revision));
                    self.expiries.remove(&path);
                }
            }
        }
        due
    }
}

async fn forget(server: &ServerState, collection: &Collection, queue: &mut ExpiryQueue) {
    for (path, revision) in queue.due(Instant::now()) {
        let (namespace, name) = path.split_once('/').unwrap_or(("", &path));
        let key = collection.key(namespace, name);
        let expect = Expect::Revision(revision);
        let operation = Operation { key: key.clone(), expect, change: Change::Delete };
        match server.store.submit(vec![operation]).await {
            // A client wrote to it just now, or deleted it; the watch tells.
            Ok(_) | Err(SubmitError::Refused(_)) => {}
            Err(error) => {
                warn!(%error, "cannot delete an expired event yet");
                if let Some(entry) = server.store.get(&key) {
                    queue.insert(&path, entry.revision(), Instant::now() + PAUSE);
                }
            }
        }
    }
}

/// How much of its time an event has left that was written before the server started.
fn left(entry: &Entry) -> Duration {
    let event: Value = serde_json::from_slice(entry.bytes()).unwrap_or_default();
    let managers = event["metadata"]["managedFields"].as_array().into_iter().flatten();
    let times = managers.map(|manager| &manager["time"]).chain([&event["metadata"]["creationTimestamp"]]);
    let written = times.filter_map(|time| time.as_str()?.parse::<Timestamp>().ok()).max();
    // Of the wall clock, as there was no other when it was written; one that is set back makes an event live longer, not shorter.
    let age = written.map(|written| Timestamp::now().duration_since(written));
    let age = age.and_then(|age| Duration::try_from(age).ok()).unwrap_or_default();
    LIFETIME.saturating_sub(age)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn due(queue: &mut ExpiryQueue, now: Instant) -> Vec<(String, u64)> {
        queue.due(now).into_iter().map(|(path, revision)| (path.to_string(), revision)).collect()
    }

    #[test]
    fn event_is_due_when_nobody_wrote_to_it_for_its_time() {
        let (start, minute) = (Instant::now(), Duration::from_mins(1));
        let mut queue = ExpiryQueue::default();
        queue.insert("default/a", 1, start + 60 * minute);
        queue.insert("default/b", 2, start + 60 * minute);
        queue.insert("default/c", 3, start + 60 * minute);
        queue.insert("default/b", 4, start + 100 * minute);
        queue.remove("default/c");
        assert!(due(&mut queue, start + 59 * minute).is_empty());
        assert_eq!(due(&mut queue, start + 61 * minute), [("default/a".to_owned(), 1)]);
        assert_eq!(due(&mut queue, start + 101 * minute), [("default/b".to_owned(), 4)]);
        assert!(queue.due.is_empty() && queue.expiries.is_empty());
    }
}
