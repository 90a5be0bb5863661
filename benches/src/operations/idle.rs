//! What nothing costs, and how much memory something takes at most.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::task::JoinHandle;

use crate::measure::{at_rest, resident};

/// How long an idle process is measured.
pub(super) const IDLE: Duration = Duration::from_secs(5);
/// A process that uses less than this in a window has come to rest.
const WINDOW: Duration = Duration::from_millis(500);
const NEARLY_NOTHING: Duration = Duration::from_millis(10);
/// How long to wait for that. A machine is never quite still.
pub(super) const LONGEST_WAIT: Duration = Duration::from_secs(20);

/// Wait until the process has come to rest, and measure what it costs then.
pub(super) async fn idle() -> Duration {
    let deadline = Instant::now() + LONGEST_WAIT;
    loop {
        if at_rest(WINDOW).await < NEARLY_NOTHING || Instant::now() >= deadline {
            break;
        }
    }
    at_rest(IDLE).await
}

/// The most memory that this process takes while this exists.
#[derive(Debug)]
pub(super) struct PeakMemory {
    before: usize,
    most: Arc<AtomicUsize>,
    follower: JoinHandle<()>,
}

impl PeakMemory {
    pub(super) fn follow() -> Self {
        let (before, most) = (resident(), Arc::new(AtomicUsize::new(resident())));
        let seen = most.clone();
        let follower = tokio::spawn(async move {
            loop {
                seen.fetch_max(resident(), Ordering::Relaxed);
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        });
        Self { before, most, follower }
    }

    /// A row of a table: before, at most, and now.
    pub(super) fn print(&self) {
        let numbers = [self.before, self.most.load(Ordering::Relaxed), resident()];
        let [before, most, now] = numbers.map(|bytes| bytes / 1_000_000);
        println!("| memory before, at most, after | {before} MB, {most} MB, {now} MB |");
    }
}

impl Drop for PeakMemory {
    fn drop(&mut self) {
        self.follower.abort();
    }
}
