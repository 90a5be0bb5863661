//! All controllers, wired together.

use std::sync::Arc;

use ferroplane_recorder::Recorder;
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
    /// What keeps what composite resources were made from and came to. Whoever starts it stops it.
    pub recorder: Recorder,
    /// Whether there are roles for what is defined, which users' roles gather. To write them takes the rights that they
    /// give, or the right to give more than one has.
    pub writes_roles: bool,
}

/// Controllers that run. Dropping them ends them.
#[derive(Debug)]
pub struct Controllers {
    context: Arc<Context>,
    composites: Arc<Composites>,
    claims: Arc<Claims>,
    usages: Arc<Usages>,
    callables: Arc<Registry>,
    tasks: JoinSet<()>,
}

impl Controllers {
    /// Start all controllers. The kinds we serve must have been installed.
    pub async fn start(client: kube::Client, settings: Settings) -> Result<Self, Error> {
        let context = Context::start(Cluster::new(client), settings.clock, settings.recorder).await?;
        let context = Arc::new(context);
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
        let mut tasks = JoinSet::new();
        tasks.spawn(definition::run(context.clone(), composites.clone()));
        tasks.spawn(offered::run(context.clone(), claims.clone()));
        tasks.spawn(composition::run(context.clone()));
        tasks.spawn(revision::run(context.clone(), callables.clone()));
        if settings.writes_roles {
            tasks.spawn(roles::run(context.clone()));
        }
        tasks.spawn(usage::run(context.clone(), usages.clone()));
        Ok(Self { context, composites, claims, usages, callables, tasks })
    }

    /// What refuses to delete what is in use. Whoever starts controllers has to see to it that it is asked.
    pub fn protection(&self) -> Protection {
        Protection::new(&self.context, &self.usages)
    }

    /// What is held in memory because of composite resources.
    pub fn holdings(&self) -> Holdings {
        self.composites.holdings()
    }

    /// What tells users of versions of functions that will not be there for long.
    pub fn advisor(&self) -> Advisor {
        Advisor::new(&self.context, &self.callables)
    }

    /// What has been counted. Goes on counting.
    pub fn metrics(&self) -> Arc<Metrics> {
        self.context.metrics.clone()
    }

    /// End all controllers, and wait until they have.
    pub async fn stop(mut self) {
        self.tasks.shutdown().await;
    }
}

impl Drop for Controllers {
    fn drop(&mut self) {
        self.claims.stop_all();
        self.composites.stop_all();
        self.context.stop();
        self.usages.stop();
    }
}
