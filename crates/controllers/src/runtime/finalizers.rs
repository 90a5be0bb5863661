//! Adds and removes finalizers.

use bytes::Bytes;
use ferroplane_api::{Object, meta};
use ferroplane_client::{ApiClient, Error, ObjectPath, Subresource};
use serde_json::{Value, json};

/// Whether the object has the finalizer.
pub(crate) fn has(object: &Object, finalizer: &str) -> bool {
    list(object).any(|present| present == finalizer)
}

/// Whether the object has no finalizers at all.
pub(crate) fn is_empty(object: &Object) -> bool {
    list(object).next().is_none()
}

/// All finalizers of an object, and this one.
pub(crate) fn with(object: &Object, finalizer: &str) -> Value {
    list(object).filter(|present| *present != finalizer).chain([finalizer]).collect()
}

/// Add a finalizer if it is missing. Returns the result if that took a write.
pub(crate) async fn add(
    cluster: &ApiClient,
    target: ObjectPath<'_>,
    object: &Object,
    finalizer: &str,
) -> Result<Option<Bytes>, Error> {
    if has(object, finalizer) {
        return Ok(None);
    }
    write(cluster, target, object, with(object, finalizer)).await.map(Some)
}

/// Remove a finalizer if it exists. An object that no longer exists has none. Returns the result if that took a write.
pub(crate) async fn remove(
    cluster: &ApiClient,
    target: ObjectPath<'_>,
    object: &Object,
    finalizer: &str,
) -> Result<Option<Bytes>, Error> {
    if !has(object, finalizer) {
        return Ok(None);
    }
    let others = list(object).filter(|present| *present != finalizer).collect();
    match write(cluster, target, object, others).await {
        Err(error) if error.is_not_found() => Ok(None),
        answer => answer.map(Some),
    }
}

fn list(object: &Object) -> impl Iterator<Item = &str> {
    let finalizers = object.get("metadata").and_then(|metadata| metadata.get("finalizers")?.as_array());
    finalizers.into_iter().flatten().filter_map(Value::as_str)
}

/// Only if the object has not changed since: the list is replaced as a whole.
async fn write(
    cluster: &ApiClient,
    target: ObjectPath<'_>,
    object: &Object,
    finalizers: Value,
) -> Result<Bytes, Error> {
    let version = meta::resource_version(object);
    let patch = json!({
        "metadata": {"uid": meta::uid(object), "resourceVersion": version, "finalizers": finalizers},
    });
    cluster.merge(target, Subresource::None, &patch).await
}
