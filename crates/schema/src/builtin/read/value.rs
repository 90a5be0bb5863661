//! Reads single values by their form.
//!
//! Follows apimachinery 0.36.4, `pkg/apis/meta/v1/time.go`, `pkg/util/intstr/intstr.go`.

use ::base64::Engine as _;
use ::base64::engine::general_purpose::STANDARD;
use ferroplane_cancellation::checkpoint;
use ferroplane_cel::quantity;
use ferroplane_golang::base64;
use serde_json::{Map, Value};

use super::super::location::FieldLocation;
use super::super::table::{FieldType, Form};
use super::{ReadResult, Reader, zero};
use crate::structural::number_to_json;
use crate::structural::object_meta::time;

impl Reader {
    pub(super) fn value(
        &mut self,
        shape: &'static FieldType,
        json: &Value,
        place: &FieldLocation<'_>,
    ) -> ReadResult {
        checkpoint();
        if json.is_null() {
            return Ok(None);
        }
        Ok(match (&shape.form, json) {
            (Form::Text, Value::String(_))
            | (Form::Flag, Value::Bool(_))
            | (Form::Raw | Form::FieldsV1 | Form::Json, _) => Some(json.clone()),
            (Form::Int32, _) => self.integer(shape, json, place, i64::from(i32::MIN)..=i64::from(i32::MAX)),
            (Form::Int64, _) => self.integer(shape, json, place, i64::MIN..=i64::MAX),
            (Form::Double, Value::Number(number)) => number.as_f64().map(number_to_json),
            (Form::Quantity, _) => Some(amount(json)?),
            (Form::Time, _) => Some(time_of(json, place, time::normalize)?),
            (Form::MicroTime, _) => Some(time_of(json, place, time::normalize_micro)?),
            (Form::IntOrText, _) => Some(int_or_text(json, place)?),
            (Form::Bytes, Value::String(text)) => self.bytes(text, place),
            (Form::Bytes, Value::Array(list)) => Some(self.byte_list(list, place)),
            (Form::SchemaOrList, _) => self.schema_or_list(json, place)?,
            (Form::SchemaOrFlag, _) => self.schema_or_flag(json, place)?,
            (Form::SchemaOrTexts, _) => self.schema_or_texts(json, place)?,
            (Form::List { item, .. }, Value::Array(list)) => Some(self.list(item, list, place)?),
            (Form::Map(item), Value::Object(map)) => Some(self.map(item, map, place)?),
            (Form::Struct(reference), _) => {
                Some(Value::Object(self.structure(reference.get(), json, place)?))
            }
            (Form::Text | Form::Flag | Form::Double | Form::Bytes | Form::List { .. } | Form::Map(_), _) => {
                self.note(place, json, &shape.go_name());
                None
            }
        })
    }

    fn integer(
        &mut self,
        shape: &FieldType,
        json: &Value,
        place: &FieldLocation<'_>,
        range: std::ops::RangeInclusive<i64>,
    ) -> Option<Value> {
        let Value::Number(number) = json else {
            self.note(place, json, &shape.go_name());
            return None;
        };
        let integer = number.as_i64().filter(|integer| range.contains(integer));
        if integer.is_none() {
            self.note_as(place, json, &format!("number {number}"), &shape.go_name());
        }
        integer.map(Value::from)
    }

    fn bytes(&mut self, text: &str, place: &FieldLocation<'_>) -> Option<Value> {
        let at = match base64::decode(text.as_bytes()) {
            Ok(bytes) => return Some(Value::from(STANDARD.encode(bytes))),
            Err(at) => at,
        };
        let words = format!("illegal base64 data at input byte {at}");
        let wanted = "[]uint8".to_owned();
        self.mismatches.push(super::Mismatch { path: place.path(), found: "string", wanted, words });
        None
    }

    /// Bytes as numbers, which Go takes too.
    fn byte_list(&mut self, list: &[Value], place: &FieldLocation<'_>) -> Value {
        let mut bytes = Vec::with_capacity(list.len());
        for (index, json) in list.iter().enumerate() {
            let number = json.as_u64().and_then(|number| u8::try_from(number).ok());
            match json {
                _ if number.is_some() || json.is_null() => {}
                Value::Number(number) => {
                    self.note_as(&place.index(index), json, &format!("number {number}"), "uint8");
                }
                other => self.note(&place.index(index), other, "uint8"),
            }
            bytes.push(number.unwrap_or_default());
        }
        Value::from(STANDARD.encode(bytes))
    }

    pub(super) fn list(
        &mut self,
        item: &'static FieldType,
        list: &[Value],
        place: &FieldLocation<'_>,
    ) -> Result<Value, String> {
        let mut read = Vec::with_capacity(list.len());
        for (index, json) in list.iter().enumerate() {
            let value = self.value(item, json, &place.index(index))?;
            read.push(value.unwrap_or_else(|| zero(item)));
        }
        Ok(Value::Array(read))
    }

    fn map(
        &mut self,
        item: &'static FieldType,
        map: &Map<String, Value>,
        place: &FieldLocation<'_>,
    ) -> Result<Value, String> {
        let mut read = Map::new();
        for (key, json) in map {
            let value = self.value(item, json, &place.key(key))?;
            read.insert(key.clone(), value.unwrap_or_else(|| zero_in_map(item)));
        }
        Ok(Value::Object(read))
    }
}

/// In a map, protobuf cannot tell nothing from what is empty.
fn zero_in_map(item: &FieldType) -> Value {
    match item.form {
        Form::Bytes => Value::from(""),
        Form::List { .. } => Value::Array(Vec::new()),
        _ => zero(item),
    }
}

fn amount(json: &Value) -> Result<Value, String> {
    let text = match json {
        Value::String(text) => text.trim().to_owned(),
        other => other.to_string(),
    };
    quantity::canonical(&text).map(Value::from).map_err(|error| error.to_string())
}

fn time_of(
    json: &Value,
    place: &FieldLocation<'_>,
    normalize: fn(&str) -> Result<Option<String>, String>,
) -> Result<Value, String> {
    match json {
        Value::String(text) => Ok(normalize(text)?.map_or(Value::Null, Value::from)),
        other => Err(place.mismatch(super::word(other), "string")),
    }
}

fn int_or_text(json: &Value, place: &FieldLocation<'_>) -> Result<Value, String> {
    match json {
        Value::String(_) => Ok(json.clone()),
        Value::Number(number) => match number.as_i64().filter(|integer| i32::try_from(*integer).is_ok()) {
            Some(integer) => Ok(Value::from(integer)),
            None => Err(place.mismatch(&format!("number {number}"), "int32")),
        },
        other => Err(place.mismatch(super::word(other), "int32")),
    }
}
