//! Calls wait here for a worker. Callers are served in turn, so that one with a thousand calls does not delay one with a single call.

use std::collections::{HashMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

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
    waiting: Turns<Job>,
    is_closed: bool,
}

impl Workers {
    /// Start so many threads. More than `limit` calls never wait.
    pub(crate) fn start(count: usize, limit: usize) -> std::io::Result<Self> {
        let state = Mutex::new(State { waiting: Turns::default(), is_closed: false });
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

    /// Have a call run when it is its caller's turn. Says how many may wait if so many do.
    pub(crate) fn submit(&self, caller: u64, job: Job) -> Result<(), usize> {
        let mut state = self.shared.state();
        if state.waiting.len() >= self.shared.limit {
            return Err(self.shared.limit);
        }
        state.waiting.push(caller, job);
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

    /// The next call, once there is one. Nothing when there will be none.
    fn next(&self) -> Option<Job> {
        let mut state = self.state();
        loop {
            if state.is_closed {
                return None;
            }
            if let Some(job) = state.waiting.pop() {
                return Some(job);
            }
            state = self.is_work.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

fn work(shared: &Shared, runtime: &tokio::runtime::Runtime) {
    while let Some(job) = shared.next() {
        // A panic of the engine fails the call, which is dropped with the job, and not the worker.
        let _ = catch_unwind(AssertUnwindSafe(|| job(runtime)));
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

impl std::fmt::Debug for Turns<Job> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Turns").field("len", &self.len).finish_non_exhaustive()
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

    #[test]
    fn worker_survives_a_panic() {
        let workers = Workers::start(1, 10).unwrap();
        let (send, receive) = std::sync::mpsc::channel();

        workers.submit(1, Box::new(|_| panic!("a fault of the engine"))).unwrap();
        workers.submit(1, Box::new(move |_| send.send(()).unwrap())).unwrap();

        receive.recv_timeout(std::time::Duration::from_secs(10)).unwrap();
    }

    #[test]
    fn more_than_the_limit_never_wait() {
        let workers = Workers::start(0, 2).unwrap();

        let submitted = [(); 3].map(|()| workers.submit(1, Box::new(|_| ())));

        assert_eq!(submitted, [Ok(()), Ok(()), Err(2)]);
    }
}
