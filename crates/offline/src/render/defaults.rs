//! Applies the defaults of a schema to an object, as the API server does when it stores one.

use ferroplane_api::Object;
use serde_json::Value;

/// Fill in what is missing and has a default.
pub(crate) fn apply(object: &mut Object, schema: &Value) {
    default_object(object, schema, MAX_DEPTH);
}

const MAX_DEPTH: usize = 128;

fn default_value(value: &mut Value, schema: &Value, depth: usize) {
    let Some(depth) = depth.checked_sub(1) else { return };
    match value {
        Value::Object(object) => default_object(object, schema, depth),
        Value::Array(items) => {
            if let Some(schema) = schema.get("items") {
                for item in items {
                    default_value(item, schema, depth);
                }
            }
        }
        _ => {}
    }
}

fn default_object(object: &mut Object, schema: &Value, depth: usize) {
    let properties = schema.get("properties").and_then(Value::as_object);
    for (name, schema) in properties.into_iter().flatten() {
        let is_nullable = schema.get("nullable").and_then(Value::as_bool).unwrap_or_default();
        // A null where none is allowed counts as missing.
        let is_missing = object.get(name).is_none_or(|value| value.is_null() && !is_nullable);
        if let (true, Some(default)) = (is_missing, schema.get("default")) {
            object.insert(name.clone(), default.clone());
        }
        if let Some(value) = object.get_mut(name) {
            default_value(value, schema, depth);
        }
    }
    if let Some(schema) = schema.get("additionalProperties").filter(|schema| schema.is_object()) {
        let known = |name: &String| properties.is_some_and(|properties| properties.contains_key(name));
        for (name, value) in object.iter_mut() {
            if !known(name) {
                default_value(value, schema, depth);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn defaulted(value: Value, schema: &Value) -> Value {
        let Value::Object(mut object) = value else { panic!("not an object") };
        apply(&mut object, schema);
        Value::Object(object)
    }

    #[test]
    fn missing_fields_get_their_defaults_at_every_level() {
        let schema = json!({"properties": {
            "size": {"default": "small"},
            "nested": {"default": {}, "properties": {"on": {"default": true}}},
            "absent": {"properties": {"never": {"default": 1}}},
            "list": {"items": {"properties": {"port": {"default": 80}}}},
            "map": {"additionalProperties": {"properties": {"weight": {"default": 1}}}},
            "nothing": {"default": 5},
            "nullable": {"default": 5, "nullable": true}
        }});
        assert_eq!(
            defaulted(
                json!({"list": [{}, {"port": 1}], "map": {"a": {}}, "nothing": null, "nullable": null}),
                &schema
            ),
            json!({
                "size": "small", "nested": {"on": true}, "list": [{"port": 80}, {"port": 1}],
                "map": {"a": {"weight": 1}}, "nothing": 5, "nullable": null
            })
        );
    }
}
