//! Whether an object is healthy, by its conditions.

use serde_json::Value;

use super::value;
use crate::selection::JsonObject;

/// Why an object is not healthy: the first of these conditions that does not hold. None if all of them do.
pub(crate) fn unhealthy_because(object: &JsonObject, conditions: &[&str]) -> Option<String> {
    conditions.iter().find_map(|kind| unmet(object, kind))
}

fn unmet(object: &JsonObject, kind: &str) -> Option<String> {
    let Some(condition) = condition(object, kind) else { return Some(format!("it has no condition {kind}")) };
    let text = |field: &str| condition.get(field).and_then(Value::as_str).unwrap_or_default();
    // On the wire all numbers are doubles, so that whole numbers may have lost their type.
    let number = |value: Option<&Value>| value.and_then(Value::as_f64).unwrap_or_default();
    match (text("status"), text("reason")) {
        // Conditions of an older spec say nothing about this one. Controllers without an observed generation are
        // believed.
        ("True", _) => {
            let (looked_at, is) = (
                number(condition.get("observedGeneration")),
                number(value(object, &["metadata", "generation"])),
            );
            (looked_at > 0.0 && looked_at < is).then(|| format!("{kind} is about an older generation"))
        }
        ("", _) => Some(format!("{kind} has no status")),
        (status, "") => Some(format!("{kind} is {status}")),
        (status, reason) => Some(format!("{kind} is {status}: {reason}")),
    }
}

/// A condition of an object, by its type.
fn condition<'o>(object: &'o JsonObject, kind: &str) -> Option<&'o Value> {
    let conditions = value(object, &["status", "conditions"])?.as_array()?;
    conditions.iter().find(|condition| condition.get("type").is_some_and(|it| it == kind))
}
