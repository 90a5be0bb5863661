//! Reads the conditions in the status of a resource.

use serde_json::{Map, Value};

use ferroplane_golang::json::integer;
use ferroplane_golang::time::rfc3339;

/// What a condition says. Everything is empty if the status is not as it should be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Condition<'a> {
    pub(super) status: &'a str,
    pub(super) reason: &'a str,
    pub(super) message: &'a str,
}

/// The condition of this type. One that is not there is unknown.
pub(super) fn find<'a>(resource: &'a Map<String, Value>, kind: &str) -> Condition<'a> {
    let Some(status) = resource.get("status") else { return Condition::default() };
    // Not `Unknown`: the original gives up on a status that it cannot read before it gets to that default.
    let Some(conditions) = well_formed(status) else { return Condition::default() };
    let text =
        |condition: &'a Value, field: &str| condition.get(field).and_then(Value::as_str).unwrap_or_default();
    let found = conditions.iter().find(|condition| text(condition, "type") == kind);
    found.map_or(Condition { status: "Unknown", ..Condition::default() }, |condition| Condition {
        status: text(condition, "status"),
        reason: text(condition, "reason"),
        message: text(condition, "message"),
    })
}

/// The conditions of a status in which all of them are well formed. One that is not spoils the others.
fn well_formed(status: &Value) -> Option<&[Value]> {
    let conditions = match status {
        Value::Null => return Some(&[]),
        Value::Object(status) => status.get("conditions"),
        _ => return None,
    };
    match conditions {
        None | Some(Value::Null) => Some(&[]),
        Some(Value::Array(conditions)) => conditions.iter().all(is_condition).then_some(conditions),
        Some(_) => None,
    }
}

fn is_condition(condition: &Value) -> bool {
    let fields = match condition {
        // Go reads null in a list as a value with nothing in it.
        Value::Null => return true,
        Value::Object(fields) => fields,
        _ => return false,
    };
    let is_text = |name| matches!(fields.get(name), None | Some(Value::Null | Value::String(_)));
    let has_time = match fields.get("lastTransitionTime") {
        None | Some(Value::Null) => true,
        Some(Value::String(time)) => rfc3339::parse(time).is_ok(),
        Some(_) => false,
    };
    let has_generation = match fields.get("observedGeneration") {
        None | Some(Value::Null) => true,
        Some(Value::Number(number)) => integer(number).is_some(),
        Some(_) => false,
    };
    ["type", "status", "reason", "message"].into_iter().all(is_text) && has_time && has_generation
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn found(status: &Value) -> (String, String) {
        let resource = json!({ "status": status });
        let condition = find(resource.as_object().unwrap(), "Ready");
        (condition.status.to_owned(), condition.reason.to_owned())
    }

    fn expect(status: &Value, expected: &str) {
        assert_eq!(found(status).0, expected, "{status}");
    }

    #[test]
    fn condition_that_is_not_there_is_unknown() {
        expect(&json!(null), "Unknown");
        expect(&json!({}), "Unknown");
        expect(&json!({"conditions": [null, {"type": "Synced", "status": "True"}]}), "Unknown");
    }

    #[test]
    fn first_of_two_counts() {
        let ready = |status| json!({"type": "Ready", "status": status});
        expect(&json!({"conditions": [ready("True"), ready("False")]}), "True");
    }

    #[test]
    fn one_spoiled_condition_spoils_all() {
        let ready = json!({"type": "Ready", "status": "True"});
        for spoiled in [
            json!(1),
            json!({"type": 1}),
            json!({"lastTransitionTime": "yesterday"}),
            json!({"lastTransitionTime": "2024-02-30T00:00:00Z"}),
            json!({"observedGeneration": 1.5}),
        ] {
            expect(&json!({"conditions": [ready, spoiled]}), "");
        }
        for fine in ["2024-02-29T10:00:00Z", "2024-01-01T1:00:00.25+02:00"] {
            expect(
                &json!({"conditions": [ready, {"lastTransitionTime": fine, "observedGeneration": 3}]}),
                "True",
            );
        }
    }
}
