//! Recognises writes that change nothing but times.
//!
//! Follows k8s.io/apiserver 0.36.4, `pkg/endpoints/handlers/fieldmanager/equality.go`.

use ferroplane_golang::json::JsonObject;
use serde_json::Value;

/// Gives a new object the times of the old one, if nothing else about it or its owners changed.
///
/// Otherwise a write that changes nothing would wake everybody who watches the object.
pub fn keep_times(old: &JsonObject, new: &mut JsonObject) {
    let (Some(before), Some(after)) = (entries(old), entries(new)) else { return };
    let is_same_length = before.len() == after.len() && !after.is_empty();
    // The cheap reasons to give up come first: most writes do change something.
    if !is_same_length
        || before == after
        || !before.iter().zip(after).all(|(one, other)| is_same_owner(one, other))
    {
        return;
    }
    if !is_same_rest(old, new) {
        return;
    }
    let before = before.clone();
    let managed = new.get_mut("metadata").and_then(|metadata| metadata.get_mut("managedFields"));
    if let Some(managed) = managed {
        *managed = before.into();
    }
}

fn entries(object: &JsonObject) -> Option<&Vec<Value>> {
    object.get("metadata")?.get("managedFields")?.as_array()
}

fn is_same_owner(one: &Value, other: &Value) -> bool {
    let (Some(one), Some(other)) = (one.as_object(), other.as_object()) else { return false };
    equal_without(one, other, "time")
}

fn is_same_rest(old: &JsonObject, new: &JsonObject) -> bool {
    let metadata = |object: &JsonObject| object.get("metadata").and_then(Value::as_object).cloned();
    let (Some(before), Some(after)) = (metadata(old), metadata(new)) else { return false };
    equal_without(old, new, "metadata") && equal_without(&before, &after, "managedFields")
}

fn equal_without(one: &JsonObject, other: &JsonObject, name: &str) -> bool {
    let rest = |object| JsonObject::iter(object).filter(|(own, _)| *own != name);
    rest(one).eq(rest(other))
}
