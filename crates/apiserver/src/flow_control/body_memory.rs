//! How much memory the bodies of requests may take, all together and those of one user.
//!
//! A body is held from its first byte until its request is answered. A client that sends slowly, or has many requests waiting, uses up
//! an own share of the memory and nothing else.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ferroplane_schema::status::Status;

use super::too_many_requests;

/// What even an empty body costs: its task, its stream and their buffers.
const LEAST: usize = 16 << 10;

/// For the bodies of everybody together. A laptop has that much to spare for a moment.
const LIMIT: usize = 256 << 20;

/// For the bodies of one user: 4,096 requests with little in them, or 21 of the largest.
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
    bytes: usize,
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
            self.take(&mut state, &user, LEAST)?;
            user
        };
        Ok(BodyReservation { memory: Arc::clone(self), user, bytes: LEAST })
    }

    fn take(&self, state: &mut State, user: &Arc<str>, bytes: usize) -> Result<(), Status> {
        let own = state.users.get(user).copied().unwrap_or_default();
        // Refused, not queued: a request that waits for memory holds a connection, and a client with a 429 waits
        // without one.
        if own + bytes > self.limit_of_one || state.bytes + bytes > self.limit {
            return Err(too_many_requests());
        }
        state.users.insert(Arc::clone(user), own + bytes);
        state.bytes += bytes;
        Ok(())
    }

    fn give_back(&self, user: &Arc<str>, bytes: usize) {
        let mut state = self.lock();
        state.bytes -= bytes;
        if let Some(own) = state.users.get_mut(user) {
            *own -= bytes;
            // Names of users come from clients: entries of those that are gone would add up.
            if *own == 0 {
                state.users.remove(user);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl BodyReservation {
    /// Makes room for a body of so many bytes. It never becomes smaller.
    pub(crate) fn grow(&mut self, bytes: usize) -> Result<(), Status> {
        // Only what exceeds the first share is counted anew, so that most bodies take the lock once.
        if let Some(more) = bytes.checked_sub(self.bytes).filter(|more| *more > 0) {
            self.memory.take(&mut self.memory.lock(), &self.user, more)?;
            self.bytes = bytes;
        }
        Ok(())
    }
}

impl Drop for BodyReservation {
    fn drop(&mut self) {
        self.memory.give_back(&self.user, self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_user_leaves_memory_for_the_others() {
        let memory = BodyMemory::new(4 * LEAST, 2 * LEAST);
        let first = memory.reserve("greedy").unwrap();
        let mut second = memory.reserve("greedy").unwrap();
        assert_eq!(memory.reserve("greedy").unwrap_err().code, 429);
        assert_eq!(second.grow(LEAST + 1).unwrap_err().code, 429);
        let mut modest = memory.reserve("modest").unwrap();
        modest.grow(2 * LEAST).unwrap();
        assert_eq!(memory.reserve("other").unwrap_err().code, 429, "all of it is taken");
        drop(first);
        second.grow(2 * LEAST).unwrap();
        drop((second, modest));
        let state = memory.lock();
        assert_eq!((state.bytes, state.users.len()), (0, 0));
    }
}
