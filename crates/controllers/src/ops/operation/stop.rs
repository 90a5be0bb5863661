//! Stops a running attempt, but never in the middle of a write.

use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

/// A request to stop an attempt. A write that is under way ends first: it would be unknown whether a write that was cut off took effect.
#[derive(Debug, Default)]
pub(super) struct Stop {
    requested: Notify,
    is_requested: AtomicBool,
    is_writing: AtomicBool,
}

impl Stop {
    pub(super) fn request(&self) {
        self.is_requested.store(true, Ordering::SeqCst);
        // Remembered if the attempt does not wait for it yet, which `notify_waiters` would not be.
        self.requested.notify_one();
    }

    pub(super) fn is_requested(&self) -> bool {
        self.is_requested.load(Ordering::SeqCst)
    }

    /// Run an attempt until it ends. None if it is stopped before.
    pub(super) async fn limit<T>(&self, attempt: impl Future<Output = T>) -> Option<T> {
        let mut attempt = std::pin::pin!(attempt);
        tokio::select! {
            output = &mut attempt => return Some(output),
            () = self.requested.notified() => {}
        }
        // The attempt checks `is_requested` between two writes.
        if self.is_writing.load(Ordering::SeqCst) {
            return Some(attempt.await);
        }
        None
    }

    /// Make a write that is not cut off.
    pub(super) async fn write<T>(&self, write: impl Future<Output = T>) -> T {
        self.is_writing.store(true, Ordering::SeqCst);
        let written = write.await;
        self.is_writing.store(false, Ordering::SeqCst);
        written
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::sleep;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn attempt_that_is_to_stop_ends_after_the_write_under_way() {
        let stop = Stop::default();
        let mut written = 0;
        let attempt = async {
            for _ in 0..10 {
                if stop.is_requested() {
                    return;
                }
                stop.write(sleep(Duration::from_secs(2))).await;
                written += 1;
            }
        };
        let requested = async {
            sleep(Duration::from_secs(3)).await;
            stop.request();
        };
        let (ended, ()) = tokio::join!(stop.limit(attempt), requested);
        assert_eq!((ended, written), (Some(()), 2));
    }

    #[tokio::test(start_paused = true)]
    async fn attempt_that_waits_for_a_function_ends_at_once() {
        let stop = Stop::default();
        let requested = async {
            sleep(Duration::from_secs(1)).await;
            stop.request();
        };
        let (ended, ()) = tokio::join!(stop.limit(sleep(Duration::from_mins(1))), requested);
        assert_eq!(ended, None);
        stop.request();
        assert_eq!(stop.limit(std::future::pending::<()>()).await, None, "requested before it began");
    }
}
