//! ScaleWorkload: sets the number of replicas of a Deployment, StatefulSet or DeploymentConfig, and waits until it has them.
//!
//! * v0.0.0 follows Kanister 0.119, `pkg/function/scale_workload.go`: it reads the workload and writes it back, and waits for as long as it takes.
//!   Kanister fails if another client wrote the workload meanwhile. Here it is tried again: two phases follow each other within milliseconds,
//!   while the Deployment controller still writes the status of the first one.
//! * v0.1.0 goes through the `scale` subresource, and takes a `timeout`.

use ferroplane_api::{Object, meta};
use ferroplane_engine::action::{
    Address, Answer, ArgumentMistake, Move, Need, Patch, Phase, PhaseContract, PhaseFunction, Request,
    ResourceName,
};
use ferroplane_golang::time::duration;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::arguments::{Arguments, is_template, milliseconds, mistake};
use super::moves::{
    Failure, NextMove, checkpoint, describe, done, number_at, perform, settle, value_at, wait,
};

const MANAGER: &str = "ferroplane-scaleworkload";
/// How many times a write is repeated after a conflict.
const MOST_CONFLICTS: u32 = 10;
/// What can be scaled, in the version that it is read in.
const KINDS: [(&str, &str); 3] =
    [("Deployment", "apps/v1"), ("StatefulSet", "apps/v1"), ("DeploymentConfig", "apps.openshift.io/v1")];

/// A version of ScaleWorkload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ScaleWorkload {
    V0_0,
    V0_1,
}

/// What is remembered from before anything is changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Scaling {
    step: Step,
    /// How many replicas there were. None until the workload was read.
    original: Option<i64>,
    #[serde(default)]
    conflicts: u32,
    /// When it has taken too long, in milliseconds since 1970.
    deadline: Option<i64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Step {
    /// The workload is read.
    Look,
    /// It is being scaled.
    Scale,
}

/// What the arguments ask for.
struct Wanted {
    target: Address,
    replicas: i64,
    waits: bool,
}

impl PhaseFunction for ScaleWorkload {
    fn advance(&self, phase: &Phase<'_>) -> Move {
        settle(self.next(phase))
    }

    fn contract(&self) -> PhaseContract {
        let optional: &'static [&'static str] = match self {
            Self::V0_0 => &["namespace", "name", "kind", "waitForReady"],
            Self::V0_1 => &["namespace", "name", "kind", "waitForReady", "timeout"],
        };
        PhaseContract {
            required: &["replicas"],
            optional,
            outputs: &["originalReplicaCount"],
            needs: &[Need::Api],
        }
    }

    fn argument_mistakes(&self, arguments: &Object) -> Vec<ArgumentMistake> {
        let mut mistakes = self.contract().mistakes(arguments);
        let is_known = |name: &str| match arguments.get(name) {
            None => false,
            Some(Value::String(text)) => !is_template(text),
            Some(_) => true,
        };
        let read = Arguments(arguments);
        if is_known("replicas") {
            mistakes.extend(replicas(read).err().map(|failure| mistake(failure, "replicas")));
        }
        if is_known("kind") {
            let kind = read.text("kind").and_then(kind_of);
            mistakes.extend(kind.err().map(|failure| mistake(failure, "kind")));
        }
        if is_known("timeout") && *self == Self::V0_1 {
            let timeout = read.text("timeout").and_then(|text| milliseconds("timeout", text));
            mistakes.extend(timeout.err().map(|failure| mistake(failure, "timeout")));
        }
        mistakes
    }
}

impl ScaleWorkload {
    fn next(self, phase: &Phase<'_>) -> NextMove {
        let arguments = Arguments(phase.arguments);
        let wanted = Wanted {
            target: target(phase)?,
            replicas: replicas(arguments)?,
            waits: arguments.flag("waitForReady", true)?,
        };
        let state = match checkpoint::<Scaling>(phase)? {
            Some(state) => state,
            None => {
                Scaling { step: Step::Look, original: None, conflicts: 0, deadline: self.deadline(phase)? }
            }
        };
        match (state.step, phase.answers) {
            // Only reading tells whether it was scaled before the plane stopped, and the scale subresource answers with a
            // Scale instead of the workload.
            (_, []) | (Step::Scale, [Answer::Object { .. }]) => Ok(look(&state, &wanted)),
            (Step::Look, [Answer::Object { object, .. }]) => self.decide(phase, &state, &wanted, object),
            (Step::Scale, [Answer::Refused(refused)])
                if refused.is_conflict() && state.conflicts < MOST_CONFLICTS =>
            {
                Ok(look(&Scaling { conflicts: state.conflicts + 1, ..state }, &wanted))
            }
            (_, [Answer::Absent]) => {
                Err(Failure::new(format!("cannot scale {}: it does not exist", describe(&wanted.target))))
            }
            (_, answers) => Err(Failure::unexpected(answers)),
        }
    }

    fn deadline(self, phase: &Phase<'_>) -> Result<Option<i64>, Failure> {
        if self == Self::V0_0 {
            return Ok(None);
        }
        let timeout = Arguments(phase.arguments).duration("timeout")?;
        Ok(timeout.map(|timeout| phase.now.saturating_add(timeout)))
    }

    /// What to do about the workload as it is now.
    fn decide(self, phase: &Phase<'_>, state: &Scaling, wanted: &Wanted, workload: &Object) -> NextMove {
        // Unset means one, and API servers set it.
        let present = value_at(workload, &["spec", "replicas"]).and_then(Value::as_i64).unwrap_or(1);
        // From the first look, which is in the checkpoint: after a restart the workload may be scaled already.
        let original = state.original.unwrap_or(present);
        // Each time, not only at first: an autoscaler that undoes it would be waited for in vain otherwise.
        if present != wanted.replicas {
            let state = Scaling { step: Step::Scale, original: Some(original), ..state.clone() };
            return Ok(perform(&state, vec![self.request(wanted, workload)]));
        }
        if !wanted.waits || is_ready(workload, wanted.replicas) {
            return Ok(done([("originalReplicaCount", original.to_string())]));
        }
        if let Some(deadline) = state.deadline
            && phase.now >= deadline
        {
            return Err(overdue(phase, wanted, workload));
        }
        let state = Scaling { step: Step::Look, original: Some(original), ..state.clone() };
        Ok(wait(&state, state.deadline, vec![wanted.target.clone()]))
    }

    fn request(self, wanted: &Wanted, workload: &Object) -> Request {
        let (target, replicas) = (wanted.target.clone(), wanted.replicas);
        match self {
            Self::V0_1 => Request::Scale { target, replicas },
            Self::V0_0 => Request::Patch {
                target,
                patch: Patch::Merge(json!({
                    // With the version: what another client wrote meanwhile is read first, as an update in Kanister demands.
                    "metadata": {"resourceVersion": meta::resource_version(workload)}, "spec": {"replicas": replicas},
                })),
                field_manager: MANAGER.to_owned(),
            },
        }
    }
}

fn look(state: &Scaling, wanted: &Wanted) -> Move {
    let state = Scaling { step: Step::Look, ..state.clone() };
    perform(&state, vec![Request::Get(wanted.target.clone())])
}

fn replicas(arguments: Arguments<'_>) -> Result<i64, Failure> {
    let replicas = arguments.integer("replicas")?;
    match i32::try_from(replicas) {
        // Kubernetes has 32 bits for it, and would refuse more with a message about JSON.
        Ok(0..) => Ok(replicas),
        _ => Err(Failure::argument("replicas", format!("{replicas} is not a number of replicas"))),
    }
}

/// The workload that is named, or the one that the action is about.
fn target(phase: &Phase<'_>) -> Result<Address, Failure> {
    let arguments = Arguments(phase.arguments);
    let or_target = |name: &str, own: &str| match arguments.optional_text(name)? {
        Some(text) => Ok(text.to_owned()),
        None if own.is_empty() => {
            Err(Failure::argument(name, "the action is about no object that has one: it is required"))
        }
        None => Ok(own.to_owned()),
    };
    let kind = or_target("kind", meta::kind(phase.target))?;
    let (kind, api_version) = kind_of(&kind)?;
    Ok(Address {
        kind: ResourceName::kind(api_version, kind),
        namespace: or_target("namespace", meta::namespace(phase.target))?,
        name: or_target("name", meta::name(phase.target))?,
    })
}

/// Kanister does not care about upper case.
fn kind_of(name: &str) -> Result<(&'static str, &'static str), Failure> {
    KINDS.into_iter().find(|(kind, _)| kind.eq_ignore_ascii_case(name)).ok_or_else(|| {
        let known: Vec<_> = KINDS.iter().map(|(kind, _)| *kind).collect();
        Failure::argument("kind", format!("`{name}` cannot be scaled, only {} can", known.join(", ")))
    })
}

/// Whether the workload has this many replicas that are ready, and no others.
fn is_ready(workload: &Object, replicas: i64) -> bool {
    let status = |field: &str| number_at(workload, &["status", field]);
    // Before that, all counts are those of the spec before.
    let is_observed = status("observedGeneration") >= meta::generation(workload);
    let counts: &[&str] = match meta::kind(workload) {
        // A StatefulSet with the strategy OnDelete may never update all of its pods.
        "StatefulSet" => &["replicas", "readyReplicas"],
        _ => &["replicas", "updatedReplicas", "readyReplicas", "availableReplicas"],
    };
    is_observed && counts.iter().all(|count| status(count) == replicas)
}

fn overdue(phase: &Phase<'_>, wanted: &Wanted, workload: &Object) -> Failure {
    let timeout = Arguments(phase.arguments).duration("timeout").ok().flatten().unwrap_or_default();
    let status = |field: &str| number_at(workload, &["status", field]);
    Failure::timeout(format!(
        "{} does not have {} replicas after {}: it has {}, of which {} are ready",
        describe(&wanted.target),
        wanted.replicas,
        duration::format(timeout.saturating_mul(1_000_000)),
        status("replicas"),
        status("readyReplicas"),
    ))
}

#[cfg(test)]
pub(super) mod tests;
