//! So many requests at a time, and a fair queue for the others.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

#[derive(Debug)]
pub(crate) struct FairQueue {
    limit: usize,
    limit_per_user: usize,
    queue_limit: usize,
    state: Mutex<State>,
}

/// # Invariants
/// * Nothing waits while there is a free permit, unless they have as many as one user may have.
/// * `waiting` has every user with a queue, once, under the number of permits that the user has.
/// * A user with neither permits nor a queue is forgotten.
#[derive(Debug, Default)]
struct State {
    running: usize,
    queued: usize,
    /// Counts everything that happens, to tell tickets apart and to take turns.
    clock: u64,
    users: HashMap<Arc<str>, User>,
    waiting: BTreeSet<Turn>,
}

/// The order of the queue: the user with the fewest permits first, then the one that was served longest ago.
type Turn = (usize, u64, Arc<str>);

#[derive(Debug, Default)]
struct User {
    running: usize,
    served: u64,
    queue: VecDeque<Waiter>,
}

#[derive(Debug)]
struct Waiter {
    ticket: u64,
    /// Receives nothing if there is no capacity after all.
    sender: oneshot::Sender<Permit>,
}

/// The right to run one request. Dropping it gives it back.
#[derive(Debug)]
pub struct Permit {
    queue: Arc<FairQueue>,
    user: Arc<str>,
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.queue.leave(&self.user);
    }
}

impl FairQueue {
    pub(crate) fn new(limit: usize, limit_per_user: usize, queue_limit: usize) -> Arc<Self> {
        Arc::new(Self { limit, limit_per_user, queue_limit, state: Mutex::default() })
    }

    pub(super) fn load(&self) -> (usize, usize) {
        let state = self.lock();
        (state.running, state.queued)
    }

    /// A permit, when it is the user's turn. None if there is no room, not even to wait.
    pub(crate) async fn enter(self: &Arc<Self>, user: &str) -> Option<Permit> {
        let (ticket, user, receiver) = {
            let mut state = self.lock();
            let is_free = state.running < self.limit;
            if let Some(user) = is_free.then(|| state.admit(user, self.limit_per_user)).flatten() {
                return Some(self.permit(user));
            }
            // A user with a full share waits like the others: the share lasts for seconds, and is no error.
            self.enqueue(&mut state, user)?
        };
        let _position = QueuePosition { queue: self, user, ticket };
        receiver.await.ok()
    }

    fn permit(self: &Arc<Self>, user: Arc<str>) -> Permit {
        Permit { queue: Arc::clone(self), user }
    }

    fn enqueue(&self, state: &mut State, user: &str) -> Option<(u64, Arc<str>, oneshot::Receiver<Permit>)> {
        if state.queued >= self.queue_limit && !state.make_room_for(user) {
            return None;
        }
        let (sender, receiver) = oneshot::channel();
        let (ticket, user) = state.push(user, sender);
        Some((ticket, user, receiver))
    }

    fn leave(self: &Arc<Self>, user: &Arc<str>) {
        let mut state = self.lock();
        state.release(user);
        while state.running < self.limit {
            let Some((user, waiter)) = state.pop(self.limit_per_user) else { return };
            // Who no longer waits gets no permit.
            if waiter.sender.is_closed() {
                state.release(&user);
                continue;
            }
            // A permit that is not taken is dropped by `send`, which needs the lock.
            drop(state);
            // If they left just now, the permit comes back and is dropped, which frees it.
            let _ = waiter.sender.send(self.permit(user));
            state = self.lock();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A place in the queue, given up when the wait ends, however it ends.
struct QueuePosition<'g> {
    queue: &'g FairQueue,
    user: Arc<str>,
    ticket: u64,
}

impl Drop for QueuePosition<'_> {
    fn drop(&mut self) {
        self.queue.lock().forget(&self.user, self.ticket);
    }
}

impl State {
    fn tick(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    /// Changes a user, and keeps the order of turns and the list of users right.
    fn change<T>(&mut self, user: &Arc<str>, change: impl FnOnce(&mut User) -> T) -> T {
        let entry = self.users.entry(Arc::clone(user)).or_default();
        if !entry.queue.is_empty() {
            self.waiting.remove(&(entry.running, entry.served, Arc::clone(user)));
        }
        let result = change(entry);
        if !entry.queue.is_empty() {
            self.waiting.insert((entry.running, entry.served, Arc::clone(user)));
        } else if entry.running == 0 {
            self.users.remove(user);
        }
        result
    }

    fn key(&self, user: &str) -> Arc<str> {
        self.users.get_key_value(user).map_or_else(|| Arc::from(user), |(key, _)| Arc::clone(key))
    }

    /// Gives a free permit to a user, unless the user has enough.
    fn admit(&mut self, user: &str, most: usize) -> Option<Arc<str>> {
        let (user, now) = (self.key(user), self.tick());
        let is_admitted = self.change(&user, |entry| {
            let is_admitted = entry.running < most;
            if is_admitted {
                entry.running += 1;
                entry.served = now;
            }
            is_admitted
        });
        self.running += usize::from(is_admitted);
        is_admitted.then_some(user)
    }

    fn release(&mut self, user: &Arc<str>) {
        self.running -= 1;
        self.change(user, |entry| entry.running -= 1);
    }

    fn push(&mut self, user: &str, sender: oneshot::Sender<Permit>) -> (u64, Arc<str>) {
        let (user, ticket) = (self.key(user), self.tick());
        self.queued += 1;
        self.change(&user, |entry| entry.queue.push_back(Waiter { ticket, sender }));
        (ticket, user)
    }

    /// Gives a free permit to a client that waits and has the fewest, unless even those have enough.
    fn pop(&mut self, most: usize) -> Option<(Arc<str>, Waiter)> {
        let (running, _, user) = self.waiting.first()?.clone();
        if running >= most {
            return None;
        }
        let now = self.tick();
        let waiter = self.change(&user, |entry| {
            let waiter = entry.queue.pop_front()?;
            entry.running += 1;
            entry.served = now;
            Some(waiter)
        })?;
        self.queued -= 1;
        self.running += 1;
        Some((user, waiter))
    }

    /// Sends away the last one of the longest queue, if that is longer than the user's own would be.
    fn make_room_for(&mut self, user: &str) -> bool {
        // One user who fills the queue must not keep the others out: the longest queue gives way to shorter ones.
        let own = self.users.get(user).map_or(0, |entry| entry.queue.len());
        let longest = self.users.iter().max_by_key(|(_, entry)| entry.queue.len());
        let Some((other, entry)) = longest else { return false };
        if entry.queue.len() <= own + 1 {
            return false;
        }
        let other = Arc::clone(other);
        self.queued -= 1;
        self.change(&other, |entry| entry.queue.pop_back());
        true
    }

    fn forget(&mut self, user: &Arc<str>, ticket: u64) {
        let is_there = |entry: &User| entry.queue.iter().any(|waiter| waiter.ticket == ticket);
        if self.users.get(user).is_some_and(is_there) {
            self.queued -= 1;
            self.change(user, |entry| entry.queue.retain(|waiter| waiter.ticket != ticket));
        }
    }
}

#[cfg(test)]
impl FairQueue {
    /// Panics if an invariant does not hold.
    pub(super) fn check(&self) {
        let state = self.lock();
        assert!(state.running <= self.limit);
        let may_have_more = |entry: &User| entry.running < self.limit_per_user && !entry.queue.is_empty();
        assert!(state.running == self.limit || !state.users.values().any(may_have_more));
        assert!(state.users.values().all(|entry| entry.running <= self.limit_per_user));
        assert!(state.queued <= self.queue_limit);
        assert_eq!(state.running, state.users.values().map(|entry| entry.running).sum::<usize>());
        assert_eq!(state.queued, state.users.values().map(|entry| entry.queue.len()).sum::<usize>());
        let waiting: BTreeSet<Turn> = state
            .users
            .iter()
            .filter(|(_, entry)| !entry.queue.is_empty())
            .map(|(user, entry)| (entry.running, entry.served, Arc::clone(user)))
            .collect();
        assert_eq!(waiting, state.waiting);
        assert!(state.users.values().all(|entry| entry.running > 0 || !entry.queue.is_empty()));
    }
}
