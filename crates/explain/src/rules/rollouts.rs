//! Rules about rollouts and intercepts that affect a composite resource.

use ferroplane_api::{FunctionRolloutStatus, Object, RolloutState, RolloutTarget, meta};
use ferroplane_engine::composite::Machinery;
use ferroplane_engine::intercept;
use ferroplane_engine::rollout::target_of;
use serde_json::Value;

use super::Suspect;
use crate::finding::Finding;
use crate::id::Id;
use crate::look::{Role, at, rollouts};

/// A developer's process answers for a function.
pub(super) fn intercepted(suspect: &Suspect<'_>) -> Option<Finding> {
    let object = suspect.object.filter(|_| suspect.role == Role::Composite)?;
    let (function, name) =
        ran(object).find_map(|(function, revision)| Some((function, intercept::name_in(revision)?)))?;
    let message = format!(
        "its calls of function `{function}` are answered by a developer's process, because of FunctionIntercept `{name}`"
    );
    let blamed = Id::new("rollout.ferroplane.io/v1alpha1", "FunctionIntercept", "", name);
    let finding = Finding::new(suspect.id, &message);
    Some(finding.advice(format!("kubectl delete {}", blamed.arguments())))
}

/// A rollout keeps it on an older revision of a function, or has moved it to the new one.
pub(super) fn held(suspect: &Suspect<'_>) -> Option<Finding> {
    let object = suspect.object.filter(|_| suspect.role == Role::Composite)?;
    suspect.snapshot.list(&rollouts()).find_map(|rollout| {
        let target = target_of(rollout);
        let ran = match target {
            RolloutTarget::Function(function) => ran(object).find(|(called, _)| *called == function)?.1,
            RolloutTarget::Composition(composition) => {
                let machinery = Machinery::guess(object);
                machinery.revision().filter(|_| machinery.composition() == Some(composition))?
            }
        };
        let status = at(rollout, &["status"])?.clone();
        let status: FunctionRolloutStatus = serde_json::from_value(status).ok()?;
        let name = meta::name(rollout);
        let message = says(suspect, object, (name, target), ran, &status)?;
        let finding =
            Finding::new(suspect.id, &message).since(status.started_at.as_deref().unwrap_or_default());
        Some(finding.advice(format!("ferroplane rollout status {name}")).advice(advice(name, &status, ran)))
    })
}

fn says(
    suspect: &Suspect<'_>,
    object: &Object,
    (rollout, target): (&str, RolloutTarget<'_>),
    ran: &str,
    status: &FunctionRolloutStatus,
) -> Option<String> {
    let calls = match target {
        RolloutTarget::Function(function) => format!("calls revision `{ran}` of function `{function}`"),
        RolloutTarget::Composition(composition) => {
            format!("follows revision `{ran}` of Composition `{composition}`")
        }
    };
    let holds = format!("FunctionRollout `{rollout}`");
    if let Some(candidate) = &status.candidate {
        if candidate == ran {
            // To have been moved is no trouble.
            let is_suspicious = !suspect.is_fine();
            return is_suspicious.then(|| format!("{calls}, to which {holds} has moved it"));
        }
        if Machinery::guess(object).is_manual() {
            return Some(format!(
                "{calls}: {holds} does not move it to `{candidate}`, because its update policy is Manual"
            ));
        }
        let (moved, total) = (status.composites.moved, status.composites.total);
        return Some(match status.state {
            RolloutState::Paused => {
                format!("{calls}: {holds} is not moving it to `{candidate}`: {}", status.message)
            }
            RolloutState::Previewing => {
                format!(
                    "{calls}: {holds} previews `{candidate}`, and moves no composite resource before that has ended"
                )
            }
            _ => format!(
                "{calls}: {holds} has not moved it to `{candidate}` yet; {moved} of {total} have been moved"
            ),
        });
    }
    let is_back = matches!(status.state, RolloutState::RollingBack | RolloutState::RolledBack);
    let rejected = status.rejected.as_deref().filter(|rejected| is_back && *rejected != ran)?;
    Some(format!("{calls}: {holds} has rolled back `{rejected}`: {}", status.message))
}

fn advice(name: &str, status: &FunctionRolloutStatus, ran: &str) -> String {
    let candidate = status.candidate.as_deref();
    match status.state {
        _ if candidate == Some(ran) => format!("ferroplane rollout undo {name}"),
        RolloutState::Paused if status.rejected.is_none() => format!("ferroplane rollout resume {name}"),
        _ => format!("ferroplane rollout promote {name}"),
    }
}

/// The functions that composed it last, with their revisions.
fn ran(object: &Object) -> impl Iterator<Item = (&str, &str)> {
    let functions = at(object, &["status", "ferroplane", "functions"]).and_then(Value::as_array);
    functions
        .into_iter()
        .flatten()
        .filter_map(|ran| Some((ran["function"].as_str()?, ran["revision"].as_str()?)))
}
