//! Calls wait here for a worker. The next one is that of the tenant that has the fewest running, and of several of the one that has used the
//! least time lately: a tenant with many calls, or with long ones, waits for itself. Callers of a tenant are served in turn.

use std::collections::{HashMap, VecDeque};
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

    /// Have a call run when it is its turn. Says how many may wait if so many do.
    pub(crate) fn submit(&self, tenant: u64, caller: u64, job: Job) -> Result<(), usize> {
        let mut state = self.shared.state();
        if state.waiting.len() >= self.shared.limit {
            return Err(self.shared.limit);
        }
        state.waiting.push(tenant, caller, job);
        drop(state);
        self.shared.is_work.notify_one();
        Ok(())
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
            if let Some(next) = state.waiting.pop() {
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
        shared.state().waiting.end(tenant, began_at.elapsed());
    }
}

/// Things that wait, by the tenants that they are for.
struct Tenants<T> {
    waiting: HashMap<u64, Turns<T>>,
    /// Tenants with things that wait, in the order of their turns.
    order: VecDeque<u64>,
    used: HashMap<u64, Used>,
    len: usize,
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
        Self { waiting: HashMap::new(), order: VecDeque::new(), used: HashMap::new(), len: 0 }
    }
}

impl<T> Tenants<T> {
    fn len(&self) -> usize {
        self.len
    }

    fn push(&mut self, tenant: u64, caller: u64, thing: T) {
        let waiting = self.waiting.entry(tenant).or_default();
        if waiting.len() == 0 {
            self.order.push_back(tenant);
        }
        waiting.push(caller, thing);
        self.len += 1;
    }

    /// Take the next one. Its tenant runs it until [`Self::end`].
    fn pop(&mut self) -> Option<(u64, T)> {
        // The first one of several that have used the same.
        let (turn, _) = self.order.iter().enumerate().min_by_key(|(_, tenant)| self.share(**tenant))?;
        let tenant = self.order.remove(turn)?;
        let waiting = self.waiting.get_mut(&tenant)?;
        let thing = waiting.pop()?;
        if waiting.len() == 0 {
            self.waiting.remove(&tenant);
        } else {
            self.order.push_back(tenant);
        }
        self.len -= 1;
        let nothing = || Used { running: 0, time: Duration::ZERO, noted_at: Instant::now() };
        self.used.entry(tenant).or_insert_with(nothing).running += 1;
        Some((tenant, thing))
    }

    /// How much of a tenant runs, and the time that it has used lately.
    fn share(&self, tenant: u64) -> (usize, Duration) {
        self.used.get(&tenant).map_or((0, Duration::ZERO), |used| (used.running, used.lately()))
    }

    /// What a tenant ran has ended after this time.
    fn end(&mut self, tenant: u64, time: Duration) {
        if let Some(used) = self.used.get_mut(&tenant) {
            used.running = used.running.saturating_sub(1);
            used.time = used.lately().saturating_add(time);
            used.noted_at = Instant::now();
        }
        // Those that run something are never forgotten, and there are no more of them than workers.
        if self.used.len() >= REMEMBERED {
            self.used.retain(|_, used| used.running > 0 || used.lately() > Duration::from_millis(100));
        }
        if self.used.len() >= REMEMBERED {
            self.used.retain(|_, used| used.running > 0);
        }
    }
}

impl Used {
    fn lately(&self) -> Duration {
        self.time.mul_f64(0.5_f64.powf(self.noted_at.elapsed().as_secs_f64() / HALF_LIFE.as_secs_f64()))
    }
}

/// Things that wait, by who brought them. They are taken from each in turn, and of one in the order in which they came.
struct Turns<T> {
    waiting: HashMap<u64, VecDeque<T>>,
    /// Whose turn is next.
    order: VecDeque<u64>,
    len: usize,
}

impl<T> Default for Turns<T> {
    fn default() -> Self {
        Self { waiting: HashMap::new(), order: VecDeque::new(), len: 0 }
    }
}

impl<T> Turns<T> {
    fn len(&self) -> usize {
        self.len
    }

    fn push(&mut self, caller: u64, thing: T) {
        let waiting = self.waiting.entry(caller).or_default();
        if waiting.is_empty() {
            self.order.push_back(caller);
        }
        waiting.push_back(thing);
        self.len += 1;
    }

    fn pop(&mut self) -> Option<T> {
        let caller = self.order.pop_front()?;
        let waiting = self.waiting.get_mut(&caller)?;
        let thing = waiting.pop_front();
        if waiting.is_empty() {
            self.waiting.remove(&caller);
        } else {
            self.order.push_back(caller);
        }
        self.len -= 1;
        thing
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
        let mut turns = Turns::default();
        for thing in ["a1", "a2", "a3"] {
            turns.push(1, thing);
        }
        turns.push(2, "b1");
        turns.push(3, "c1");

        let served = std::iter::from_fn(|| turns.pop()).collect::<Vec<_>>();

        assert_eq!(served, ["a1", "b1", "c1", "a2", "a3"]);
        assert_eq!(turns.len(), 0);
    }

    #[test]
    fn caller_who_was_served_is_forgotten() {
        let mut turns = Turns::default();
        for caller in 0..100 {
            turns.push(caller, ());
            turns.pop();
        }

        assert!(turns.waiting.is_empty() && turns.order.is_empty());
    }

    /// What is served, one after the other.
    fn served(tenants: &mut Tenants<&'static str>) -> Vec<&'static str> {
        let next = || {
            let (tenant, thing) = tenants.pop()?;
            tenants.end(tenant, Duration::from_millis(1));
            Some(thing)
        };
        std::iter::from_fn(next).collect()
    }

    #[test]
    fn tenant_that_used_less_passes_a_hundred_that_used_more() {
        let mut tenants = Tenants::default();
        for hostile in 1..=100 {
            tenants.push(hostile, 0, "before");
            tenants.pop();
            tenants.end(hostile, Duration::from_secs(10));
        }
        for hostile in 1..=100 {
            tenants.push(hostile, 0, "hostile");
        }
        for _ in 0..3 {
            tenants.push(0, 0, "other");
        }

        let served = served(&mut tenants);

        assert_eq!(served[..4], ["other", "other", "other", "hostile"]);
        assert_eq!((served.len(), tenants.len()), (103, 0));
    }

    #[test]
    fn tenant_whose_calls_run_lets_those_through_of_which_none_runs() {
        let mut tenants = Tenants::default();
        for thing in ["a1", "a2", "a3"] {
            tenants.push(1, 0, thing);
        }
        assert_eq!(tenants.pop(), Some((1, "a1")));
        tenants.push(2, 0, "before");
        assert_eq!(tenants.pop(), Some((2, "before")));
        tenants.end(2, Duration::from_mins(10));
        tenants.push(2, 0, "b1");

        assert_eq!(tenants.pop(), Some((2, "b1")), "it has used more, but nothing of it runs");
        assert_eq!(tenants.pop(), Some((1, "a2")));
    }

    #[test]
    fn callers_of_a_tenant_take_turns() {
        let mut tenants = Tenants::default();
        for thing in ["a1", "a2"] {
            tenants.push(1, 1, thing);
        }
        tenants.push(1, 2, "b1");

        assert_eq!(served(&mut tenants), ["a1", "b1", "a2"]);
        assert!(tenants.waiting.is_empty() && tenants.order.is_empty());
    }

    #[test]
    fn use_is_forgotten_in_time_and_within_a_bound() {
        let long_ago = Instant::now().checked_sub(Duration::from_mins(10)).unwrap();
        let used = Used { running: 0, time: Duration::from_secs(100), noted_at: long_ago };
        assert!(used.lately() < Duration::from_millis(110));
        let mut tenants = Tenants::default();
        for tenant in 0..2 * REMEMBERED as u64 {
            tenants.push(tenant, 0, ());
            tenants.pop();
            if tenant > 0 {
                tenants.end(tenant, Duration::from_secs(1));
            }
        }
        assert!(tenants.used.len() <= REMEMBERED);
        assert_eq!(tenants.share(0).0, 1, "it still runs");
    }

    #[test]
    fn worker_survives_a_panic() {
        let workers = Workers::start(1, 10).unwrap();
        let (send, receive) = std::sync::mpsc::channel();

        workers.submit(1, 1, Box::new(|_| panic!("a fault of the engine"))).unwrap();
        workers.submit(1, 1, Box::new(move |_| send.send(()).unwrap())).unwrap();

        receive.recv_timeout(std::time::Duration::from_secs(10)).unwrap();
    }

    #[test]
    fn more_than_the_limit_never_wait() {
        let workers = Workers::start(0, 2).unwrap();

        let submitted = [(); 3].map(|()| workers.submit(1, 1, Box::new(|_| ())));

        assert_eq!(submitted, [Ok(()), Ok(()), Err(2)]);
    }
}
