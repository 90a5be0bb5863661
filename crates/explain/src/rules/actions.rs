//! Rules about ActionSets.

use ferroplane_api::ActionSetStatus;
use serde_json::Value;

use super::{Suspect, describe};
use crate::complaint::Complaint;
use crate::finding::Finding;
use crate::look::{Role, condition, created_at};

pub(super) fn blueprint(suspect: &Suspect<'_>, said: Complaint<'_>) -> Finding {
    suspect
        .own(said)
        .advice("correct the Blueprint, and check it: ferroplane blueprint validate BLUEPRINT.yaml")
        .advice(AGAIN)
}

pub(super) fn input(suspect: &Suspect<'_>, said: Complaint<'_>) -> Finding {
    suspect.own(said).field("spec.actions").advice("supply the missing input in a new ActionSet")
}

pub(super) fn needs(suspect: &Suspect<'_>, said: Complaint<'_>) -> Finding {
    suspect.own(said).advice("run the ActionSet on a cluster: ferroplane start --enable-blueprints")
}

pub(super) fn template(suspect: &Suspect<'_>, said: Complaint<'_>) -> Finding {
    suspect
        .own(said)
        .advice("see what the templates render to: ferroplane blueprint render BLUEPRINT.yaml")
        .advice(AGAIN)
}

pub(super) fn timeout(suspect: &Suspect<'_>, said: Complaint<'_>) -> Finding {
    suspect.own(said).advice("check the object that the phase waits for, or let it wait longer").advice(AGAIN)
}

pub(super) fn phase(suspect: &Suspect<'_>, said: Complaint<'_>) -> Finding {
    suspect.own(said).advice(describe(suspect.id)).advice(AGAIN)
}

pub(super) fn cancelled(suspect: &Suspect<'_>, said: Complaint<'_>) -> Finding {
    suspect.own(said).advice(AGAIN)
}

/// It has failed, for a reason that nothing more can be said about.
pub(super) fn failed(suspect: &Suspect<'_>) -> Option<Finding> {
    let object = suspect.object.filter(|_| suspect.role == Role::ActionSet)?;
    let succeeded = condition(object, "Succeeded").filter(|it| it.status == "False")?;
    let finding = Finding::new(suspect.id, succeeded.words()).since(succeeded.since);
    Some(finding.code(succeeded.code.parse().ok()).advice(describe(suspect.id)).advice(AGAIN))
}

/// It runs, without trouble so far.
pub(super) fn running(suspect: &Suspect<'_>) -> Option<Finding> {
    let object = suspect.object.filter(|_| suspect.role == Role::ActionSet && !suspect.is_leaving)?;
    let succeeded = condition(object, "Succeeded").filter(|it| it.status == "Unknown")?;
    let status: ActionSetStatus = object
        .get("status")
        .cloned()
        .and_then(|status| serde_json::from_value(status).ok())
        .unwrap_or_default();
    let phases = status.actions.iter().flat_map(|action| action.phases.iter().chain([&action.defer_phase]));
    let running = phases.filter(|phase| phase.state == ferroplane_api::PhaseState::Running);
    let running: Vec<_> = running
        .map(|phase| {
            let function = phase.function.clone().unwrap_or_default();
            let waits = if phase.checkpoint == Value::Null { "runs" } else { "waits" };
            format!("phase `{}` {waits} (function `{}` {})", phase.name, function.name, function.version)
        })
        .collect();
    let message =
        if running.is_empty() { "its actions have not begun yet".to_owned() } else { running.join("; ") };
    let since = if succeeded.since.is_empty() { created_at(object) } else { succeeded.since };
    let name = &suspect.id.name;
    let finding = Finding::new(suspect.id, &message).since(since);
    Some(finding.advice(format!("ferroplane actionset logs {name}")))
}

/// Phases are not tried again.
const AGAIN: &str = "then create another ActionSet: one that has failed is not run again";

#[cfg(test)]
pub(super) mod tests;
