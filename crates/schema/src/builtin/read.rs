//! Reads objects by the tables, with the leniency and the messages of Go's decoder, into what Kubernetes would store.
//!
//! Follows sigs.k8s.io/json of 2025-07-30, `internal/golang/encoding/json/decode.go`.

mod schema;
mod value;

use serde_json::{Map, Value};

use super::location::FieldLocation;
use super::table::{FieldType, Form, Type, TypeField};
use super::{MAX_DEPTH, Read};

/// More unknown fields than these are not told.
const MAX_UNKNOWN: usize = 100;
/// Objects have at most so many parts. A few bytes make a part of hundreds, so this bounds what an object may cost.
const MAX_PARTS: usize = 100_000;

/// A value that does not fit.
#[derive(Debug)]
pub(super) struct Mismatch {
    pub(super) path: String,
    pub(super) found: &'static str,
    pub(super) wanted: String,
    /// In the words of Go's decoder.
    pub(super) words: String,
}

/// What reading came across.
#[derive(Debug, Default)]
pub(super) struct Reader {
    pub(super) unknown: Vec<String>,
    pub(super) mismatches: Vec<Mismatch>,
    /// Whether to read on after errors at which Go's decoder gives up.
    goes_on: bool,
    parts: usize,
}

/// Nothing is a value that is null, or that did not fit. An error ends the reading.
type ReadResult = Result<Option<Value>, String>;

pub(super) fn read(of: &'static Type, object: &Value) -> Result<Read, String> {
    let mut reader = Reader::default();
    let object = reader.structure(of, object, &FieldLocation::ROOT)?;
    match reader.mismatches.into_iter().next() {
        Some(mismatch) => Err(mismatch.words),
        None => Ok(Read { object, unknown: reader.unknown }),
    }
}

impl Reader {
    /// One that finds everything that does not fit.
    pub(super) fn thorough() -> Self {
        Self { goes_on: true, ..Self::default() }
    }

    /// Whether reading was ended because there was too much.
    pub(super) fn is_exhausted(&self) -> bool {
        self.parts > MAX_PARTS
    }

    pub(super) fn structure(
        &mut self,
        of: &'static Type,
        json: &Value,
        place: &FieldLocation<'_>,
    ) -> Result<Map<String, Value>, String> {
        self.parts += 1;
        if self.parts > MAX_PARTS {
            return Err(format!("object has more than {MAX_PARTS} parts"));
        }
        let mut written = Map::new();
        if let Value::Object(given) = json {
            if place.depth() > MAX_DEPTH {
                return Err("exceeded max depth".to_owned());
            }
            for (name, value) in given {
                self.member(of, name, value, place, &mut written)?;
            }
        } else if !json.is_null() {
            self.note(place, json, &of.go_name());
        }
        // Go writes structs with all fields that lack `omitempty`, so that fields that were not sent appear in what is stored.
        for field in of.fields() {
            if !written.contains_key(field.name)
                && let Some(value) = absent(field)
            {
                written.insert(field.name.to_owned(), value);
            }
        }
        Ok(written)
    }

    fn member(
        &mut self,
        of: &'static Type,
        name: &str,
        value: &Value,
        place: &FieldLocation<'_>,
        written: &mut Map<String, Value>,
    ) -> Result<(), String> {
        let here = place.field(name, of);
        let Some(field) = of.field(name) else {
            if of.is_kind && matches!(name, "apiVersion" | "kind") {
                match value {
                    Value::String(text) if text.is_empty() => {}
                    Value::String(_) => _ = written.insert(name.to_owned(), value.clone()),
                    Value::Null => {}
                    other => self.note(&here, other, "string"),
                }
            // Counted, because each becomes a warning header, and an object can have a hundred thousand.
            } else if self.unknown.len() < MAX_UNKNOWN {
                self.unknown.push(here.path());
            }
            return Ok(());
        };
        let value = match self.value(&field.shape, value, &here) {
            Err(words) if self.goes_on => {
                self.mismatches.push(Mismatch {
                    path: here.path(),
                    found: word(value),
                    wanted: field.shape.go_name(),
                    words,
                });
                None
            }
            other => other?,
        };
        if let Some(value) = value.and_then(|value| present(field, value)) {
            written.insert(field.name.to_owned(), value);
        }
        Ok(())
    }

    /// Notes that a value does not fit, and reads on.
    fn note(&mut self, place: &FieldLocation<'_>, json: &Value, wanted: &str) {
        self.note_as(place, json, word(json), wanted);
    }

    fn note_as(&mut self, place: &FieldLocation<'_>, json: &Value, found: &str, wanted: &str) {
        if self.mismatches.len() < MAX_UNKNOWN {
            self.mismatches.push(Mismatch {
                path: place.path(),
                found: word(json),
                wanted: wanted.to_owned(),
                words: place.mismatch(found, wanted),
            });
        }
    }
}

/// What a field that is there is written as, if it is written.
fn present(field: &TypeField, value: Value) -> Option<Value> {
    // A pointer tells "not said" from zero, so that zero is written.
    if field.is_pointer {
        return Some(value);
    }
    if is_struct(&field.shape) {
        return (!field.omits_zero || value != zero(&field.shape)).then_some(value);
    }
    if !is_empty(&value) {
        return Some(value);
    }
    // Empty bytes differ from none, empty lists and maps do not.
    let is_bytes = matches!(field.shape.form, Form::Bytes);
    field.is_always_written.then(|| if is_bytes { value } else { zero(&field.shape) })
}

/// What a field that is not there is written as, if it is written.
fn absent(field: &TypeField) -> Option<Value> {
    if field.is_pointer {
        return field.is_always_written.then_some(Value::Null);
    }
    if is_struct(&field.shape) {
        return (!field.omits_zero).then(|| zero(&field.shape));
    }
    field.is_always_written.then(|| zero(&field.shape))
}

/// Whether Go keeps it as a struct, which it never takes for empty.
fn is_struct(shape: &FieldType) -> bool {
    match shape.form {
        Form::Struct(_)
        | Form::Quantity
        | Form::Time
        | Form::MicroTime
        | Form::IntOrText
        | Form::Raw
        | Form::FieldsV1
        | Form::Json
        | Form::SchemaOrList
        | Form::SchemaOrFlag
        | Form::SchemaOrTexts => true,
        Form::Text
        | Form::Flag
        | Form::Int32
        | Form::Int64
        | Form::Double
        | Form::Bytes
        | Form::List { .. }
        | Form::Map(_) => false,
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(flag) => !flag,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
    }
}

/// What Go writes for a value that was never set.
pub(super) fn zero(shape: &FieldType) -> Value {
    match &shape.form {
        Form::Text => Value::from(""),
        Form::Flag => Value::from(false),
        Form::Int32 | Form::Int64 | Form::Double | Form::IntOrText => Value::from(0),
        Form::Quantity => Value::from("0"),
        Form::Struct(reference) => zero_struct(reference.get()),
        _ => Value::Null,
    }
}

fn zero_struct(of: &'static Type) -> Value {
    let fields = of.fields().iter();
    let written = fields.filter_map(|field| Some((field.name.to_owned(), absent(field)?)));
    Value::Object(written.collect())
}

/// What the decoder calls a value that does not fit.
pub(super) fn word(json: &Value) -> &'static str {
    match json {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}
