//! Prints values the way Kubernetes does, because its error texts and field sets contain them.

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

/// A string in double quotes, with what cannot be printed escaped.
pub(crate) fn quote(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{7}' => out.push_str("\\a"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{b}' => out.push_str("\\v"),
            ' '..='~' => out.push(character),
            '\0'..='\u{7f}' => out.push_str(&format!("\\x{:02x}", u32::from(character))),
            _ if is_printable(character) => out.push(character),
            _ if u32::from(character) < 0x1_0000 => out.push_str(&format!("\\u{:04x}", u32::from(character))),
            _ => out.push_str(&format!("\\U{:08x}", u32::from(character))),
        }
    }
    out.push('"');
    out
}

fn is_printable(character: char) -> bool {
    let mut buffer = ['a'; 2];
    buffer[1] = character;
    // Behind another character, only what cannot be printed is escaped.
    buffer.iter().collect::<String>().escape_debug().count() == 2 && !character.is_whitespace()
}

/// A float as `%v` prints it.
pub(crate) fn plain_float(float: f64) -> String {
    let scientific = format!("{float:e}");
    let Some((mantissa, exponent)) = scientific.split_once('e') else { return scientific };
    let exponent: i32 = exponent.parse().unwrap_or_default();
    if (-4..6).contains(&exponent) {
        return format!("{float}");
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}e{sign}{:02}", exponent.unsigned_abs())
}

/// A float as JSON.
pub(crate) fn json_float(float: f64) -> String {
    let size = float.abs();
    if size == 0.0 || (1e-6..1e21).contains(&size) {
        return format!("{float}");
    }
    let scientific = format!("{float:e}");
    let Some((mantissa, exponent)) = scientific.split_once('e') else { return scientific };
    if exponent.starts_with('-') { scientific } else { format!("{mantissa}e+{exponent}") }
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
            Numeric::Float(float) => out.push_str(&json_float(float)),
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

pub(crate) fn push_json_object(out: &mut String, fields: &super::Object) {
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

/// A value as `%v` prints it.
pub(crate) fn plain(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::Bool(truth) => truth.to_string(),
        Value::Number(number) => match Numeric::of(number) {
            Numeric::Int(integer) => integer.to_string(),
            Numeric::Float(float) => plain_float(float),
        },
        Value::String(text) => text.clone(),
        Value::Array(items) => format!("[{}]", items.iter().map(plain).collect::<Vec<_>>().join(" ")),
        Value::Object(fields) => {
            let fields = fields.iter().map(|(name, field)| format!("{name}:{}", plain(field)));
            format!("map[{}]", fields.collect::<Vec<_>>().join(" "))
        }
    }
}

/// A value as `%#v` prints it.
pub(crate) fn source(value: &Value) -> String {
    match value {
        Value::Null => "interface {}(nil)".to_owned(),
        Value::String(text) => quote(text),
        Value::Array(items) => {
            format!("[]interface {{}}{{{}}}", items.iter().map(source).collect::<Vec<_>>().join(", "))
        }
        Value::Object(fields) => {
            let fields = fields.iter().map(|(name, field)| format!("{}:{}", quote(name), source(field)));
            format!("map[string]interface {{}}{{{}}}", fields.collect::<Vec<_>>().join(", "))
        }
        other => plain(other),
    }
}

/// The type of a value as `%T` prints it.
pub(crate) fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) => match Numeric::of(number) {
            Numeric::Int(_) => "int64",
            Numeric::Float(_) => "float64",
        },
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_are_printed_as_upstream_prints_them() {
        for (float, plain, json) in [
            (1.0, "1", "1"),
            (1e20, "1e+20", "100000000000000000000"),
            (1e21, "1e+21", "1e+21"),
            (0.0001, "0.0001", "0.0001"),
            (0.000_01, "1e-05", "0.00001"),
            (0.000_000_1, "1e-07", "1e-7"),
            (1_000_000.0, "1e+06", "1000000"),
            (123_456_789.5, "1.234567895e+08", "123456789.5"),
            (-0.5, "-0.5", "-0.5"),
        ] {
            assert_eq!((plain_float(float).as_str(), json_float(float).as_str()), (plain, json));
        }
    }

    #[test]
    fn strings_are_quoted_as_upstream_quotes_them() {
        assert_eq!(quote("a\"b\\\n\u{1}é\u{2028}🚀\u{ad}"), "\"a\\\"b\\\\\\n\\x01é\\u2028🚀\\u00ad\"");
    }
}
