//! Runs programs of packages in pods: a Deployment, a Service, a `ServiceAccount` and certificates for each active revision.
//!
//! # Invariants
//! * Objects that are up to date are not applied again.
//! * Nothing is read or written outside of the plane's own namespace. Secrets are read by name, and are never listed.
//! * A Service points to pods that respond, if any do: the new revision takes it over once its own pods are available.
//! * Objects with another controller are left alone.
//! * Pods are restarted, one after the other, when their certificate was replaced.
//! * Pods run the image by the digest that was resolved and verified. Those that Crossplane started keep the tag while no `ImageConfig` demands
//!   signatures: a change would restart all of them when we take over.

use std::sync::Arc;

use ferroplane_api::{
    Cause, Condition, ImageConfig, Object, PackageKind, RuntimeConfigReference, keys, meta,
};
use ferroplane_certificates::{Authority, Purpose};
use ferroplane_client::{
    Change, Error, Informer, InformerScope, ObjectPath, Propagation, Resource, Subresource,
};
use ferroplane_engine::packages::{
    AdaptedProgram, AlreadyControlled, ImagePurpose, Party, RUNTIME_MANAGER, RuntimeInputs, RuntimeNames,
    RuntimeObjects, deployment_trouble, function_endpoint, is_available, keep_pull_secrets, keep_tag,
    runtime_objects, select_image_config, server_names, take_over, with_certificate,
};
use ferroplane_ownership::holds;
use ferroplane_runner::function_protocol;
use serde_json::Value;
use tokio::sync::OnceCell;

use super::caches::{PackageKey, PackageQueue};
use super::certificates::CertificateProblem;
use super::{ImageProgram, cluster_scoped};
use crate::context::Context;
use crate::runtime::refused::cause_of;
use crate::setup::credentials::{CredentialsError, authority};

/// The message about a program that is not a server, where nothing serves it in pods.
const POD_NEEDS_A_SERVER: &str = "pods cannot run its program, which is not a server but is run for every call: package a function server, compile the program to WebAssembly, or start the control plane with --function-adapter-image";
/// The message about such a program that is not there.
const NO_PROGRAM: &str = "pods cannot run its program: its image has neither an `Entrypoint` nor a `Cmd`";
/// The configuration of a package that names none. It need not exist.
const DEFAULT_CONFIG: &str = "default";

/// How programs of packages run in pods.
#[derive(Debug, Clone)]
pub struct DeploymentRuntime {
    /// The kinds whose programs run in pods of ours. Other controllers run the others.
    pub kinds: Vec<PackageKind>,
    /// The plane's own service account. Its pull secrets are used for all images, by pods, too.
    pub service_account: String,
    /// The Secret with the authority that signs certificates.
    pub authority_secret: String,
    /// Whether a `DeploymentRuntimeConfig` is used.
    pub uses_configs: bool,
    /// The image of this control plane. Pods of Functions whose programs are not servers take the adapter from it; without it, there are none.
    pub adapter_image: Option<String>,
}

/// What runs in pods.
#[derive(Debug)]
pub(super) struct Deployments {
    pub(super) runtime: DeploymentRuntime,
    pub(super) namespace: String,
    pub(super) context: Arc<Context>,
    pub(super) informer: Arc<Informer>,
    services: Arc<Informer>,
    accounts: Arc<Informer>,
    configs: Arc<Informer>,
    authority: OnceCell<Authority>,
}

/// A revision to run.
#[derive(Debug, Clone, Copy)]
pub(super) struct Program<'a> {
    pub(super) kind: PackageKind,
    pub(super) party: Party<'a>,
    /// The other revisions of the package.
    pub(super) siblings: &'a [Object],
    /// The image, after it was rewritten.
    pub(super) image: &'a str,
    /// The same image by the digest that was resolved and verified. Pods run this.
    pub(super) pinned: &'a str,
    /// Whether pods that run the image by its tag may go on so.
    pub(super) may_keep_tag: bool,
    pub(super) image_configs: &'a [ImageConfig],
    /// Whether it has nothing to do yet, and needs no pods.
    pub(super) awaits_activation: bool,
    /// The program, if it is not a server but is run for every call.
    pub(super) adapted: Option<AdaptedProgram<'a>>,
    pub(super) names: RuntimeNames,
}

impl Program<'_> {
    /// Whether a newer active revision controls an object. Then only that one manages it: two would take it from each other for ever.
    pub(super) fn is_of_newer(&self, live: &Object) -> bool {
        let controller = meta::controller_uid(live).unwrap_or_default();
        self.siblings.iter().any(|sibling| meta::uid(sibling) == controller && self.is_outrun_by(sibling))
    }

    fn is_outrun_by(&self, sibling: &Object) -> bool {
        is_active(sibling) && number(sibling) > number(self.party.revision)
    }
}

/// The state of a running revision.
#[derive(Debug)]
pub(super) struct Running {
    /// The address of a function.
    pub(super) endpoint: Option<String>,
    /// The `ImageConfig` that names the configuration.
    pub(super) configured_by: Option<String>,
    /// The condition that says why it does not respond, if it does not.
    pub(super) trouble: Option<Condition>,
}

/// Why a revision cannot be run.
#[derive(Debug, thiserror::Error)]
pub(super) enum RunProblem {
    #[error("there is no DeploymentRuntimeConfig `{0}`")]
    NoConfig(String),
    #[error(
        "cannot use {kind} of {api_version} as a runtime configuration: only DeploymentRuntimeConfig is known"
    )]
    UnknownConfig { kind: String, api_version: String },
    #[error("cannot run the package: {0}")]
    Controlled(#[from] AlreadyControlled),
    #[error("Deployment `{name}` runs another active revision of the package")]
    Shared { name: String },
    /// It was deleted, which is watched.
    #[error("Deployment `{name}` runs an older revision of the package, and is being deleted")]
    Deleted { name: String },
    #[error("cannot write {kind} `{name}`")]
    Write { kind: String, name: String, source: Box<Error> },
    #[error("cannot load the certificate authority")]
    Authority(#[from] CredentialsError),
    #[error(transparent)]
    Certificate(#[from] CertificateProblem),
}

impl RunProblem {
    /// Whether it is a write conflict.
    pub(super) fn is_conflict(&self) -> bool {
        match self {
            Self::Write { source, .. } => source.is_conflict(),
            Self::Certificate(problem) => problem.is_conflict(),
            Self::Deleted { .. } => true,
            _ => false,
        }
    }
}

impl RunProblem {
    pub(super) fn cause(&self) -> Cause {
        match self {
            Self::NoConfig(_)
            | Self::UnknownConfig { .. }
            | Self::Shared { .. }
            | Self::Deleted { .. }
            | Self::Authority(_) => Cause::PackageNotRun,
            Self::Controlled(_) => Cause::ObjectControlled,
            Self::Write { source, .. } => cause_of(source),
            Self::Certificate(problem) => problem.cause(),
        }
    }
}

impl Deployments {
    pub(super) async fn start(context: &Arc<Context>, namespace: &str, runtime: DeploymentRuntime) -> Self {
        let follow = |api_version: &str, kind: &str, plural: &str| {
            let resource = Resource { is_namespaced: true, ..cluster_scoped(api_version, kind, plural) };
            let scope = InformerScope {
                namespace: Some(namespace.to_owned()),
                ..InformerScope::new(resource.into())
            };
            Informer::start(context.cluster.clone(), scope)
        };
        let configs = cluster_scoped(
            &format!("{}/v1beta1", keys::PKG),
            "DeploymentRuntimeConfig",
            "deploymentruntimeconfigs",
        );
        let this = Self {
            informer: follow("apps/v1", "Deployment", "deployments"),
            services: follow("v1", "Service", "services"),
            accounts: follow("v1", "ServiceAccount", "serviceaccounts"),
            configs: Informer::start(context.cluster.clone(), InformerScope::new(configs.into())),
            authority: OnceCell::new(),
            context: context.clone(),
            namespace: namespace.to_owned(),
            runtime,
        };
        for informer in this.informers() {
            informer.synced().await;
        }
        this
    }

    pub(super) fn stop(&self) {
        for informer in self.informers() {
            informer.stop();
        }
    }

    fn informers(&self) -> [&Arc<Informer>; 4] {
        [&self.informer, &self.services, &self.accounts, &self.configs]
    }

    pub(super) fn runs(&self, kind: PackageKind) -> bool {
        self.runtime.kinds.contains(&kind)
    }

    /// Why pods cannot run the program of a Function that is not a server, but reads and writes this protocol, if they cannot.
    pub(super) fn why_not_adapted(&self, protocol: &str, program: &ImageProgram) -> Option<String> {
        if self.runtime.adapter_image.is_none() {
            return Some(POD_NEEDS_A_SERVER.to_owned());
        }
        if program.entrypoint.is_empty() && program.cmd.is_empty() {
            return Some(NO_PROGRAM.to_owned());
        }
        function_protocol(protocol).err().map(|error| error.to_string())
    }

    /// The program as pods run it, if it is not a server but reads and writes this protocol.
    pub(super) fn adapted<'a>(
        &'a self,
        protocol: Option<&'a str>,
        program: &'a ImageProgram,
    ) -> Option<AdaptedProgram<'a>> {
        let (image, protocol) = self.runtime.adapter_image.as_deref().zip(protocol)?;
        Some(AdaptedProgram { image, protocol, entrypoint: &program.entrypoint, cmd: &program.cmd })
    }

    /// Requeue revisions when one of their objects changes, and all of them when a configuration does.
    pub(super) fn listen(
        &self,
        revisions: &PackageQueue,
        all: impl Fn() -> Vec<PackageKey> + Send + Sync + 'static,
    ) {
        for informer in [&self.informer, &self.services, &self.accounts] {
            let queue = revisions.clone();
            informer.listen(move |_, change: Change<'_>| {
                for owner in change.header().metadata.owner_references.iter().flatten() {
                    if let Some(kind) = PackageKind::of_revision(&owner.kind) {
                        queue.add((kind, owner.name.to_string()));
                    }
                }
            });
        }
        let queue = revisions.clone();
        self.configs.listen(move |_, _| {
            for key in all().into_iter().filter(|(kind, _)| kind.has_runtime()) {
                queue.add(key);
            }
        });
    }

    /// Run a revision. Each line must hold before the next may happen.
    pub(super) async fn run(&self, program: &Program<'_>) -> Result<Running, RunProblem> {
        let (config, configured_by) = self.config(program)?;
        let objects = self.objects(program, config.as_ref());
        let replaced_at = self.certify(program, &objects.service).await?;
        if let Some(account) = objects.service_account {
            let live = self.accounts.object(&self.namespace, meta::name(&account));
            if !live.as_ref().is_some_and(|live| program.is_of_newer(live)) {
                let account = keep_pull_secrets(account, live.as_ref());
                self.apply(&self.accounts, account, program.party).await?;
            }
        }
        self.clear_the_way(program, &objects.deployment).await?;
        let wanted = with_certificate(objects.deployment, &replaced_at);
        let wanted = self.with_image(program, wanted);
        let deployment = self.apply(&self.informer, wanted, program.party).await?;
        if self.may_point(program, &objects.service, is_available(&deployment)) {
            self.apply(&self.services, objects.service.clone(), program.party).await?;
        }
        Ok(Running {
            endpoint: (program.kind == PackageKind::Function).then(|| function_endpoint(&objects.service)),
            configured_by,
            trouble: deployment_trouble(program.kind, &deployment),
        })
    }

    /// Stop a revision. Objects that its siblings use, too, stay: the Service, certificates and the service account.
    pub(super) async fn end(&self, revision: &Object) -> Result<(), RunProblem> {
        for deployment in self.deployments_of(meta::uid(revision)) {
            self.delete(&deployment).await?;
        }
        Ok(())
    }

    /// The Deployments that a revision controls.
    pub(super) fn deployments_of(&self, uid: &str) -> Vec<Object> {
        let mut all = self.informer.objects();
        all.retain(|deployment| meta::controller_uid(deployment) == Some(uid));
        all
    }

    /// Whether pods run a revision of the package, which have read the certificates of the package.
    pub(super) fn has_pods(&self, program: &Program<'_>) -> bool {
        let uids = program.siblings.iter().chain([program.party.revision]).map(meta::uid);
        uids.into_iter().any(|uid| !self.deployments_of(uid).is_empty())
    }

    /// The authority that signs certificates. It is read once: after it was replaced, everything that trusts it has to be restarted.
    pub(super) async fn authority(&self) -> Result<&Authority, RunProblem> {
        let read = || {
            let (cluster, now) = (&self.context.cluster, self.context.clock.timestamp());
            authority(cluster, &self.namespace, &self.runtime.authority_secret, now)
        };
        Ok(self.authority.get_or_try_init(read).await?)
    }

    /// The objects that run a revision, as they should be.
    fn objects(&self, program: &Program<'_>, config: Option<&Object>) -> RuntimeObjects {
        let of_image = select_image_config(program.image_configs, program.image, ImagePurpose::PullSecret);
        runtime_objects(&RuntimeInputs {
            kind: program.kind,
            revision: program.party.revision,
            namespace: &self.namespace,
            image: program.pinned,
            config,
            image_pull_secret: of_image.and_then(ImageConfig::pull_secret),
            own_pull_secrets: &self.own_pull_secrets(),
            awaits_activation: program.awaits_activation,
            adapted: program.adapted,
            names: program.names,
        })
    }

    /// The names of the pull secrets of the plane's own service account.
    pub(super) fn own_pull_secrets(&self) -> Vec<String> {
        let own = self.accounts.object(&self.namespace, &self.runtime.service_account);
        let secrets = own.as_ref().and_then(|own| own.get("imagePullSecrets")?.as_array());
        let name = |secret: &Value| secret.get("name")?.as_str().map(str::to_owned);
        secrets.into_iter().flatten().filter_map(name).collect()
    }

    /// The Deployment with the image that its pods run: by its digest, unless Crossplane started them and no policy demands signatures.
    fn with_image(&self, program: &Program<'_>, wanted: Object) -> Object {
        if !program.may_keep_tag {
            return wanted;
        }
        let live = self.informer.object(&self.namespace, meta::name(&wanted));
        keep_tag(wanted, live.as_ref(), program.image, program.pinned)
    }

    /// The Service of a revision.
    pub(super) fn service_of(&self, program: &Program<'_>) -> Result<Object, RunProblem> {
        let (config, _) = self.config(program)?;
        Ok(self.objects(program, config.as_ref()).service)
    }

    /// The configuration of a revision, and the `ImageConfig` that names it, if one does.
    fn config(&self, program: &Program<'_>) -> Result<(Option<Object>, Option<String>), RunProblem> {
        if !self.runtime.uses_configs {
            return Ok((None, None));
        }
        let of_image = select_image_config(program.image_configs, program.image, ImagePurpose::Runtime);
        let by_image =
            of_image.and_then(|config| Some((config, config.runtime.as_ref()?.config_ref.clone()?)));
        let own = || {
            let spec = program.party.revision.get("spec");
            let reference = spec.and_then(|spec| spec.get("runtimeConfigRef")).cloned().unwrap_or_default();
            serde_json::from_value::<RuntimeConfigReference>(reference).unwrap_or_default()
        };
        let (reference, by) = match by_image {
            Some((config, reference)) => (reference, Some(config.name.clone())),
            None => (own(), None),
        };
        let RuntimeConfigReference { kind, api_version, name } = reference;
        if kind != self.configs.resource().kind || meta::group(&api_version) != keys::PKG {
            return Err(RunProblem::UnknownConfig { kind, api_version });
        }
        match self.configs.object("", &name) {
            None if name != DEFAULT_CONFIG => Err(RunProblem::NoConfig(name)),
            config => Ok((config, by)),
        }
    }

    /// Keep the certificates of a program. Returns when the last one was replaced, if one was. All times have one form, in which a later one
    /// is a greater text.
    async fn certify(&self, program: &Program<'_>, service: &Object) -> Result<String, RunProblem> {
        let mut replaced_at = String::new();
        let revision = program.party.revision;
        let secret = |field: &str| {
            let name = revision.get("spec").and_then(|spec| spec.get(field)?.as_str()).unwrap_or_default();
            Some(name).filter(|name| !name.is_empty())
        };
        if let Some(secret) = secret("tlsServerSecretName") {
            let names = server_names(service);
            let replaced = self.keep_certificate(program, secret, &names, Purpose::Server).await?;
            replaced_at = replaced_at.max(replaced);
        }
        if let Some(secret) = secret("tlsClientSecretName") {
            let names = [meta::name(revision).to_owned()];
            let replaced = self.keep_certificate(program, secret, &names, Purpose::Client).await?;
            replaced_at = replaced_at.max(replaced);
        }
        Ok(replaced_at)
    }

    /// Delete a Deployment of this name that runs an older revision: its pod selector is immutable.
    async fn clear_the_way(&self, program: &Program<'_>, wanted: &Object) -> Result<(), RunProblem> {
        let Some(live) = self.informer.object(&self.namespace, meta::name(wanted)) else { return Ok(()) };
        let controller = meta::controller_uid(&live).unwrap_or_default();
        let Some(sibling) = program.siblings.iter().find(|sibling| meta::uid(sibling) == controller) else {
            return Ok(());
        };
        if program.is_outrun_by(sibling) {
            return Err(RunProblem::Shared { name: meta::name(wanted).to_owned() });
        }
        self.delete(&live).await?;
        Err(RunProblem::Deleted { name: meta::name(wanted).to_owned() })
    }

    /// Whether the Service may point to this revision now.
    fn may_point(&self, program: &Program<'_>, service: &Object, answers: bool) -> bool {
        let live = self.services.object(&self.namespace, meta::name(service));
        let controller = live.as_ref().and_then(meta::controller_uid).unwrap_or_default();
        let Some(sibling) = program.siblings.iter().find(|sibling| meta::uid(sibling) == controller) else {
            return true;
        };
        !program.is_outrun_by(sibling)
            && (answers || !self.deployments_of(controller).iter().any(is_available))
    }

    /// Apply an object unless it is up to date. Returns the result.
    async fn apply(
        &self,
        informer: &Informer,
        wanted: Object,
        party: Party<'_>,
    ) -> Result<Object, RunProblem> {
        let name = meta::name(&wanted).to_owned();
        let live = informer.object(&self.namespace, &name);
        let mut wanted = take_over(wanted, live.as_ref(), party)?;
        if let Some(live) = live {
            if holds(&wanted, &live, RUNTIME_MANAGER, "") {
                return Ok(live);
            }
            // The owners were decided from this very version.
            meta::set_field(&mut wanted, "resourceVersion", meta::resource_version(&live));
        }
        let path = ObjectPath { resource: informer.resource(), namespace: &self.namespace, name: &name };
        let applied = self.context.cluster.apply(path, Subresource::None, RUNTIME_MANAGER, &wanted).await;
        let write = |source| RunProblem::Write {
            kind: meta::kind(&wanted).to_owned(),
            name: name.clone(),
            source: Box::new(source),
        };
        let bytes = applied.map_err(write)?;
        informer.insert_written(&bytes);
        Ok(serde_json::from_slice(&bytes).unwrap_or(wanted))
    }

    async fn delete(&self, deployment: &Object) -> Result<(), RunProblem> {
        let (kind, name) = (meta::kind(deployment).to_owned(), meta::name(deployment).to_owned());
        let path = ObjectPath { resource: self.informer.resource(), namespace: &self.namespace, name: &name };
        let uid = Some(meta::uid(deployment));
        let deleted = self.context.cluster.delete(path, uid, Propagation::Background).await;
        match deleted {
            // Not another object of that name.
            Err(error) if error.is_conflict() => Ok(()),
            other => other.map_err(|source| RunProblem::Write { kind, name, source: Box::new(source) }),
        }
    }
}

fn is_active(revision: &Object) -> bool {
    revision.get("spec").and_then(|spec| spec.get("desiredState")?.as_str()) == Some("Active")
}

fn number(revision: &Object) -> i64 {
    revision.get("spec").and_then(|spec| spec.get("revision")?.as_i64()).unwrap_or_default()
}
