//! Joins an action of an ActionSet with that of its Blueprint, before anything runs.
//!
//! # Invariants
//! * All phases of all actions are resolved, the one that runs at the end included, before the first one runs: a version that was
//!   removed in the last phase stops the first.
//! * What Kanister only documents is enforced: `kind`, `configMapNames`, `secretNames` and `inputArtifactNames`.

use std::collections::BTreeSet;
use std::sync::Arc;

use ferroplane_api::{
    ActionSpec, Blueprint, BlueprintAction, BlueprintPhase, Cause, PhaseCallee, PhaseWarning,
};
use ferroplane_wire::to_hex;
use sha2::{Digest as _, Sha256};

use super::function::{Need, PhaseFunction, PodSupport};
use crate::advice::VersionWarning;
use crate::versions::{Catalogue, Question, Resolution, Unresolved, Version, resolve};

/// The functions that phases can call, by name and version.
pub trait PhaseFunctions: Send + Sync {
    /// The code of a version. None if there is none, or if it is not a function of phases.
    fn phase_function(&self, function: &str, version: &Version) -> Option<Arc<dyn PhaseFunction>>;
}

impl<F> PhaseFunctions for F
where
    F: Fn(&str, &Version) -> Option<Arc<dyn PhaseFunction>> + Send + Sync,
{
    fn phase_function(&self, function: &str, version: &Version) -> Option<Arc<dyn PhaseFunction>> {
        self(function, version)
    }
}

/// What the plane offers to actions.
#[derive(Clone, Copy)]
#[expect(missing_debug_implementations, reason = "functions are code")]
pub struct Facilities<'a> {
    pub catalogue: &'a Catalogue,
    pub functions: &'a dyn PhaseFunctions,
    /// Whether commands can be run in pods that run.
    pub has_exec: bool,
    pub pods: PodSupport,
    /// Why images cannot be run although the plane is configured to run them. None if they can, or if it is not configured to.
    pub no_containers: Option<&'a str>,
    /// Whether a version that does not exist is an error. Otherwise another version runs in its place, with a warning.
    pub is_strict: bool,
}

/// Why an action cannot begin, or has failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ActionFailure {
    pub cause: Cause,
    /// The phase. Empty if the failure concerns no single phase.
    pub phase: String,
    pub message: String,
}

impl ActionFailure {
    pub(super) fn new(cause: Cause, phase: &str, message: impl Into<String>) -> Self {
        Self { cause, phase: phase.to_owned(), message: message.into() }
    }
}

/// A phase with the version of its function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResolvedPhase {
    pub phase: String,
    pub callee: PhaseCallee,
    pub warnings: Vec<PhaseWarning>,
    /// Whether it runs an image, as a pod if the plane runs pods.
    pub runs_image: bool,
}

/// The action that an action of an ActionSet names.
pub fn find_action<'b>(
    spec: &ActionSpec,
    blueprint: Option<&'b Blueprint>,
) -> Result<&'b BlueprintAction, ActionFailure> {
    let missing = |message: String| ActionFailure::new(Cause::BlueprintNotFound, "", message);
    if spec.blueprint.is_empty() {
        return Err(missing(format!("action `{}` names no Blueprint", spec.name)));
    }
    let blueprint = blueprint.ok_or_else(|| {
        missing(format!("there is no Blueprint `{}` in the namespace of the ActionSet", spec.blueprint))
    })?;
    blueprint.actions.get(&spec.name).ok_or_else(|| {
        let known: Vec<_> = blueprint.actions.keys().map(|name| format!("`{name}`")).collect();
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        missing(format!("Blueprint `{}` has no action `{}`: it has {known}", spec.blueprint, spec.name))
    })
}

/// Check that an action of an ActionSet supplies everything that its Blueprint requires, and decide which version each phase calls.
pub fn compile(
    spec: &ActionSpec,
    action: &BlueprintAction,
    facilities: &Facilities<'_>,
) -> Result<Vec<ResolvedPhase>, ActionFailure> {
    // Before functions are resolved: what the user left out is the likelier mistake, and easier to mend.
    check_supplied(spec, action)?;
    check_names(action)?;
    action.all_phases().map(|phase| resolve_phase(phase, &spec.preferred_version, facilities)).collect()
}

/// A hash of an action, which shows whether the action changed.
pub fn action_hash(action: &BlueprintAction) -> String {
    let text = serde_json::to_vec(action).unwrap_or_default();
    // Eight bytes are enough to notice a change of one Blueprint. Collisions are no attack: a user who may write
    // the Blueprint needs none.
    to_hex(&Sha256::digest(text)[..8])
}

fn check_supplied(spec: &ActionSpec, action: &BlueprintAction) -> Result<(), ActionFailure> {
    let lacking = |what: &str, name: &str| {
        let message = format!(
            "action `{}` of Blueprint `{}` needs the {what} `{name}`, and the ActionSet does not supply it",
            spec.name, spec.blueprint
        );
        ActionFailure::new(Cause::ActionInvalid, "", message)
    };
    // Users write a kind in any case: `Deployment` and `deployment` are one kind, as for kubectl.
    let kind = if spec.object.kind.is_empty() { &spec.object.resource } else { &spec.object.kind };
    if !action.kind.is_empty() && !is_same_kind(&action.kind, kind) {
        let message = format!(
            "action `{}` of Blueprint `{}` is for objects of kind {}, and the ActionSet names one of kind {kind}",
            spec.name, spec.blueprint, action.kind
        );
        return Err(ActionFailure::new(Cause::ActionInvalid, "", message));
    }
    if let Some(name) = action.config_map_names.iter().find(|name| !spec.config_maps.contains_key(*name)) {
        return Err(lacking("ConfigMap", name));
    }
    if let Some(name) = action.secret_names.iter().find(|name| !spec.secrets.contains_key(*name)) {
        return Err(lacking("Secret", name));
    }
    match action.input_artifact_names.iter().find(|name| !spec.artifacts.contains_key(*name)) {
        Some(name) => Err(lacking("artifact", name)),
        None => Ok(()),
    }
}

/// Whether two words name the same kind: neither case nor plural matter.
fn is_same_kind(one: &str, other: &str) -> bool {
    let plain = |word: &str| {
        let word = word.to_ascii_lowercase();
        match word.as_str() {
            // Kanister uses the short name of this kind.
            "pvc" => "persistentvolumeclaim".to_owned(),
            word => word.strip_suffix('s').unwrap_or(word).to_owned(),
        }
    };
    plain(one) == plain(other)
}

fn check_names(action: &BlueprintAction) -> Result<(), ActionFailure> {
    let mut names = BTreeSet::new();
    for phase in action.all_phases() {
        // Templates refer to phases by name, `.Phases.NAME.Output`: with two of one name it would be undefined
        // which output is used.
        if !names.insert(&phase.name) {
            let message = format!("two phases have the name `{}`", phase.name);
            return Err(ActionFailure::new(Cause::BlueprintInvalid, &phase.name, message));
        }
    }
    Ok(())
}

/// What a phase asks the catalogue about its function.
pub(super) fn question(phase: &BlueprintPhase, preferred: &str, is_strict: bool) -> Question {
    let said = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    Question {
        phase_version: said(&phase.func_version),
        preferred_version: said(preferred),
        is_strict,
        ..Question::about(&phase.func)
    }
}

/// Check that the function in the status of a phase is the one of its Blueprint, in a version that may be called: users can write to
/// the status. Returns the version.
pub(super) fn check_callee(
    phase: &BlueprintPhase,
    callee: &PhaseCallee,
    facilities: &Facilities<'_>,
) -> Result<Version, ActionFailure> {
    let PhaseCallee { name, version, .. } = callee;
    let refused = |why: String| {
        let message =
            format!("phase `{}`: its status names function `{name}` {version}, and {why}", phase.name);
        ActionFailure::new(Cause::FunctionVersionInvalid, &phase.name, message)
    };
    if *name != phase.func {
        return Err(refused(format!("its Blueprint names `{}`", phase.func)));
    }
    let parsed: Version = version.parse().map_err(|_| refused("that is no version".to_owned()))?;
    let exactly = |version: &str| Question { version: Some(version.to_owned()), ..Question::about(name) };
    if let Err(removed @ Unresolved::EndOfSupport { .. }) = resolve(facilities.catalogue, &exactly(version)) {
        let message = format!("phase `{}`: {removed}", phase.name);
        return Err(ActionFailure::new(Cause::FunctionVersionRemoved, &phase.name, message));
    }
    // Without a version in the Blueprint, an ActionSet may prefer any.
    if phase.func_version.is_empty() || phase.func_version.parse::<Version>().as_ref() == Ok(&parsed) {
        return Ok(parsed);
    }
    // A version that does not exist is replaced by another one.
    let resolved = resolve(facilities.catalogue, &question(phase, "", facilities.is_strict));
    let replacement = resolved.ok().and_then(|resolution| resolution.record.version.clone());
    if replacement.as_ref() == Some(&parsed) {
        return Ok(parsed);
    }
    Err(refused(format!("its Blueprint names {}", phase.func_version)))
}

pub(super) fn resolve_phase(
    phase: &BlueprintPhase,
    preferred: &str,
    facilities: &Facilities<'_>,
) -> Result<ResolvedPhase, ActionFailure> {
    let resolution = resolve(facilities.catalogue, &question(phase, preferred, facilities.is_strict));
    let resolution = resolution.map_err(|unresolved| {
        ActionFailure::new(unresolved.cause(), &phase.name, format!("phase `{}`: {unresolved}", phase.name))
    })?;
    let version = resolution.record.version.clone().unwrap_or(Version::UNVERSIONED);
    let function = facilities.functions.phase_function(&phase.func, &version).ok_or_else(|| {
        let message = format!("phase `{}`: function `{}` cannot be called by phases", phase.name, phase.func);
        ActionFailure::new(Cause::FunctionCapabilityMissing, &phase.name, message)
    })?;
    // Checked here and not when the phase runs: a backup that stops after its first phase may leave a database
    // scaled down.
    let needs = function.contract().needs;
    check_needs(phase, &version, needs, facilities)?;
    Ok(resolved(phase, &version, &resolution, needs))
}

fn resolved(
    phase: &BlueprintPhase,
    version: &Version,
    resolution: &Resolution<'_>,
    needs: &[Need],
) -> ResolvedPhase {
    let warnings = resolution.advisories.iter().map(|advisory| {
        let warning = VersionWarning::new(&phase.name, advisory);
        PhaseWarning {
            action: 0,
            phase: phase.name.clone(),
            function: warning.function,
            version: warning.version,
            reason: warning.reason.to_owned(),
            message: warning.message,
            removed_in: warning.removed_in.unwrap_or_default(),
            replaced_by: warning.replacement.unwrap_or_default(),
        }
    });
    ResolvedPhase {
        phase: phase.name.clone(),
        callee: PhaseCallee {
            name: phase.func.clone(),
            version: version.to_string(),
            revision: resolution.record.revision.name.clone(),
            state: resolution.state.as_str().to_owned(),
        },
        warnings: warnings.collect(),
        runs_image: needs.contains(&Need::Pods),
    }
}

pub(super) fn check_needs(
    phase: &BlueprintPhase,
    version: &Version,
    needs: &[Need],
    facilities: &Facilities<'_>,
) -> Result<(), ActionFailure> {
    let on_cluster = "run the ActionSet on a cluster (`ferroplane start`)";
    let unmet = needs.iter().find_map(|need| match (need, facilities.no_containers) {
        (Need::Exec, _) if !facilities.has_exec => {
            Some(format!("runs commands in pods, and this control plane has no pods; {on_cluster}"))
        }
        (Need::Pods, _) if facilities.pods == PodSupport::None => {
            Some(format!("runs an image, and this control plane runs none; {on_cluster}"))
        }
        (Need::Pods, Some(why)) => {
            Some(format!("runs an image, and this control plane cannot run it: {why}; or {on_cluster}"))
        }
        _ => None,
    });
    match unmet {
        None => Ok(()),
        Some(why) => {
            let message = format!("phase `{}`: function `{}` {version} {why}", phase.name, phase.func);
            Err(ActionFailure::new(Cause::PhaseNeedsUnmet, &phase.name, message))
        }
    }
}
