//! Graceful shutdown: running work continues, and nothing new starts.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

/// Shared by all queues. Clones are the same shutdown.
#[derive(Debug, Clone, Default)]
pub(crate) struct Shutdown(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    idle: Notify,
}

#[derive(Debug, Default)]
struct State {
    is_on: bool,
    busy: usize,
}

/// Running work, until it is dropped.
#[derive(Debug)]
pub(crate) struct UnderWay(Shutdown);

impl Shutdown {
    /// Start work. None after the shutdown has begun.
    pub(crate) fn begin(&self) -> Option<UnderWay> {
        let mut state = self.lock();
        if state.is_on {
            return None;
        }
        state.busy += 1;
        drop(state);
        Some(UnderWay(self.clone()))
    }

    /// Start nothing from now on, and wait for running work, but not longer than this. Returns how much is still running then.
    pub(crate) async fn stop(&self, patience: Duration) -> usize {
        self.lock().is_on = true;
        let idle = async {
            loop {
                let idle = self.0.idle.notified();
                if self.lock().busy == 0 {
                    return;
                }
                idle.await;
            }
        };
        let _ = tokio::time::timeout(patience, idle).await;
        self.lock().busy
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.busy -= 1;
        let is_idle = state.busy == 0;
        drop(state);
        if is_idle {
            self.0.0.idle.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_is_under_way_ends_and_nothing_new_begins() {
        let shutdown = Shutdown::default();
        let work = shutdown.begin().unwrap();
        let stopping = tokio::spawn({
            let shutdown = shutdown.clone();
            async move { shutdown.stop(Duration::from_mins(1)).await }
        });
        tokio::task::yield_now().await;
        assert!(shutdown.begin().is_none());
        assert!(!stopping.is_finished());
        drop(work);
        assert_eq!(stopping.await.unwrap(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_waits_for_ever() {
        let shutdown = Shutdown::default();
        let _work = shutdown.begin().unwrap();
        assert_eq!(shutdown.stop(Duration::from_secs(5)).await, 1);
    }
}
