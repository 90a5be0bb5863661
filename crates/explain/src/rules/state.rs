//! What an object says of itself as a whole.

use ferroplane_api::{keys, meta};

use super::{Suspect, describe};
use crate::complaint::Complaint;
use crate::finding::Finding;
use crate::look::{Role, condition, conditions, is_paused, synced};

pub(super) fn paused(suspect: &Suspect<'_>) -> Option<Finding> {
    let object = suspect.object.filter(|object| is_paused(object))?;
    let since =
        condition(object, "Synced").filter(|it| it.reason == "ReconcilePaused").map_or("", |it| it.since);
    let message = format!("is paused by the annotation `{}`: nothing is done to it", keys::PAUSED);
    let cause = Finding::new(suspect.id, &message)
        .since(since)
        .field(&format!("metadata.annotations[{}]", keys::PAUSED));
    Some(cause.advice(format!("kubectl annotate {} {}-", suspect.id.arguments(), keys::PAUSED)))
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
    let finding = match suspect.complaints.first() {
        Some(said) => suspect.composed(*said).code(said.cause),
        None => Finding::new(suspect.id, synced.words()).since(synced.since),
    };
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
        "find out who keeps changing what it composes: kubectl get events -A --sort-by=.lastTimestamp",
    ))
}

pub(super) fn stale(suspect: &Suspect<'_>) -> Option<Finding> {
    let object = suspect.object?;
    let synced =
        synced(object).filter(|it| it.generation != 0 && it.generation < meta::generation(object))?;
    let (seen, is) = (synced.generation, meta::generation(object));
    let message = format!(
        "its generation is {is}, but the control plane has only looked at generation {seen}: it is behind, or not running"
    );
    let cause = Finding::new(suspect.id, &message).since(synced.since).field("metadata.generation");
    Some(cause.advice("look at the control plane: its logs, and the depth of its queues in /metrics"))
}

pub(super) fn unattended(suspect: &Suspect<'_>) -> Option<Finding> {
    let object = suspect.object?;
    let is_ours = matches!(suspect.role, Role::Composite | Role::Claim);
    if !is_ours || conditions(object).next().is_some() {
        return None;
    }
    let message =
        "no controller has finished looking at it yet: it is new, or the control plane is not running";
    Some(Finding::new(suspect.id, message).since(crate::look::created_at(object)).advice("kubectl get xrd"))
}
