//! Removes the fields that functions of an operation set to `null`.
//!
//! An operation applies once, so that it cannot remove a field by leaving it out the next time, as a composite resource does. To
//! server-side apply `null` is a value, which most schemas refuse: the fields are left out of the apply, and a merge patch removes them.

use ferroplane_api::Object;
use serde_json::Value;

/// Take the fields with the value `null` out of an object. Returns the merge patch that removes them, or nothing if there are none.
///
/// Items of lists stay as they are: a merge patch replaces lists as a whole.
pub fn take_removals(object: &mut Object) -> Option<Object> {
    let mut patch = Object::new();
    object.retain(|name, value| match value {
        Value::Null => {
            patch.insert(name.clone(), Value::Null);
            false
        }
        Value::Object(fields) => {
            if let Some(below) = take_removals(fields) {
                patch.insert(name.clone(), below.into());
            }
            true
        }
        _ => true,
    });
    (!patch.is_empty()).then_some(patch)
}

/// The part of a patch that removes a field of this object. A merge patch would create the parents of a field that does not exist.
pub fn due_removals(patch: &Object, object: &Object) -> Option<Object> {
    let due = |(name, removed): (&String, &Value)| {
        let value = match (removed, object.get(name)?) {
            (Value::Object(below), Value::Object(fields)) => due_removals(below, fields)?.into(),
            (Value::Null, _) => Value::Null,
            _ => return None,
        };
        Some((name.clone(), value))
    };
    let due: Object = patch.iter().filter_map(due).collect();
    (!due.is_empty()).then_some(due)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(value: &Value) -> Object {
        value.as_object().unwrap().clone()
    }

    #[test]
    fn fields_that_are_null_are_taken_out_at_every_depth() {
        let mut wanted = object(
            &json!({"kind": "A", "spec": {"a": null, "b": {"c": null, "d": 1}, "e": [null, {"f": null}]}}),
        );
        let patch = take_removals(&mut wanted).unwrap();
        assert_eq!(json!(wanted), json!({"kind": "A", "spec": {"b": {"d": 1}, "e": [null, {"f": null}]}}));
        assert_eq!(json!(patch), json!({"spec": {"a": null, "b": {"c": null}}}));
        assert_eq!(take_removals(&mut wanted), None);
    }

    #[test]
    fn only_fields_that_are_there_are_removed() {
        let patch = object(&json!({"spec": {"a": null, "b": {"c": null}}}));
        let due = |live: Value| due_removals(&patch, &object(&live)).map(Value::Object);
        assert_eq!(due(json!({"spec": {"a": 1}})), Some(json!({"spec": {"a": null}})));
        assert_eq!(due(json!({"spec": {"a": 1, "b": {"c": false}}})), Some(patch.clone().into()));
        for live in [json!({"spec": {"b": {"d": 1}}}), json!({"spec": {"b": "text"}}), json!({"other": {}})] {
            assert_eq!(due(live), None);
        }
    }
}
