//! All controllers, wired together.

use std::sync::Arc;

use tokio::task::JoinSet;

use crate::clock::Clock;
use crate::cluster::{Cluster, Error};
use crate::composition;
use crate::context::Context;
use crate::revision;

/// How controllers run.
#[derive(Debug)]
pub struct Settings {
    pub clock: Clock,
}

impl Default for Settings {
    fn default() -> Self {
        Self { clock: Clock::system() }
    }
}

/// Controllers that run. Dropping them ends them.
#[derive(Debug)]
pub struct Controllers {
    context: Arc<Context>,
    tasks: JoinSet<()>,
}

impl Controllers {
    /// Start all controllers. The kinds we serve must have been installed.
    pub async fn start(client: kube::Client, settings: Settings) -> Result<Self, Error> {
        let context = Arc::new(Context::start(Cluster::new(client), settings.clock).await?);
        let mut tasks = JoinSet::new();
        tasks.spawn(composition::run(context.clone()));
        tasks.spawn(revision::run(context.clone()));
        Ok(Self { context, tasks })
    }

    /// End all controllers, and wait until they have.
    pub async fn stop(mut self) {
        self.tasks.shutdown().await;
        self.context.stop();
    }
}

impl Drop for Controllers {
    fn drop(&mut self) {
        self.context.stop();
    }
}
