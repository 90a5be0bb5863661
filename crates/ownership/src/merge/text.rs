//! Prints values the way Kubernetes does, because its error texts and field sets contain them.
//!
//! Follows json-iterator 1.1.12, `stream_str.go`; structured-merge-diff 6.3.3, `value/value.go`.

use ferroplane_golang::json::JsonObject;
use ferroplane_golang::json::float_text;
use serde_json::{Number, Value};

/// A number as Kubernetes sees it: an integer if it fits, otherwise a float.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Numeric {
    Int(i64),
    Float(f64),
}

impl Numeric {
    pub(crate) fn of(number: &Number) -> Self {
        match number.as_i64() {
            Some(integer) => Self::Int(integer),
            None => Self::Float(number.as_f64().unwrap_or_default()),
        }
    }

    #[expect(
        clippy::cast_precision_loss,
        reason = "integers and floats are compared as floats, as upstream does"
    )]
    pub(crate) fn as_float(self) -> f64 {
        match self {
            Self::Int(integer) => integer as f64,
            Self::Float(float) => float,
        }
    }
}

/// Appends a JSON string. Values, unlike names, are made safe for HTML.
pub(crate) fn push_json_string(out: &mut String, text: &str, is_html_safe: bool) {
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\0'..='\u{1f}' => out.push_str(&format!("\\u{:04x}", u32::from(character))),
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' if is_html_safe => {
                out.push_str(&format!("\\u{:04x}", u32::from(character)));
            }
            _ => out.push(character),
        }
    }
    out.push('"');
}

/// Appends a value as compact JSON, made safe for HTML.
pub(crate) fn push_json(out: &mut String, value: &Value) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(truth) => out.push_str(if *truth { "true" } else { "false" }),
        Value::Number(number) => match Numeric::of(number) {
            Numeric::Int(integer) => out.push_str(&integer.to_string()),
            Numeric::Float(float) => out.push_str(&float_text(float)),
        },
        Value::String(text) => push_json_string(out, text, true),
        Value::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                push_json(out, item);
            }
            out.push(']');
        }
        Value::Object(fields) => push_json_object(out, fields),
    }
}

pub(crate) fn push_json_object(out: &mut String, fields: &JsonObject) {
    out.push('{');
    for (index, (name, field)) in fields.iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        push_json_string(out, name, true);
        out.push(':');
        push_json(out, field);
    }
    out.push('}');
}
