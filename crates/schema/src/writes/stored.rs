//! What storing an object does to it.
//!
//! Follows k8s.io/apiserver 0.36.4, `pkg/registry/generic/registry/store.go`.

use ferroplane_golang::json::JsonObject;
use serde_json::{Number, Value};

use super::Endpoint;

/// Makes an object what it is when it is read again. Numbers that are whole are stored without a fraction, so that they
/// are integers then.
pub(super) fn read_back(endpoint: &Endpoint<'_>, object: &mut JsonObject, is_applied: bool) {
    fold_numbers(object);
    if is_applied {
        endpoint.behaviour.revive(object);
    } else {
        // Otherwise it is in its normal form, but what the server took away gets its default again.
        endpoint.behaviour.default(object);
    }
}

/// Makes integers of numbers that are whole.
pub(super) fn fold_numbers(object: &mut JsonObject) {
    object.values_mut().for_each(fold);
}

fn fold(value: &mut Value) {
    match value {
        Value::Number(number) => {
            if let Some(whole) = whole(number) {
                *number = whole;
            }
        }
        Value::Array(items) => items.iter_mut().for_each(fold),
        Value::Object(fields) => fields.values_mut().for_each(fold),
        _ => {}
    }
}

fn whole(number: &Number) -> Option<Number> {
    /// The first that no integer holds.
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    if !number.is_f64() {
        return None;
    }
    let value = number.as_f64().filter(|value| value.fract() == 0.0 && (-LIMIT..LIMIT).contains(value))?;
    #[allow(clippy::cast_possible_truncation, reason = "it is whole and in range")]
    Some(Number::from(value as i64))
}
