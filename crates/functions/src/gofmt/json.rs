//! JSON as Go's encoder writes it: keys in order, and three letters escaped that browsers could trip over.

use serde_json::{Map, Value};

use super::{Any, Numbers, format_float};

/// The value as JSON text. The problem is a float that JSON does not have.
pub(crate) fn to_json(value: &Any<'_>) -> Result<String, String> {
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
pub(crate) fn to_plain_json(value: &Value) -> String {
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

    /// Exponents only where numbers get unreadable, and without a leading zero.
    fn float(&mut self, float: f64) {
        let size = float.abs();
        if size == 0.0 || (1e-6..1e21).contains(&size) {
            self.push(&format_float(float, 'f', None));
        } else {
            self.push(&format_float(float, 'e', None).replace("e-0", "e-"));
        }
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
                '\0'..='\u{1f}' => self.escape(letter),
                '<' | '>' | '&' | '\u{2028}' | '\u{2029}' if self.escapes_html => self.escape(letter),
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
        to_json(&Any::of(value, Numbers::Floats)).unwrap()
    }

    #[test]
    fn json_is_written_as_go_does() {
        let value = json!({"b": [1, 2.5, null, true], "a": "<&>\u{1}\n\u{2028}é", "c": {}});
        assert_eq!(text(&value), r#"{"a":"\u003c\u0026\u003e\u0001\n\u2028é","b":[1,2.5,null,true],"c":{}}"#);
        assert_eq!(text(&json!([1e20, 1e21, 1e-6, 1e-7])), "[100000000000000000000,1e+21,0.000001,1e-7]");
        assert_eq!(to_json(&Any::Float(f64::NAN)), Err("json: unsupported value: NaN".into()));
    }
}
