//! How much memory the bodies of requests may take, or those of responses: all together, and those of one user.
//!
//! The body of a request is held from its first byte until the request is answered, that of a response until its last byte has been
//! sent. A client that sends or reads slowly, or has many requests waiting, uses up an own share of the memory and nothing else.
//!
//! # Guarantees
//! * A user who has no large body gets room for one, whatever its size and however much the others have. No number of users together
//!   can have all others refused, and a list that is larger than a share can be read. The same holds for small bodies.
//! * Small bodies have a part of all memory and of each share that large ones never take: who leaves a large list unread can still read
//!   and write what is small, and so can everybody else of the same user.

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

/// A body that takes more than this part of a share is large. Small ones always have this part of each share, and of all memory.
const SMALL: usize = 8;

/// Counts what bodies take.
#[derive(Debug)]
pub(crate) struct BodyMemory {
    limit: usize,
    limit_of_one: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    all: Usage,
    users: HashMap<Arc<str>, Usage>,
}

/// What bodies take.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Usage {
    small: BodyCount,
    large: BodyCount,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct BodyCount {
    bodies: usize,
    bytes: usize,
}

/// What one body counts as.
#[derive(Debug, Clone, Copy)]
struct Charge {
    is_large: bool,
    bytes: usize,
}

/// What one body takes. Dropping it gives it back.
#[derive(Debug)]
pub(crate) struct BodyReservation {
    memory: Arc<BodyMemory>,
    user: Arc<str>,
    /// The size of the body, which may count as less. Changes under the lock of the memory only.
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
            self.take(&mut state, &user, None, LEAST)?;
            user
        };
        Ok(BodyReservation { memory: Arc::clone(self), user, bytes: AtomicUsize::new(LEAST) })
    }

    /// Room for a body of so many bytes, which is new or held fewer so far.
    fn take(
        &self,
        state: &mut State,
        user: &Arc<str>,
        held: Option<usize>,
        bytes: usize,
    ) -> Result<(), Status> {
        let (former, charge) = (held.map(|held| self.charge(held)), self.charge(bytes));
        let mut own = state.users.get(user).copied().unwrap_or_default().without(former);
        let fits = own.has_room_for(charge, self.limit_of_one)
            && state.all.without(former).has_room_for(charge, self.limit);
        // Small ones do not keep a large one out: a client always has something small under way.
        let is_only_one = own.of_class(charge).bodies == 0;
        // Refused, not queued: a request that waits for memory holds a connection, and a client with a 429 waits
        // without one.
        if !fits && !is_only_one {
            return Err(too_many_requests());
        }
        state.replace(user, former, Some(charge));
        Ok(())
    }

    /// One body never counts as all of a share, so that its user is not refused everything else.
    fn charge(&self, bytes: usize) -> Charge {
        let small = self.limit_of_one / SMALL;
        Charge { is_large: bytes > small, bytes: bytes.min(self.limit_of_one - small) }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Counts a body as something else than before, or as nothing any more.
    fn replace(&mut self, user: &Arc<str>, former: Option<Charge>, charge: Option<Charge>) {
        self.all = self.all.without(former).with(charge);
        let own = self.users.entry(Arc::clone(user)).or_default();
        *own = own.without(former).with(charge);
        // Names of users come from clients: entries of those that are gone would add up.
        if *own == Usage::default() {
            self.users.remove(user);
        }
    }
}

impl Usage {
    fn bytes(&self) -> usize {
        self.small.bytes + self.large.bytes
    }

    /// The bodies that are as large, or as small.
    fn of_class(&mut self, charge: Charge) -> &mut BodyCount {
        if charge.is_large { &mut self.large } else { &mut self.small }
    }

    fn with(mut self, charge: Option<Charge>) -> Self {
        if let Some(charge) = charge {
            let count = self.of_class(charge);
            count.bodies += 1;
            count.bytes += charge.bytes;
        }
        self
    }

    fn without(mut self, charge: Option<Charge>) -> Self {
        if let Some(charge) = charge {
            let count = self.of_class(charge);
            count.bodies -= 1;
            count.bytes -= charge.bytes;
        }
        self
    }

    fn has_room_for(&self, charge: Charge, limit: usize) -> bool {
        let has_own_room = !charge.is_large && self.small.bytes + charge.bytes <= limit / SMALL;
        has_own_room || self.bytes() + charge.bytes <= limit
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
        if bytes > held {
            self.memory.take(&mut state, &self.user, Some(held), bytes)?;
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
        state.replace(&self.user, Some(self.memory.charge(held)), Some(self.memory.charge(bytes)));
    }
}

impl Drop for BodyReservation {
    fn drop(&mut self) {
        let held = self.memory.charge(*self.bytes.get_mut());
        self.memory.lock().replace(&self.user, Some(held), None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A share of one user. Of it, two empty bodies are small, and one may count as fourteen.
    const SHARE: usize = 16 * LEAST;

    fn memory(shares: usize) -> Arc<BodyMemory> {
        BodyMemory::new(shares * SHARE, SHARE)
    }

    fn of_size(memory: &Arc<BodyMemory>, user: &str, bytes: usize) -> Result<BodyReservation, Status> {
        let reserved = memory.reserve(user)?;
        reserved.grow(bytes)?;
        Ok(reserved)
    }

    /// As many more empty bodies as a user gets.
    fn fill(memory: &Arc<BodyMemory>, user: &str) -> Vec<BodyReservation> {
        std::iter::from_fn(|| memory.reserve(user).ok()).collect()
    }

    #[test]
    fn one_user_leaves_memory_for_the_others() {
        let memory = memory(2);
        let mut greedy = fill(&memory, "greedy");
        assert_eq!(greedy.len(), 16);
        assert_eq!(greedy[0].grow(LEAST + 1).unwrap_err().code, 429);
        let modest = of_size(&memory, "modest", SHARE).unwrap();
        let rest = fill(&memory, "modest");
        assert_eq!(rest.len(), 2);
        let other = memory.reserve("other").expect("who has none gets one, even if all of it is taken");
        assert_eq!(memory.reserve("other").unwrap_err().code, 429);
        greedy.truncate(14);
        greedy[0].grow(2 * LEAST).unwrap();
        drop((greedy, modest, rest, other));
        let state = memory.lock();
        assert_eq!((state.all, state.users.len()), (Usage::default(), 0));
    }

    #[test]
    fn body_larger_than_the_share_leaves_room_for_small_ones() {
        let memory = memory(4);
        let large = of_size(&memory, "bob", 10 * SHARE).unwrap();
        assert_eq!(fill(&memory, "bob").len(), 2);
        assert_eq!(of_size(&memory, "bob", 3 * LEAST).unwrap_err().code, 429, "it is large, too");
        assert_eq!(memory.lock().all, Usage::default().with(Some(memory.charge(SHARE))));
        drop(large);
        assert_eq!(memory.lock().all, Usage::default());
    }

    #[test]
    fn only_large_body_of_a_user_may_be_larger_than_the_share() {
        let memory = memory(4);
        let mut small = fill(&memory, "bob");
        small.truncate(15);
        let large = of_size(&memory, "bob", 10 * SHARE).expect("small ones do not keep it out");
        small.truncate(1);
        assert_eq!(of_size(&memory, "bob", 10 * SHARE).unwrap_err().code, 429);
        drop((small, large));
        // What is there counts, even if it is more than there should be.
        let written = memory.reserve("eve").unwrap();
        written.settle(10 * SHARE);
        assert_eq!(of_size(&memory, "eve", 10 * SHARE).unwrap_err().code, 429);
        written.settle(0);
        assert_eq!(memory.lock().all.bytes(), LEAST);
        assert!(of_size(&memory, "eve", 10 * SHARE).is_ok());
    }

    #[test]
    fn large_bodies_of_all_users_leave_room_for_small_ones_of_everybody() {
        let memory = memory(2);
        let users = ["ada", "bob", "eve", "joe"];
        let large: Vec<_> = users.iter().map(|user| of_size(&memory, user, 10 * SHARE).unwrap()).collect();
        // An eighth of all memory, which is an eighth of two shares.
        let small = [fill(&memory, "ada"), fill(&memory, "new")];
        assert_eq!(small.map(|bodies| bodies.len()), [2, 2]);
        drop(large);
        assert_eq!(memory.lock().all, Usage::default());
    }
}
