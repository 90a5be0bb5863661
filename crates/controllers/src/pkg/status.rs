//! Writes the status of packages and revisions, only if it changed.

use ferroplane_api::{Condition, NOT_SUPPORTED, Object, Status, keys, meta, set_condition};
use ferroplane_client::{Informer, ObjectPath, Subresource};
use ferroplane_engine::composite::PAUSED_EVENT;
use ferroplane_engine::{chain, conditions_in, conditions_to_json};
use serde_json::Value;
use tracing::warn;

use crate::context::Context;
use crate::runtime::queue::Next;

/// The condition of a paused object.
const SYNCED: &str = "Synced";
const PAUSED: &str = "ReconcilePaused";

/// Fields of a status. Null removes one.
pub(super) type Fields = Vec<(&'static str, Value)>;

/// Whether a user paused the object.
pub(super) fn is_paused(object: &Object) -> bool {
    meta::annotation(object, keys::PAUSED) == "true"
}

/// The condition of a paused object.
pub(super) fn paused() -> Condition {
    Condition::new(SYNCED, Status::False, PAUSED).with_message(PAUSED_EVENT)
}

/// The conditions of an object.
pub(super) fn conditions_of(object: &Object) -> Vec<Condition> {
    conditions_in(object.get("status").and_then(|status| status.get("conditions")).unwrap_or(&Value::Null))
}

/// Whether a condition of an object is true.
pub(super) fn holds(object: &Object, kind: &str) -> bool {
    conditions_of(object).iter().any(|condition| condition.kind == kind && condition.status == Status::True)
}

/// The object with these fields in its status. None if it has them already.
pub(super) fn with_status(
    context: &Context,
    object: &Object,
    wanted: Vec<Condition>,
    fields: Fields,
) -> Option<Object> {
    with_status_instead_of(&[], context, object, wanted, fields)
}

/// The same without conditions of these types, unless they are among the new ones.
pub(super) fn with_status_instead_of(
    past: &[&str],
    context: &Context,
    object: &Object,
    wanted: Vec<Condition>,
    fields: Fields,
) -> Option<Object> {
    let before = conditions_of(object);
    let is_wanted = |kind: &str| wanted.iter().any(|condition| condition.kind == kind);
    // Conditions from when the object was paused, or its kind had no controller, are outdated.
    let is_past = |condition: &Condition| {
        past.contains(&&*condition.kind) || matches!(&*condition.reason, PAUSED | NOT_SUPPORTED)
    };
    let mut conditions: Vec<_> = before
        .iter()
        .filter(|condition| is_wanted(&condition.kind) || !is_past(condition))
        .cloned()
        .collect();
    for mut condition in wanted {
        condition.last_transition_time = context.clock.now();
        condition.observed_generation = meta::generation(object);
        set_condition(&mut conditions, condition);
    }
    let mut changed = object.clone();
    let status = meta::child(&mut changed, "status");
    status.insert("conditions".to_owned(), conditions_to_json(&conditions).into());
    for (field, value) in fields {
        if value.is_null() {
            status.remove(field);
        } else {
            status.insert(field.to_owned(), value);
        }
    }
    let is_same = object.get("status").and_then(Value::as_object).is_some_and(|before| {
        let rest = |status: &Object| {
            status
                .iter()
                .filter(|(key, _)| *key != "conditions")
                .map(|(k, v)| (k.clone(), v.clone()))
                .collect::<Object>()
        };
        rest(before) == rest(status)
    });
    (!is_same || conditions != before).then_some(changed)
}

/// Write a status. Returns the result; the error is how to requeue if that fails.
pub(super) async fn write_status(
    context: &Context,
    informer: &Informer,
    object: &Object,
) -> Result<Object, Next> {
    write(context, informer, object, Subresource::Status).await
}

/// Write an object.
pub(super) async fn write(
    context: &Context,
    informer: &Informer,
    object: &Object,
    subresource: Subresource,
) -> Result<Object, Next> {
    let path = ObjectPath { resource: informer.resource(), namespace: "", name: meta::name(object) };
    match context.cluster.replace(path, subresource, object).await {
        Ok(bytes) => {
            informer.insert_written(&bytes);
            serde_json::from_slice(&bytes).map_err(|_| Next::Retry)
        }
        Err(error) if error.is_conflict() => Err(Next::Conflict),
        Err(error) if error.is_not_found() => Err(Next::Rest),
        Err(error) => {
            let (kind, name) = (&informer.resource().kind, meta::name(object));
            warn!(kind, name, error = chain(&error), "cannot write an object of the package manager");
            Err(Next::Retry)
        }
    }
}
