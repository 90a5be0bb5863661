//! Servers that die at once, with all their connections.

use std::fmt;
use std::future::Future;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};

/// A runtime for one server. Dropping it ends everything that runs in it, connections that are open included.
pub(crate) struct Background(Option<Runtime>);

impl Background {
    pub(crate) fn new() -> Self {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build();
        Self(Some(runtime.expect("there are threads")))
    }

    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        if let Some(runtime) = &self.0 {
            runtime.spawn(task);
        }
    }

    /// End everything, and wait until it has ended.
    pub(crate) async fn stop(mut self) {
        let runtime = self.0.take();
        let stop = move || runtime.map(|runtime| runtime.shutdown_timeout(Duration::from_secs(10)));
        tokio::task::spawn_blocking(stop).await.expect("stopping does not panic");
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

impl fmt::Debug for Background {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Background").finish()
    }
}
