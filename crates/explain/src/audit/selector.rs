//! Which roles an aggregated role gathers.

use ferroplane_api::{Object, meta};
use serde_json::Value;

use crate::look::at;

/// The selectors of an aggregated role. None if it aggregates nothing.
pub(super) fn selectors(role: &Object) -> Option<&Vec<Value>> {
    let selectors = at(role, &["aggregationRule", "clusterRoleSelectors"])?.as_array()?;
    (!selectors.is_empty()).then_some(selectors)
}

/// Whether a label selector selects an object. One that cannot be read selects nothing: so does the API server.
pub(super) fn selects(selector: &Value, object: &Object) -> bool {
    let Some(selector) = selector.as_object() else { return false };
    if selector.keys().any(|key| key != "matchLabels" && key != "matchExpressions") {
        return false;
    }
    has_labels(selector.get("matchLabels"), object) && fulfils_all(selector.get("matchExpressions"), object)
}

fn has_labels(wanted: Option<&Value>, object: &Object) -> bool {
    match wanted {
        None | Some(Value::Null) => true,
        Some(Value::Object(wanted)) => {
            wanted.iter().all(|(key, value)| label(object, key).is_some_and(|own| value == own))
        }
        Some(_) => false,
    }
}

fn fulfils_all(expressions: Option<&Value>, object: &Object) -> bool {
    match expressions {
        None | Some(Value::Null) => true,
        Some(Value::Array(expressions)) => expressions.iter().all(|one| fulfils(one, object)),
        Some(_) => false,
    }
}

fn fulfils(expression: &Value, object: &Object) -> bool {
    let Some(key) = expression.get("key").and_then(Value::as_str) else { return false };
    let values: Vec<_> = expression
        .get("values")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let own = label(object, key);
    match expression.get("operator").and_then(Value::as_str) {
        Some("In") => own.is_some_and(|own| values.contains(&own)),
        // Without values the selector is invalid.
        Some("NotIn") => !values.is_empty() && own.is_none_or(|own| !values.contains(&own)),
        Some("Exists") => own.is_some(),
        Some("DoesNotExist") => own.is_none(),
        _ => false,
    }
}

fn label<'o>(object: &'o Object, key: &str) -> Option<&'o str> {
    let has = at(object, &["metadata", "labels", key]).is_some();
    has.then(|| meta::label(object, key))
}
