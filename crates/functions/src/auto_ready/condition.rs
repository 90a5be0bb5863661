//! The condition `Ready`, which every resource of a Crossplane provider has.

use serde_json::{Map, Value};

use ferroplane_golang::time::rfc3339;

/// Whether the object says of itself that it is ready. One that has a malformed condition says nothing.
pub(super) fn is_ready(object: &Map<String, Value>) -> bool {
    let conditions =
        object.get("status").and_then(|status| status.get("conditions")).and_then(Value::as_array);
    let Some(conditions) = conditions else { return false };
    let ready = conditions.iter().find(|condition| text(condition, "type") == Some("Ready"));
    // The original decodes the whole list into Go's type, which fails as a whole (`GetCondition` then knows
    // nothing).
    ready.is_some_and(|ready| text(ready, "status") == Some("True")) && conditions.iter().all(is_well_formed)
}

fn text<'a>(condition: &'a Value, field: &str) -> Option<&'a str> {
    condition.get(field)?.as_str()
}

fn is_well_formed(condition: &Value) -> bool {
    let condition = match condition {
        // Go decodes null into a condition without fields.
        Value::Null => return true,
        Value::Object(condition) => condition,
        _ => return false,
    };
    condition.iter().all(|(field, value)| match field.as_str() {
        "type" | "status" | "reason" | "message" => value.is_string() || value.is_null(),
        "lastTransitionTime" => value.is_null() || value.as_str().and_then(rfc3339::moment).is_some(),
        "observedGeneration" => value.is_null() || is_integer(value),
        _ => true,
    })
}

/// Whether the number would be written without a fraction or an exponent, and fits 64 bits.
fn is_integer(value: &Value) -> bool {
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    let is_whole = |number: f64| number.fract() == 0.0 && (-LIMIT..LIMIT).contains(&number);
    value.is_i64() || value.as_f64().is_some_and(is_whole)
}
