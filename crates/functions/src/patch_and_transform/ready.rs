//! Whether an observed resource is ready.

use ferroplane_golang::time::rfc3339;
use serde_json::{Map, Value};

use super::input::ReadinessCheck;
use super::release::Release;
use crate::fieldpath::Error;

/// Whether all checks hold. Without any, the condition `Ready` has to be `True`.
pub(super) fn is_ready(
    object: &Map<String, Value>,
    checks: &[ReadinessCheck],
    release: Release,
) -> Result<bool, String> {
    if checks.is_empty() {
        return Ok(condition_status(object, "Ready") == "True");
    }
    for (at, check) in checks.iter().enumerate() {
        let holds = holds(object, check, release);
        if !holds.map_err(|problem| format!("cannot run readiness check at index {at}: {problem}"))? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn holds(object: &Map<String, Value>, check: &ReadinessCheck, release: Release) -> Result<bool, String> {
    let path = || release.parse(check.field_path.as_deref().unwrap_or_default());
    let held = match check.kind.as_str() {
        "None" => Ok(true),
        "MatchCondition" => {
            let Some((kind, status)) = &check.match_condition else {
                return Err("matchCondition must be set for type MatchCondition".to_owned());
            };
            Ok(condition_status(object, kind) == status)
        }
        // Anything counts, also null and empty text: the original only asks whether the field is there.
        "NonEmpty" => path().and_then(|path| path.get(object).map(|_| true)),
        "MatchString" => {
            path().and_then(|path| Ok(Some(path.get_string(object)?) == check.match_string.as_deref()))
        }
        // The original can never match here, because numbers arrive as floats (docs/differences.md).
        "MatchInteger" => path().and_then(|path| Ok(Some(path.get_integer(object)?) == check.match_integer)),
        "MatchTrue" => path().and_then(|path| path.get_bool(object)),
        "MatchFalse" => path().and_then(|path| path.get_bool(object).map(|truth| !truth)),
        _ => Ok(false),
    };
    held.or_else(|error: Error| if error.is_not_found() { Ok(false) } else { Err(error.to_string()) })
}

/// The status of a condition. One that is not there is unknown; if any is malformed, none has a status.
fn condition_status<'a>(object: &'a Map<String, Value>, kind: &str) -> &'a str {
    const UNKNOWN: &str = "Unknown";
    let conditions = match object.get("status") {
        Some(Value::Null) => return UNKNOWN,
        Some(Value::Object(status)) => status.get("conditions"),
        _ => return "",
    };
    let conditions = match conditions {
        None | Some(Value::Null) => return UNKNOWN,
        Some(Value::Array(conditions)) => conditions,
        Some(_) => return "",
    };
    // Go decodes the whole list at once, so that one malformed condition makes all of them unreadable.
    if !conditions.iter().all(is_condition) {
        return "";
    }
    let text =
        |condition: &'a Value, name: &str| condition.get(name).and_then(Value::as_str).unwrap_or_default();
    let found = conditions.iter().find(|condition| text(condition, "type") == kind);
    found.map_or(UNKNOWN, |condition| text(condition, "status"))
}

/// Whether Go would read this as a condition.
fn is_condition(condition: &Value) -> bool {
    let fields = match condition {
        Value::Null => return true,
        Value::Object(fields) => fields,
        _ => return false,
    };
    fields.iter().all(|(name, value)| match name.as_str() {
        _ if value.is_null() => true,
        "type" | "status" | "reason" | "message" => value.is_string(),
        "lastTransitionTime" => value.as_str().is_some_and(|text| rfc3339::parse(text).is_ok()),
        "observedGeneration" => {
            value.as_number().is_some_and(|number| ferroplane_golang::json::integer(number).is_some())
        }
        _ => true,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn status_of(object: &Value, kind: &str) -> String {
        condition_status(object.as_object().unwrap(), kind).to_owned()
    }

    #[test]
    fn condition_is_found_by_its_type() {
        let object = json!({"status": {"conditions": [
            {"type": "Synced", "status": "False"},
            {"type": "Ready", "status": "True", "lastTransitionTime": "2024-02-29T12:00:00Z"}
        ]}});
        assert_eq!(status_of(&object, "Ready"), "True");
        assert_eq!(status_of(&object, "Synced"), "False");
        assert_eq!(status_of(&object, "Other"), "Unknown");
    }

    #[test]
    fn malformed_condition_spoils_all_of_them() {
        for condition in [json!({"type": 1}), json!({"lastTransitionTime": "yesterday"}), json!("text")] {
            let object = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}, condition]}});
            assert_eq!(status_of(&object, "Ready"), "");
        }
        assert_eq!(status_of(&json!({}), "Ready"), "");
    }

    #[test]
    fn times_are_those_that_kubernetes_reads() {
        let is_time = |time: &str| is_condition(&json!({"lastTransitionTime": time}));
        for time in ["2024-01-31T23:59:59Z", "2024-01-31T23:59:59.123456789+02:00", "0001-01-01T00:00:00Z"] {
            assert!(is_time(time), "{time}");
        }
        // Go is more lenient than the standard.
        for time in ["2024-01-31T3:59:59Z", "2024-01-31T23:59:59,5Z", "2024-01-31T23:59:59+24:60"] {
            assert!(is_time(time), "{time}");
        }
        for time in
            ["", "2024-02-30T00:00:00Z", "2024-01-01", "2024-01-01T24:00:00Z", "2024-01-01T00:00:00.Z", "é"]
        {
            assert!(!is_time(time), "{time}");
        }
    }
}
