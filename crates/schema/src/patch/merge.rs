//! Merge patches (RFC 7386).
//!
//! Follows evanphx/json-patch 4.13.0, `merge.go`.

use ferroplane_cancellation::checkpoint;
use serde_json::{Map, Value};

use super::{Error, MAX_DEPTH};

/// Applies a merge patch to an object.
pub fn apply(object: &mut Map<String, Value>, patch: Value) -> Result<(), Error> {
    match patch {
        Value::Object(patch) => merge(object, patch, 0),
        // The words are those of evanphx/json-patch, which has one error for both kinds of patches.
        _ => Err(Error::Malformed("Invalid JSON Patch".to_owned())),
    }
}

fn merge(object: &mut Map<String, Value>, patch: Map<String, Value>, depth: usize) -> Result<(), Error> {
    if depth > MAX_DEPTH {
        return Err(Error::too_deep());
    }
    for (name, value) in patch {
        checkpoint();
        match (object.get_mut(&name), value) {
            (_, Value::Null) => {
                object.remove(&name);
            }
            (Some(Value::Object(current)), Value::Object(value)) => merge(current, value, depth + 1)?,
            // Nulls inside a list that replaces a list are left alone, those of anything else are dropped.
            (Some(current @ Value::Object(_)), value) => *current = value,
            (Some(current), mut value) => {
                drop_nulls(&mut value, depth + 1)?;
                *current = value;
            }
            (None, mut value) => {
                drop_nulls(&mut value, depth + 1)?;
                object.insert(name, value);
            }
        }
    }
    Ok(())
}

/// Drops the fields that are null, also of objects in lists, but keeps the nulls of lists themselves.
fn drop_nulls(value: &mut Value, depth: usize) -> Result<(), Error> {
    checkpoint();
    if depth > MAX_DEPTH {
        return Err(Error::too_deep());
    }
    match value {
        Value::Object(fields) => {
            fields.retain(|_, value| !value.is_null());
            fields.values_mut().try_for_each(|value| drop_nulls(value, depth + 1))
        }
        Value::Array(items) => items.iter_mut().try_for_each(|item| drop_nulls(item, depth + 1)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn patched(object: Value, patch: Value) -> Value {
        let Value::Object(mut object) = object else { unreachable!() };
        apply(&mut object, patch).unwrap();
        Value::Object(object)
    }

    #[test]
    fn null_removes_and_objects_merge() {
        let object = json!({"a": {"b": 1, "c": 2}, "d": [1, 2]});
        let patch = json!({"a": {"b": null, "x": {"y": null, "z": 1}}, "d": [3]});
        assert_eq!(patched(object, patch), json!({"a": {"c": 2, "x": {"z": 1}}, "d": [3]}));
    }

    #[test]
    fn patch_that_is_no_object_is_refused() {
        let error = apply(&mut Map::new(), json!([1])).unwrap_err();
        assert_eq!(error, Error::Malformed("Invalid JSON Patch".to_owned()));
    }

    #[test]
    fn deep_patch_is_refused() {
        let deep = (0..300).fold(json!(1), |value, _| json!({"a": value}));
        let mut object = Map::new();
        assert_eq!(apply(&mut object, json!({"b": deep.clone()})).unwrap_err(), Error::too_deep());
    }
}
