//! A JSON value with the type it has in Go.
//!
//! Our own design: Go has `any`, which knows its type; a JSON value here does not.

use std::borrow::Cow;

use serde_json::{Map, Number, Value};

use crate::json::integer;

/// How the numbers of a JSON document are typed in Go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Numbers {
    /// All are `float64`: what came over the wire, and what Go's own decoder reads.
    Floats,
    /// Whole ones are `int64`, however they are written: what the decoder of Kubernetes reads of a number that came over
    /// the wire.
    Integers,
    /// Those written without a fraction that fit are `int64`: what the decoder of Kubernetes reads of a document.
    AsWritten,
}

/// A value of the Go type `any`.
#[derive(Debug, Clone, PartialEq)]
pub enum Any<'a> {
    Nil,
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(Cow<'a, str>),
    /// A Go string that is not UTF-8.
    Bytes(Vec<u8>),
    Array(Cow<'a, [Value]>, Numbers),
    /// An array that is nil: it prints as an empty one, but is null in JSON.
    NilArray,
    /// An object that is nil.
    NilObject,
    Object(Cow<'a, Map<String, Value>>, Numbers),
}

impl<'a> Any<'a> {
    pub fn of(value: &'a Value, numbers: Numbers) -> Self {
        match value {
            Value::Null => Self::Nil,
            Value::Bool(truth) => Self::Bool(*truth),
            Value::Number(number) => {
                let whole = match numbers {
                    Numbers::Floats => None,
                    Numbers::Integers => integer(number),
                    Numbers::AsWritten => number.as_i64(),
                };
                // `AsWritten` gives a float for `u64` values past `i64::MAX`, too: the decoder of
                // Kubernetes tries int64, then float64, and nothing between.
                whole.map_or_else(|| Self::Float(number.as_f64().unwrap_or_default()), Self::Int)
            }
            Value::String(text) => Self::Text(Cow::Borrowed(text)),
            Value::Array(items) => Self::Array(Cow::Borrowed(items), numbers),
            Value::Object(object) => Self::Object(Cow::Borrowed(object), numbers),
        }
    }

    pub fn text(text: String) -> Self {
        Self::Text(Cow::Owned(text))
    }

    /// Text of these bytes.
    pub fn bytes(bytes: Vec<u8>) -> Self {
        match String::from_utf8(bytes) {
            Ok(text) => Self::text(text),
            Err(error) => Self::Bytes(error.into_bytes()),
        }
    }

    /// The type as the verb `%T` writes it.
    pub fn type_name(&self) -> &'static str {
        match self {
            Self::Nil => "<nil>",
            Self::Bool(_) => "bool",
            Self::Int(_) => "int64",
            Self::Float(_) => "float64",
            Self::Text(_) | Self::Bytes(_) => "string",
            Self::Array(..) | Self::NilArray => "[]interface {}",
            Self::Object(..) | Self::NilObject => "map[string]interface {}",
        }
    }

    /// The value as JSON, if JSON has it: not every float is a number there.
    pub fn into_json(self) -> Option<Value> {
        Some(match self {
            Self::Nil | Self::NilArray | Self::NilObject => Value::Null,
            Self::Bool(truth) => Value::Bool(truth),
            Self::Int(whole) => Value::Number(whole.into()),
            Self::Float(float) => {
                // Whole floats lose their fraction, because Go prints `2.0` as `2` in JSON and
                // readers of our objects ask for integers.
                let number = Number::from_f64(float)?;
                Value::Number(integer(&number).map_or(number, Number::from))
            }
            Self::Text(text) => Value::String(text.into_owned()),
            Self::Bytes(bytes) => Value::String(to_text(&bytes)),
            Self::Array(items, _) => Value::Array(items.into_owned()),
            Self::Object(object, _) => Value::Object(object.into_owned()),
        })
    }
}

/// The bytes as text. Every byte that is not text becomes the replacement character, one by one.
// `String::from_utf8_lossy` would not do: it writes one replacement character for a whole broken sequence, Go writes one for
// each byte.
pub fn to_text(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        text.extend(chunk.invalid().iter().map(|_| char::REPLACEMENT_CHARACTER));
    }
    text
}
