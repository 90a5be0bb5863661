//! What was read, as JSON.
//!
//! Follows sigs.k8s.io/yaml 1.6.0, `yaml.go` (`convertToJSONableObject`), and Kubernetes' reading of numbers in JSON
//! (k8s.io/apimachinery 0.36, `pkg/util/json`).

use ferroplane_cancellation::checkpoint;
use serde_json::{Map, Number, Value};

use super::Node;
use crate::strconv::format_float;

/// The JSON value, or why there is none.
pub fn to_json(node: Node) -> Result<Value, String> {
    checkpoint();
    Ok(match node {
        Node::Null => Value::Null,
        Node::Bool(is_true) => Value::Bool(is_true),
        Node::Int(integer) => Value::from(integer),
        // Kubernetes reads integers of 64 bits with a sign, and floats beyond.
        #[expect(clippy::cast_precision_loss, reason = "Go converts it like this, too")]
        Node::Uint(integer) => float(integer as f64)?,
        Node::Float(value) => float(value)?,
        Node::String(text) | Node::Time(text) => Value::String(text),
        // JSON is UTF-8, so what is none is replaced.
        Node::Bytes(bytes) => Value::String(String::from_utf8_lossy(&bytes).into_owned()),
        Node::List(items) => Value::Array(items.into_iter().map(to_json).collect::<Result<_, _>>()?),
        Node::Map(entries) => {
            let entries = entries.into_iter().map(|(key, value)| Ok((key_text(key)?, to_json(value)?)));
            Value::Object(entries.collect::<Result<Map<_, _>, String>>()?)
        }
    })
}

/// Go writes `1.0` as `1`, so that an integer is read again.
fn float(value: f64) -> Result<Value, String> {
    if value.fract() == 0.0
        // From there on Go writes an exponent, and what has one is read as a float.
        && value.abs() < 1e21
        && let Ok(integer) = format!("{value:.0}").parse::<i64>()
    {
        return Ok(Value::from(integer));
    }
    let number = Number::from_f64(value);
    number
        .map(Value::Number)
        .ok_or_else(|| format!("json: unsupported value: {}", format_float(value, 'g', None)))
}

fn key_text(key: Node) -> Result<String, String> {
    match key {
        Node::String(text) | Node::Time(text) => Ok(text),
        Node::Bytes(bytes) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
        Node::Int(integer) => Ok(integer.to_string()),
        Node::Bool(is_true) => Ok(is_true.to_string()),
        Node::Float(value) if value.is_nan() => Ok(".nan".to_owned()),
        Node::Float(value) if value.is_infinite() => {
            Ok(if value > 0.0 { ".inf" } else { "-.inf" }.to_owned())
        }
        // The original writes keys with the precision of 32 bits.
        #[expect(clippy::cast_possible_truncation, reason = "that is what the original does")]
        Node::Float(value) => Ok(format_float_32(value as f32)),
        Node::Null => Err("unsupported map key of type: %!s(<nil>), key: <nil>".to_owned()),
        Node::Uint(_) => Err("unsupported map key of type: uint64".to_owned()),
        Node::List(_) | Node::Map(_) => Err("unsupported map key of type: map or list".to_owned()),
    }
}

/// The shortest text that reads as the same number of 32 bits.
fn format_float_32(value: f32) -> String {
    let shortest: f64 = value.to_string().parse().unwrap_or_default();
    format_float(shortest, 'g', None)
}
