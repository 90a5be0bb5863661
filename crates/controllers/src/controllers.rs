//! All controllers, wired together.

use std::sync::Arc;
use std::time::Duration;

use ferroplane_client::{ApiClient, Error};
use ferroplane_recorder::Recorder;
use ferroplane_runner::{ResponseCache, grpc};
use tokio::task::JoinSet;

use crate::apiextensions::advisor::Advisor;
use crate::apiextensions::claim::Claims;
use crate::apiextensions::composite::{Composites, Holdings};
use crate::apiextensions::{composition, definition, offered, revision};
use crate::context::{Clients, Context};
use crate::function_registry::{BuiltIns, FunctionRegistry};
use crate::local_functions::LocalFunctions;
use crate::metrics::Metrics;
use crate::protection::admission::Protection;
use crate::protection::usage::{self, Usages};
use crate::rbac;
use crate::runtime::clock::Clock;
use crate::tuning::Tuning;
use crate::unsupported;

/// How controllers run.
#[derive(Debug)]
pub struct Settings {
    pub clock: Clock,
    pub built_ins: BuiltIns,
    /// How functions are called that are served somewhere.
    pub calls: grpc::Options,
    /// The functions that programs on this machine serve.
    pub local_functions: Arc<LocalFunctions>,
    /// Whether functions are called that developers serve: in plain text, with credentials, at any address that a Function names.
    pub allows_development_functions: bool,
    /// Where answers of functions are kept for as long as they hold.
    pub answers: Arc<ResponseCache>,
    /// What keeps what composite resources were made from and came to. Whoever starts it stops it.
    pub recorder: Recorder,
    /// Whether there are roles for what is defined, which users' roles gather. To write them takes the rights that they
    /// give, or the right to give more than one has.
    pub writes_roles: bool,
    /// As whom composed resources are written and deleted. As whom everything else is done, if there is none.
    pub composer: Option<ApiClient>,
    pub tuning: Tuning,
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
    functions: Arc<FunctionRegistry>,
    local_functions: Arc<LocalFunctions>,
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
        let clients = Clients { controllers: client, composer: settings.composer };
        let context = Context::start(clients, settings.clock, settings.recorder, settings.tuning).await?;
        let context = Arc::new(context);
        let mut built_ins = settings.built_ins;
        built_ins.directory.keep_answers(settings.answers);
        let (local, allows_development) =
            (settings.local_functions.clone(), settings.allows_development_functions);
        let functions = FunctionRegistry::new(built_ins, settings.calls, local, allows_development, &context);
        let composites = Composites::new(context.clone(), functions.clone());
        let claims = Claims::new(context.clone());
        let usages = Usages::start(&context.cluster).await;
        let Settings { local_functions, writes_roles, .. } = settings;
        Ok(Self { context, composites, claims, usages, functions, local_functions, writes_roles })
    }

    /// Start all controllers.
    pub fn lead(self) -> Controllers {
        let Self { context, composites, claims, usages, functions, local_functions, writes_roles } = &self;
        let mut tasks = JoinSet::new();
        tasks.spawn(definition::run(context.clone(), composites.clone()));
        tasks.spawn(offered::run(context.clone(), claims.clone()));
        tasks.spawn(composition::run(context.clone()));
        tasks.spawn(revision::run(context.clone(), functions.clone()));
        if *writes_roles {
            tasks.spawn(rbac::definition::run(context.clone()));
        }
        tasks.spawn(usage::run(context.clone(), usages.clone()));
        tasks.spawn(unsupported::run(context.clone(), functions.clone(), local_functions.clone()));
        Controllers { tasks, standby: self }
    }

    /// What refuses to delete what is in use. Whoever starts controllers has to see to it that it is asked.
    pub fn protection(&self) -> Protection {
        Protection::new(&self.context, &self.usages)
    }

    /// What tells users of versions of functions that will not be there for long.
    pub fn advisor(&self) -> Advisor {
        Advisor::new(&self.context, &self.functions)
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
        let broken_off = self.standby.context.shutdown.stop(patience).await;
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
