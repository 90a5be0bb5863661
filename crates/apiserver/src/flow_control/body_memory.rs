//! How much memory the bodies of requests may take, or those of responses: all together, and those of one user.
//!
//! The body of a request is held from its first byte until the request is answered, that of a response until its last byte has been
//! sent. A client that sends or reads slowly, or has many requests waiting, uses up an own share of the memory and nothing else.
//!
//! # Guarantees
//! * A user who has no body gets room for one, whatever its size and however much the others have. No number of users together can
//!   have all others refused, and a list that is larger than a share can be read.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ferroplane_schema::status::Status;

use super::too_many_requests;

/// What even an empty body costs: its task, its stream and their buffers.
const LEAST: usize = 16 << 10;

/// For the bodies of everybody together. A laptop has that much to spare for a moment.
const LIMIT: usize = 256 << 20;

/// For the bodies of one user: 4,096 with little in them, or 21 of the largest requests.
const LIMIT_OF_ONE: usize = 64 << 20;

/// Counts what bodies take.
#[derive(Debug)]
pub(crate) struct BodyMemory {
    limit: usize,
    limit_of_one: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    bytes: usize,
    users: HashMap<Arc<str>, usize>,
}

/// What one body takes. Dropping it gives it back.
#[derive(Debug)]
pub(crate) struct BodyReservation {
    memory: Arc<BodyMemory>,
    user: Arc<str>,
    /// Changes under the lock of the memory only.
    bytes: AtomicUsize,
}

impl BodyMemory {
    /// For those who share with others.
    pub(crate) fn shared() -> Arc<Self> {
        Self::new(LIMIT, LIMIT_OF_ONE)
    }

    /// For administrators: as much again, and none of them needs to be kept from the others.
    pub(crate) fn reserved() -> Arc<Self> {
        Self::new(LIMIT, LIMIT)
    }

    fn new(limit: usize, limit_of_one: usize) -> Arc<Self> {
        Arc::new(Self { limit, limit_of_one, state: Mutex::default() })
    }

    /// Memory for a body that has not begun yet.
    pub(crate) fn reserve(self: &Arc<Self>, user: &str) -> Result<BodyReservation, Status> {
        let user = {
            let mut state = self.lock();
            // One allocation for a user with many requests at the same time.
            let known = state.users.get_key_value(user).map(|(key, _)| Arc::clone(key));
            let user = known.unwrap_or_else(|| Arc::from(user));
            self.take(&mut state, &user, LEAST, 0)?;
            user
        };
        Ok(BodyReservation { memory: Arc::clone(self), user, bytes: AtomicUsize::new(LEAST) })
    }

    /// So many more bytes, for a body that holds some already.
    fn take(&self, state: &mut State, user: &Arc<str>, bytes: usize, held: usize) -> Result<(), Status> {
        let own = state.users.get(user).copied().unwrap_or_default();
        let fits = own + bytes <= self.limit_of_one && state.bytes + bytes <= self.limit;
        let is_only_one = own == held;
        // Refused, not queued: a request that waits for memory holds a connection, and a client with a 429 waits
        // without one.
        if !fits && !is_only_one {
            return Err(too_many_requests());
        }
        state.add(user, bytes);
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn add(&mut self, user: &Arc<str>, bytes: usize) {
        *self.users.entry(Arc::clone(user)).or_default() += bytes;
        self.bytes += bytes;
    }

    fn give_back(&mut self, user: &Arc<str>, bytes: usize) {
        self.bytes -= bytes;
        if let Some(own) = self.users.get_mut(user) {
            *own -= bytes;
            // Names of users come from clients: entries of those that are gone would add up.
            if *own == 0 {
                self.users.remove(user);
            }
        }
    }
}

impl BodyReservation {
    /// Makes room for a body of so many bytes. It never becomes smaller.
    pub(crate) fn grow(&self, bytes: usize) -> Result<(), Status> {
        // Only what exceeds the first share is counted anew, so that most bodies take the lock once.
        if bytes <= self.bytes.load(Ordering::Relaxed) {
            return Ok(());
        }
        let mut state = self.memory.lock();
        let held = self.bytes.load(Ordering::Relaxed);
        if let Some(more) = bytes.checked_sub(held) {
            self.memory.take(&mut state, &self.user, more, held)?;
            self.bytes.store(bytes, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Counts what a body really takes: less than was reserved, or more.
    ///
    /// This is never refused: the body is there already, and a write whose response were refused would have happened all the same.
    pub(crate) fn settle(&self, bytes: usize) {
        let bytes = bytes.max(LEAST);
        if bytes == self.bytes.load(Ordering::Relaxed) {
            return;
        }
        let mut state = self.memory.lock();
        let held = self.bytes.swap(bytes, Ordering::Relaxed);
        if bytes > held {
            state.add(&self.user, bytes - held);
        } else {
            state.give_back(&self.user, held - bytes);
        }
    }
}

impl Drop for BodyReservation {
    fn drop(&mut self) {
        self.memory.lock().give_back(&self.user, *self.bytes.get_mut());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_user_leaves_memory_for_the_others() {
        let memory = BodyMemory::new(4 * LEAST, 2 * LEAST);
        let first = memory.reserve("greedy").unwrap();
        let second = memory.reserve("greedy").unwrap();
        assert_eq!(memory.reserve("greedy").unwrap_err().code, 429);
        assert_eq!(second.grow(LEAST + 1).unwrap_err().code, 429);
        let modest = memory.reserve("modest").unwrap();
        modest.grow(2 * LEAST).unwrap();
        let other = memory.reserve("other").expect("who has none gets one, even if all of it is taken");
        assert_eq!(memory.reserve("other").unwrap_err().code, 429);
        drop(first);
        second.grow(2 * LEAST).unwrap();
        drop((second, modest, other));
        let state = memory.lock();
        assert_eq!((state.bytes, state.users.len()), (0, 0));
    }

    #[test]
    fn only_body_of_a_user_may_be_larger_than_the_share() {
        let memory = BodyMemory::new(4 * LEAST, 2 * LEAST);
        let large = memory.reserve("bob").unwrap();
        large.grow(10 * LEAST).unwrap();
        assert_eq!(memory.reserve("bob").unwrap_err().code, 429);
        // What is there counts, even if it is more than there should be.
        let written = memory.reserve("eve").unwrap();
        written.settle(10 * LEAST);
        assert_eq!(memory.lock().bytes, 20 * LEAST);
        assert_eq!(memory.reserve("eve").unwrap_err().code, 429);
        written.settle(0);
        assert_eq!(memory.lock().bytes, 11 * LEAST);
        drop((large, written));
        assert_eq!(memory.lock().bytes, 0);
    }
}
