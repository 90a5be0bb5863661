//! Work that is to be done, by name.
//!
//! # Invariants
//! * No two workers have the same name at the same time.
//! * What is asked for while it is being done is done once more afterwards: the last state is never missed.
//! * However often a name is asked for, it waits once, behind those that were asked for before.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::fmt::Debug;
use std::future::Future;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;
use tracing::error;

use crate::metrics::{Ending, Work};
use crate::runtime::backoff::pause;
use crate::runtime::shutdown::{Shutdown, UnderWay};

/// Pauses after a failure.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// Pauses after somebody else was faster.
const FIRST_CONFLICT_PAUSE: Duration = Duration::from_millis(5);

/// Who waits for longer than this makes room for others.
const LONG: Duration = Duration::from_secs(1);

/// What is to happen to a piece of work next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    /// Nothing, until it is asked for again.
    Rest,
    /// Do it again after this time, if it is not asked for before.
    After(Duration),
    /// Somebody else was faster: do it again soon.
    Conflict,
    /// It did not work: do it again, later and later.
    Retry,
}

impl Next {
    fn ending(self) -> Ending {
        match self {
            Self::Rest => Ending::Success,
            Self::After(_) => Ending::Later,
            Self::Conflict => Ending::Again,
            Self::Retry => Ending::Failure,
        }
    }
}

/// Work that is to be done. Clones share it.
#[derive(Debug)]
pub(crate) struct Queue<K>(Arc<Shared<K>>);

#[derive(Debug)]
struct Shared<K> {
    state: Mutex<State<K>>,
    arrival: Notify,
    longest_pause: Duration,
    metrics: Arc<Work>,
    shutdown: Shutdown,
}

#[derive(Debug)]
struct State<K> {
    ready: VecDeque<K>,
    /// What is to be done, and since when: in `ready`, unless it is being done at the moment.
    wanted: HashMap<K, Instant>,
    busy: HashSet<K>,
    /// What is to be done at some time, in that order.
    later: BTreeMap<(Instant, u64), K>,
    due: HashMap<K, (Instant, u64)>,
    failures: HashMap<K, u32>,
    counter: u64,
}

impl<K> Clone for Queue<K> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<K: Clone + Debug + Eq + Hash + Send + Sync + 'static> Queue<K> {
    /// Work of which nothing waits longer than this after a failure, and of which nothing begins once the shutdown is on.
    pub(crate) fn new(longest_pause: Duration, metrics: Arc<Work>, shutdown: Shutdown) -> Self {
        let state = State {
            ready: VecDeque::new(),
            wanted: HashMap::new(),
            busy: HashSet::new(),
            later: BTreeMap::new(),
            due: HashMap::new(),
            failures: HashMap::new(),
            counter: 0,
        };
        let state = Mutex::new(state);
        Self(Arc::new(Shared { state, arrival: Notify::new(), longest_pause, metrics, shutdown }))
    }

    /// Ask for work now.
    pub(crate) fn add(&self, key: K) {
        self.0.metrics.add();
        let mut state = self.lock();
        state.add(key);
        self.tell_load(&state);
        drop(state);
        self.0.arrival.notify_one();
    }

    /// How many names it knows, for whatever reason.
    pub(crate) fn len(&self) -> usize {
        let state = self.lock();
        let known =
            state.wanted.keys().chain(&state.busy).chain(state.due.keys()).chain(state.failures.keys());
        known.collect::<HashSet<_>>().len()
    }

    /// Never mind what was asked for.
    pub(crate) fn forget(&self, key: &K) {
        let mut state = self.lock();
        state.failures.remove(key);
        if let Some(due) = state.due.remove(key) {
            state.later.remove(&due);
        }
    }

    /// Do what is asked for, so many at a time, until dropped.
    pub(crate) async fn work<F>(&self, concurrency: usize, work: impl Fn(K) -> F)
    where
        F: Future<Output = Next> + Send + 'static,
    {
        self.work_in_slots(concurrency, |key, _| work(key)).await;
    }

    /// The same for work that can say that it only waits.
    pub(crate) async fn work_in_slots<F>(&self, concurrency: usize, work: impl Fn(K, Slot) -> F)
    where
        F: Future<Output = Next> + Send + 'static,
    {
        self.0.metrics.set_limit(concurrency);
        let slots = Arc::new(Semaphore::new(concurrency));
        // Dropping the set ends what is under way.
        let mut tasks = tokio::task::JoinSet::new();
        loop {
            let Ok(permit) = slots.clone().acquire_owned().await else { return };
            let (key, under_way) = self.next(&mut tasks).await;
            let slot = Slot { permit: Arc::new(Mutex::new(Some(permit))), slots: slots.clone() };
            let (queue, doing) = (self.clone(), work(key.clone(), slot));
            tasks.spawn(async move {
                let _under_way = under_way;
                let piece = queue.0.metrics.begin();
                // In a task of its own, so that a panic costs this piece of work one attempt, and nobody else anything.
                let attempt = tokio::spawn(doing);
                let _ending = AbortOnDrop(attempt.abort_handle());
                let next = attempt.await.unwrap_or_else(|failure| {
                    if failure.is_panic() {
                        piece.panicked();
                        error!(?key, "a controller panicked; it will try again");
                    }
                    Next::Retry
                });
                piece.end(next.ending());
                queue.done(key, next);
            });
        }
    }

    async fn next(&self, tasks: &mut tokio::task::JoinSet<()>) -> (K, UnderWay) {
        loop {
            // The set keeps what has ended until it is asked for, so that it would grow for ever.
            while tasks.try_join_next().is_some() {}
            // From before looking, so that what arrives meanwhile is not missed.
            let arrival = self.0.arrival.notified();
            let wake = {
                let mut state = self.lock();
                state.ripen(Instant::now());
                match self.0.shutdown.begin() {
                    None => None,
                    Some(under_way) => {
                        if let Some((key, since)) = state.take() {
                            self.0.metrics.waited(since.elapsed());
                            self.tell_load(&state);
                            return (key, under_way);
                        }
                        state.later.first_key_value().map(|((time, _), _)| *time)
                    }
                }
            };
            match wake {
                Some(time) => {
                    tokio::select! { biased; () = arrival => {}, () = tokio::time::sleep_until(time) => {} }
                }
                None => arrival.await,
            }
        }
    }

    fn done(&self, key: K, next: Next) {
        let mut state = self.lock();
        state.busy.remove(&key);
        // It was asked for while it was being done. It may have looked before the change.
        if state.wanted.contains_key(&key) {
            state.ready.push_back(key.clone());
        }
        let failures = *state.failures.get(&key).unwrap_or(&0);
        let longest = self.0.longest_pause;
        let delay = match next {
            Next::Rest => None,
            Next::After(delay) => Some(delay),
            Next::Conflict => Some(pause(FIRST_CONFLICT_PAUSE, longest, failures)),
            Next::Retry => Some(pause(FIRST_PAUSE, longest, failures)),
        };
        match next {
            Next::Conflict | Next::Retry => {
                state.failures.insert(key.clone(), failures.saturating_add(1));
            }
            Next::Rest | Next::After(_) => {
                state.failures.remove(&key);
            }
        }
        if let Some(delay) = delay {
            state.add_at(key, Instant::now() + delay);
        }
        self.tell_load(&state);
        drop(state);
        self.0.arrival.notify_one();
    }

    fn tell_load(&self, state: &State<K>) {
        self.0.metrics.set_load(state.ready.len(), state.busy.len());
    }

    fn lock(&self) -> MutexGuard<'_, State<K>> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Clone + Eq + Hash> State<K> {
    fn add(&mut self, key: K) {
        if self.wanted.contains_key(&key) {
            return;
        }
        self.wanted.insert(key.clone(), Instant::now());
        if !self.busy.contains(&key) {
            self.ready.push_back(key);
        }
    }

    fn add_at(&mut self, key: K, time: Instant) {
        if let Some(due) = self.due.get(&key) {
            // Whoever asked for the earlier time has a reason; the later one comes out of that look.
            if due.0 <= time {
                return;
            }
            self.later.remove(due);
        }
        self.counter += 1;
        let due = (time, self.counter);
        self.later.insert(due, key.clone());
        self.due.insert(key, due);
    }

    /// What is due is to be done now.
    fn ripen(&mut self, now: Instant) {
        while let Some(entry) = self.later.first_entry() {
            if entry.key().0 > now {
                return;
            }
            let key = entry.remove();
            self.due.remove(&key);
            self.add(key);
        }
    }

    /// What is next, and since when it is wanted.
    fn take(&mut self) -> Option<(K, Instant)> {
        let key = self.ready.pop_front()?;
        let since = self.wanted.remove(&key).unwrap_or_else(Instant::now);
        // It is looked at now: no need to look again later.
        if let Some(due) = self.due.remove(&key) {
            self.later.remove(&due);
        }
        self.busy.insert(key.clone());
        Some((key, since))
    }
}

/// A place among those who work at the same time. Given back when the work is done.
#[derive(Debug, Clone)]
pub(crate) struct Slot {
    permit: Arc<Mutex<Option<OwnedSemaphorePermit>>>,
    slots: Arc<Semaphore>,
}

impl Slot {
    /// Wait for something. If it takes long, somebody else works meanwhile.
    pub(crate) async fn wait_for<F: Future>(&self, something: F) -> F::Output {
        let mut something = std::pin::pin!(something);
        if let Ok(output) = tokio::time::timeout(LONG, &mut something).await {
            return output;
        }
        // Only now: most waits are short, and giving a place away means to queue for it again.
        self.permit.lock().unwrap_or_else(PoisonError::into_inner).take();
        let output = something.await;
        // The semaphore is never closed.
        let permit = self.slots.clone().acquire_owned().await.ok();
        *self.permit.lock().unwrap_or_else(PoisonError::into_inner) = permit;
        output
    }
}

/// Ends a task with its owner.
struct AbortOnDrop(tokio::task::AbortHandle);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}
