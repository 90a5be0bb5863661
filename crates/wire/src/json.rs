//! The JSON form of the protocol's messages, as protobuf defines it, driven by tables of their fields.
//!
//! Reading accepts `camelCase` and `snake_case`, enums by name or number, bytes as base64 and `null` for
//! "absent", and refuses fields that do not exist. Writing leaves out what is not set.

use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use bytes::Bytes;
use prost::Message as _;
use prost::encoding::{WireType, encode_key, encode_varint};
use serde_json::{Map, Value};

use crate::codec::{self, Fields, MAX_DEPTH, StructError, WireField};
use crate::generated::tables;
use crate::v1;

/// Why JSON is not the message it should be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {problem}")]
pub struct JsonError {
    path: String,
    problem: String,
}

/// A message whose fields have a table.
pub trait Described: prost::Message + Default {
    #[doc(hidden)]
    fn table() -> &'static Message;
}

macro_rules! described {
    ($($message:ident => $table:ident),* $(,)?) => {
        $(impl Described for v1::$message {
            fn table() -> &'static Message {
                &tables::$table
            }
        })*
    };
}

described! {
    RunFunctionRequest => RUN_FUNCTION_REQUEST,
    RunFunctionResponse => RUN_FUNCTION_RESPONSE,
    ResourceSelector => RESOURCE_SELECTOR,
    SchemaSelector => SCHEMA_SELECTOR,
}

/// The message that this JSON describes.
pub fn from_json<M: Described>(json: &Value) -> Result<M, JsonError> {
    let mut message = M::default();
    merge_json(&mut message, json)?;
    Ok(message)
}

/// Merge what this JSON describes into a message, as protobuf does: map entries are replaced, lists grow.
pub fn merge_json<M: Described>(message: &mut M, json: &Value) -> Result<(), JsonError> {
    // Through bytes, because prost merges messages from bytes only; that keeps one definition of what
    // merging means.
    let mut wire = Vec::new();
    write_message(M::table(), json, &mut wire).map_err(|problem| problem.at(M::table().name))?;
    message
        .merge(Bytes::from(wire))
        .map_err(|error| JsonError { path: M::table().name.to_owned(), problem: error.to_string() })
}

/// The JSON form of the message.
pub fn to_json<M: Described>(message: &M) -> Result<Value, StructError> {
    read_message(M::table(), &message.encode_to_vec())
}

/// What a message is made of.
#[derive(Debug)]
pub struct Message {
    pub(crate) name: &'static str,
    pub(crate) fields: &'static [FieldOf],
}

#[derive(Debug)]
pub(crate) struct FieldOf {
    pub(crate) number: u32,
    pub(crate) name: &'static str,
    pub(crate) json: &'static str,
    pub(crate) shape: Shape,
    pub(crate) kind: Kind,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    One,
    List,
    /// Keys are strings.
    Map,
}

#[derive(Debug)]
pub(crate) enum Kind {
    Text,
    Bytes,
    Enum(&'static [(&'static str, i32)]),
    Struct,
    Duration,
    Message(&'static Message),
}

/// What is wrong, and the way to it, collected from the inside out.
struct ReadProblem {
    path: Vec<String>,
    what: String,
}

impl ReadProblem {
    fn new(what: impl Into<String>) -> Self {
        Self { path: Vec::new(), what: what.into() }
    }

    fn under(mut self, part: impl Into<String>) -> Self {
        self.path.push(part.into());
        self
    }

    fn at(self, root: &str) -> JsonError {
        let path = self.path.iter().rev().fold(root.to_owned(), |path, part| path + part);
        JsonError { path, problem: self.what }
    }
}

fn expected(what: &str, got: &Value) -> ReadProblem {
    let kind = match got {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    };
    ReadProblem::new(format!("expected {what}, got {kind}"))
}

fn write_message(message: &Message, json: &Value, out: &mut Vec<u8>) -> Result<(), ReadProblem> {
    let object = json.as_object().ok_or_else(|| expected("an object", json))?;
    for (key, value) in object {
        let field = message.fields.iter().find(|field| field.json == key || field.name == key);
        let field = field.ok_or_else(|| ReadProblem::new(format!("unknown field `{key}`")))?;
        if !value.is_null() {
            write_field(field, value, out).map_err(|problem| problem.under(format!(".{key}")))?;
        }
    }
    Ok(())
}

fn write_field(field: &FieldOf, json: &Value, out: &mut Vec<u8>) -> Result<(), ReadProblem> {
    match field.shape {
        Shape::One => write_value(field.number, &field.kind, json, out),
        Shape::List => {
            let items = json.as_array().ok_or_else(|| expected("a list", json))?;
            for (index, item) in items.iter().enumerate() {
                write_value(field.number, &field.kind, item, out)
                    .map_err(|problem| problem.under(format!("[{index}]")))?;
            }
            Ok(())
        }
        Shape::Map => {
            let entries = json.as_object().ok_or_else(|| expected("an object", json))?;
            for (key, value) in entries {
                let mut entry = Vec::new();
                put_bytes(1, key.as_bytes(), &mut entry);
                write_value(2, &field.kind, value, &mut entry)
                    .map_err(|problem| problem.under(format!("[{key:?}]")))?;
                put_bytes(field.number, &entry, out);
            }
            Ok(())
        }
    }
}

fn write_value(number: u32, kind: &Kind, json: &Value, out: &mut Vec<u8>) -> Result<(), ReadProblem> {
    match kind {
        Kind::Text => put_bytes(number, text_of(json)?.as_bytes(), out),
        Kind::Bytes => put_bytes(number, &bytes_of(json)?, out),
        Kind::Duration => put_bytes(number, &duration_of(json)?.encode_to_vec(), out),
        Kind::Enum(values) => {
            encode_key(number, WireType::Varint, out);
            // Protobuf extends the sign of enums to 64 bits.
            encode_varint(i64::from(enum_of(values, json)?).cast_unsigned(), out);
        }
        Kind::Struct => {
            let object = json.as_object().ok_or_else(|| expected("an object", json))?;
            let wire = codec::encode(object).map_err(|error| ReadProblem::new(error.to_string()))?;
            put_bytes(number, &wire, out);
        }
        Kind::Message(message) => {
            let mut inner = Vec::new();
            write_message(message, json, &mut inner)?;
            put_bytes(number, &inner, out);
        }
    }
    Ok(())
}

fn put_bytes(number: u32, bytes: &[u8], out: &mut Vec<u8>) {
    encode_key(number, WireType::LengthDelimited, out);
    encode_varint(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}

fn text_of(json: &Value) -> Result<&str, ReadProblem> {
    json.as_str().ok_or_else(|| expected("a string", json))
}

fn bytes_of(json: &Value) -> Result<Vec<u8>, ReadProblem> {
    const LENIENT: GeneralPurposeConfig =
        GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
    let text = text_of(json)?;
    // protojson accepts both alphabets, with or without padding.
    let alphabet = if text.contains(['-', '_']) { &alphabet::URL_SAFE } else { &alphabet::STANDARD };
    GeneralPurpose::new(alphabet, LENIENT)
        .decode(text)
        .map_err(|error| ReadProblem::new(format!("expected base64: {error}")))
}

fn enum_of(values: &[(&str, i32)], json: &Value) -> Result<i32, ReadProblem> {
    match json {
        Value::String(name) => {
            let known = values.iter().find(|(candidate, _)| candidate == name);
            known.map(|(_, number)| *number).ok_or_else(|| {
                let names: Vec<_> = values.iter().map(|(name, _)| *name).collect();
                ReadProblem::new(format!("`{name}` is none of {}", names.join(", ")))
            })
        }
        Value::Number(number) => number
            .as_i64()
            .and_then(|number| i32::try_from(number).ok())
            .ok_or_else(|| ReadProblem::new("expected a 32-bit integer")),
        other => Err(expected("the name of an enum value", other)),
    }
}

/// Seconds with up to nine digits after the point, and an `s`.
fn duration_of(json: &Value) -> Result<prost_types::Duration, ReadProblem> {
    let bad = || ReadProblem::new(format!("expected a duration in seconds such as \"60s\", got {json}"));
    let text = text_of(json)?.strip_suffix('s').ok_or_else(bad)?;
    let (is_negative, digits) = text.strip_prefix('-').map_or((false, text), |digits| (true, digits));
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || fraction.len() > 9 || !is_number(whole) || !is_number(fraction) {
        return Err(bad());
    }
    let sign = if is_negative { -1 } else { 1 };
    let seconds: i64 = whole.parse().map_err(|_| bad())?;
    let nanos: i32 = format!("{fraction:0<9}").parse().map_err(|_| bad())?;
    Ok(prost_types::Duration { seconds: seconds * i64::from(sign), nanos: nanos * sign })
}

fn read_message(message: &Message, wire: &[u8]) -> Result<Value, StructError> {
    read_nested(message, wire, MAX_DEPTH)
}

fn read_nested(message: &Message, wire: &[u8], depth: usize) -> Result<Value, StructError> {
    let depth = depth.checked_sub(1).ok_or(StructError::TooDeep)?;
    let mut object = Map::new();
    for field in Fields(wire) {
        let (number, content) = field?;
        // A search through a dozen fields is as fast as any table.
        let Some(field) = message.fields.iter().find(|field| u64::from(field.number) == number) else {
            continue;
        };
        match field.shape {
            Shape::One => {
                // Replaced and not merged: `to_json` has encoded these bytes itself, so that no message comes
                // in two pieces.
                object.insert(field.json.to_owned(), read_value(&field.kind, &content, depth)?);
            }
            Shape::List => {
                let items = object.entry(field.json).or_insert_with(|| Value::Array(Vec::new()));
                for value in read_items(&field.kind, &content, depth)? {
                    items.as_array_mut().expect("was made as a list").push(value);
                }
            }
            Shape::Map => {
                let WireField::Bytes(entry) = content else { return Err(StructError::Malformed) };
                let (key, value) = read_entry(&field.kind, entry, depth)?;
                let entries = object.entry(field.json).or_insert_with(|| Value::Object(Map::new()));
                entries.as_object_mut().expect("was made as an object").insert(key, value);
            }
        }
    }
    Ok(Value::Object(object))
}

/// Repeated enums may come packed, many to a field.
fn read_items(kind: &Kind, content: &WireField<'_>, depth: usize) -> Result<Vec<Value>, StructError> {
    let (Kind::Enum(_), WireField::Bytes(packed)) = (kind, content) else {
        return Ok(vec![read_value(kind, content, depth)?]);
    };
    let mut rest = *packed;
    let mut values = Vec::new();
    while !rest.is_empty() {
        let number = prost::encoding::decode_varint(&mut rest).map_err(|_| StructError::Malformed)?;
        values.push(read_value(kind, &WireField::Varint(number), depth)?);
    }
    Ok(values)
}

fn read_entry(kind: &Kind, entry: &[u8], depth: usize) -> Result<(String, Value), StructError> {
    let (mut key, mut value) = (String::new(), None);
    for field in Fields(entry) {
        match field? {
            (1, WireField::Bytes(bytes)) => key = read_text(bytes)?,
            (2, content) => value = Some(read_value(kind, &content, depth)?),
            _ => {}
        }
    }
    // An entry whose value is the default may leave it out.
    let default = || read_value(kind, &WireField::Bytes(&[]), depth);
    Ok((key, value.map_or_else(default, Ok)?))
}

fn read_value(kind: &Kind, content: &WireField<'_>, depth: usize) -> Result<Value, StructError> {
    Ok(match (kind, content) {
        (Kind::Text, WireField::Bytes(bytes)) => Value::String(read_text(bytes)?),
        (Kind::Bytes, WireField::Bytes(bytes)) => {
            Value::String(base64::engine::general_purpose::STANDARD.encode(bytes))
        }
        (Kind::Enum(values), WireField::Varint(number)) => read_enum(values, *number),
        (Kind::Struct, WireField::Bytes(bytes)) => Value::Object(codec::decode(bytes)?),
        (Kind::Duration, WireField::Bytes(bytes)) => {
            let duration = prost_types::Duration::decode(*bytes).map_err(|_| StructError::Malformed)?;
            Value::String(print_duration(duration))
        }
        (Kind::Message(message), WireField::Bytes(bytes)) => read_nested(message, bytes, depth)?,
        _ => return Err(StructError::Malformed),
    })
}

fn read_text(bytes: &[u8]) -> Result<String, StructError> {
    String::from_utf8(bytes.to_vec()).map_err(|_| StructError::NotText)
}

fn read_enum(values: &[(&str, i32)], number: u64) -> Value {
    let number = number.cast_signed();
    let known = values.iter().find(|(_, value)| i64::from(*value) == number);
    // A value that a later version of the protocol has is kept as its number, as protojson does.
    known.map_or_else(|| Value::from(number), |(name, _)| Value::from(*name))
}

fn print_duration(duration: prost_types::Duration) -> String {
    let sign = if duration.seconds < 0 || duration.nanos < 0 { "-" } else { "" };
    let (seconds, nanos) = (duration.seconds.unsigned_abs(), duration.nanos.unsigned_abs());
    if nanos == 0 {
        return format!("{sign}{seconds}s");
    }
    let fraction = format!("{nanos:09}");
    format!("{sign}{seconds}.{}s", fraction.trim_end_matches('0'))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::v1::{RunFunctionRequest, RunFunctionResponse};

    fn full_response() -> Value {
        json!({
            "meta": {"tag": "t", "ttl": "60s"},
            "desired": {
                "composite": {"resource": {"status": {"replicas": 3}}, "ready": "READY_TRUE"},
                "resources": {"bucket": {
                    "resource": {"apiVersion": "v1", "kind": "Bucket"},
                    "connectionDetails": {"password": "c2VjcmV0"},
                    "ready": "READY_FALSE"
                }}
            },
            "results": [{"severity": "SEVERITY_NORMAL", "message": "hi", "reason": "Because", "target": "TARGET_COMPOSITE"}],
            "context": {"key": {"nested": [1, 2.5]}},
            "requirements": {
                "resources": {"settings": {"apiVersion": "v1", "kind": "ConfigMap", "matchName": "s", "namespace": "default"}},
                "extraResources": {"all": {"apiVersion": "v1", "kind": "Pod", "matchLabels": {"labels": {"a": "b"}}}},
                "schemas": {"own": {"apiVersion": "v1", "kind": "Pod"}}
            },
            "conditions": [{"type": "Fine", "status": "STATUS_CONDITION_TRUE", "reason": "Ok", "message": "m"}],
            "output": {"answer": 42}
        })
    }

    #[test]
    fn every_float_is_read_as_it_was_written() {
        // Spread over all exponents and signs, the same in every run.
        let mut bits = 0x9e37_79b9_7f4a_7c15_u64;
        for _ in 0..10_000 {
            bits = bits.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            let float = f64::from_bits(bits);
            if !float.is_finite() {
                continue;
            }
            let text = serde_json::to_string(&float).unwrap();
            let read: Value = serde_json::from_str(&text).unwrap();
            assert_eq!(read.as_f64().map(f64::to_bits), Some(bits), "{text}");
        }
    }

    #[test]
    fn every_field_of_a_response_survives() {
        let message: RunFunctionResponse = from_json(&full_response()).unwrap();
        assert_eq!(to_json(&message).unwrap(), full_response());
        assert_eq!(message.desired.unwrap().resources()["bucket"].connection_details["password"], "secret");
    }

    #[test]
    fn every_field_of_a_request_survives() {
        let json = json!({
            "meta": {"tag": "t", "capabilities": ["CAPABILITY_CAPABILITIES", "CAPABILITY_CONDITIONS"]},
            "observed": {"composite": {"resource": {"kind": "XR"}}},
            "desired": {},
            "input": {"kind": "Input"},
            "context": {},
            "extraResources": {"x": {"items": [{"resource": {"kind": "X"}}]}},
            "credentials": {"cloud": {"credentialData": {"data": {"token": "YQ=="}}}},
            "requiredResources": {"absent": {}, "there": {"items": [{"resource": {"kind": "Y"}}]}},
            "requiredSchemas": {"s": {"openapiV3": {"type": "object"}}}
        });
        let message: RunFunctionRequest = from_json(&json).unwrap();
        assert_eq!(to_json(&message).unwrap(), json);
        assert!(message.required_resources.contains_key("absent"));
    }

    #[test]
    fn snake_case_numbers_and_nulls_are_read() {
        let json = json!({"desired": {"resources": {"a": {"connection_details": {"k": "_-8"}, "ready": 1}}},
                          "context": null});
        let message: RunFunctionResponse = from_json(&json).unwrap();
        let desired = message.desired.unwrap();
        assert_eq!(desired.resources()["a"].ready, 1);
        assert_eq!(desired.resources()["a"].connection_details["k"][..], [0xff, 0xef]);
        assert!(message.context.is_none());
    }

    #[test]
    fn mistakes_are_named_with_their_place() {
        let cases = [
            (json!({"desird": {}}), "RunFunctionResponse: unknown field `desird`"),
            (
                json!({"results": [{}, {"severity": "BAD"}]}),
                "RunFunctionResponse.results[1].severity: `BAD` is none of SEVERITY_UNSPECIFIED, \
                 SEVERITY_FATAL, SEVERITY_WARNING, SEVERITY_NORMAL",
            ),
            (
                json!({"meta": {"ttl": "1m"}}),
                "RunFunctionResponse.meta.ttl: expected a duration in seconds such as \"60s\", got \"1m\"",
            ),
            (
                json!({"desired": {"resources": {"a b": {"resource": []}}}}),
                "RunFunctionResponse.desired.resources[\"a b\"].resource: expected an object, got a list",
            ),
        ];
        for (json, message) in cases {
            assert_eq!(from_json::<RunFunctionResponse>(&json).unwrap_err().to_string(), message);
        }
    }

    #[test]
    fn durations_read_as_they_print() {
        for text in ["0s", "60s", "1.5s", "-2.25s", "0.000000001s"] {
            let duration = duration_of(&json!(text)).map_err(|problem| problem.what).unwrap();
            assert_eq!(print_duration(duration), text);
        }
    }
}
