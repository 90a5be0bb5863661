//! A work queue by key.
//!
//! # Invariants
//! * No two workers have the same key at the same time.
//! * No more keys are processed at a time than there are slots, but for work that has given up its slot because it waits for long.
//! * A key that is added while it is processed is processed again afterwards: the last state is never missed.
//! * However often a key is added, it waits once, behind the keys that were added before to the same lane.
//! * Lanes take turns: however many keys wait in one lane, the first key of another lane is among the next to be processed.

mod lanes;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt::Debug;
use std::future::Future;
use std::hash::Hash;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ferroplane_runner::LongCallSignal;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;
use tracing::error;

use self::lanes::Lanes;
use crate::metrics::{Ending, Work};
use crate::runtime::backoff::{after, pause};
use crate::runtime::shutdown::{Shutdown, UnderWay};

/// Pauses after a failure.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// Pauses after a write conflict.
const FIRST_CONFLICT_PAUSE: Duration = Duration::from_millis(5);

/// A worker that waits for longer than this gives up its slot.
const LONG: Duration = Duration::from_secs(1);

/// What happens to a key next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    /// Nothing, until it is added again.
    Rest,
    /// Process it again after this time, if it is not added before.
    After(Duration),
    /// A write conflict: process it again soon.
    Conflict,
    /// A failure: process it again, with growing pauses.
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

/// A work queue. Clones share it.
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
    ready: Lanes<K>,
    /// Keys to process, with their lanes, and since when: they are in `ready`, unless they are being processed.
    wanted: HashMap<K, (Instant, usize)>,
    /// Keys that are being processed, with their lanes.
    busy: HashMap<K, usize>,
    /// Keys to process later, by time, with their lanes.
    later: BTreeMap<(Instant, u64), (usize, K)>,
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
    /// A queue with its longest pause after a failure. It starts nothing once the shutdown has begun.
    pub(crate) fn new(longest_pause: Duration, metrics: Arc<Work>, shutdown: Shutdown) -> Self {
        let state = State {
            ready: Lanes::default(),
            wanted: HashMap::new(),
            busy: HashMap::new(),
            later: BTreeMap::new(),
            due: HashMap::new(),
            failures: HashMap::new(),
            counter: 0,
        };
        let state = Mutex::new(state);
        Self(Arc::new(Shared { state, arrival: Notify::new(), longest_pause, metrics, shutdown }))
    }

    /// Add a key.
    pub(crate) fn add(&self, key: K) {
        self.add_to(lanes::ONLY, key);
    }

    /// Add a key to a lane. A key that waits already keeps its place.
    pub(crate) fn add_to(&self, lane: usize, key: K) {
        self.0.metrics.add();
        let mut state = self.lock();
        state.add(lane, key);
        self.report_load(&state);
        drop(state);
        self.0.arrival.notify_one();
    }

    /// Add a key that may wait for this time, so that it is processed once for all changes until then.
    pub(crate) fn add_within(&self, key: K, delay: Duration) {
        self.0.metrics.add();
        self.lock().add_at(lanes::ONLY, key, Instant::now() + delay);
        self.0.arrival.notify_one();
    }

    /// How many keys it has, waiting or not.
    pub(crate) fn len(&self) -> usize {
        let state = self.lock();
        let known =
            state.wanted.keys().chain(state.busy.keys()).chain(state.due.keys()).chain(state.failures.keys());
        known.collect::<HashSet<_>>().len()
    }

    /// Remove a key.
    pub(crate) fn forget(&self, key: &K) {
        let mut state = self.lock();
        state.failures.remove(key);
        if let Some(due) = state.due.remove(key) {
            state.later.remove(&due);
        }
    }

    /// Process keys, so many at a time, until dropped.
    pub(crate) async fn work<F>(&self, concurrency: usize, work: impl Fn(K) -> F)
    where
        F: Future<Output = Next> + Send + 'static,
    {
        self.work_in_slots(concurrency, |key, _| work(key)).await;
    }

    /// The same, with a slot that can be given up while waiting.
    pub(crate) async fn work_in_slots<F>(&self, concurrency: usize, work: impl Fn(K, Slot) -> F)
    where
        F: Future<Output = Next> + Send + 'static,
    {
        self.0.metrics.set_limit(concurrency);
        let slots = Arc::new(Semaphore::new(concurrency));
        // Dropping the set aborts running work.
        let mut tasks = tokio::task::JoinSet::new();
        loop {
            // The slot first, then the key: a key that was taken while all slots are busy could not be merged with
            // later requests for it.
            let Ok(permit) = slots.clone().acquire_owned().await else { return };
            let (key, under_way) = self.next(&mut tasks).await;
            let slot = Slot::new(permit, slots.clone());
            let (queue, doing) = (self.clone(), work(key.clone(), slot.clone()));
            tasks.spawn(async move {
                // Until the work is done, also if it does not care about its slot.
                let (_slot, _under_way) = (slot, under_way);
                let piece = queue.0.metrics.begin();
                // In a task of its own, so that a panic costs this key one attempt, and affects no other.
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
            // The set keeps finished tasks until they are joined, and would grow for ever.
            while tasks.try_join_next().is_some() {}
            // Registered before the check, so that a key that is added meanwhile is not missed.
            let arrival = self.0.arrival.notified();
            let wake = {
                let mut state = self.lock();
                state.ripen(Instant::now());
                // Checked under the lock, so that no key is taken that may not be started.
                match self.0.shutdown.begin() {
                    None => None,
                    Some(under_way) => {
                        if let Some((key, since)) = state.take() {
                            self.0.metrics.waited(since.elapsed());
                            self.report_load(&state);
                            return (key, under_way);
                        }
                        state.later.first_key_value().map(|((time, _), _)| *time)
                    }
                }
            };
            match wake {
                Some(time) => {
                    // Biased, so that a simulation takes the same branch with the same seed.
                    tokio::select! { biased; () = arrival => {}, () = tokio::time::sleep_until(time) => {} }
                }
                None => arrival.await,
            }
        }
    }

    fn done(&self, key: K, next: Next) {
        let mut state = self.lock();
        let lane = state.busy.remove(&key).unwrap_or(lanes::ONLY);
        // It was added while it was processed, perhaps after the state was read.
        if let Some((_, lane)) = state.wanted.get(&key).copied() {
            state.ready.push(lane, key.clone());
        }
        let failures = *state.failures.get(&key).unwrap_or(&0);
        let longest = self.0.longest_pause;
        let delay = match next {
            Next::Rest => None,
            Next::After(delay) => Some(delay),
            // Milliseconds: the watch event with the other writer's change is on its way, and usually wakes it
            // before.
            Next::Conflict => Some(pause(FIRST_CONFLICT_PAUSE, longest, failures)),
            Next::Retry => Some(pause(FIRST_PAUSE, longest, failures)),
        };
        match next {
            Next::Conflict | Next::Retry => {
                state.failures.insert(key.clone(), failures.saturating_add(1));
            }
            // One success forgets all failures, as client-go's rate limiters do with `Forget`.
            Next::Rest | Next::After(_) => {
                state.failures.remove(&key);
            }
        }
        if let Some(delay) = delay {
            state.add_at(lane, key, after(delay));
        }
        self.report_load(&state);
        drop(state);
        self.0.arrival.notify_one();
    }

    fn report_load(&self, state: &State<K>) {
        self.0.metrics.set_load(state.ready.len(), state.busy.len());
    }

    fn lock(&self) -> MutexGuard<'_, State<K>> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Clone + Eq + Hash> State<K> {
    fn add(&mut self, lane: usize, key: K) {
        // The time at which it was first added stays: the metric of waiting counts from it.
        if self.wanted.contains_key(&key) {
            return;
        }
        self.wanted.insert(key.clone(), (Instant::now(), lane));
        if !self.busy.contains_key(&key) {
            self.ready.push(lane, key);
        }
    }

    fn add_at(&mut self, lane: usize, key: K, time: Instant) {
        if let Some(due) = self.due.get(&key) {
            // The earlier time has a reason; that reconcile decides about a later one.
            if due.0 <= time {
                return;
            }
            self.later.remove(due);
        }
        self.counter += 1;
        // The counter distinguishes keys that are due at the same instant, and keeps their order.
        let due = (time, self.counter);
        self.later.insert(due, (lane, key.clone()));
        self.due.insert(key, due);
    }

    /// Move keys that are due to `ready`.
    fn ripen(&mut self, now: Instant) {
        while let Some(entry) = self.later.first_entry() {
            if entry.key().0 > now {
                return;
            }
            let (lane, key) = entry.remove();
            self.due.remove(&key);
            self.add(lane, key);
        }
    }

    /// The next key, and since when it waits.
    fn take(&mut self) -> Option<(K, Instant)> {
        let (lane, key) = self.ready.pop()?;
        let since = self.wanted.remove(&key).map_or_else(Instant::now, |(since, _)| since);
        // It is processed now: a later time is not needed.
        if let Some(due) = self.due.remove(&key) {
            self.later.remove(&due);
        }
        self.busy.insert(key.clone(), lane);
        Some((key, since))
    }
}

/// A slot of a worker. Returned when the work is done.
#[derive(Debug, Clone)]
pub(crate) struct Slot {
    permit: Arc<Mutex<Option<OwnedSemaphorePermit>>>,
    slots: Arc<Semaphore>,
    /// Says that the work takes long, so that the slot is given up at once.
    pub(crate) long_calls: LongCallSignal,
}

impl Slot {
    fn new(permit: OwnedSemaphorePermit, slots: Arc<Semaphore>) -> Self {
        Self { permit: Arc::new(Mutex::new(Some(permit))), slots, long_calls: LongCallSignal::default() }
    }

    /// Wait for a future. If it takes long, the slot is given up meanwhile.
    pub(crate) async fn wait_for<F: Future>(&self, something: F) -> F::Output {
        let mut something = std::pin::pin!(something);
        match self.wait_briefly(something.as_mut()).await {
            Some(output) => output,
            None => self.give_up_for(something).await,
        }
    }

    /// The same, while there are places for those who have given up theirs: what waits takes memory. Without a place, the slot is kept.
    pub(crate) async fn wait_among<F: Future>(&self, places: &Semaphore, something: F) -> F::Output {
        let mut something = std::pin::pin!(something);
        if let Some(output) = self.wait_briefly(something.as_mut()).await {
            return output;
        }
        // Biased, so that a simulation takes the same branch with the same seed.
        let _place = tokio::select! {
            biased;
            output = &mut something => return output,
            place = places.acquire() => place,
        };
        self.give_up_for(something).await
    }

    /// The output, unless it takes long: some time has passed, or a call has said that it takes long.
    async fn wait_briefly<F: Future>(&self, something: Pin<&mut F>) -> Option<F::Output> {
        let long_call = self.long_calls.next();
        // Biased, so that a simulation takes the same branch with the same seed.
        tokio::select! {
            biased;
            output = something => Some(output),
            () = long_call => None,
            () = tokio::time::sleep(LONG) => None,
        }
    }

    async fn give_up_for<F: Future>(&self, something: Pin<&mut F>) -> F::Output {
        // Only now: most waits are short, and a slot that is given up has to be acquired again.
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

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;
    use std::sync::atomic::Ordering::Relaxed;

    use tokio::time::sleep;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn no_more_keys_are_processed_at_a_time_than_there_are_slots() {
        let queue = Queue::new(Duration::from_mins(1), Arc::default(), Shutdown::default());
        for key in 0..10 {
            queue.add(key);
        }
        let (now, most, done) = <(Arc<AtomicUsize>, Arc<AtomicUsize>, Arc<AtomicUsize>)>::default();
        let working = queue.work(3, |_| {
            let (now, most, done) = (now.clone(), most.clone(), done.clone());
            async move {
                most.fetch_max(now.fetch_add(1, Relaxed) + 1, Relaxed);
                sleep(Duration::from_secs(5)).await;
                now.fetch_sub(1, Relaxed);
                done.fetch_add(1, Relaxed);
                Next::Rest
            }
        });
        assert!(tokio::time::timeout(Duration::from_mins(1), working).await.is_err(), "it works for ever");
        assert_eq!((most.load(Relaxed), done.load(Relaxed)), (3, 10));
    }

    #[tokio::test(start_paused = true)]
    async fn slot_is_kept_while_too_many_others_have_given_up_theirs() {
        let slots = Arc::new(Semaphore::new(3));
        let slot = || Slot::new(slots.clone().try_acquire_owned().unwrap(), slots.clone());
        let places = Semaphore::new(1);
        let (first, second, third) = (slot(), slot(), slot());
        let minute = || sleep(Duration::from_mins(1));
        let waiting = async {
            tokio::join!(
                first.wait_among(&places, minute()),
                second.wait_among(&places, minute()),
                third.wait_among(&places, sleep(LONG / 2)),
            )
        };
        let looking = async {
            sleep(Duration::from_secs(30)).await;
            slots.available_permits()
        };
        let (_, free) = tokio::join!(waiting, looking);
        assert_eq!(free, 1, "there is one place for two that wait long");
        assert_eq!(slots.available_permits(), 0, "all have theirs again");
    }

    #[tokio::test(start_paused = true)]
    async fn slot_is_given_up_at_once_for_a_call_that_takes_long() {
        let slots = Arc::new(Semaphore::new(1));
        let slot = Slot::new(slots.clone().try_acquire_owned().unwrap(), slots.clone());
        let began_at = Instant::now();
        let working = slot.wait_for(async {
            slot.long_calls.send();
            sleep(Duration::from_mins(1)).await;
        });
        let other = async {
            let permit = slots.clone().acquire_owned().await.unwrap();
            (began_at.elapsed(), permit)
        };
        let mut working = std::pin::pin!(working);
        let waited = tokio::select! {
            biased;
            () = working.as_mut() => panic!("it ended before the other had the slot"),
            (waited, _permit) = other => waited,
        };
        assert_eq!(waited, Duration::ZERO);
        working.await;
        assert_eq!(slots.available_permits(), 0, "it has its slot again");
        // A signal that came before a wait does not count for it.
        slot.long_calls.send();
        slot.wait_for(sleep(LONG / 2)).await;
        assert_eq!(slots.available_permits(), 0);
    }
}
