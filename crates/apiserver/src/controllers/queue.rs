//! Work that is to be done once, however often it is asked for.

use std::collections::{HashSet, VecDeque};
use std::hash::Hash;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use crate::builtin::CLUSTER_ROLES;
use crate::store::{Event, EventKind, Uid};

/// Work in the order in which it was first asked for.
#[derive(Debug)]
pub(crate) struct Queue<T> {
    waiting: Mutex<Waiting<T>>,
    arrival: Notify,
}

#[derive(Debug)]
struct Waiting<T> {
    order: VecDeque<T>,
    known: HashSet<T>,
}

impl<T: Clone + Eq + Hash> Default for Queue<T> {
    fn default() -> Self {
        let waiting = Waiting { order: VecDeque::new(), known: HashSet::new() };
        Self { waiting: Mutex::new(waiting), arrival: Notify::new() }
    }
}

impl<T: Clone + Eq + Hash> Queue<T> {
    pub(crate) fn push(&self, work: T) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.known.insert(work.clone()) {
            waiting.order.push_back(work);
            self.arrival.notify_one();
        }
    }

    /// The next piece of work. What is asked for from now on is asked for anew.
    pub(crate) async fn pop(&self) -> T {
        loop {
            let arrival = self.arrival.notified();
            if let Some(work) = self.try_pop() {
                return work;
            }
            arrival.await;
        }
    }

    fn try_pop(&self) -> Option<T> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let work = waiting.order.pop_front()?;
        // Before it is done: what happens while it is being done must make it be done again.
        waiting.known.remove(&work);
        Some(work)
    }
}

/// How long to wait before trying again what did not work. No backoff: what fails here waits for somebody
/// else, a webhook or a finalizer, and should go on soon after they are done.
pub(crate) const PAUSE: Duration = Duration::from_secs(1);

/// What the store tells the controllers about.
#[derive(Debug, Default)]
pub(crate) struct WorkQueues {
    /// Objects whose owners or dependents may have changed.
    pub(crate) garbage: Queue<Uid>,
    /// Definitions that are new or have changed.
    pub(crate) definitions: Queue<Box<str>>,
    /// Definitions that have one object less.
    pub(crate) emptied: Queue<Box<str>>,
    /// Namespaces that may have become empty.
    pub(crate) namespaces: Queue<Box<str>>,
    /// Some cluster role is new or has changed. Told after the policy has learned of it, which a watch would not wait for.
    pub(crate) roles: Notify,
}

impl WorkQueues {
    /// Looks at what has happened. Called for every event, so it must be quick.
    pub(crate) fn observe(&self, event: &Event) {
        let entry = event.entry();
        let metadata = entry.metadata();
        let is_deleted = event.kind() == EventKind::Deleted;
        if entry.key().collection().name() == CLUSTER_ROLES {
            self.roles.notify_one();
        }
        if is_deleted || metadata.is_terminating || !metadata.owners.is_empty() {
            self.garbage.push(metadata.uid.clone());
        }
        if is_deleted {
            if let Some((group, plural)) = entry.key().collection().name().split_once('/')
                && group.contains('.')
            {
                self.emptied.push(format!("{plural}.{group}").into());
            }
            // Owners that wait for what they own may wait no longer.
            metadata.owners.iter().for_each(|owner| self.garbage.push(owner.clone()));
            if !entry.key().namespace().is_empty() {
                self.namespaces.push(entry.key().namespace().into());
            }
        }
    }
}
