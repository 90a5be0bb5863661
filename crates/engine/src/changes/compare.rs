//! Compares two versions of an object field by field, without the fields that the API server maintains.

use ferroplane_api::{Object, meta};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Replaces a value that must not be shown.
pub const REDACTED: &str = "(redacted)";
/// Contains the whole object again, values of Secrets included.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// Metadata that the API server sets.
const SERVER_METADATA: [&str; 6] =
    ["managedFields", "resourceVersion", "generation", "uid", "creationTimestamp", "selfLink"];
/// Status fields that a reconcile sets about itself. They follow from the changes, and are not planned.
const OWN_STATUS: [&str; 5] =
    ["conditions", "ferroplane", "lastHandledReconcileAt", "claimConditionTypes", "connectionDetails"];

/// A field that changes.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct FieldChange {
    /// Such as `spec.ports[0].name`, or `metadata.labels["example.org/team"]`.
    pub path: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<Value>,
}

impl FieldChange {
    /// Whether it is a reference of a composite resource to a composed one. References follow from what is created and deleted, and their
    /// order from generated names.
    pub fn is_reference(&self) -> bool {
        ["spec.crossplane.resourceRefs", "spec.resourceRefs"].iter().any(|list| self.path.starts_with(list))
    }
}

/// An object without the fields that the API server maintains, and without those that a reconcile sets about itself.
pub fn comparable(object: &Object) -> Object {
    let mut object = object.clone();
    if let Some(Value::Object(metadata)) = object.get_mut("metadata") {
        metadata.retain(|field, _| !SERVER_METADATA.contains(&field.as_str()));
        if let Some(Value::Object(annotations)) = metadata.get_mut("annotations") {
            annotations.remove(LAST_APPLIED);
        }
        metadata.retain(|_, value| !is_empty(value));
    }
    if let Some(Value::Object(status)) = object.get_mut("status") {
        status.retain(|field, _| !OWN_STATUS.contains(&field.as_str()));
    }
    if object.get("status").is_some_and(is_empty) {
        object.remove("status");
    }
    object
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(fields) => fields.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => false,
    }
}

/// The fields in which two versions of an object differ, sorted by path. All fields, if it did not exist before.
pub fn compare(before: Option<&Object>, after: Option<&Object>) -> Vec<FieldChange> {
    let is_secret = [before, after].iter().flatten().any(|object| is_secret(object));
    let side = |object: Option<&Object>| object.map(|object| Value::Object(comparable(object)));
    let (before, after) = (side(before), side(after));
    let mut changes = Vec::new();
    walk(&mut String::new(), before.as_ref(), after.as_ref(), &mut changes);
    if is_secret {
        changes.iter_mut().for_each(redact);
    }
    changes
}

/// Whether two versions of an object agree in every field that a file sets. Controllers may have written others meanwhile.
pub fn agree_on(file: &Object, one: &Object, other: &Object) -> bool {
    file.iter().all(|(field, value)| match (value, one.get(field), other.get(field)) {
        (Value::Object(file), Some(Value::Object(one)), Some(Value::Object(other))) => {
            agree_on(file, one, other)
        }
        (_, one, other) => one == other,
    })
}

fn is_secret(object: &Object) -> bool {
    meta::kind(object) == "Secret" && meta::api_version(object) == "v1"
}

/// Redact a change of a Secret: its type and metadata may be shown, of everything else only that it changes.
fn redact(change: &mut FieldChange) {
    let is_content = ["data", "stringData", "binaryData"].iter().any(|field| {
        let rest = change.path.strip_prefix(field);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
    });
    if is_content {
        for value in [&mut change.before, &mut change.after].into_iter().flatten() {
            *value = REDACTED.into();
        }
    }
}

fn walk(path: &mut String, before: Option<&Value>, after: Option<&Value>, changes: &mut Vec<FieldChange>) {
    match (before, after) {
        (Some(before), Some(after)) if before == after => {}
        (Some(Value::Object(before)), Some(Value::Object(after))) => {
            walk_fields(path, before, after, changes);
        }
        // A new object is listed field by field, so that single values of it can be redacted.
        (None, Some(Value::Object(after))) if !after.is_empty() => {
            walk_fields(path, &Object::new(), after, changes);
        }
        (Some(Value::Object(before)), None) if !before.is_empty() => {
            walk_fields(path, before, &Object::new(), changes);
        }
        (Some(Value::Array(before)), Some(Value::Array(after))) => walk_items(path, before, after, changes),
        (None, Some(Value::Array(after))) if !after.is_empty() => walk_items(path, &[], after, changes),
        (Some(Value::Array(before)), None) if !before.is_empty() => walk_items(path, before, &[], changes),
        (None, None) => {}
        (before, after) => {
            changes.push(FieldChange { path: path.clone(), before: before.cloned(), after: after.cloned() });
        }
    }
}

fn walk_items(path: &mut String, before: &[Value], after: &[Value], changes: &mut Vec<FieldChange>) {
    for index in 0..before.len().max(after.len()) {
        let length = path.len();
        path.push_str(&format!("[{index}]"));
        walk(path, before.get(index), after.get(index), changes);
        path.truncate(length);
    }
}

fn walk_fields(path: &mut String, before: &Object, after: &Object, changes: &mut Vec<FieldChange>) {
    let added = after.keys().filter(|field| !before.contains_key(*field));
    let mut fields: Vec<_> = before.keys().chain(added).collect();
    fields.sort();
    for field in fields {
        let length = path.len();
        push_field(path, field);
        walk(path, before.get(field), after.get(field), changes);
        path.truncate(length);
    }
}

fn push_field(path: &mut String, field: &str) {
    let is_plain = !field.is_empty()
        && field.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '-' || letter == '_');
    if !is_plain {
        path.push_str(&format!("[{}]", Value::from(field)));
        return;
    }
    if !path.is_empty() {
        path.push('.');
    }
    path.push_str(field);
}
