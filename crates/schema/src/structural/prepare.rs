//! What a server does to a custom resource before it looks whether it is valid: which part of it a write may change.
//!
//! If a definition has a status as a subresource, a write to the whole leaves the status alone, and a write to the
//! status leaves everything else alone, except for who owns which fields.
//!
//! Follows apiextensions-apiserver 0.36.4, `pkg/registry/customresource/strategy.go`,
//! `pkg/registry/customresource/status_strategy.go`.

use ferroplane_golang::json::JsonObject;
use serde_json::Value;

use crate::meta;

/// Prepares a new custom resource.
pub fn prepare_create(object: &mut JsonObject, has_status: bool) {
    if has_status {
        object.remove("status");
    }
    set_generation(object, 1);
}

/// Prepares a custom resource that replaces an old one. All changes count, but those of the metadata.
pub fn prepare_update(object: &mut JsonObject, old: &JsonObject, has_status: bool) {
    if has_status {
        put(object, "status", old.get("status").cloned());
    }
    // After the status was put back: a status in the request must not count as a change.
    let generation = meta::generation_after(object, old, has_status);
    set_generation(object, generation);
}

/// Prepares a custom resource of which the status was written. Of what was sent, the status is kept and the managed
/// fields; the generation stays.
pub fn prepare_status_update(object: &mut JsonObject, old: &JsonObject) {
    let status = object.remove("status");
    // A write to the status has owners, too, so these are what it changes of the metadata.
    let owners = metadata(object).and_then(|metadata| metadata.remove("managedFields"));
    let is_kept = |name: &str| name != "status" && name != "metadata";
    *object = old
        .iter()
        .filter(|(name, _)| is_kept(name))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    let kept = old.get("metadata").and_then(Value::as_object).into_iter().flatten();
    let kept = kept.filter(|(name, _)| *name != "managedFields");
    let mut kept: JsonObject = kept.map(|(name, value)| (name.clone(), value.clone())).collect();
    put(&mut kept, "managedFields", owners);
    object.insert("metadata".to_owned(), kept.into());
    put(object, "status", status);
}

fn put(object: &mut JsonObject, name: &str, value: Option<Value>) {
    match value {
        Some(value) => drop(object.insert(name.to_owned(), value)),
        None => drop(object.remove(name)),
    }
}

fn metadata(object: &mut JsonObject) -> Option<&mut JsonObject> {
    object.get_mut("metadata").and_then(Value::as_object_mut)
}

/// No generation is none, rather than zero.
fn set_generation(object: &mut JsonObject, generation: i64) {
    let metadata = object.entry("metadata").or_insert_with(|| JsonObject::new().into());
    if let Value::Object(metadata) = metadata {
        put(metadata, "generation", (generation != 0).then(|| generation.into()));
    }
}
