//! All controllers, wired together.

use std::sync::Arc;
use std::time::Duration;

use ferroplane_client::{ApiClient, Error, Informer};
use ferroplane_recorder::Recorder;
use ferroplane_runner::{ResponseCache, grpc};
use tokio::task::JoinSet;

use crate::apiextensions::advisor::Advisor;
use crate::apiextensions::claim::Claims;
use crate::apiextensions::composite::plan::Planner;
use crate::apiextensions::composite::{Composites, Holdings};
use crate::apiextensions::{claim_definition, composition, definition, revision};
use crate::blueprints::{self, ActionSettings};
use crate::context::{Clients, Context};
use crate::function_registry::{BuiltIns, FunctionCatalogue, FunctionRegistry, FunctionSources};
use crate::local_functions::LocalFunctions;
use crate::metrics::Metrics;
use crate::ops::{self, DigestKey};
use crate::pkg::{self, PackageManager};
use crate::protection::admission::Protection;
use crate::protection::usage::{self, Usages};
use crate::rbac;
use crate::rollout;
use crate::runtime::clock::Clock;
use crate::tuning::Tuning;
use crate::unsupported::{self, Acting};

/// The settings of the controllers.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "switches are what they are")]
pub struct Settings {
    pub clock: Clock,
    pub built_ins: BuiltIns,
    /// How functions with an address are called.
    pub calls: grpc::Options,
    /// Functions that programs on this machine serve.
    pub local_functions: Arc<LocalFunctions>,
    /// Whether functions that developers serve are called: in plain text, with credentials, at any address that a Function names.
    pub allows_development_functions: bool,
    /// Caches responses of functions while they are valid.
    pub answers: Arc<ResponseCache>,
    /// Records the inputs and results of reconciles. The process that starts it stops it.
    pub recorder: Recorder,
    /// Whether to write roles for defined kinds, which users' roles aggregate. That takes the rights in those roles, or the right to
    /// escalate.
    pub writes_roles: bool,
    /// The client that writes and deletes composed resources. None: the same as for everything else.
    pub composer: Option<ApiClient>,
    /// Whether operations are run.
    pub runs_operations: bool,
    /// The key of digests of Secrets in the status of `WatchOperation`s.
    pub digest_key: DigestKey,
    /// How actions of Blueprints are run. None: Blueprints are neither validated nor run.
    pub actions: Option<ActionSettings>,
    pub tuning: Tuning,
    /// Whether steps may name revisions and labels of functions, and several revisions of a Function may be active.
    pub enables_function_revision_selectors: bool,
    /// How packages are installed. None: no package is installed, and each reports that in its conditions.
    pub packages: Option<PackageManager>,
}

/// Controllers that have synced and do not run yet. Changes nothing.
///
/// A replica that does not lead is in this state: it can serve webhooks, and start to lead at once.
#[derive(Debug)]
pub struct Standby {
    context: Arc<Context>,
    composites: Arc<Composites>,
    claims: Arc<Claims>,
    usages: Arc<Usages>,
    functions: Arc<FunctionRegistry>,
    local_functions: Arc<LocalFunctions>,
    writes_roles: bool,
    runs_operations: bool,
    digest_key: DigestKey,
    actions: Option<ActionSettings>,
    packages: Option<PackageManager>,
    /// The `ImageConfig`s, where packages are installed.
    image_configs: Option<Arc<Informer>>,
}

/// Running controllers. Dropping them stops them.
#[derive(Debug)]
pub struct Controllers {
    tasks: JoinSet<()>,
    standby: Standby,
}

impl Standby {
    /// Start the informers. Our kinds must have been installed.
    pub async fn start(client: kube::Client, settings: Settings) -> Result<Self, Error> {
        let clients = Clients { controllers: client, composer: settings.composer };
        // A standby replica watches everything already: when it becomes the leader, it has nothing to read first.
        let context = Context::start(clients, settings.clock, settings.recorder, settings.tuning).await?;
        let context = Arc::new(context);
        let mut built_ins = settings.built_ins;
        // Before the registry clones the directory: clones share the cache that they are created with.
        built_ins.directory.keep_answers(settings.answers);
        let sources = FunctionSources {
            local: settings.local_functions.clone(),
            allows_development: settings.allows_development_functions,
            installs_packages: settings.packages.is_some(),
            packaged: settings.packages.as_ref().and_then(|packages| packages.functions.clone()),
            has_revision_selectors: settings.enables_function_revision_selectors,
        };
        let functions = FunctionRegistry::new(built_ins, settings.calls, sources, &context);
        let mut image_configs = None;
        if settings.packages.is_some() {
            // Before a composite resource is reconciled: a policy may refuse the package of a function that is built in.
            image_configs = Some(pkg::follow_image_configs(&context, &functions).await);
        }
        let composites = Composites::new(context.clone(), functions.clone());
        let claims = Claims::new(context.clone(), composites.clone());
        let usages = Usages::start(&context.cluster).await;
        let Settings {
            local_functions, writes_roles, runs_operations, digest_key, actions, packages, ..
        } = settings;
        Ok(Self {
            context,
            composites,
            claims,
            usages,
            functions,
            local_functions,
            writes_roles,
            runs_operations,
            digest_key,
            actions,
            packages,
            image_configs,
        })
    }

    /// Start all controllers.
    pub fn lead(self) -> Controllers {
        let Self { context, composites, claims, usages, functions, .. } = &self;
        functions.note_start();
        let mut tasks = JoinSet::new();
        tasks.spawn(definition::run(context.clone(), composites.clone()));
        tasks.spawn(claim_definition::run(context.clone(), claims.clone()));
        tasks.spawn(composition::run(context.clone()));
        tasks.spawn(revision::run(context.clone(), functions.clone()));
        if self.writes_roles {
            tasks.spawn(rbac::definition::run(context.clone()));
        }
        tasks.spawn(usage::run(context.clone(), usages.clone()));
        let local = self.local_functions.clone();
        let acting = Acting {
            installs_packages: self.packages.is_some(),
            runs_pods: self.packages.as_ref().is_some_and(|packages| packages.deployments.is_some()),
            runs_operations: self.runs_operations,
            runs_actions: self.actions.as_ref().is_some_and(|actions| actions.runs),
        };
        tasks.spawn(unsupported::run(context.clone(), functions.clone(), local, acting));
        if let Some((packages, image_configs)) = self.packages.as_ref().zip(self.image_configs.as_ref()) {
            let (packages, image_configs) = (packages.clone(), image_configs.clone());
            let roles = self.writes_roles;
            tasks.spawn(pkg::run(context.clone(), functions.clone(), image_configs, packages, roles));
        }
        let can_choose = functions.has_revision_selectors();
        tasks.spawn(rollout::controller::run(
            context.clone(),
            composites.clone(),
            functions.clone(),
            can_choose,
        ));
        tasks.spawn(rollout::intercept_controller::run(context.clone(), functions.clone()));
        let actions = self.actions.as_ref().filter(|actions| actions.runs);
        let actions = actions.map(|actions| (actions, blueprints::action_sets(context)));
        if self.runs_operations {
            let operations = ops::operations(context);
            let action_sets = actions.as_ref().map(|(_, action_sets)| action_sets.clone());
            let run =
                ops::operation::run(context.clone(), functions.clone(), operations.clone(), action_sets);
            tasks.spawn(run);
            tasks.spawn(ops::cron_operation::run(context.clone(), operations.clone()));
            tasks.spawn(ops::watch_operation::run(context.clone(), operations, self.digest_key));
        }
        if let Some((actions, action_sets)) = actions {
            let registry = functions.clone();
            tasks.spawn(blueprints::action_set::run(context.clone(), registry, actions.clone(), action_sets));
        }
        Controllers { tasks, standby: self }
    }

    /// Refuses to delete objects in use. The process that starts controllers has to serve it as a webhook.
    pub fn protection(&self) -> Protection {
        Protection::new(&self.context, &self.usages)
    }

    /// Warns users about versions of functions that will be removed.
    pub fn advisor(&self) -> Advisor {
        Advisor::new(&self.context, &self.functions, self.actions.clone())
    }

    /// Plans changes without making them. It is complete only while controllers run.
    pub fn planner(&self) -> Planner {
        Planner::new(&self.composites)
    }

    /// The functions that can be called. It stays up to date.
    pub fn function_catalogue(&self) -> FunctionCatalogue {
        FunctionCatalogue(self.functions.clone())
    }

    /// The metrics. They continue to be updated.
    pub fn metrics(&self) -> Arc<Metrics> {
        self.context.metrics.clone()
    }
}

impl Controllers {
    /// Start all controllers. Our kinds must have been installed.
    pub async fn start(client: kube::Client, settings: Settings) -> Result<Self, Error> {
        Ok(Standby::start(client, settings).await?.lead())
    }

    /// Refuses to delete objects in use. The process that starts controllers has to serve it as a webhook.
    pub fn protection(&self) -> Protection {
        self.standby.protection()
    }

    /// How much is held in memory because of composite resources.
    pub fn holdings(&self) -> Holdings {
        self.standby.composites.holdings()
    }

    /// Warns users about versions of functions that will be removed.
    pub fn advisor(&self) -> Advisor {
        self.standby.advisor()
    }

    /// Plans changes without making them.
    pub fn planner(&self) -> Planner {
        self.standby.planner()
    }

    /// The functions that can be called. It stays up to date.
    pub fn function_catalogue(&self) -> FunctionCatalogue {
        self.standby.function_catalogue()
    }

    /// The metrics. They continue to be updated.
    pub fn metrics(&self) -> Arc<Metrics> {
        self.standby.metrics()
    }

    /// Start no new reconciles, and wait for the running ones, but not longer than this. Returns how many had to be aborted.
    pub async fn finish(self, patience: Duration) -> usize {
        // First the reconciles, then the controllers: a reconcile that is dropped in the middle has made half of
        // its writes.
        let broken_off = self.standby.context.shutdown.stop(patience).await;
        self.stop().await;
        broken_off
    }

    /// Stop all controllers, and wait until they have stopped.
    pub async fn stop(mut self) {
        self.tasks.shutdown().await;
    }
}

impl Drop for Standby {
    fn drop(&mut self) {
        self.claims.stop_all();
        self.composites.stop_all();
        self.context.stop();
        if let Some(image_configs) = &self.image_configs {
            image_configs.stop();
        }
        self.usages.stop();
    }
}
