//! Applies the defaults of a schema to an object, as the API server does when it stores one.

use ferroplane_api::Object;
use ferroplane_schema::structural::{DecodeError, Props, Schema};
use serde_json::Value;

/// Fill in what is missing and has a default.
pub(crate) fn apply(object: &mut Object, schema: &Value) -> Result<(), DecodeError> {
    if !schema.is_null() {
        Schema::compile(&Props::decode(schema)?).default(object);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn defaulted(value: Value, schema: &Value) -> Value {
        let Value::Object(mut object) = value else { panic!("not an object") };
        apply(&mut object, schema).unwrap();
        Value::Object(object)
    }

    #[test]
    fn null_is_replaced_by_a_default_in_lists_and_maps_too() {
        let schema = json!({"properties": {
            "list": {"type": "array", "items": {"type": "integer", "default": 1}},
            "map": {"type": "object", "additionalProperties": {"type": "integer", "default": 2}},
        }});
        assert_eq!(
            defaulted(json!({"list": [null, 5], "map": {"a": null, "b": 6}}), &schema),
            json!({"list": [1, 5], "map": {"a": 2, "b": 6}})
        );
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
