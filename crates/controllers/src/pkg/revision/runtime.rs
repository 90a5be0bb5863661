//! Runs the program of a revision, and reports whether it responds.

use ferroplane_api::{Cause, Condition, ImageConfig, Object, PackageKind, PackageSpec, Status, keys, meta};
use ferroplane_engine::packages::{
    ProviderActivation, RuntimeNames, awaiting_activation, awaits_activation, is_active_kind,
    revision_healthy, revision_unhealthy, runtime_starting,
};
use ferroplane_engine::versions::Replacement;
use ferroplane_engine::wording::capitalised;
use ferroplane_engine::{built_in_message, chain};
use serde_json::Value;

use super::report::{Report, Trouble};
use super::{ACTIVE, Look, RevisionSpec, Revisions};
use crate::packaged::{PackagedFunction, PackagedImage, PackagedProvider, ProviderState};
use crate::pkg::ImageRequest;
use crate::pkg::deployments::{Deployments, Program};
use crate::pkg::status;
use crate::runtime::queue::Next;

/// The message about a program until it runs.
const STARTING: &str = "The program is being started";
/// The message about a program whose image does not satisfy the policy.
const UNVERIFIED: &str = "it does not run, because its image is not verified";
/// The message about the program of a provider where nothing runs it.
const PROVIDER_IS_NOT_RUN: &str = "This control plane does not run the programs of providers: its kinds are installed; run the provider yourself";

/// The state of the program of a revision.
#[derive(Debug)]
pub(super) struct RuntimeStanding {
    pub(super) conditions: Vec<Condition>,
    /// The failure, for an event.
    pub(super) failure: Option<(String, Cause)>,
    pub(super) next: Next,
}

impl Default for RuntimeStanding {
    fn default() -> Self {
        Self { conditions: Vec::new(), failure: None, next: Next::Rest }
    }
}

impl From<Condition> for RuntimeStanding {
    fn from(condition: Condition) -> Self {
        Self { conditions: vec![condition], ..Self::default() }
    }
}

impl Revisions {
    /// Run the revision, if it has a program, and return whether it responds.
    pub(super) async fn runtime(&self, look: &Look, report: &mut Report) -> RuntimeStanding {
        let kind = look.kind();
        let native = match kind {
            PackageKind::Configuration => return RuntimeStanding::default(),
            PackageKind::Provider => None,
            PackageKind::Function => {
                self.manager.registry.native_runtime(&look.package, &look.spec.image).ok()
            }
        };
        if let Some(replacement) = native {
            self.release(&look.key);
            return running(&built_in_message(&replacement, &self.twins(look, &replacement))).into();
        }
        if self.manager.leaves_running_to_others(kind) {
            // Their conditions report their state, too.
            return RuntimeStanding::default();
        }
        match &self.manager.deployments {
            Some(deployments) if kind == PackageKind::Function && report.program.is_webassembly => {
                let condition = self.packaged_runtime(look, report.runs.take());
                self.run_without_pods(look, report, deployments, condition).await
            }
            Some(deployments) => match why_no_pods(kind, report, deployments) {
                Some(why) => {
                    let condition = not_running(&why, Cause::FunctionNotRunnable);
                    self.run_without_pods(look, report, deployments, condition).await
                }
                None => self.run_in_pods(look, report, deployments).await,
            },
            None if kind == PackageKind::Provider => self.provider_runtime(look, report).await,
            None => self.function_runtime(look, report.runs.take()).into(),
        }
    }

    /// The state of a revision of a Function that is not built in: a server at its endpoint, or a program of this process.
    fn function_runtime(&self, look: &Look, image: Option<ImageRequest>) -> Condition {
        let status = look.revision.get("status");
        let endpoint = status.and_then(|status| status.get("endpoint")?.as_str()).unwrap_or_default();
        if !endpoint.is_empty() {
            return running(&format!("The function is called at {endpoint}"));
        }
        self.packaged_runtime(look, image)
    }

    /// Run a revision of a Function in this process's runtime.
    fn packaged_runtime(&self, look: &Look, image: Option<ImageRequest>) -> Condition {
        let Some((functions, image)) = self.manager.options.functions.as_ref().zip(image) else {
            let why = self.manager.registry.native_runtime(&look.package, &look.spec.image).err();
            let remedy = why.map(|why| why.remedy()).unwrap_or_default();
            let words = format!("This control plane does not run packages, and {remedy}");
            return not_running(&words, Cause::FunctionNotRunnable);
        };
        let annotation = |key| meta::annotation(&look.package, key).to_owned();
        let [grants, idle_timeout, network] =
            [keys::WASM_GRANTS, keys::IDLE_TIMEOUT, keys::NETWORK].map(annotation);
        functions.want(&look.key.1, PackagedImage { image, grants, idle_timeout, network });
        match functions.state(&look.key.1) {
            Some(PackagedFunction::Serving(runner)) => running(&runner.describe()),
            Some(PackagedFunction::Down(why)) => not_running(&why, Cause::FunctionExited),
            _ => runtime_starting(STARTING),
        }
    }

    /// Run a revision of a Provider on this machine. It gets its service account before it is started.
    async fn provider_runtime(&self, look: &Look, report: &mut Report) -> RuntimeStanding {
        let wanted = self.manager.options.providers.as_ref().zip(self.manager.accounts.as_ref());
        let Some(((providers, accounts), image)) = wanted.zip(report.runs.take()) else {
            return not_running(PROVIDER_IS_NOT_RUN, Cause::PackageNotRun).into();
        };
        if self.awaits_activation(look, report) {
            providers.release(&look.key.1);
            let conditions = vec![revision_healthy("RuntimeHealthy"), awaiting_activation()];
            return RuntimeStanding { conditions, ..RuntimeStanding::default() };
        }
        let account = match accounts.keep(&look.revision).await {
            Ok(account) => account,
            Err(problem) if problem.is_conflict() => {
                return RuntimeStanding { next: Next::Conflict, ..RuntimeStanding::default() };
            }
            Err(problem) => {
                providers.release(&look.key.1);
                let (message, cause) = (chain(&problem), problem.cause());
                let conditions = vec![not_running(&message, cause)];
                return RuntimeStanding { conditions, failure: Some((message, cause)), next: Next::Retry };
            }
        };
        let provider = PackagedProvider {
            image,
            package: meta::name(&look.package).to_owned(),
            uid: meta::uid(&look.revision).to_owned(),
            namespace: accounts.namespace.clone(),
            account,
            network: meta::annotation(&look.package, keys::NETWORK).to_owned(),
        };
        providers.want(&look.key.1, provider);
        match providers.state(&look.key.1) {
            Some(ProviderState::Running(how)) => {
                let conditions = vec![running(&how), active_runtime()];
                RuntimeStanding { conditions, ..RuntimeStanding::default() }
            }
            Some(ProviderState::Down(why)) => not_running(&why, Cause::PackageNotRun).into(),
            Some(ProviderState::Starting) | None => runtime_starting(STARTING).into(),
        }
    }

    /// The other active revisions that run the same built-in code.
    fn twins(&self, look: &Look, replacement: &Replacement) -> Vec<String> {
        let is_twin = |sibling: &&Object| {
            let spec = RevisionSpec::of(sibling);
            let code = self.manager.registry.native_runtime(&look.package, &spec.image);
            spec.desired_state == ACTIVE && code.is_ok_and(|code| code == *replacement)
        };
        look.siblings.iter().filter(is_twin).map(|sibling| meta::name(sibling).to_owned()).collect()
    }

    /// Report this condition of a revision that pods cannot run, and delete its Deployment.
    async fn run_without_pods(
        &self,
        look: &Look,
        report: &mut Report,
        deployments: &Deployments,
        condition: Condition,
    ) -> RuntimeStanding {
        // Another release ran it in pods, or tried to.
        report.pods.push(("endpoint", Value::Null));
        match deployments.end(&look.revision).await {
            Ok(()) => condition.into(),
            Err(problem) if problem.is_conflict() => {
                RuntimeStanding { next: Next::Conflict, ..condition.into() }
            }
            Err(problem) => RuntimeStanding {
                failure: Some((chain(&problem), problem.cause())),
                next: Next::Retry,
                ..condition.into()
            },
        }
    }

    /// Run the revision in pods.
    async fn run_in_pods(
        &self,
        look: &Look,
        report: &mut Report,
        deployments: &Deployments,
    ) -> RuntimeStanding {
        let image = report.resolved_image().unwrap_or_default().to_owned();
        let pinned = report.runs.take().map_or_else(|| image.clone(), |request| request.image);
        let image_configs = self.image_configs();
        let siblings = look.sibling_uids();
        let awaits_activation = look.kind() == PackageKind::Provider && self.awaits_activation(look, report);
        let program = look.program(&siblings, &image, &image_configs);
        // Revisions that Crossplane made do not say which digest they were made of.
        let is_of_crossplane = meta::annotation(&look.revision, keys::PACKAGE_DIGEST).is_empty();
        let may_keep_tag = is_of_crossplane && !report.is_verified;
        let names = self.runtime_names(look);
        let (protocol, of_image) = (report.protocol.take(), std::mem::take(&mut report.program));
        let protocol = protocol.as_deref().filter(|_| look.kind() == PackageKind::Function);
        let adapted = deployments.adapted(protocol, &of_image);
        let program = Program { pinned: &pinned, may_keep_tag, awaits_activation, adapted, names, ..program };
        let spec = look.revision.get("spec");
        for field in ["tlsServerSecretName", "tlsClientSecretName"] {
            let name = spec.and_then(|spec| spec.get(field)).cloned();
            report.pods.push((field, name.unwrap_or(Value::Null)));
        }
        let running = match deployments.run(&program).await {
            Ok(running) => running,
            Err(problem) if problem.is_conflict() => {
                return RuntimeStanding { next: Next::Conflict, ..RuntimeStanding::default() };
            }
            Err(problem) => {
                let (message, cause) = (chain(&problem), problem.cause());
                let conditions = vec![not_running(&message, cause)];
                return RuntimeStanding { conditions, failure: Some((message, cause)), next: Next::Retry };
            }
        };
        if let Some(config) = running.configured_by {
            report.configured_by(config);
        }
        if let Some(endpoint) = running.endpoint {
            report.pods.push(("endpoint", endpoint.into()));
        }
        if awaits_activation {
            let conditions = vec![revision_healthy("RuntimeHealthy"), awaiting_activation()];
            return RuntimeStanding { conditions, ..RuntimeStanding::default() };
        }
        if let Some(trouble) = running.trouble {
            // The Deployment changes before this does.
            return trouble.into();
        }
        let conditions = vec![revision_healthy("RuntimeHealthy"), active_runtime()];
        RuntimeStanding { conditions, ..RuntimeStanding::default() }
    }

    /// The state of the program of a revision that was stopped because its image is not verified. Pods that run already stay as they are.
    pub(super) fn stopped_runtime(&self, look: &Look) -> RuntimeStanding {
        let kind = look.kind();
        let pods = self.manager.deployments.as_ref().map(|it| it.deployments_of(meta::uid(&look.revision)));
        if !kind.has_runtime()
            || self.manager.leaves_running_to_others(kind)
            || pods.is_some_and(|pods| !pods.is_empty())
        {
            return RuntimeStanding::default();
        }
        not_running(UNVERIFIED, Cause::PackageUnverified).into()
    }

    /// How the Service of a revision is named.
    fn runtime_names(&self, look: &Look) -> RuntimeNames {
        let registry = &self.manager.registry;
        if look.kind() != PackageKind::Function || !registry.has_revision_selectors() {
            return RuntimeNames::Package;
        }
        let spec = PackageSpec::of(&look.package);
        // Users can activate as many as they like by hand, and a rollout keeps those that it uses active, whatever the limit is now.
        let is_alone = spec.is_automatic()
            && spec.active_limit() == 1
            && registry.held_revisions(meta::name(&look.package)).len() < 2;
        if is_alone { RuntimeNames::Revision } else { RuntimeNames::EachRevision }
    }

    /// Whether a provider has nothing to do until one of its kinds is activated.
    fn awaits_activation(&self, look: &Look, report: &Report) -> bool {
        let (capabilities, references) = report.activation(&look.revision);
        let has_run = status::holds(&look.revision, "RuntimeActive");
        let provider = ProviderActivation { capabilities: &capabilities, references: &references, has_run };
        awaits_activation(provider, |name| {
            let definition = self.manager.managed_definitions.object("", name);
            definition.is_some_and(|definition| is_active_kind(&definition))
        })
    }

    /// Stop the pods of an inactive revision.
    pub(super) async fn end_pods(&self, look: &Look) -> Result<(), Trouble> {
        let deployments = self.manager.deployments.as_ref().filter(|it| it.runs(look.kind()));
        let Some(deployments) = deployments else { return Ok(()) };
        deployments.end(&look.revision).await.map_err(|problem| Trouble::running(&problem))
    }

    pub(super) fn image_configs(&self) -> Vec<ImageConfig> {
        self.manager.image_configs.objects().iter().map(ImageConfig::of).collect()
    }
}

/// Why pods cannot run the program, if they cannot.
fn why_no_pods(kind: PackageKind, report: &Report, deployments: &Deployments) -> Option<String> {
    let protocol = report.protocol.as_deref().filter(|_| kind == PackageKind::Function)?;
    deployments.why_not_adapted(protocol, &report.program)
}

/// The condition of a revision whose program was started once.
fn active_runtime() -> Condition {
    Condition::new("RuntimeActive", Status::True, "ActiveRuntime")
}

/// The condition of a revision whose program answers.
fn running(message: &str) -> Condition {
    revision_healthy("RuntimeHealthy").with_message(capitalised(message))
}

fn not_running(why: &str, cause: Cause) -> Condition {
    revision_unhealthy("RuntimeHealthy", why, cause)
}
