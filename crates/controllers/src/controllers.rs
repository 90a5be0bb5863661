//! All controllers, wired together.

use std::sync::Arc;
use std::time::Duration;

use ferroplane_runner::{Answers, grpc};
use tokio::task::JoinSet;

use crate::advisor::Advisor;
use crate::callables::{BuiltIns, Registry};
use crate::claim::Claims;
use crate::clock::Clock;
use crate::cluster::{Cluster, Error};
use crate::composite::{Composites, Holdings};
use crate::context::Context;
use crate::metrics::Metrics;
use crate::protection::Protection;
use crate::usage::{self, Usages};
use crate::{composition, definition, offered, revision, roles};

/// How controllers run.
#[derive(Debug)]
pub struct Settings {
    pub clock: Clock,
    pub built_ins: BuiltIns,
    /// How functions are called that are served somewhere.
    pub calls: grpc::Options,
    /// Where answers of functions are kept for as long as they hold.
    pub answers: Arc<Answers>,
    /// Whether there are roles for what is defined, which users' roles gather. To write them takes the rights that they
    /// give, or the right to give more than one has.
    pub writes_roles: bool,
}

/// What controllers need, followed and ready, while nobody works. Changes nothing.
///
/// A replica that does not lead is this: it can answer the API server's questions, and lead at once.
#[derive(Debug)]
pub struct Standby {
    context: Arc<Context>,
    composites: Arc<Composites>,
    claims: Arc<Claims>,
    usages: Arc<Usages>,
    callables: Arc<Registry>,
    writes_roles: bool,
}

/// Controllers that run. Dropping them ends them.
#[derive(Debug)]
pub struct Controllers {
    tasks: JoinSet<()>,
    standby: Standby,
}

impl Standby {
    /// Begin to follow what controllers look at. The kinds we serve must have been installed.
    pub async fn start(client: kube::Client, settings: Settings) -> Result<Self, Error> {
        let context = Arc::new(Context::start(Cluster::new(client), settings.clock).await?);
        let mut built_ins = settings.built_ins;
        built_ins.directory.keep_answers(settings.answers);
        let callables = Registry::new(
            built_ins,
            settings.calls,
            context.functions.clone(),
            context.function_revisions.clone(),
            context.metrics.clone(),
        );
        let composites = Composites::new(context.clone(), callables.clone());
        let claims = Claims::new(context.clone());
        let usages = Usages::start(&context.cluster).await;
        Ok(Self { context, composites, claims, usages, callables, writes_roles: settings.writes_roles })
    }

    /// Start all controllers.
    pub fn lead(self) -> Controllers {
        let Self { context, composites, claims, usages, callables, writes_roles } = &self;
        let mut tasks = JoinSet::new();
        tasks.spawn(definition::run(context.clone(), composites.clone()));
        tasks.spawn(offered::run(context.clone(), claims.clone()));
        tasks.spawn(composition::run(context.clone()));
        tasks.spawn(revision::run(context.clone(), callables.clone()));
        if *writes_roles {
            tasks.spawn(roles::run(context.clone()));
        }
        tasks.spawn(usage::run(context.clone(), usages.clone()));
        Controllers { tasks, standby: self }
    }

    /// What refuses to delete what is in use. Whoever starts controllers has to see to it that it is asked.
    pub fn protection(&self) -> Protection {
        Protection::new(&self.context, &self.usages)
    }

    /// What tells users of versions of functions that will not be there for long.
    pub fn advisor(&self) -> Advisor {
        Advisor::new(&self.context, &self.callables)
    }

    /// What has been counted. Goes on counting.
    pub fn metrics(&self) -> Arc<Metrics> {
        self.context.metrics.clone()
    }
}

impl Controllers {
    /// Start all controllers. The kinds we serve must have been installed.
    pub async fn start(client: kube::Client, settings: Settings) -> Result<Self, Error> {
        Ok(Standby::start(client, settings).await?.lead())
    }

    /// What refuses to delete what is in use. Whoever starts controllers has to see to it that it is asked.
    pub fn protection(&self) -> Protection {
        self.standby.protection()
    }

    /// What is held in memory because of composite resources.
    pub fn holdings(&self) -> Holdings {
        self.standby.composites.holdings()
    }

    /// What tells users of versions of functions that will not be there for long.
    pub fn advisor(&self) -> Advisor {
        self.standby.advisor()
    }

    /// What has been counted. Goes on counting.
    pub fn metrics(&self) -> Arc<Metrics> {
        self.standby.metrics()
    }

    /// Begin nothing new, and wait for what is under way, but no longer than this. Says how much had to be broken off.
    pub async fn finish(self, patience: Duration) -> usize {
        let broken_off = self.standby.context.brake.stop(patience).await;
        self.stop().await;
        broken_off
    }

    /// End all controllers, and wait until they have.
    pub async fn stop(mut self) {
        self.tasks.shutdown().await;
    }
}

impl Drop for Standby {
    fn drop(&mut self) {
        self.claims.stop_all();
        self.composites.stop_all();
        self.context.stop();
        self.usages.stop();
    }
}
