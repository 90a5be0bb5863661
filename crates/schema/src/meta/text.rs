//! Reads metadata as a decoder would have: what is absent or of the wrong type is empty.
//!
//! Our own design: reads JSON where Kubernetes has a typed `ObjectMeta`.

use ferroplane_golang::json::JsonObject;
use serde_json::Value;

pub(super) fn get<'m>(object: &'m JsonObject, name: &str) -> &'m str {
    object.get(name).and_then(Value::as_str).unwrap_or_default()
}

pub(super) fn integer(object: &JsonObject, name: &str) -> i64 {
    object.get(name).and_then(Value::as_i64).unwrap_or_default()
}

pub(super) fn pairs<'m>(object: &'m JsonObject, name: &str) -> impl Iterator<Item = (&'m str, &'m str)> {
    let pairs = object.get(name).and_then(Value::as_object).into_iter().flatten();
    pairs.map(|(key, value)| (key.as_str(), value.as_str().unwrap_or_default()))
}

pub(super) fn list<'m>(object: &'m JsonObject, name: &str) -> &'m [Value] {
    object.get(name).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// What is neither absent nor null.
pub(super) fn present<'m>(object: &'m JsonObject, name: &str) -> Option<&'m Value> {
    object.get(name).filter(|value| !value.is_null())
}
