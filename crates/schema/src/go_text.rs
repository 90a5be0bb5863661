//! Values as programs in Go write them, because messages quote them.

use std::fmt::Write as _;
use std::sync::LazyLock;

use regex::Regex;
use serde_json::{Number, Value};

/// Letters, marks, numbers, punctuation and symbols.
static PRINTABLE: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"^[\p{L}\p{M}\p{N}\p{P}\p{S}]$").expect("the expression is fixed"));

/// Whether Go prints the character as it is.
pub(crate) fn is_printable(character: char) -> bool {
    match character {
        ' '..='~' => true,
        '\0'..='\u{7f}' => false,
        _ => PRINTABLE.is_match(character.encode_utf8(&mut [0; 4])),
    }
}

/// The text in double quotes, as `%q` writes it.
pub fn quote(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for character in text.chars() {
        match character {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\u{7}' => quoted.push_str("\\a"),
            '\u{8}' => quoted.push_str("\\b"),
            '\u{c}' => quoted.push_str("\\f"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            '\u{b}' => quoted.push_str("\\v"),
            other if is_printable(other) => quoted.push(other),
            other => escape(other, &mut quoted),
        }
    }
    quoted.push('"');
    quoted
}

fn escape(character: char, output: &mut String) {
    let code = u32::from(character);
    let _ = match code {
        0..=0x7f => write!(output, "\\x{code:02x}"),
        0x80..=0xffff => write!(output, "\\u{code:04x}"),
        _ => write!(output, "\\U{code:08x}"),
    };
}

/// A number as `%v` writes it.
pub(crate) fn float(value: f64) -> String {
    exponential(value, -4, 6, 2)
}

/// A number as `encoding/json` writes it.
fn json_float(value: f64) -> String {
    exponential(value, -6, 21, 1)
}

/// Shortest digits; with an exponent below and from the given powers of ten.
fn exponential(value: f64, lowest: i32, highest: i32, digits: usize) -> String {
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    if value == 0.0 {
        return if value.is_sign_negative() { "-0" } else { "0" }.to_owned();
    }
    let text = format!("{value:e}");
    let (mantissa, power) = text.split_once('e').unwrap_or((&text, "0"));
    let power: i32 = power.parse().unwrap_or(0);
    if (lowest..highest).contains(&power) {
        return format!("{value}");
    }
    let sign = if power < 0 { '-' } else { '+' };
    format!("{mantissa}e{sign}{:0digits$}", power.unsigned_abs())
}

/// An integer, if the number is one that Kubernetes keeps as such.
pub(crate) fn as_integer(number: &Number) -> Option<i64> {
    number.as_i64()
}

/// A value as `%v` writes it: maps and lists without quotes or commas.
pub(crate) fn plain(value: &Value) -> String {
    fn write(value: &Value, output: &mut String, depth: usize) {
        match value {
            Value::Null => output.push_str("<nil>"),
            Value::Bool(flag) => output.push_str(if *flag { "true" } else { "false" }),
            Value::Number(number) => match as_integer(number) {
                Some(integer) => output.push_str(&integer.to_string()),
                None => output.push_str(&float(number.as_f64().unwrap_or(0.0))),
            },
            Value::String(text) => output.push_str(text),
            _ if depth > MAX_DEPTH => output.push_str("..."),
            Value::Array(items) => {
                output.push('[');
                for (index, item) in items.iter().enumerate() {
                    if index > 0 {
                        output.push(' ');
                    }
                    write(item, output, depth + 1);
                }
                output.push(']');
            }
            Value::Object(fields) => {
                output.push_str("map[");
                for (index, (name, field)) in fields.iter().enumerate() {
                    if index > 0 {
                        output.push(' ');
                    }
                    output.push_str(name);
                    output.push(':');
                    write(field, output, depth + 1);
                }
                output.push(']');
            }
        }
    }
    let mut output = String::new();
    write(value, &mut output, 0);
    output
}

/// JSON as `encoding/json` writes it: no spaces, and some characters escaped for the sake of browsers.
pub(crate) fn json(value: &Value) -> String {
    let mut output = String::new();
    write_json(value, &mut output, 0);
    output
}

/// Deeper than any parser lets a value be.
const MAX_DEPTH: usize = 1000;

fn write_json(value: &Value, output: &mut String, depth: usize) {
    match value {
        Value::Null => output.push_str("null"),
        Value::Bool(value) => output.push_str(if *value { "true" } else { "false" }),
        Value::Number(number) => match as_integer(number) {
            Some(integer) => {
                let _ = write!(output, "{integer}");
            }
            None => output.push_str(&json_float(number.as_f64().unwrap_or(0.0))),
        },
        Value::String(text) => json_text(text, output),
        _ if depth > MAX_DEPTH => output.push_str("null"),
        Value::Array(items) => {
            output.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    output.push(',');
                }
                write_json(item, output, depth + 1);
            }
            output.push(']');
        }
        Value::Object(fields) => {
            output.push('{');
            for (index, (name, field)) in fields.iter().enumerate() {
                if index > 0 {
                    output.push(',');
                }
                json_text(name, output);
                output.push(':');
                write_json(field, output, depth + 1);
            }
            output.push('}');
        }
    }
}

/// Text in quotes, escaped as `encoding/json` does.
pub(crate) fn json_text(text: &str, output: &mut String) {
    output.push('"');
    for character in text.chars() {
        match character {
            '"' => output.push_str("\\\""),
            '\\' => output.push_str("\\\\"),
            '\n' => output.push_str("\\n"),
            '\r' => output.push_str("\\r"),
            '\t' => output.push_str("\\t"),
            '\u{8}' => output.push_str("\\b"),
            '\u{c}' => output.push_str("\\f"),
            '\0'..='\u{1f}' | '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                let _ = write!(output, "\\u{:04x}", u32::from(character));
            }
            other => output.push(other),
        }
    }
    output.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_are_written_as_in_go() {
        for (value, expected) in [
            (1.0, "1"),
            (0.1, "0.1"),
            (1e21, "1e+21"),
            (123_456_789_012_345_680_000.0, "1.2345678901234568e+20"),
            (1_000_000.5, "1.0000005e+06"),
            (100_000.5, "100000.5"),
            (0.000_01, "1e-05"),
            (0.0001, "0.0001"),
            (-2.5e-9, "-2.5e-09"),
        ] {
            assert_eq!(float(value), expected);
        }
        assert_eq!(json_float(0.000_001), "0.000001");
        assert_eq!(json_float(2.5e-9), "2.5e-9");
    }

    #[test]
    fn text_is_quoted_as_in_go() {
        assert_eq!(quote("a\"b\\\n\u{1}é\u{200b}\u{10ffff}"), r#""a\"b\\\n\x01é\u200b\U0010ffff""#);
        assert_eq!(json(&serde_json::json!({"a": ["<b>", null]})), r#"{"a":["\u003cb\u003e",null]}"#);
    }
}
