//! What an object says of itself as a whole.

use ferroplane_api::{keys, meta};

use super::{Case, Complaint, describe};
use crate::cause::Cause;
use crate::look::{Role, condition, conditions, is_paused, synced};

pub(super) fn paused(case: &Case<'_>) -> Option<Cause> {
    let object = case.object.filter(|object| is_paused(object))?;
    let since =
        condition(object, "Synced").filter(|it| it.reason == "ReconcilePaused").map_or("", |it| it.since);
    let message = format!("is paused by the annotation `{}`: nothing is done to it", keys::PAUSED);
    let cause =
        Cause::new(case.id, &message).since(since).field(&format!("metadata.annotations[{}]", keys::PAUSED));
    Some(cause.advice(format!("kubectl annotate {} {}-", case.id.arguments(), keys::PAUSED)))
}

pub(super) fn claim_bound(case: &Case<'_>) -> Option<Cause> {
    let said = case.said(&["it is bound to the claim", "bound to another claim"])?;
    Some(
        case.own(said)
            .field("spec.resourceRef")
            .advice("let the claim name another composite resource, or none"),
    )
}

/// Whatever it is, it says so itself.
pub(super) fn sync_error(case: &Case<'_>) -> Option<Cause> {
    let synced = synced(case.object?).filter(|synced| synced.status == "False")?;
    let said = case.said(&[""]).unwrap_or(Complaint { text: synced.words(), since: synced.since });
    // What a claim says about its composite resource, that says better.
    if case.role == Role::Claim && synced.message.is_empty() {
        return None;
    }
    Some(case.composed(said).advice(describe(case.id)))
}

pub(super) fn contested(case: &Case<'_>) -> Option<Cause> {
    let contested = condition(case.object?, "Uncontested").filter(|it| it.status == "False")?;
    let cause = Cause::new(case.id, contested.message).since(contested.since);
    Some(
        cause.advice(
            "let only one of the two set the field: take it out of the Composition, or stop the other",
        ),
    )
}

pub(super) fn storm(case: &Case<'_>) -> Option<Cause> {
    let storm = condition(case.object?, "Responsive").filter(|it| it.status == "False")?;
    let cause = Cause::new(case.id, storm.words()).since(storm.since);
    Some(cause.advice(
        "find out who keeps changing what it composes: kubectl get events -A --sort-by=.lastTimestamp",
    ))
}

pub(super) fn stale(case: &Case<'_>) -> Option<Cause> {
    let object = case.object?;
    let synced =
        synced(object).filter(|it| it.generation != 0 && it.generation < meta::generation(object))?;
    let (seen, is) = (synced.generation, meta::generation(object));
    let message = format!(
        "its generation is {is}, but the control plane has only looked at generation {seen}: it is behind, or not running"
    );
    let cause = Cause::new(case.id, &message).since(synced.since).field("metadata.generation");
    Some(cause.advice("look at the control plane: its logs, and the depth of its queues in /metrics"))
}

pub(super) fn unattended(case: &Case<'_>) -> Option<Cause> {
    let object = case.object?;
    let is_ours = matches!(case.role, Role::Composite | Role::Claim);
    if !is_ours || conditions(object).next().is_some() {
        return None;
    }
    let message =
        "no controller has finished looking at it yet: it is new, or the control plane is not running";
    Some(Cause::new(case.id, message).since(crate::look::created_at(object)).advice("kubectl get xrd"))
}
