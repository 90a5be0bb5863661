//! Writes the status of operations and rollouts.

use ferroplane_api::{Condition, Object, meta, set_condition};
use ferroplane_client::{ApiClient, Informer, ObjectPath, Subresource};
use ferroplane_engine::{chain, conditions_in, conditions_to_json};
use serde_json::Value;
use tracing::warn;

use crate::runtime::queue::Next;

/// The status of an object, with these conditions in it.
pub(crate) fn status_with<const N: usize>(object: &Object, conditions: [Condition; N], now: &str) -> Object {
    let mut status = object.get("status").and_then(Value::as_object).cloned().unwrap_or_default();
    let mut all = status.get("conditions").map(conditions_in).unwrap_or_default();
    for mut condition in conditions {
        now.clone_into(&mut condition.last_transition_time);
        condition.observed_generation = meta::generation(object);
        set_condition(&mut all, condition);
    }
    status.insert("conditions".to_owned(), conditions_to_json(&all).into());
    status
}

/// Write a status, if it changed. The error is how to requeue if that fails.
pub(crate) async fn write_status(
    cluster: &ApiClient,
    informer: &Informer,
    object: &mut Object,
    status: Object,
) -> Result<(), Next> {
    if object.get("status").and_then(Value::as_object) == Some(&status) {
        return Ok(());
    }
    replace_status(cluster, informer, object, status).await
}

/// Write a status, even if it is the same. The object has it afterwards, with the new version. Fails unless the object is the latest
/// state.
pub(crate) async fn replace_status(
    cluster: &ApiClient,
    informer: &Informer,
    object: &mut Object,
    status: Object,
) -> Result<(), Next> {
    object.insert("status".to_owned(), Value::Object(status));
    let name = meta::name(object).to_owned();
    let path = ObjectPath { resource: informer.resource(), namespace: "", name: &name };
    match cluster.replace(path, Subresource::Status, object).await {
        Ok(bytes) => {
            // The informer is not updated: several controllers listen to it, and it reports no versions that it
            // knows.
            if let Ok(written) = serde_json::from_slice(&bytes) {
                *object = written;
            }
            Ok(())
        }
        // Another client has changed it, which reconciles it again.
        Err(error) if error.is_conflict() => Err(Next::Conflict),
        Err(error) if error.is_not_found() => Err(Next::Rest),
        Err(error) => {
            let kind = &informer.resource().kind;
            warn!(kind, name, error = chain(&error), "cannot write a status");
            Err(Next::Retry)
        }
    }
}
