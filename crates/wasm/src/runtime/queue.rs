//! Calls wait here for a worker. The next one is that of the tenant that has the fewest running. Of several, a tenant lets those that have used
//! less time lately pass for as long as it has used itself, and not for longer. So a tenant with many calls, or with long ones, waits for
//! itself, and no stream of new tenants keeps another one out. Callers of a tenant are served in turn.

use std::collections::{BTreeMap, HashMap};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// After this time, what was used counts half.
const HALF_LIFE: Duration = Duration::from_mins(1);
/// The use of so many tenants is remembered.
const REMEMBERED: usize = 10_000;

/// What a worker does: a call, which it runs to its end.
pub(crate) type Job = Box<dyn FnOnce(&tokio::runtime::Runtime) + Send>;

/// Threads that run calls, and the calls that wait for them. The threads end when this is dropped.
#[derive(Debug)]
pub(crate) struct Workers {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    is_work: Condvar,
    limit: usize,
}

#[derive(Debug)]
struct State {
    waiting: Tenants<Job>,
    is_closed: bool,
}

impl Workers {
    /// Start so many threads. More than `limit` calls never wait.
    pub(crate) fn start(count: usize, limit: usize) -> std::io::Result<Self> {
        let state = Mutex::new(State { waiting: Tenants::default(), is_closed: false });
        let workers = Self { shared: Arc::new(Shared { state, is_work: Condvar::new(), limit }) };
        for number in 0..count {
            let shared = workers.shared.clone();
            // Each thread has a clock and I/O of its own, for code that sleeps or connects.
            // Files are read on the blocking threads, of which Tokio would start up to 512 for each worker.
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().max_blocking_threads(4).build()?;
            thread::Builder::new().name(format!("wasm-{number}")).spawn(move || work(&shared, &runtime))?;
        }
        Ok(workers)
    }

    /// Have a call run when it is its turn, unless what this returns is dropped before. Says how many may wait if so many do.
    pub(crate) fn submit(&self, tenant: u64, caller: u64, job: Job) -> Result<Submitted<'_>, usize> {
        let mut state = self.shared.state();
        if state.waiting.len() >= self.shared.limit {
            return Err(self.shared.limit);
        }
        let number = state.waiting.push(tenant, caller, job, Instant::now());
        drop(state);
        self.shared.is_work.notify_one();
        Ok(Submitted { shared: &self.shared, tenant, caller, number })
    }
}

/// A call that waits or runs. Dropping this drops a call that still waits, with its request.
#[derive(Debug)]
pub(crate) struct Submitted<'w> {
    shared: &'w Shared,
    tenant: u64,
    caller: u64,
    number: u64,
}

impl Drop for Submitted<'_> {
    fn drop(&mut self) {
        let departed = self.shared.state().waiting.remove(self.tenant, self.caller, self.number);
        // Only now, when the others have their lock again: a request may be large.
        drop(departed);
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.shared.state().is_closed = true;
        self.shared.is_work.notify_all();
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next call and its tenant, once there is one. Nothing when there will be none.
    fn next(&self) -> Option<(u64, Job)> {
        let mut state = self.state();
        loop {
            if state.is_closed {
                return None;
            }
            if let Some(next) = state.waiting.pop(Instant::now()) {
                return Some(next);
            }
            state = self.is_work.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

fn work(shared: &Shared, runtime: &tokio::runtime::Runtime) {
    while let Some((tenant, job)) = shared.next() {
        let began_at = Instant::now();
        // A panic of the engine fails the call, which is dropped with the job, and not the worker.
        let _ = catch_unwind(AssertUnwindSafe(|| job(runtime)));
        shared.state().waiting.end(tenant, began_at.elapsed(), Instant::now());
    }
}

/// Things that wait, by the tenants that they are for.
struct Tenants<T> {
    waiting: HashMap<u64, Waiting<T>>,
    /// Tenants with things that wait, in the order of their turns.
    order: BTreeMap<Rank, u64>,
    used: HashMap<u64, Used>,
    len: usize,
    /// The last number that a rank, a turn or a thing got.
    numbers: u64,
}

/// The things of a tenant that wait. There is at least one.
struct Waiting<T> {
    rank: Rank,
    things: Turns<T>,
}

/// When it is the turn of a tenant. It never depends on the time at which it is asked for, so that tenants stay in their order while they wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    running: usize,
    /// When the tenant will have waited for as long as it has used.
    due: Instant,
    /// The first one of several that have used the same.
    number: u64,
}

/// What a tenant uses, and has used.
struct Used {
    /// What was taken, and has not ended.
    running: usize,
    /// The time that it had used at some time.
    time: Duration,
    noted_at: Instant,
}

impl<T> Default for Tenants<T> {
    fn default() -> Self {
        Self { waiting: HashMap::new(), order: BTreeMap::new(), used: HashMap::new(), len: 0, numbers: 0 }
    }
}

impl<T> Tenants<T> {
    fn len(&self) -> usize {
        self.len
    }

    /// Returns the number of the thing, which no other one gets.
    fn push(&mut self, tenant: u64, caller: u64, thing: T, now: Instant) -> u64 {
        let number = self.number();
        if let Some(waiting) = self.waiting.get_mut(&tenant) {
            waiting.things.push(caller, number, thing);
        } else {
            let (rank, mut things) = (self.rank(tenant, now), Turns::default());
            things.push(caller, number, thing);
            self.order.insert(rank, tenant);
            self.waiting.insert(tenant, Waiting { rank, things });
        }
        self.len += 1;
        number
    }

    /// Take the next one. Its tenant runs it until [`Self::end`].
    fn pop(&mut self, now: Instant) -> Option<(u64, T)> {
        let (_, tenant) = self.order.pop_first()?;
        let mut waiting = self.waiting.remove(&tenant)?;
        let thing = waiting.things.pop(self.number())?;
        self.len -= 1;
        let nothing = || Used { running: 0, time: Duration::ZERO, noted_at: now };
        self.used.entry(tenant).or_insert_with(nothing).running += 1;
        if !waiting.things.is_empty() {
            waiting.rank = self.rank(tenant, now);
            self.order.insert(waiting.rank, tenant);
            self.waiting.insert(tenant, waiting);
        }
        Some((tenant, thing))
    }

    /// Take out a thing that nothing waits for any more, unless it was taken already.
    fn remove(&mut self, tenant: u64, caller: u64, number: u64) -> Option<T> {
        let waiting = self.waiting.get_mut(&tenant)?;
        let thing = waiting.things.remove(caller, number)?;
        self.len -= 1;
        if waiting.things.is_empty() {
            self.order.remove(&waiting.rank);
            self.waiting.remove(&tenant);
        }
        Some(thing)
    }

    /// The rank of a tenant that begins to wait now.
    fn rank(&mut self, tenant: u64, now: Instant) -> Rank {
        let (running, lately) = self.share(tenant, now);
        Rank { running, due: now + lately, number: self.number() }
    }

    fn number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    /// How much of a tenant runs, and the time that it has used lately.
    fn share(&self, tenant: u64, now: Instant) -> (usize, Duration) {
        self.used.get(&tenant).map_or((0, Duration::ZERO), |used| (used.running, used.lately(now)))
    }

    /// What a tenant ran has ended after this time.
    fn end(&mut self, tenant: u64, time: Duration, now: Instant) {
        if let Some(used) = self.used.get_mut(&tenant) {
            used.running = used.running.saturating_sub(1);
            used.time = used.lately(now).saturating_add(time);
            used.noted_at = now;
        }
        // Its calls begin to wait again: the time that they have waited for another call of their own tenant does not count.
        let rank = self.rank(tenant, now);
        if let Some(waiting) = self.waiting.get_mut(&tenant) {
            let before = std::mem::replace(&mut waiting.rank, rank);
            self.order.remove(&before);
            self.order.insert(rank, tenant);
        }
        self.forget(now);
    }

    /// Those that run something are never forgotten, and there are no more of them than workers.
    fn forget(&mut self, now: Instant) {
        if self.used.len() < REMEMBERED {
            return;
        }
        self.used.retain(|_, used| used.running > 0 || used.lately(now) > Duration::from_millis(100));
        // Half of the room is free afterwards, so that all are seldom looked through.
        if self.used.len() > REMEMBERED / 2 {
            self.used.retain(|_, used| used.running > 0);
        }
    }
}

impl Used {
    fn lately(&self, now: Instant) -> Duration {
        let age = now.saturating_duration_since(self.noted_at);
        self.time.mul_f64(0.5_f64.powf(age.as_secs_f64() / HALF_LIFE.as_secs_f64()))
    }
}

/// Things that wait, by who brought them. They are taken from each in turn, and of one in the order in which they came.
///
/// Things and turns have numbers, each of which is larger than all before.
struct Turns<T> {
    waiting: HashMap<u64, Caller<T>>,
    /// Whose turn is next, by the numbers of their turns.
    order: BTreeMap<u64, u64>,
}

/// The things of a caller that wait. There is at least one.
struct Caller<T> {
    turn: u64,
    /// By their numbers.
    things: BTreeMap<u64, T>,
}

impl<T> Default for Turns<T> {
    fn default() -> Self {
        Self { waiting: HashMap::new(), order: BTreeMap::new() }
    }
}

impl<T> Turns<T> {
    fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    fn push(&mut self, caller: u64, number: u64, thing: T) {
        if let Some(waiting) = self.waiting.get_mut(&caller) {
            waiting.things.insert(number, thing);
        } else {
            self.order.insert(number, caller);
            self.waiting.insert(caller, Caller { turn: number, things: BTreeMap::from([(number, thing)]) });
        }
    }

    /// The next turn of the caller whose turn it is has this number.
    fn pop(&mut self, number: u64) -> Option<T> {
        let (_, caller) = self.order.pop_first()?;
        let waiting = self.waiting.get_mut(&caller)?;
        let (_, thing) = waiting.things.pop_first()?;
        if waiting.things.is_empty() {
            self.waiting.remove(&caller);
        } else {
            waiting.turn = number;
            self.order.insert(number, caller);
        }
        Some(thing)
    }

    fn remove(&mut self, caller: u64, number: u64) -> Option<T> {
        let waiting = self.waiting.get_mut(&caller)?;
        let thing = waiting.things.remove(&number)?;
        if waiting.things.is_empty() {
            self.order.remove(&waiting.turn);
            self.waiting.remove(&caller);
        }
        Some(thing)
    }
}

impl std::fmt::Debug for Tenants<Job> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tenants").field("len", &self.len).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn callers_are_served_in_turn() {
        let (mut turns, mut numbers) = (Turns::default(), 1..);
        let mut number = || numbers.next().unwrap();
        for (caller, thing) in [(1, "a1"), (1, "a2"), (1, "a3"), (2, "b1"), (3, "c1")] {
            turns.push(caller, number(), thing);
        }

        let served = std::iter::from_fn(|| turns.pop(number())).collect::<Vec<_>>();

        assert_eq!(served, ["a1", "b1", "c1", "a2", "a3"]);
        assert!(turns.is_empty());
    }

    #[test]
    fn caller_who_was_served_is_forgotten() {
        let mut turns = Turns::default();
        for caller in 0..100 {
            turns.push(caller, 2 * caller, ());
            turns.pop(2 * caller + 1);
        }

        assert!(turns.waiting.is_empty() && turns.order.is_empty());
    }

    /// What is served, one after the other.
    fn served(tenants: &mut Tenants<&'static str>) -> Vec<&'static str> {
        let next = || {
            let (tenant, thing) = tenants.pop(Instant::now())?;
            tenants.end(tenant, Duration::from_millis(1), Instant::now());
            Some(thing)
        };
        std::iter::from_fn(next).collect()
    }

    #[test]
    fn tenant_that_used_less_passes_a_hundred_that_used_more() {
        let (mut tenants, now) = (Tenants::default(), Instant::now());
        for hostile in 1..=100 {
            tenants.push(hostile, 0, "before", now);
            tenants.pop(now);
            tenants.end(hostile, Duration::from_secs(10), now);
        }
        for hostile in 1..=100 {
            tenants.push(hostile, 0, "hostile", now);
        }
        for _ in 0..3 {
            tenants.push(0, 0, "other", now);
        }

        let served = served(&mut tenants);

        assert_eq!(served[..4], ["other", "other", "other", "hostile"]);
        assert_eq!((served.len(), tenants.len()), (103, 0));
    }

    #[test]
    fn tenant_whose_calls_run_lets_those_through_of_which_none_runs() {
        let (mut tenants, now) = (Tenants::default(), Instant::now());
        for thing in ["a1", "a2", "a3"] {
            tenants.push(1, 0, thing, now);
        }
        assert_eq!(tenants.pop(now), Some((1, "a1")));
        tenants.push(2, 0, "before", now);
        assert_eq!(tenants.pop(now), Some((2, "before")));
        tenants.end(2, Duration::from_mins(10), now);
        tenants.push(2, 0, "b1", now);

        assert_eq!(tenants.pop(now), Some((2, "b1")), "it has used more, but nothing of it runs");
        assert_eq!(tenants.pop(now), Some((1, "a2")));
    }

    #[test]
    fn newcomers_pass_a_tenant_for_no_longer_than_it_has_used() {
        let (mut tenants, start) = (Tenants::default(), Instant::now());
        tenants.push(0, 0, (), start);
        tenants.pop(start);
        tenants.end(0, Duration::from_secs(5), start);
        tenants.push(0, 0, (), start);

        let served = (1..20).map(|newcomer| {
            let now = start + Duration::from_secs(newcomer);
            tenants.push(newcomer, 0, (), now);
            tenants.pop(now).unwrap().0
        });

        assert_eq!(served.collect::<Vec<_>>().iter().position(|tenant| *tenant == 0), Some(4));
    }

    #[test]
    fn time_that_a_tenant_waits_for_its_own_calls_does_not_count() {
        let (mut tenants, start) = (Tenants::default(), Instant::now());
        let ended = start + Duration::from_secs(20);
        for thing in ["a1", "a2"] {
            tenants.push(1, 0, thing, start);
        }
        assert_eq!(tenants.pop(start), Some((1, "a1")));
        tenants.push(2, 0, "b1", ended);
        tenants.end(1, Duration::from_secs(20), ended);

        assert_eq!(tenants.pop(ended), Some((2, "b1")));
    }

    #[test]
    fn callers_of_a_tenant_take_turns() {
        let (mut tenants, now) = (Tenants::default(), Instant::now());
        for thing in ["a1", "a2"] {
            tenants.push(1, 1, thing, now);
        }
        tenants.push(1, 2, "b1", now);

        assert_eq!(served(&mut tenants), ["a1", "b1", "a2"]);
        assert!(tenants.waiting.is_empty() && tenants.order.is_empty());
    }

    #[test]
    fn use_is_forgotten_in_time_and_within_a_bound() {
        let long_ago = Instant::now().checked_sub(Duration::from_mins(10)).unwrap();
        let used = Used { running: 0, time: Duration::from_secs(100), noted_at: long_ago };
        assert!(used.lately(Instant::now()) < Duration::from_millis(110));
        let (mut tenants, now) = (Tenants::default(), Instant::now());
        for tenant in 0..2 * REMEMBERED as u64 {
            tenants.push(tenant, 0, (), now);
            tenants.pop(now);
            if tenant > 0 {
                tenants.end(tenant, Duration::from_secs(1), now);
            }
        }
        assert!(tenants.used.len() <= REMEMBERED);
        assert_eq!(tenants.share(0, now).0, 1, "it still runs");
    }

    #[test]
    fn things_that_nothing_waits_for_leave_nothing_behind() {
        let (mut tenants, now) = (Tenants::default(), Instant::now());
        let push = |thing: u64| {
            let (tenant, caller) = (thing / 20, thing / 10);
            (tenant, caller, tenants.push(tenant, caller, thing, now))
        };
        let pushed = (0..100).map(push).collect::<Vec<_>>();
        assert_eq!(tenants.pop(now), Some((0, 0)));

        let remove = |(tenant, caller, number)| tenants.remove(tenant, caller, number);
        let removed = pushed.into_iter().filter_map(remove).collect::<Vec<_>>();

        assert_eq!(removed, (1..100).collect::<Vec<_>>(), "one was taken already");
        assert!(tenants.waiting.is_empty() && tenants.order.is_empty());
        assert_eq!(tenants.len(), 0);
    }

    #[test]
    fn worker_survives_a_panic() {
        let workers = Workers::start(1, 10).unwrap();
        let (send, receive) = std::sync::mpsc::channel();

        let _panicking = workers.submit(1, 1, Box::new(|_| panic!("a fault of the engine"))).unwrap();
        let _next = workers.submit(1, 1, Box::new(move |_| send.send(()).unwrap())).unwrap();

        receive.recv_timeout(std::time::Duration::from_secs(10)).unwrap();
    }

    #[test]
    fn more_than_the_limit_never_wait() {
        let workers = Workers::start(0, 2).unwrap();

        let submitted = [(); 3].map(|()| workers.submit(1, 1, Box::new(|_| ())));

        assert!(matches!(submitted, [Ok(_), Ok(_), Err(2)]), "{submitted:?}");
    }

    #[test]
    fn call_whose_caller_has_gone_keeps_neither_its_request_nor_a_place() {
        let workers = Workers::start(0, 1).unwrap();
        let request = Arc::new([0; 1024]);
        let held = request.clone();

        let submitted = workers.submit(1, 1, Box::new(move |_| drop(held))).unwrap();
        assert_eq!(Arc::strong_count(&request), 2);
        drop(submitted);

        assert_eq!(Arc::strong_count(&request), 1);
        assert!(workers.submit(1, 1, Box::new(|_| ())).is_ok());
    }
}
