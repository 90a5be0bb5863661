//! JSON as Go's encoder writes it: keys in order, and letters escaped that browsers could trip over.
//!
//! Follows Go 1.26, `encoding/json/encode.go`.

use serde_json::{Map, Number, Value};

use crate::fmt::{Any, Numbers};
use crate::strconv::format_float;

/// A JSON object: a Kubernetes object, or a part of one.
pub type JsonObject = Map<String, Value>;

/// The number as the 64 bit integer Kubernetes would read, if it is one. Fractions of zero do not count:
/// on the wire of functions every number is a float, so `2.0` and `2` are the same.
pub fn integer(number: &Number) -> Option<i64> {
    // The limits are exactly representable: -2^63 and 2^63.
    const LOWEST: f64 = -9_223_372_036_854_775_808.0;
    const PAST_HIGHEST: f64 = 9_223_372_036_854_775_808.0;
    // Before floats are checked: they have 53 bits, so an integer that went through one could be another.
    if let Some(whole) = number.as_i64() {
        return Some(whole);
    }
    let float = number.as_f64()?;
    #[expect(clippy::cast_possible_truncation, reason = "it is whole and within the limits")]
    (float.fract() == 0.0 && (LOWEST..PAST_HIGHEST).contains(&float)).then_some(float as i64)
}

/// A value of a document as JSON text.
pub fn marshal(value: &Value) -> String {
    let mut out = Writer { out: String::new(), escapes_html: true };
    out.value(value, Numbers::AsWritten);
    out.out
}

/// A float: with an exponent only where the number would get unreadable, and no zero in front of that.
pub fn float_text(float: f64) -> String {
    let size = float.abs();
    // These are the limits of JavaScript's `Number.toString`, which Go's `floatEncoder` follows.
    if size == 0.0 || (1e-6..1e21).contains(&size) {
        return format_float(float, 'f', None);
    }
    // Go drops the zero of `e-09` only: positive exponents begin at `e+21` and never have one.
    format_float(float, 'e', None).replace("e-0", "e-")
}

/// Appends text in quotes.
pub fn push_string(text: &str, output: &mut String) {
    // Taking and giving back the buffer spares a copy: patches and keys of managed fields are built
    // with many short strings.
    let mut out = Writer { out: std::mem::take(output), escapes_html: true };
    out.text(text);
    *output = out.out;
}

/// The value as JSON text. The problem is a float that JSON does not have.
pub fn marshal_any(value: &Any<'_>) -> Result<String, String> {
    let mut out = Writer { out: String::new(), escapes_html: true };
    match value {
        Any::Nil | Any::NilArray | Any::NilObject => out.push("null"),
        Any::Bool(truth) => out.push(if *truth { "true" } else { "false" }),
        Any::Int(whole) => out.push(&whole.to_string()),
        Any::Float(float) if !float.is_finite() => {
            return Err(format!("json: unsupported value: {}", format_float(*float, 'g', None)));
        }
        Any::Float(float) => out.float(*float),
        Any::Text(text) => out.text(text),
        Any::Bytes(bytes) => out.bytes(bytes),
        Any::Array(items, numbers) => out.array(items, *numbers),
        Any::Object(object, numbers) => out.object(object, *numbers),
    }
    Ok(out.out)
}

/// The value as JSON text, without the escapes for browsers.
pub fn marshal_without_html_escapes(value: &Value) -> String {
    let mut out = Writer { out: String::new(), escapes_html: false };
    out.value(value, Numbers::Integers);
    out.out
}

struct Writer {
    out: String,
    escapes_html: bool,
}

impl Writer {
    fn push(&mut self, text: &str) {
        self.out.push_str(text);
    }

    fn value(&mut self, value: &Value, numbers: Numbers) {
        match value {
            Value::Null => self.push("null"),
            Value::Bool(truth) => self.push(if *truth { "true" } else { "false" }),
            Value::Number(_) => match Any::of(value, numbers) {
                Any::Int(whole) => self.push(&whole.to_string()),
                Any::Float(float) => self.float(float),
                _ => {}
            },
            Value::String(text) => self.text(text),
            Value::Array(items) => self.array(items, numbers),
            Value::Object(object) => self.object(object, numbers),
        }
    }

    fn array(&mut self, items: &[Value], numbers: Numbers) {
        self.push("[");
        for (at, item) in items.iter().enumerate() {
            if at > 0 {
                self.push(",");
            }
            self.value(item, numbers);
        }
        self.push("]");
    }

    fn object(&mut self, object: &Map<String, Value>, numbers: Numbers) {
        self.push("{");
        for (at, (key, value)) in object.iter().enumerate() {
            if at > 0 {
                self.push(",");
            }
            self.text(key);
            self.push(":");
            self.value(value, numbers);
        }
        self.push("}");
    }

    fn float(&mut self, float: f64) {
        self.push(&float_text(float));
    }

    /// What is no text is written as the escape of the replacement character, byte by byte.
    fn bytes(&mut self, bytes: &[u8]) {
        self.push("\"");
        for chunk in bytes.utf8_chunks() {
            self.letters(chunk.valid());
            self.push(&"\\ufffd".repeat(chunk.invalid().len()));
        }
        self.push("\"");
    }

    fn text(&mut self, text: &str) {
        self.push("\"");
        self.letters(text);
        self.push("\"");
    }

    fn letters(&mut self, text: &str) {
        for letter in text.chars() {
            match letter {
                '"' => self.push("\\\""),
                '\\' => self.push("\\\\"),
                '\u{8}' => self.push("\\b"),
                '\u{c}' => self.push("\\f"),
                '\n' => self.push("\\n"),
                '\r' => self.push("\\r"),
                '\t' => self.push("\\t"),
                // Go escapes the two separators whatever is set about HTML: JSON may have them, and JavaScript
                // could not.
                '\0'..='\u{1f}' | '\u{2028}' | '\u{2029}' => self.escape(letter),
                '<' | '>' | '&' if self.escapes_html => self.escape(letter),
                _ => self.out.push(letter),
            }
        }
    }

    fn escape(&mut self, letter: char) {
        self.push(&format!("\\u{:04x}", u32::from(letter)));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn text(value: &Value) -> String {
        marshal_any(&Any::of(value, Numbers::Floats)).unwrap()
    }

    #[test]
    fn json_is_written_as_go_does() {
        let value = json!({"b": [1, 2.5, null, true], "a": "<&>\u{1}\n\u{2028}é", "c": {}});
        assert_eq!(text(&value), r#"{"a":"\u003c\u0026\u003e\u0001\n\u2028é","b":[1,2.5,null,true],"c":{}}"#);
        assert_eq!(text(&json!([1e20, 1e21, 1e-6, 1e-7])), "[100000000000000000000,1e+21,0.000001,1e-7]");
        assert_eq!(marshal_any(&Any::Float(f64::NAN)), Err("json: unsupported value: NaN".into()));
        assert_eq!(marshal(&json!({"a": ["<b>", null, 2.5e-9]})), r#"{"a":["\u003cb\u003e",null,2.5e-9]}"#);
    }

    #[test]
    fn line_separators_are_escaped_even_where_html_is_not() {
        assert_eq!(marshal_without_html_escapes(&json!("<\u{2028}\u{2029}>")), r#""<\u2028\u2029>""#);
    }

    #[test]
    fn floats_have_an_exponent_only_when_they_are_very_large_or_small() {
        for (float, json) in [
            (1.0, "1"),
            (1e20, "100000000000000000000"),
            (1e21, "1e+21"),
            (0.0001, "0.0001"),
            (0.000_01, "0.00001"),
            (0.000_000_1, "1e-7"),
            (1_000_000.0, "1000000"),
            (123_456_789.5, "123456789.5"),
            (-0.5, "-0.5"),
        ] {
            assert_eq!(float_text(float), json);
        }
    }

    #[test]
    fn integers_are_those_kubernetes_would_read() {
        let read = |value: Value| integer(value.as_number().unwrap());
        assert_eq!(read(json!(3.0)), Some(3));
        assert_eq!(read(json!(-3)), Some(-3));
        assert_eq!(read(json!(9_007_199_254_740_993_i64)), Some(9_007_199_254_740_993));
        assert_eq!(read(json!(i64::MAX)), Some(i64::MAX));
        assert_eq!(read(json!(1e18)), Some(1_000_000_000_000_000_000));
        assert_eq!(read(json!(1e19)), None);
        assert_eq!(read(json!(u64::MAX)), None);
        assert_eq!(read(json!(1.5)), None);
    }
}
