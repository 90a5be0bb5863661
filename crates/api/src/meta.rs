//! Looks into the metadata of objects of any kind, and changes it.

use serde_json::{Map, Value, json};

use crate::Object;

/// `apiVersion`, or nothing.
pub fn api_version(object: &Object) -> &str {
    text(object, "apiVersion")
}

/// `kind`, or nothing.
pub fn kind(object: &Object) -> &str {
    text(object, "kind")
}

/// The part of an `apiVersion` before the slash; the core group has none.
pub fn group(api_version: &str) -> &str {
    api_version.rsplit_once('/').map_or("", |(group, _)| group)
}

/// The part of an `apiVersion` after the slash.
pub fn version(api_version: &str) -> &str {
    api_version.rsplit('/').next().unwrap_or_default()
}

/// `metadata.name`, or nothing.
pub fn name(object: &Object) -> &str {
    field(object, "name")
}

/// `metadata.namespace`, or nothing.
pub fn namespace(object: &Object) -> &str {
    field(object, "namespace")
}

/// `metadata.generateName`, or nothing.
pub fn generate_name(object: &Object) -> &str {
    field(object, "generateName")
}

/// `metadata.uid`, or nothing.
pub fn uid(object: &Object) -> &str {
    field(object, "uid")
}

/// `metadata.resourceVersion`, or nothing.
pub fn resource_version(object: &Object) -> &str {
    field(object, "resourceVersion")
}

/// Whether it is being deleted.
pub fn is_being_deleted(object: &Object) -> bool {
    !field(object, "deletionTimestamp").is_empty()
}

/// `metadata.generation`, or zero.
pub fn generation(object: &Object) -> i64 {
    metadata(object).and_then(|metadata| metadata.get("generation")?.as_i64()).unwrap_or_default()
}

/// A label, or nothing.
pub fn label<'a>(object: &'a Object, key: &str) -> &'a str {
    entry(object, "labels", key)
}

/// An annotation, or nothing.
pub fn annotation<'a>(object: &'a Object, key: &str) -> &'a str {
    entry(object, "annotations", key)
}

/// Whether every label in `wanted` is there with that value.
pub fn matches_labels<'a>(object: &Object, mut wanted: impl Iterator<Item = (&'a str, &'a str)>) -> bool {
    let labels = metadata(object).and_then(|metadata| metadata.get("labels")?.as_object());
    wanted.all(|(key, value)| labels.and_then(|labels| labels.get(key)?.as_str()) == Some(value))
}

/// The owner reference that says `controller: true`, if there is one.
pub fn controller(object: &Object) -> Option<&Object> {
    let owners = metadata(object)?.get("ownerReferences")?.as_array()?;
    owners
        .iter()
        .filter_map(Value::as_object)
        .find(|owner| owner.get("controller") == Some(&Value::Bool(true)))
}

/// The identity of the controller, if there is one.
pub fn controller_uid(object: &Object) -> Option<&str> {
    controller(object)?.get("uid")?.as_str()
}

/// Set a text field of the metadata; an empty one is removed.
pub fn set_field(object: &mut Object, key: &str, value: &str) {
    if value.is_empty() {
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove(key);
        }
        return;
    }
    child(object, "metadata").insert(key.to_owned(), value.into());
}

/// Set a label.
pub fn set_label(object: &mut Object, key: &str, value: &str) {
    child(child(object, "metadata"), "labels").insert(key.to_owned(), value.into());
}

/// Set an annotation.
pub fn set_annotation(object: &mut Object, key: &str, value: &str) {
    child(child(object, "metadata"), "annotations").insert(key.to_owned(), value.into());
}

/// Make `owner` the controller of the object. An owner reference that was there already is updated.
pub fn set_controller(object: &mut Object, owner: &Object) {
    let reference = json!({
        "apiVersion": api_version(owner), "kind": kind(owner), "name": name(owner), "uid": uid(owner),
        // Foreground deletion of the owner waits for this object by the second one.
        "controller": true, "blockOwnerDeletion": true,
    });
    let owners =
        child(object, "metadata").entry("ownerReferences").or_insert_with(|| Value::Array(Vec::new()));
    if !owners.is_array() {
        *owners = Value::Array(Vec::new());
    }
    let owners = owners.as_array_mut().expect("was made a list");
    // By identity: an API server refuses two references to one owner.
    match owners.iter_mut().find(|present| present.get("uid").and_then(Value::as_str) == Some(uid(owner))) {
        Some(present) => *present = reference,
        None => owners.push(reference),
    }
}

/// The object under this key. What stands there and is no object is replaced by an empty one.
pub fn child<'a>(object: &'a mut Object, key: &str) -> &'a mut Object {
    let value = object.entry(key).or_insert_with(|| Value::Object(Map::new()));
    if !value.is_object() {
        // Templates print `metadata:` with nothing below it, which is null.
        *value = Value::Object(Map::new());
    }
    value.as_object_mut().expect("was made an object")
}

fn metadata(object: &Object) -> Option<&Object> {
    object.get("metadata")?.as_object()
}

fn text<'a>(object: &'a Object, key: &str) -> &'a str {
    object.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn field<'a>(object: &'a Object, key: &str) -> &'a str {
    metadata(object).map_or("", |metadata| text(metadata, key))
}

fn entry<'a>(object: &'a Object, map: &str, key: &str) -> &'a str {
    let map = metadata(object).and_then(|metadata| metadata.get(map)?.as_object());
    map.map_or("", |map| text(map, key))
}
