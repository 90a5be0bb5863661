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

/// Why a status was not written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NotWritten {
    /// The API server stores no object that is as large. Writing it again is no use.
    TooLarge,
    /// It may be written later.
    Later(Next),
}

impl From<NotWritten> for Next {
    fn from(not_written: NotWritten) -> Self {
        match not_written {
            NotWritten::TooLarge => Self::Retry,
            NotWritten::Later(next) => next,
        }
    }
}

/// Write a status, if it changed. The error is how to requeue if that fails.
pub(crate) async fn write_status(
    cluster: &ApiClient,
    informer: &Informer,
    object: &mut Object,
    status: Object,
) -> Result<(), Next> {
    write_changed_status(cluster, informer, object, status).await.map_err(Next::from)
}

/// The same, with the reason if that fails.
pub(super) async fn write_changed_status(
    cluster: &ApiClient,
    informer: &Informer,
    object: &mut Object,
    status: Object,
) -> Result<(), NotWritten> {
    if object.get("status").and_then(Value::as_object) == Some(&status) {
        return Ok(());
    }
    replace_status(cluster, informer, object, status).await
}

/// Write a status, even if it is the same. The object has it afterwards, with the new version. Fails unless the object is the latest
/// state, and leaves the object as it was then.
pub(super) async fn replace_status(
    cluster: &ApiClient,
    informer: &Informer,
    object: &mut Object,
    status: Object,
) -> Result<(), NotWritten> {
    let before = object.insert("status".to_owned(), Value::Object(status));
    let name = meta::name(object).to_owned();
    let path = ObjectPath { resource: informer.resource(), namespace: "", name: &name };
    let error = match cluster.replace(path, Subresource::Status, object).await {
        Ok(bytes) => {
            // The informer is not updated: several controllers listen to it, and it reports no versions that it
            // knows.
            if let Ok(written) = serde_json::from_slice(&bytes) {
                *object = written;
            }
            return Ok(());
        }
        Err(error) => error,
    };
    match before {
        Some(before) => object.insert("status".to_owned(), before),
        None => object.remove("status"),
    };
    // Another client has changed it, which reconciles it again.
    if error.is_conflict() {
        return Err(NotWritten::Later(Next::Conflict));
    }
    if error.is_not_found() {
        return Err(NotWritten::Later(Next::Rest));
    }
    let kind = &informer.resource().kind;
    warn!(kind, name, error = chain(&error), "cannot write a status");
    Err(if error.is_too_large() { NotWritten::TooLarge } else { NotWritten::Later(Next::Retry) })
}
