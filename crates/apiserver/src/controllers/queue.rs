//! Work that is to be done once, however often it is asked for, and again until it has succeeded.

use std::borrow::Borrow;
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::hash::Hash;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

/// How long to wait after the first failure. Every further one doubles it.
const FIRST_DELAY: Duration = Duration::from_millis(10);
/// How long to wait at most if nothing happens meanwhile.
const LONGEST_DELAY: Duration = Duration::from_mins(1);
/// How long to wait at most if something happened that may help. It is not zero: a webhook that notes on the object that it
/// has refused would otherwise be asked again for its own note, and so on for ever.
const LONGEST_HASTENED_DELAY: Duration = Duration::from_secs(1);
/// The same of work that is in order and waits for others, which say when they are done.
const LONGEST_WAIT: Duration = Duration::from_millis(20);

/// Work in the order in which it was first asked for. Any number of workers may take from it; none takes what another one is
/// at.
#[derive(Debug)]
pub(crate) struct Queue<T> {
    state: Mutex<State<T>>,
    arrival: Notify,
}

#[derive(Debug)]
struct State<T> {
    order: VecDeque<T>,
    queued: HashSet<T>,
    running: HashSet<T>,
    /// Keys that were added while they were processed.
    again: HashSet<T>,
    failures: HashMap<T, FailedWork>,
    /// What waits for its time. The number tells apart what is due at the same time, and keeps the order the same in every run.
    delayed: BTreeMap<(Instant, u64), T>,
    next_number: u64,
}

/// Work that did not succeed, or was not finished, when it was last tried.
#[derive(Debug)]
struct FailedWork {
    count: u32,
    /// How long it waits at most if something happens that may help.
    hastened_delay: Duration,
    last_at: Instant,
    /// Where it is among what is delayed, if it is.
    slot: Option<(Instant, u64)>,
    problem: String,
}

impl FailedWork {
    fn delay(&self) -> Duration {
        let doublings = self.count.saturating_sub(1).min(16);
        (FIRST_DELAY * 2_u32.pow(doublings)).min(LONGEST_DELAY)
    }
}

impl<T> Default for Queue<T> {
    fn default() -> Self {
        let state = State {
            order: VecDeque::new(),
            queued: HashSet::new(),
            running: HashSet::new(),
            again: HashSet::new(),
            failures: HashMap::new(),
            delayed: BTreeMap::new(),
            next_number: 0,
        };
        Self { state: Mutex::new(state), arrival: Notify::new() }
    }
}

impl<T: Clone + Eq + Hash> Queue<T> {
    /// Asks for work. What has failed before is not done at once, but soon.
    pub(crate) fn push(&self, work: T) {
        if self.lock().push(work) {
            self.arrival.notify_one();
        }
    }

    /// Has work that failed tried again soon: something has happened that may help. Does nothing to other work.
    pub(crate) fn hasten<Q>(&self, work: &Q)
    where
        T: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        let mut state = self.lock();
        // Called for every event, almost always in vain.
        if let Some((work, _)) = state.failures.get_key_value(work) {
            let work = work.clone();
            if state.hasten(&work) {
                self.arrival.notify_one();
            }
        }
    }

    /// Has everything that failed tried again soon.
    pub(crate) fn hasten_all(&self) {
        let mut state = self.lock();
        let failed: Vec<_> = state.delayed.values().cloned().collect();
        let mut is_sooner = false;
        for work in &failed {
            is_sooner |= state.hasten(work);
        }
        if is_sooner {
            self.arrival.notify_one();
        }
    }

    /// The next piece of work. A client that takes it says how it ended, by [`Self::done`] or [`Self::retry`].
    pub(crate) async fn pop(&self) -> T {
        loop {
            let arrival = self.arrival.notified();
            let due = {
                let mut state = self.lock();
                if let Some(work) = state.take(Instant::now()) {
                    if !state.order.is_empty() || !state.delayed.is_empty() {
                        // One notification may have stood for several arrivals, and while this worker is busy another one
                        // has to watch the time.
                        self.arrival.notify_one();
                    }
                    return work;
                }
                state.delayed.keys().next().map(|(due, _)| *due)
            };
            match due {
                Some(due) => {
                    let _ = tokio::time::timeout_at(due, arrival).await;
                }
                None => arrival.await,
            }
        }
    }

    /// Work has succeeded.
    pub(crate) fn done(&self, work: &T) {
        let mut state = self.lock();
        state.failures.remove(work);
        state.running.remove(work);
        if state.again.remove(work) && state.push(work.clone()) {
            self.arrival.notify_one();
        }
    }

    /// Work did not succeed and is to be tried again, later each time. Returns whether the problem is another one than before,
    /// so that it can be told once.
    pub(crate) fn retry(&self, work: &T, problem: &str) -> bool {
        self.delay(work, problem, LONGEST_HASTENED_DELAY)
    }

    /// Work is not finished, because it waits for others. It is tried when they say so, and now and then without.
    pub(crate) fn wait(&self, work: &T) {
        self.delay(work, "", LONGEST_WAIT);
    }

    fn delay(&self, work: &T, problem: &str, hastened_delay: Duration) -> bool {
        let mut state = self.lock();
        state.running.remove(work);
        let now = Instant::now();
        let failure = state.failures.entry(work.clone()).or_insert_with(|| FailedWork {
            count: 0,
            hastened_delay,
            last_at: now,
            slot: None,
            problem: String::new(),
        });
        failure.count = failure.count.saturating_add(1);
        failure.last_at = now;
        failure.hastened_delay = hastened_delay;
        let is_news = failure.problem != problem;
        if is_news {
            problem.clone_into(&mut failure.problem);
        }
        let delay = failure.delay();
        state.delay(work, now + delay);
        if state.again.remove(work) {
            state.hasten(work);
        }
        // A worker may be waiting for a key that is due later.
        self.arrival.notify_one();
        is_news
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: Clone + Eq + Hash> State<T> {
    /// Returns whether a worker should be woken.
    fn push(&mut self, work: T) -> bool {
        if self.running.contains(&work) {
            // What happens while it is being done must make it be done again.
            self.again.insert(work);
            return false;
        }
        if self.failures.contains_key(&work) {
            return self.hasten(&work);
        }
        let is_new = self.queued.insert(work.clone());
        if is_new {
            self.order.push_back(work);
        }
        is_new
    }

    fn hasten(&mut self, work: &T) -> bool {
        let Some(failure) = self.failures.get(work) else { return false };
        if self.running.contains(work) {
            self.again.insert(work.clone());
            return false;
        }
        let soon = failure.last_at + failure.delay().min(failure.hastened_delay);
        match failure.slot {
            Some((due, _)) if due > soon => self.delay(work, soon),
            // It is due as soon, or queued already.
            _ => return false,
        }
        true
    }

    fn delay(&mut self, work: &T, due: Instant) {
        let slot = (due, self.next_number);
        self.next_number += 1;
        let Some(failure) = self.failures.get_mut(work) else { return };
        if let Some(former) = failure.slot.replace(slot) {
            self.delayed.remove(&former);
        }
        self.delayed.insert(slot, work.clone());
    }

    fn take(&mut self, now: Instant) -> Option<T> {
        while let Some(slot) = self.delayed.first_entry().filter(|slot| slot.key().0 <= now) {
            let work = slot.remove();
            if let Some(failure) = self.failures.get_mut(&work) {
                failure.slot = None;
            }
            if self.queued.insert(work.clone()) {
                self.order.push_back(work);
            }
        }
        let work = self.order.pop_front()?;
        self.queued.remove(&work);
        self.running.insert(work.clone());
        Some(work)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether work is there to be taken now.
    async fn next(queue: &Queue<&'static str>) -> Option<&'static str> {
        tokio::time::timeout(Duration::ZERO, queue.pop()).await.ok()
    }

    /// How long it takes until there is work.
    async fn wait(queue: &Queue<&'static str>) -> Duration {
        let began_at = Instant::now();
        queue.pop().await;
        began_at.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn work_is_done_once_however_often_it_is_asked_for() {
        let queue = Queue::default();
        queue.push("a");
        queue.push("b");
        queue.push("a");
        assert_eq!(
            (next(&queue).await, next(&queue).await, next(&queue).await),
            (Some("a"), Some("b"), None)
        );
    }

    #[tokio::test(start_paused = true)]
    async fn work_asked_for_while_it_is_done_is_done_again_afterwards() {
        let queue = Queue::default();
        queue.push("a");
        assert_eq!(next(&queue).await, Some("a"));
        queue.push("a");
        assert_eq!(next(&queue).await, None, "no two workers are at the same");
        queue.done(&"a");
        assert_eq!(next(&queue).await, Some("a"));
        queue.done(&"a");
        assert_eq!(next(&queue).await, None);
    }

    #[tokio::test(start_paused = true)]
    async fn failure_is_tried_again_later_each_time_and_others_go_on() {
        let queue = Queue::default();
        queue.push("a");
        queue.push("b");
        assert_eq!(next(&queue).await, Some("a"));
        assert!(queue.retry(&"a", "no"));
        assert_eq!(next(&queue).await, Some("b"));
        queue.done(&"b");
        let mut waited = Vec::new();
        for _ in 0..16 {
            waited.push(wait(&queue).await.as_millis());
            assert!(!queue.retry(&"a", "no"), "it is told once");
        }
        assert!(waited.is_sorted(), "{waited:?}");
        assert!(waited[0] <= 11 && waited[15] == 60_000, "{waited:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn failure_is_tried_again_soon_when_something_happens() {
        let queue = Queue::default();
        queue.push("a");
        for _ in 0..16 {
            queue.pop().await;
            queue.retry(&"a", "no");
        }
        queue.hasten(&"b");
        queue.hasten(&"a");
        assert!(wait(&queue).await <= Duration::from_millis(1_001));
        queue.retry(&"a", "no");
        queue.hasten_all();
        assert!(wait(&queue).await <= Duration::from_millis(1_001));
        queue.retry(&"a", "no");
        assert!(wait(&queue).await >= Duration::from_secs(59), "nothing happened");
    }

    #[tokio::test(start_paused = true)]
    async fn change_while_work_fails_has_it_tried_again_soon() {
        let queue = Queue::default();
        queue.push("a");
        for _ in 0..16 {
            queue.pop().await;
            queue.retry(&"a", "no");
        }
        queue.pop().await;
        queue.hasten(&"a");
        queue.retry(&"a", "no");
        assert!(wait(&queue).await <= Duration::from_millis(1_001));
    }

    #[tokio::test(start_paused = true)]
    async fn work_that_waits_for_others_goes_on_when_they_are_done() {
        let queue = Queue::default();
        queue.push("a");
        for _ in 0..16 {
            queue.pop().await;
            queue.wait(&"a");
        }
        queue.push("a");
        assert!(wait(&queue).await <= Duration::from_millis(21));
    }

    #[tokio::test(start_paused = true)]
    async fn work_that_succeeded_starts_afresh() {
        let queue = Queue::default();
        queue.push("a");
        for _ in 0..10 {
            queue.pop().await;
            queue.retry(&"a", "no");
        }
        queue.pop().await;
        queue.done(&"a");
        queue.push("a");
        assert_eq!(wait(&queue).await, Duration::ZERO);
    }
}
