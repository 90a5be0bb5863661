//! Readiness checks of patch-and-transform: which of them an object does not meet.
//!
//! Follows function-patch-and-transform v0.10, ready.go, as far as explaining needs it: what cannot be told (a path with a
//! wildcard, a check of an unknown type) is not explained.

use ferroplane_api::Object;
use serde_json::Value;

use crate::look::{condition, conditions};

/// A check that does not hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Unmet {
    /// The field it is about, unless it is about a condition.
    pub(crate) field: Option<String>,
    /// The condition it is about, unless it is about a field.
    pub(crate) condition: Option<String>,
    pub(crate) message: String,
}

/// The checks that the template of a composed resource lists. None stands for: the condition `Ready` has to be `True`.
pub(crate) fn checks(template: &Value) -> &[Value] {
    template.get("readinessChecks").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// Whether what is made of a template becomes ready by what its conditions say.
pub(crate) fn asks_for_conditions(template: &Value) -> bool {
    let is_about_conditions = |check: &Value| check.get("type").is_some_and(|it| it == "MatchCondition");
    checks(template).is_empty() || checks(template).iter().any(is_about_conditions)
}

/// The first check of a template that an object does not meet.
pub(crate) fn unmet(object: &Object, template: &Value) -> Option<Unmet> {
    match checks(template) {
        [] => unmet_condition(object, "Ready", "True"),
        checks => checks.iter().find_map(|check| unmet_check(object, check)),
    }
}

fn unmet_check(object: &Object, check: &Value) -> Option<Unmet> {
    let text = |field: &str| check.get(field).and_then(Value::as_str).unwrap_or_default();
    let path = text("fieldPath");
    let expected = match text("type") {
        "MatchCondition" => {
            let wanted = |field: &str| check.get("matchCondition")?.get(field)?.as_str();
            return unmet_condition(object, wanted("type")?, wanted("status")?);
        }
        "NonEmpty" => None,
        "MatchString" => Some(check.get("matchString")?.clone()),
        "MatchInteger" => Some(check.get("matchInteger")?.clone()),
        "MatchTrue" => Some(Value::Bool(true)),
        "MatchFalse" => Some(Value::Bool(false)),
        _ => return None,
    };
    let found = value_at(object, &segments(path)?);
    let message = match (found, expected) {
        (None, None) => "is not set, and a readiness check waits for it".to_owned(),
        (Some(_), None) => return None,
        (None, Some(expected)) => format!("is not set, and a readiness check expects {}", shown(&expected)),
        (Some(found), Some(expected)) if *found == expected => return None,
        (Some(found), Some(expected)) => {
            format!("is {}, and a readiness check expects {}", shown(found), shown(&expected))
        }
    };
    Some(Unmet { field: Some(path.to_owned()), condition: None, message })
}

fn unmet_condition(object: &Object, kind: &str, expected: &str) -> Option<Unmet> {
    let message = match condition(object, kind) {
        Some(condition) if condition.status == expected => return None,
        Some(condition) => {
            let says = format!("its condition {kind} is {}", condition.status);
            let words = [says.as_str(), condition.reason, condition.message];
            let words: Vec<_> = words.into_iter().filter(|text| !text.is_empty()).collect();
            let but = format!(" (a readiness check expects {expected})");
            words.join(": ") + if expected == "True" { "" } else { &but }
        }
        None => {
            let others: Vec<_> = conditions(object).map(|condition| condition.kind).collect();
            let others =
                if others.is_empty() { String::new() } else { format!("; it has {}", others.join(", ")) };
            format!("it has no condition {kind}, and a readiness check expects it to be {expected}{others}")
        }
    };
    Some(Unmet { field: None, condition: Some(kind.to_owned()), message })
}

fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => format!("`{text}`"),
        Value::Object(_) => "an object".to_owned(),
        Value::Array(_) => "a list".to_owned(),
        other => format!("`{other}`"),
    }
}

/// What is at a path. An empty text or list is something to patch-and-transform; `null` is as good as nothing.
fn value_at<'a>(object: &'a Object, segments: &[String]) -> Option<&'a Value> {
    let (first, rest) = segments.split_first()?;
    let value = rest.iter().try_fold(object.get(first)?, |value, segment| match value {
        Value::Array(items) => segment.parse::<usize>().ok().and_then(|index| items.get(index)),
        value => value.get(segment),
    });
    value.filter(|value| !value.is_null())
}

/// A path such as `status.ports[0].name` or `metadata.labels[a.b/c]`, taken apart. None if it matches several fields, or none.
fn segments(path: &str) -> Option<Vec<String>> {
    let mut segments = Vec::new();
    let mut rest = path;
    while !rest.is_empty() {
        let (segment, after) = match rest.strip_prefix('[') {
            Some(inside) => inside.split_once(']')?,
            None => rest.split_at(rest.find(['.', '[']).unwrap_or(rest.len())),
        };
        let segment = segment.trim_matches(['\'', '"']);
        if segment.is_empty() || segment == "*" {
            return None;
        }
        segments.push(segment.to_owned());
        rest = after.strip_prefix('.').unwrap_or(after);
    }
    (!segments.is_empty()).then_some(segments)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::object;

    fn message(checks: &Value) -> Option<String> {
        let object = object(&json!({
            "metadata": {"labels": {"a.b/c": "x"}}, "spec": {"ports": [{"n": 80}], "on": false},
            "status": {"phase": "Pending", "conditions": [{"type": "Available", "status": "False", "reason": "Busy", "message": "later"}]},
        }));
        unmet(&object, &json!({"readinessChecks": checks})).map(|unmet| {
            format!("{}: {}", unmet.field.or(unmet.condition).unwrap_or_default(), unmet.message)
        })
    }

    #[test]
    fn first_check_that_does_not_hold_is_told() {
        let cases = [
            (
                json!([]),
                "Ready: it has no condition Ready, and a readiness check expects it to be True; it has Available",
            ),
            (
                json!([{"type": "MatchCondition", "matchCondition": {"type": "Available", "status": "True"}}]),
                "Available: its condition Available is False: Busy: later",
            ),
            (
                json!([{"type": "None"}, {"type": "MatchString", "fieldPath": "status.phase", "matchString": "Up"}]),
                "status.phase: is `Pending`, and a readiness check expects `Up`",
            ),
            (
                json!([{"type": "NonEmpty", "fieldPath": "spec.clusterIP"}]),
                "spec.clusterIP: is not set, and a readiness check waits for it",
            ),
            (
                json!([{"type": "MatchInteger", "fieldPath": "spec.ports[0].n", "matchInteger": 81}]),
                "spec.ports[0].n: is `80`, and a readiness check expects `81`",
            ),
            (
                json!([{"type": "MatchTrue", "fieldPath": "spec.on"}]),
                "spec.on: is `false`, and a readiness check expects `true`",
            ),
        ];
        for (checks, expected) in cases {
            assert_eq!(message(&checks).as_deref(), Some(expected));
        }
    }

    #[test]
    fn checks_that_hold_or_cannot_be_followed_are_not_told() {
        for check in [
            json!({"type": "None"}),
            json!({"type": "NonEmpty", "fieldPath": "metadata.labels[a.b/c]"}),
            json!({"type": "MatchFalse", "fieldPath": "spec.on"}),
            json!({"type": "NonEmpty", "fieldPath": "spec.ports[*].n"}),
            json!({"type": "NonEmpty", "fieldPath": "spec.ports[0"}),
            json!({"type": "Later"}),
        ] {
            assert_eq!(message(&json!([check])), None);
        }
    }
}
