//! The package manager: installs Functions, Providers and Configurations, with their dependencies.
//!
//! | Controller | Manages | Decides with |
//! |---|---|---|
//! | `package` | Packages: which revisions they have, which of them are active | `engine::packages::plan_package_revisions` |
//! | `revision` | Revisions: fetches them, checks them, and writes the objects that they bring | `engine::packages::establish`, `package::validate` |
//! | `deployments` | What runs programs of packages in pods, and their certificates | `engine::packages::runtime_objects` |
//! | `provider_roles` | Roles of providers | `engine::packages::provider_roles` |
//! | `provider_accounts` | Service accounts of providers that run on this machine | |
//! | `provider_protection` | Usages that keep providers from being deleted | `engine::packages::protecting_usage` |
//! | `managed_kinds` | Managed resource definitions and activation policies | `engine::packages::activates`, `defined_kind` |
//! | `resolver` | The `Lock`: installs what packages depend on | `engine::packages::resolve_dependencies` |
//!
//! # Invariants
//! * Nothing changed, nothing is written, and no registry is asked.
//! * Every step can be done again: a replica that is killed between two writes continues with the next one.
//! * Secrets are read one by one, by name, and are never cached.

mod caches;
mod certificates;
mod deployments;
mod establish;
mod images;
mod lock;
mod managed_kinds;
mod measured;
mod package;
mod provider_accounts;
mod provider_protection;
mod provider_roles;
mod resolver;
mod revision;
mod source;
mod status;
mod verification;

use std::sync::Arc;

use ferroplane_api::{Object, PackageKind, keys, meta};
use ferroplane_client::{Informer, InformerScope, Resource};
use ferroplane_engine::packages::ResolveOptions;
use tokio::sync::{Mutex, watch};

use crate::context::Context;
use crate::function_registry::FunctionRegistry;
use crate::local_functions::command_of;
use crate::packaged::{PackagedFunctions, PackagedProviders};
use caches::PackageCaches;
use deployments::Deployments;
use measured::MeasuredSource;
use provider_accounts::ProviderAccounts;
use verification::VerifiedImages;

pub use deployments::DeploymentRuntime;
pub use establish::ESTABLISHERS;
pub use source::{
    ImageProgram, ImageRequest, LoadedPackage, PackagePullPolicy, PackageSource, SourceAnswer, SourceError,
};

/// How packages are installed.
#[derive(Debug, Clone)]
pub struct PackageManager {
    /// Where packages come from.
    pub source: Arc<dyn PackageSource>,
    /// The namespace of pull secrets.
    pub namespace: String,
    /// What may be done about dependencies.
    pub dependencies: ResolveOptions,
    /// How many objects of a package are read or written at a time. At least one.
    pub establishers: usize,
    /// What the activation policy `default` activates, if it does not exist. It is not created if this is empty.
    pub activations: Vec<String>,
    /// Whether definitions of managed resources become managed resource definitions.
    pub converts_definitions: bool,
    /// Whether providers are protected from deletion while managed resources of their kinds exist.
    pub protects_providers: bool,
    /// The functions in packages that this process runs. None: it runs none.
    pub functions: Option<Arc<PackagedFunctions>>,
    /// The providers in packages that this process runs. None: it runs none.
    pub providers: Option<Arc<PackagedProviders>>,
    /// How programs run in pods. None: no program does.
    pub deployments: Option<DeploymentRuntime>,
}

/// Follow the `ImageConfig`s, and have the registry of functions know them. The caller stops the informer in the end.
///
/// If the API server does not let us read them, that is not waited for: meanwhile, signatures count as demanded of every package.
pub(crate) async fn follow_image_configs(
    context: &Context,
    registry: &Arc<FunctionRegistry>,
) -> Arc<Informer> {
    let resource = cluster_scoped(&format!("{}/v1beta1", keys::PKG), "ImageConfig", "imageconfigs");
    let image_configs = Informer::start(context.cluster.clone(), InformerScope::new(Arc::new(resource)));
    image_configs.synced_or_refused().await;
    if image_configs.synced_or_failed().await.is_ok() {
        registry.follow_image_configs(&image_configs);
    }
    image_configs
}

/// Install packages, until dropped.
pub(crate) async fn run(
    context: Arc<Context>,
    registry: Arc<FunctionRegistry>,
    image_configs: Arc<Informer>,
    options: PackageManager,
    writes_roles: bool,
) {
    let manager = Arc::new(Manager::start(context, registry, image_configs, options).await);
    let packages = package::Packages::new(manager.clone());
    let revisions = revision::Revisions::new(manager.clone());
    let resolver = resolver::Resolver::new(manager.clone());
    // Before anything is reconciled: what was decided by the programs of that moment is decided again when they change.
    let programs = manager.registry.program_changes();
    // Revisions before packages: a package that is checked before its revisions are known would get one that exists.
    manager.caches.listen(&packages.queue, &revisions.queue, &resolver.queue);
    revisions.listen();
    follow_rollouts(&manager, &packages.queue);
    manager.follow_image_configs(&packages.queue, &revisions.queue);
    let roles = async {
        if writes_roles && (manager.runs_in_pods(PackageKind::Provider) || manager.accounts.is_some()) {
            provider_roles::run(manager.clone()).await;
        }
    };
    let protection = async {
        if manager.options.protects_providers {
            provider_protection::run(manager.clone()).await;
        }
    };
    let managed_kinds = managed_kinds::run(manager.clone());
    tokio::join!(
        packages.run(),
        follow_programs(&manager, &packages.queue, programs),
        revisions.run(),
        revisions.follow_functions(),
        revisions.follow_providers(),
        resolver.run(),
        roles,
        protection,
        managed_kinds
    );
}

/// Reconcile a Function again when a rollout of it changes: it may no longer need a revision beyond the limit.
fn follow_rollouts(manager: &Manager, packages: &caches::PackageQueue) {
    let packages = packages.clone();
    manager.context.rollouts.listen(move |_, change| {
        let rollout: Option<Object> = serde_json::from_slice(&change.object().bytes).ok();
        let reference = rollout.as_ref().and_then(|it| it.get("spec")?.get("functionRef"));
        if let Some(function) = reference.and_then(|it| it.get("name")?.as_str()) {
            packages.add((PackageKind::Function, function.to_owned()));
        }
    });
}

/// Reconcile the Functions that name a command again when a program on this machine is started or ends: one without a program is installed.
async fn follow_programs(
    manager: &Manager,
    packages: &caches::PackageQueue,
    mut programs: watch::Receiver<u64>,
) {
    while programs.changed().await.is_ok() {
        let functions = manager.context.functions.objects();
        for function in functions.iter().filter(|function| command_of(function).is_some()) {
            packages.add((PackageKind::Function, meta::name(function).to_owned()));
        }
    }
}

/// What all controllers of packages share.
#[derive(Debug)]
struct Manager {
    context: Arc<Context>,
    registry: Arc<FunctionRegistry>,
    options: PackageManager,
    caches: PackageCaches,
    locks: Arc<Informer>,
    image_configs: Arc<Informer>,
    managed_definitions: Arc<Informer>,
    activation_policies: Arc<Informer>,
    verified: VerifiedImages,
    deployments: Option<Deployments>,
    /// The service accounts of providers that run on this machine.
    accounts: Option<ProviderAccounts>,
    /// Held while the `Lock` is read and written: revisions that join at the same time would conflict.
    lock_turn: Mutex<()>,
}

impl Manager {
    async fn start(
        context: Arc<Context>,
        registry: Arc<FunctionRegistry>,
        image_configs: Arc<Informer>,
        mut options: PackageManager,
    ) -> Self {
        options.source = Arc::new(MeasuredSource::new(options.source, context.metrics.clone()));
        let caches = PackageCaches::start(&context);
        let resource = cluster_scoped(&format!("{}/v1beta1", keys::PKG), "Lock", "locks");
        let locks = Informer::start(context.cluster.clone(), InformerScope::new(Arc::new(resource)));
        let follow = |kind: &str, plural: &str| {
            let resource = cluster_scoped(&format!("{}/v1alpha1", keys::APIEXTENSIONS), kind, plural);
            Informer::start(context.cluster.clone(), InformerScope::new(Arc::new(resource)))
        };
        let managed_definitions = follow("ManagedResourceDefinition", "managedresourcedefinitions");
        let activation_policies =
            follow("ManagedResourceActivationPolicy", "managedresourceactivationpolicies");
        let deployments = match &options.deployments {
            Some(runtime) => Some(Deployments::start(&context, &options.namespace, runtime.clone()).await),
            None => None,
        };
        let accounts = match &options.providers {
            Some(_) => Some(ProviderAccounts::start(&context, &options.namespace).await),
            None => None,
        };
        let (verified, lock_turn) = (VerifiedImages::default(), Mutex::default());
        let manager = Self {
            context,
            registry,
            options,
            caches,
            locks,
            image_configs,
            managed_definitions,
            activation_policies,
            verified,
            deployments,
            accounts,
            lock_turn,
        };
        manager.caches.synced().await;
        manager.locks.synced().await;
        manager.image_configs.synced().await;
        manager.managed_definitions.synced().await;
        manager.activation_policies.synced().await;
        manager.registry.follow_image_configs(&manager.image_configs);
        manager
    }

    /// Whether programs of this kind run in pods that we manage.
    fn runs_in_pods(&self, kind: PackageKind) -> bool {
        self.deployments.as_ref().is_some_and(|deployments| deployments.runs(kind))
    }

    /// Whether another controller runs programs of this kind on the cluster.
    fn leaves_running_to_others(&self, kind: PackageKind) -> bool {
        kind.has_runtime() && self.deployments.as_ref().is_some_and(|deployments| !deployments.runs(kind))
    }

    /// Reconcile all packages and revisions when an `ImageConfig` changes.
    fn follow_image_configs(&self, packages: &caches::PackageQueue, revisions: &caches::PackageQueue) {
        let names = self.caches.names();
        let (packages, revisions) = (packages.clone(), revisions.clone());
        self.image_configs.listen(move |_, _| {
            let (all_packages, all_revisions) = names();
            for key in all_packages {
                packages.add(key);
            }
            for key in all_revisions {
                revisions.add(key);
            }
        });
    }
}

impl Drop for Manager {
    fn drop(&mut self) {
        self.caches.stop();
        self.context.metrics.forget_packages();
        self.locks.stop();
        self.managed_definitions.stop();
        self.activation_policies.stop();
        if let Some(deployments) = &self.deployments {
            deployments.stop();
        }
        if let Some(accounts) = &self.accounts {
            accounts.stop();
        }
    }
}

fn cluster_scoped(api_version: &str, kind: &str, plural: &str) -> Resource {
    Resource {
        api_version: api_version.to_owned(),
        kind: kind.to_owned(),
        plural: plural.to_owned(),
        is_namespaced: false,
    }
}
