//! Limits how many actions take turns at once, so that long turns, as templates can have, do not delay other tasks.
//!
//! A turn that may take long hands the other tasks of its thread over to another thread. A thread costs more than most turns: a stack,
//! memory that the allocator keeps for it, and an arena of the allocator, over which long-lived memory is then scattered. An action
//! whose turns have been brief therefore takes the next one without that, until one of them takes long.
//!
//! # Invariants
//! * The number of turns that are handed over at once is bounded: one change can requeue thousands of ActionSets.
//! * After a turn that has kept other tasks waiting, the next [`PROVEN`] turns of its action do not. A turn ends with the budget of its
//!   templates at the latest.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::Semaphore;

/// How many turns are handed over at once, unless there are more processors. More than one, so that a long turn does not block others.
const AT_ONCE: usize = 8;
/// A turn that takes as long keeps other tasks waiting.
const BRIEF: Duration = Duration::from_millis(3);
/// So many brief turns of an action in a row let the next one be expected to be brief, too.
const PROVEN: u32 = 8;

/// How long the turns of an action take.
#[derive(Debug, Default)]
pub(super) struct TurnPace {
    /// How many turns in a row were brief, counted up to [`PROVEN`].
    brief: AtomicU32,
}

impl TurnPace {
    fn is_brief(&self) -> bool {
        self.brief.load(Ordering::Relaxed) >= PROVEN
    }

    /// Take a turn, and note how long it took.
    fn measure<T>(&self, work: impl FnOnce() -> T) -> T {
        let began_at = Instant::now();
        let result = work();
        if began_at.elapsed() >= BRIEF {
            self.brief.store(0, Ordering::Relaxed);
        } else if !self.is_brief() {
            self.brief.fetch_add(1, Ordering::Relaxed);
        }
        result
    }
}

/// How many actions take turns at once.
pub(super) struct TurnLimit(Semaphore);

impl Default for TurnLimit {
    fn default() -> Self {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        Self::at_most(processors.max(AT_ONCE))
    }
}

impl TurnLimit {
    fn at_most(count: usize) -> Self {
        Self(Semaphore::new(count))
    }

    /// Take a turn of an action. If it may take long, it waits for capacity, and other threads run the tasks of this one meanwhile.
    pub(super) async fn run<T>(&self, pace: &TurnPace, work: impl FnOnce() -> T) -> T {
        // With one thread, as in tests, no other thread can take over its tasks.
        if Handle::current().runtime_flavor() != RuntimeFlavor::MultiThread {
            return work();
        }
        if pace.is_brief() {
            return pace.measure(work);
        }
        // The semaphore is never closed.
        let _room = self.0.acquire().await;
        let result = tokio::task::block_in_place(|| pace.measure(work));
        // Another thread has replaced this one, which is free again when the task yields. Without a yield it would
        // run the rest of the task, and the turns of others would need new threads.
        tokio::task::yield_now().await;
        result
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicUsize;

    use tokio::task::JoinSet;
    use tokio::time::timeout;

    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn turn_that_takes_long_keeps_no_task_waiting() {
        let (sender, receiver) = std::sync::mpsc::channel();
        let working = tokio::spawn(async move {
            let wait = move || receiver.recv_timeout(Duration::from_secs(30));
            TurnLimit::default().run(&TurnPace::default(), wait).await
        });
        tokio::spawn(async move { sender.send(()) });
        assert_eq!(working.await.unwrap(), Ok(()));
    }

    #[tokio::test]
    async fn turn_is_taken_where_there_is_one_thread() {
        assert_eq!(TurnLimit::default().run(&TurnPace::default(), || 1).await, 1);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn thousands_of_turns_occupy_a_few_threads() {
        let turns = Arc::new(TurnLimit::at_most(2));
        let (running, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let mut tasks = JoinSet::new();
        for _ in 0..2_000 {
            let (turns, running, most) = (turns.clone(), running.clone(), most.clone());
            tasks.spawn(async move {
                let turn = || {
                    most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    std::thread::sleep(Duration::from_micros(100));
                    running.fetch_sub(1, Ordering::SeqCst);
                };
                turns.run(&TurnPace::default(), turn).await;
            });
        }
        tasks.join_all().await;
        assert!((1..=2).contains(&most.load(Ordering::SeqCst)), "{most:?}");
    }

    /// The pace of an action whose turns have been brief.
    fn proven() -> TurnPace {
        let pace = TurnPace::default();
        // A turn may take longer than it needs where the machine is busy.
        while !pace.is_brief() {
            pace.measure(|| ());
        }
        pace
    }

    fn take_long() {
        std::thread::sleep(2 * BRIEF);
    }

    #[test]
    fn turns_are_expected_to_be_brief_after_several_brief_ones_in_a_row() {
        let pace = proven();
        pace.measure(take_long);
        for _ in 1..PROVEN {
            pace.measure(|| ());
            assert!(!pace.is_brief());
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn turn_that_is_expected_to_be_brief_needs_no_room_until_one_takes_long() {
        let (turns, pace) = (TurnLimit::at_most(0), proven());
        let long = timeout(Duration::from_secs(30), turns.run(&pace, take_long));
        assert!(long.await.is_ok(), "it was taken as it is");
        let next = timeout(Duration::from_millis(50), turns.run(&pace, || ()));
        assert!(next.await.is_err(), "there is no room to hand it over");
    }
}
