//! What a cell shows.
//!
//! Follows apiextensions-apiserver 0.36.4, `pkg/registry/customresource/tableconvertor/tableconvertor.go`.

use serde_json::Value;

use super::age::{Instant, age};
use crate::jsonpath::{Found, JsonPath};

/// The cell of an object in a column. What is not there, and what has another type than the column, is null.
pub(super) fn cell(path: &JsonPath, kind: &str, object: &Value, now: Instant) -> Value {
    let found = path.find(object).ok().and_then(|parts| parts.into_iter().next());
    // Only the first result of the first part: Kubernetes assumes that the path of a column has just one.
    let Some(found) = found.and_then(|found| found.into_iter().next()) else { return Value::Null };
    match kind {
        "string" => printed(&found),
        // An integer of the path itself is of a type that no column has.
        _ if matches!(&found, Found::Literal(Value::Number(number)) if number.is_i64()) => Value::Null,
        _ => found.as_json().map_or(Value::Null, |value| converted(kind, value, now)),
    }
}

fn printed(found: &Found<'_>) -> Value {
    match found.as_json() {
        Some(Value::Null) => Value::from("<no value>"),
        _ => Value::from(found.to_string()),
    }
}

#[allow(clippy::cast_possible_truncation, reason = "the fraction is meant to be lost")]
fn truncated(float: f64) -> Value {
    Value::from(float as i64)
}

/// Whole numbers are written without a point.
fn plain(float: f64) -> Value {
    // Go's encoder writes a float without fraction as `3`, where serde would write `3.0`.
    if float.fract() == 0.0 && float.abs() < 9e18 { truncated(float) } else { Value::from(float) }
}

fn converted(kind: &str, value: &Value, now: Instant) -> Value {
    match (kind, value) {
        ("integer", Value::Number(number)) => match (number.as_i64(), number.as_f64()) {
            (Some(integer), _) => Value::from(integer),
            (None, Some(float)) => truncated(float),
            (None, None) => Value::Null,
        },
        ("number", Value::Number(number)) => number.as_f64().map_or(Value::Null, plain),
        ("boolean", Value::Bool(truth)) => Value::from(*truth),
        ("date", Value::String(timestamp)) => Value::from(age(timestamp, now)),
        _ => Value::Null,
    }
}
