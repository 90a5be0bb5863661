//! Rules about operations, and about the kinds that create them.

use ferroplane_api::Cause;
use serde_json::Value;

use super::{Suspect, describe};
use crate::complaint::Complaint;
use crate::finding::Finding;
use crate::inquiry::is_fine;
use crate::look::{Role, at, children, condition, created_at};

/// A schedule or watch creates no operations now, because a user paused or suspended it.
pub(super) fn suspended(suspect: &Suspect<'_>) -> Option<Finding> {
    let object = suspect.object.filter(|_| suspect.role == Role::OperationMaker)?;
    at(object, &["spec", "suspend"]).and_then(Value::as_bool).filter(|is_suspended| *is_suspended)?;
    let finding = Finding::new(suspect.id, "is suspended: no operations are made").field("spec.suspend");
    let since = ["Scheduling", "Watching"].into_iter().find_map(|kind| condition(object, kind));
    let resume = format!(
        "kubectl patch {} --type=merge -p '{{\"spec\":{{\"suspend\":false}}}}'",
        suspect.id.arguments()
    );
    Some(finding.since(since.map_or("", |condition| condition.since)).advice(resume))
}

pub(super) fn invalid(suspect: &Suspect<'_>, said: Complaint<'_>) -> Finding {
    suspect.own(said).advice("correct the operation").advice(retry(suspect))
}

pub(super) fn desired_invalid(suspect: &Suspect<'_>, said: Complaint<'_>) -> Finding {
    let finding = suspect.own(said);
    finding
        .advice("correct the objects that the step returns: an operation adds no names or namespaces to them")
        .advice("then check it: ferroplane render OPERATION.yaml")
}

pub(super) fn desired_refused(suspect: &Suspect<'_>, said: Complaint<'_>) -> Finding {
    let finding = suspect.own(said);
    finding
        .advice("correct the objects that the step returns, or create the objects that they need")
        .advice(retry(suspect))
}

pub(super) fn exhausted(suspect: &Suspect<'_>, said: Complaint<'_>) -> Finding {
    suspect.own(said).field("spec.retryLimit").advice(describe(suspect.id)).advice(retry(suspect))
}

pub(super) fn slow(suspect: &Suspect<'_>, said: Complaint<'_>) -> Finding {
    suspect.own(said).advice("find out which function takes so long: /metrics, or the recordings of the run")
}

pub(super) fn panicked(suspect: &Suspect<'_>, said: Complaint<'_>) -> Finding {
    let finding =
        suspect.own(said).advice("look for \"panicked\" in the log of the control plane, and report it");
    finding.advice("call another version of the function, if one is built in: ferroplane functions versions")
}

pub(super) fn not_created(suspect: &Suspect<'_>, said: Complaint<'_>) -> Finding {
    suspect.own(said).field("spec.operationTemplate").advice(describe(suspect.id))
}

/// An ActionSet that it waited for cannot say any more why it failed.
pub(super) fn action_set_gone(suspect: &Suspect<'_>) -> Option<Finding> {
    let said = suspect.said(&[Cause::ActionSetFailed])?;
    let action_sets = children(suspect.snapshot, suspect.id, suspect.object?);
    let mut present = action_sets.iter().filter_map(|id| suspect.snapshot.object(id));
    if present.any(|action_set| !is_fine(Role::ActionSet, action_set)) {
        return None;
    }
    Some(suspect.own(said).code(said.cause).advice(retry(suspect)))
}

pub(super) fn schedule(suspect: &Suspect<'_>, said: Complaint<'_>) -> Finding {
    let finding = suspect.own(said).field("spec.schedule");
    finding.advice("try schedules out: ferroplane operation next --schedule '0 3 * * *'")
}

pub(super) fn watch(suspect: &Suspect<'_>, said: Complaint<'_>) -> Finding {
    let finding = suspect.own(said).field("spec.watch");
    finding.advice("install the kind, or let the control plane list and watch it; then it is tried again")
}

pub(super) fn watch_loop(suspect: &Suspect<'_>, said: Complaint<'_>) -> Finding {
    suspect
        .own(said)
        .advice("let functions change only what needs to be changed")
        .advice("or let only other fields count: spec.watch.fields")
}

/// It runs, without trouble so far.
pub(super) fn running(suspect: &Suspect<'_>) -> Option<Finding> {
    let object = suspect.object.filter(|_| suspect.role == Role::Operation && !suspect.is_leaving)?;
    let succeeded = condition(object, "Succeeded").filter(|it| it.status == "Unknown")?;
    // It says so if it waits for ActionSets.
    let message = if succeeded.message.is_empty() {
        "its pipeline runs, and has not ended yet"
    } else {
        succeeded.message
    };
    let since = if succeeded.since.is_empty() { created_at(object) } else { succeeded.since };
    let finding = Finding::new(suspect.id, message).since(since);
    Some(finding.advice(format!("ferroplane operation logs {}", suspect.id.name)))
}

/// What runs it again.
fn retry(suspect: &Suspect<'_>) -> String {
    format!("then run it again: ferroplane operation retry {}", suspect.id.name)
}

#[cfg(test)]
pub(super) mod tests;
