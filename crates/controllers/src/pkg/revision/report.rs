//! Reports the health of a revision in its status, conditions and events.

use ferroplane_api::{Cause, Condition, Object, PackageKind, Status};
use ferroplane_client::Error;
use ferroplane_engine::chain;
use ferroplane_engine::composite::{PAUSED_EVENT, RECONCILIATION_PAUSED};
use ferroplane_engine::packages::{
    AppliedImageConfig, DependencyStanding, ImagePurpose, RUNTIME_CONDITIONS, in_service, revision_healthy,
    revision_unhealthy,
};
use ferroplane_package::{InvalidPackage, PackageManifest};
use serde_json::{Value, json};

use super::runtime::RuntimeStanding;
use super::{Look, Revisions};
use crate::pkg::deployments::RunProblem;
use crate::pkg::establish::EstablishError;
use crate::pkg::images::{ImageProblem, PreparedImage, applied_refs};
use crate::pkg::status::{self, Fields, with_status, with_status_instead_of, write_status};
use crate::pkg::verification::VERIFICATION;
use crate::pkg::{ImageProgram, ImageRequest, SourceError};
use crate::runtime::queue::Next;
use crate::runtime::refused::cause_of;

/// The results of a reconcile. Unknown fields are not written.
#[derive(Debug, Default)]
pub(super) struct Report {
    image: Option<(String, Value)>,
    capabilities: Option<Vec<String>>,
    /// What is noted of its signatures. Null if none are demanded.
    verification: Option<Value>,
    pub(super) dependencies: Option<DependencyStanding>,
    pub(super) references: Option<Vec<Value>>,
    /// The image with the program of the package.
    pub(super) runs: Option<ImageRequest>,
    /// Whether an `ImageConfig` demands signatures of it.
    pub(super) is_verified: bool,
    /// That program.
    pub(super) program: ImageProgram,
    /// What that program reads and writes, if it is not a server but is run for every call.
    pub(super) protocol: Option<String>,
    /// Fields about the pods that run it.
    pub(super) pods: Fields,
}

impl Report {
    pub(super) fn image(&mut self, image: &PreparedImage) {
        self.image = Some((image.request.image.clone(), image.applied_refs()));
    }

    /// The image, after it was rewritten.
    pub(super) fn resolved_image(&self) -> Option<&str> {
        self.image.as_ref().map(|(image, _)| &**image)
    }

    /// Record that an `ImageConfig` configures the program.
    pub(super) fn configured_by(&mut self, config: String) {
        let by = AppliedImageConfig { name: config, purpose: ImagePurpose::Runtime };
        if let Some((_, Value::Array(applied))) = &mut self.image {
            applied.extend(applied_refs(&[by]).as_array_mut().map(std::mem::take).unwrap_or_default());
        }
    }

    /// Record that the image with this digest has the signatures that are demanded of it.
    pub(super) fn verified(&mut self, image: &PreparedImage, digest: &str) {
        let note = image.demands.as_ref().map(|demands| demands.note(digest));
        self.verification = Some(note.into());
    }

    pub(super) fn manifest(&mut self, manifest: &PackageManifest) {
        self.capabilities = Some(manifest.capabilities.clone());
    }

    /// The capabilities and objects of a revision: those of this reconcile, or else those in its status.
    pub(super) fn activation(&self, revision: &Object) -> (Vec<String>, Vec<Value>) {
        let noted = |field: &str| {
            let list = revision.get("status").and_then(|status| status.get(field)?.as_array());
            list.cloned().unwrap_or_default()
        };
        let texts = |list: Vec<Value>| list.iter().filter_map(|it| it.as_str().map(str::to_owned)).collect();
        let capabilities = self.capabilities.clone().unwrap_or_else(|| texts(noted("capabilities")));
        (capabilities, self.references.clone().unwrap_or_else(|| noted("objectRefs")))
    }

    fn fields(self) -> Fields {
        let list = |list: Value| if list == json!([]) { Value::Null } else { list };
        let mut fields = Fields::new();
        if let Some((image, applied)) = self.image {
            fields.push(("resolvedImage", image.into()));
            fields.push(("appliedImageConfigRefs", list(applied)));
        }
        if let Some(capabilities) = self.capabilities {
            fields.push(("capabilities", list(json!(capabilities))));
        }
        if let Some(verification) = self.verification {
            fields.push((VERIFICATION, verification));
        }
        if let Some(DependencyStanding { found, installed, invalid, .. }) = self.dependencies {
            fields.push(("foundDependencies", found.into()));
            fields.push(("installedDependencies", installed.into()));
            fields.push(("invalidDependencies", invalid.into()));
        }
        if let Some(references) = self.references {
            fields.push(("objectRefs", list(references.into())));
        }
        fields.extend(self.pods);
        fields
    }
}

/// Why a revision is not healthy.
#[derive(Debug)]
pub(super) struct Trouble {
    /// The reason of the event.
    pub(super) reason: &'static str,
    pub(super) message: String,
    pub(super) cause: Cause,
    pub(super) next: Next,
    /// Whether it is not about the revision: a registry or the API server does not answer.
    pub(super) is_unreachable: bool,
}

impl Trouble {
    fn new(reason: &'static str, message: String, cause: Cause) -> Self {
        Self { reason, message, cause, next: Next::Retry, is_unreachable: false }
    }

    /// A write conflict, or a write that failed and was reported: the result is not known yet.
    pub(super) fn again(next: Next) -> Self {
        Self { next, ..Self::new("", String::new(), Cause::RequestRefused) }
    }

    /// Whether an image without the required signatures is to be stopped. An API server that is away stops nothing: no policy can come
    /// meanwhile.
    pub(super) fn stops(&self) -> bool {
        self.cause == Cause::PackageUnverified && !self.is_unreachable
    }

    pub(super) fn unavailable(message: String) -> Self {
        Self::new("ParsePackage", message, Cause::PackageUnavailable)
    }

    /// The image cannot be requested, or its signatures cannot be verified.
    pub(super) fn preparing(problem: &ImageProblem) -> Self {
        let message = chain(problem);
        match problem {
            ImageProblem::Secret { .. } => Self::unavailable(message),
            ImageProblem::Unverifiable { .. } => {
                Self { is_unreachable: problem.is_unreachable(), ..Self::unverified(message) }
            }
        }
    }

    pub(super) fn source(image: &PreparedImage, error: &SourceError) -> Self {
        if error.is_invalid {
            let invalid = Self::new("ParsePackage", error.message.clone(), Cause::PackageInvalid);
            return Self { next: Next::Rest, ..invalid };
        }
        Self { is_unreachable: error.is_unreachable, ..Self::unavailable(image.explain(error)) }
    }

    pub(super) fn unverified(message: String) -> Self {
        Self::new("VerifyPackage", message, Cause::PackageUnverified)
    }

    /// The package is invalid, and will not change.
    pub(super) fn invalid(error: &InvalidPackage) -> Self {
        let reason = match error {
            InvalidPackage::Incompatible { .. } => "LintPackage",
            _ => "ValidatePackage",
        };
        Self { next: Next::Rest, ..Self::new(reason, error.to_string(), Cause::PackageInvalid) }
    }

    /// The objects of the package must not be written, and will not change.
    pub(super) fn unacceptable(message: String) -> Self {
        Self { next: Next::Rest, ..Self::new("SyncPackage", message, Cause::PackageInvalid) }
    }

    pub(super) fn writing(what: &str, error: &Error) -> Self {
        if error.is_conflict() || error.is_already_exists() {
            return Self::again(Next::Conflict);
        }
        Self::new(
            "ResolveDependencies",
            format!("cannot write the {what}: {}", chain(error)),
            cause_of(error),
        )
    }

    /// An object that runs the revision cannot be read or written.
    pub(super) fn running(problem: &RunProblem) -> Self {
        if problem.is_conflict() {
            return Self::again(Next::Conflict);
        }
        Self::new("SyncPackage", chain(problem), problem.cause())
    }

    pub(super) fn establishing(error: &EstablishError) -> Self {
        if error.is_conflict() {
            return Self::again(Next::Conflict);
        }
        let cause = match error {
            EstablishError::Read { source, .. } | EstablishError::Write { source, .. } => cause_of(source),
            EstablishError::Controlled(_) => Cause::ObjectControlled,
            EstablishError::NotServed { .. } => Cause::PackageInvalid,
        };
        Self::new("SyncPackage", chain(error), cause)
    }
}

impl Revisions {
    /// Write the status of the revision.
    pub(super) async fn conclude(
        &self,
        look: &Look,
        report: Report,
        outcome: Result<(), Trouble>,
        runtime: RuntimeStanding,
    ) -> Next {
        let (healthy, mut next) = match &outcome {
            Ok(()) => (revision_healthy("RevisionHealthy"), Next::Rest),
            Err(trouble) if trouble.message.is_empty() => return trouble.next,
            // A revision in use stays healthy while its registry cannot be reached.
            Err(trouble) if trouble.is_unreachable && status::holds(&look.revision, "RevisionHealthy") => {
                return trouble.next;
            }
            Err(trouble) => {
                (revision_unhealthy("RevisionHealthy", &trouble.message, trouble.cause), trouble.next)
            }
        };
        let mut conditions = vec![healthy];
        conditions.extend(runtime.conditions);
        if outcome.is_ok() {
            next = runtime.next;
        }
        let answers =
            |condition: &Condition| condition.kind == "RuntimeHealthy" && condition.status == Status::True;
        if look.kind() == PackageKind::Function && conditions.iter().any(answers) {
            conditions.push(in_service());
        }
        // A revision that is activated again has to respond again before it is called.
        let past: &[&str] = if look.is_active() { &[] } else { &RUNTIME_CONDITIONS };
        let was = (
            status::holds(&look.revision, "RevisionHealthy"),
            status::holds(&look.revision, "RuntimeHealthy"),
        );
        let informer = &self.cache(look.kind()).revisions;
        let context = &self.manager.context;
        let changed = with_status_instead_of(past, context, &look.revision, conditions, report.fields());
        let Some(changed) = changed else { return next };
        let written = match write_status(&self.manager.context, informer, &changed).await {
            Ok(written) => written,
            Err(next) => return next,
        };
        self.say(&written, outcome.err(), was);
        if let Some((message, cause)) = runtime.failure {
            self.recorder.failure(&written, "SyncPackage", message, cause);
        }
        next
    }

    fn say(&self, revision: &Object, trouble: Option<Trouble>, (was_healthy, was_running): (bool, bool)) {
        match trouble {
            Some(trouble) => self.recorder.failure(revision, trouble.reason, trouble.message, trouble.cause),
            None if !was_healthy => {
                self.recorder.normal(revision, "SyncPackage", "The package revision is installed");
            }
            None => {}
        }
        let runtime = status::conditions_of(revision).into_iter().find(|it| it.kind == "RuntimeHealthy");
        if let Some(runtime) = runtime.filter(|runtime| runtime.status == Status::True && !was_running) {
            self.recorder.normal(revision, "StartRuntime", runtime.message);
        }
    }

    pub(super) async fn pause(&self, kind: PackageKind, revision: &Object) -> Next {
        let paused = with_status(&self.manager.context, revision, vec![status::paused()], Fields::new());
        let Some(paused) = paused else { return Next::Rest };
        match write_status(&self.manager.context, &self.cache(kind).revisions, &paused).await {
            Ok(revision) => {
                self.recorder.normal(&revision, RECONCILIATION_PAUSED, PAUSED_EVENT);
                Next::Rest
            }
            Err(next) => next,
        }
    }
}
