//! Rules about the conditions of an object.

use ferroplane_api::{Cause, Object, keys, meta, unsupported};

use super::functions::development_target;
use super::readiness::is_known_not_waited_for;
use super::{Suspect, describe};
use crate::complaint::Complaint;
use crate::finding::Finding;
use crate::look::{
    Role, condition, conditions, created_at, function, is_paused, ready, revision_of, synced, text_at,
};
use crate::snapshot::time_of;
use crate::steps::steps;

pub(super) fn paused(suspect: &Suspect<'_>) -> Option<Finding> {
    let object = suspect.object.filter(|object| is_paused(object))?;
    let since =
        condition(object, "Synced").filter(|it| it.reason == "ReconcilePaused").map_or("", |it| it.since);
    let message = format!("is paused by the annotation `{}`: it is not reconciled", keys::PAUSED);
    let cause = Finding::new(suspect.id, &message)
        .since(since)
        .field(&format!("metadata.annotations[{}]", keys::PAUSED));
    Some(cause.advice(format!("kubectl annotate {} {}-", suspect.id.arguments(), keys::PAUSED)))
}

/// Nothing acts on objects of the kind.
pub(super) fn not_supported(suspect: &Suspect<'_>) -> Option<Finding> {
    let object = suspect.object?;
    let code = Cause::KindNotSupported;
    let told = conditions(object).find(|condition| condition.code == code.code());
    let finding = match told {
        Some(condition) => Finding::new(suspect.id, condition.message).since(condition.since),
        // Kinds without a status cannot say it themselves.
        None if suspect.role == Role::Unsupported => {
            let kind = unsupported(suspect.id.group(), &suspect.id.kind)?;
            Finding::new(suspect.id, kind.message()).since(created_at(object))
        }
        None => return None,
    };
    Some(finding.code(Some(code)).advice(describe(suspect.id)))
}

pub(super) fn claim_bound(suspect: &Suspect<'_>, said: Complaint<'_>) -> Finding {
    suspect
        .own(said)
        .field("spec.resourceRef")
        .advice("let the claim name another composite resource, or none")
}

/// Whatever it is, it says so itself.
pub(super) fn sync_error(suspect: &Suspect<'_>) -> Option<Finding> {
    let synced = synced(suspect.object?).filter(|synced| synced.status == "False")?;
    // What a claim says about its composite resource, that says better.
    if suspect.role == Role::Claim && synced.message.is_empty() {
        return None;
    }
    let own = || {
        let finding = Finding::new(suspect.id, synced.words()).since(synced.since);
        finding.code(synced.code.parse().ok())
    };
    let finding =
        suspect.complaints.first().map_or_else(own, |said| suspect.composed(*said).code(said.cause));
    Some(finding.advice(describe(suspect.id)))
}

pub(super) fn contested(suspect: &Suspect<'_>) -> Option<Finding> {
    let contested = condition(suspect.object?, "Uncontested").filter(|it| it.status == "False")?;
    let cause = Finding::new(suspect.id, contested.message).since(contested.since);
    Some(
        cause.advice(
            "let only one of the two set the field: take it out of the Composition, or stop the other",
        ),
    )
}

pub(super) fn storm(suspect: &Suspect<'_>) -> Option<Finding> {
    let storm = condition(suspect.object?, "Responsive").filter(|it| it.status == "False")?;
    let cause = Finding::new(suspect.id, storm.words()).since(storm.since);
    Some(cause.advice(
        "find the client that changes composed resources: kubectl get events -A --sort-by=.lastTimestamp",
    ))
}

pub(super) fn stale(suspect: &Suspect<'_>) -> Option<Finding> {
    let object = suspect.object?;
    let synced =
        synced(object).filter(|it| it.generation != 0 && it.generation < meta::generation(object))?;
    let (seen, is) = (synced.generation, meta::generation(object));
    let message = format!(
        "its generation is {is}, but the control plane has only reconciled generation {seen}: it is behind, or not running"
    );
    let cause = Finding::new(suspect.id, &message).since(synced.since).field("metadata.generation");
    Some(cause.advice("check the control plane: its logs, and the depth of its queues in /metrics"))
}

/// A controller reported a failure in an event, and wrote no condition.
pub(super) fn reported(suspect: &Suspect<'_>) -> Option<Finding> {
    silent(suspect)?;
    let is_warning = |event: &&Object| text_at(event, &["type"]) == "Warning";
    let warning = suspect.snapshot.events(suspect.id).find(is_warning)?;
    let finding = Finding::new(suspect.id, text_at(warning, &["message"])).since(time_of(warning));
    Some(finding.code(meta::annotation(warning, keys::CAUSE).parse().ok()).advice(describe(suspect.id)))
}

pub(super) fn unattended(suspect: &Suspect<'_>) -> Option<Finding> {
    let object = suspect.object?;
    let has_no_conditions = conditions(object).next().is_none();
    let (message, advice) = match suspect.role {
        Role::Composite | Role::Claim if has_no_conditions => {
            if let Some(finding) = first_run(suspect, object) {
                return Some(finding);
            }
            (
                "no controller has finished reconciling it yet: it is new, or the control plane is not running",
                "kubectl get xrd".to_owned(),
            )
        }
        Role::Operation | Role::OperationMaker if has_no_conditions => (
            "no controller has reconciled it yet: it is new, or the control plane runs no operations",
            "start the control plane with --enable-operations".to_owned(),
        ),
        Role::ActionSet if has_no_conditions => (
            "no controller has reconciled it yet: it is new, or the control plane runs no ActionSets",
            "start the control plane with --enable-blueprints".to_owned(),
        ),
        Role::Package | Role::Own if silent(suspect).is_some() => (
            "no controller has reconciled it yet: it is new, or the control plane is not running",
            describe(suspect.id),
        ),
        _ => return None,
    };
    let finding = Finding::new(suspect.id, message).since(created_at(object));
    Some(finding.code(Some(Cause::NotReconciled)).advice(advice))
}

/// An object whose controller should say in a condition whether it can be used, and has not.
fn silent<'a>(suspect: &Suspect<'a>) -> Option<&'a Object> {
    let has_controller = matches!(suspect.role, Role::Package | Role::Own);
    let object = suspect.object.filter(|object| has_controller && ready(object).is_none())?;
    // What is above may wait for something else.
    let is_passed_over = suspect.above.is_some_and(|above| is_known_not_waited_for(above, object));
    (!is_passed_over).then_some(object)
}

/// The control plane labels a composite resource before it calls functions: it reads it, and waits for one of them.
fn first_run(suspect: &Suspect<'_>, object: &Object) -> Option<Finding> {
    if meta::label(object, keys::COMPOSITE).is_empty() {
        return None;
    }
    let steps = steps(revision_of(suspect.snapshot, object)?);
    let served = steps.iter().find_map(|step| {
        let target = development_target(suspect.snapshot.object(&function(step.function))?)?;
        Some((step, target))
    });
    let since = created_at(object);
    let Some((step, target)) = served else {
        let message = "its pipeline runs for the first time, and has not ended yet";
        return Some(Finding::new(suspect.id, message).since(since).advice(describe(suspect.id)));
    };
    let message = format!(
        "its pipeline runs for the first time, and has not ended yet: does the function answer at {target}?"
    );
    let finding = Finding::new(&function(step.function), &message).since(since).step(Some(step.name));
    Some(finding.advice(format!("start the function, so that it listens on {target}")))
}
