//! JSON objects to the bytes of a `google.protobuf.Struct`, and back. Builds no tree in between.
//!
//! A `Struct` nests three messages per level of JSON, each prefixed with its length, so a generic encoder
//! measures deep objects over and over. Here one pass measures every object and list, and one pass writes.

use bytes::{BufMut, Bytes, BytesMut};
use prost::encoding::{encode_varint, encoded_len_varint};
use serde_json::{Map, Number, Value};

/// How deep objects and lists may nest. It is the depth at which the JSON parser gives up, too.
pub const MAX_DEPTH: usize = 128;

/// Why bytes are not a JSON object, or an object cannot become bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum StructError {
    /// Some list or object is nested too deeply.
    #[error("objects and lists are nested more than {MAX_DEPTH} levels deep")]
    TooDeep,
    /// JSON has no such number.
    #[error("a number is not finite")]
    NotFinite,
    /// A value that is none of null, number, string, boolean, object and list.
    #[error("a value has no kind")]
    NoKind,
    /// A key or string is not text.
    #[error("a string is not valid UTF-8")]
    NotText,
    /// The bytes end in the middle of something, or are something else altogether.
    #[error("the bytes are not a protobuf Struct")]
    Malformed,
}

// Field numbers of google.protobuf.{Struct, Value, ListValue}, with their wire types.
const ENTRY: u8 = 1 << 3 | 2;
const KEY: u8 = 1 << 3 | 2;
const VALUE: u8 = 2 << 3 | 2;
const NULL: u8 = 1 << 3;
const NUMBER: u8 = 2 << 3 | 1;
const STRING: u8 = 3 << 3 | 2;
const BOOL: u8 = 4 << 3;
const STRUCT: u8 = 5 << 3 | 2;
const LIST: u8 = 6 << 3 | 2;
const ITEM: u8 = 1 << 3 | 2;

pub(crate) fn encode(object: &Map<String, Value>) -> Result<Bytes, StructError> {
    let mut sizes = Vec::new();
    let size = measure_object(object, MAX_DEPTH, &mut sizes)?;
    let mut out = Writer { out: BytesMut::with_capacity(size), sizes, next: 0 };
    out.object(object);
    Ok(out.out.freeze())
}

/// Length of `tag + length prefix + body`.
const fn prefixed(body: usize) -> usize {
    1 + encoded_len_varint(body as u64) + body
}

/// Pushes the size of every nested object and list to `sizes`, in the order in which they will be written.
fn measure_object(
    object: &Map<String, Value>,
    depth: usize,
    sizes: &mut Vec<usize>,
) -> Result<usize, StructError> {
    let depth = depth.checked_sub(1).ok_or(StructError::TooDeep)?;
    let mut size = 0;
    for (key, value) in object {
        size += prefixed(prefixed(key.len()) + prefixed(measure_value(value, depth, sizes)?));
    }
    Ok(size)
}

fn measure_value(value: &Value, depth: usize, sizes: &mut Vec<usize>) -> Result<usize, StructError> {
    Ok(match value {
        // Written although null is the default: without it, the value would have no kind.
        Value::Null | Value::Bool(_) => 2,
        Value::Number(_) => 9,
        Value::String(text) => prefixed(text.len()),
        Value::Object(object) => {
            // Reserved before its content is measured: `Writer` meets containers in this order, outermost
            // first.
            let slot = reserve(sizes);
            sizes[slot] = measure_object(object, depth, sizes)?;
            prefixed(sizes[slot])
        }
        Value::Array(items) => {
            let depth = depth.checked_sub(1).ok_or(StructError::TooDeep)?;
            let slot = reserve(sizes);
            let mut size = 0;
            for item in items {
                size += prefixed(measure_value(item, depth, sizes)?);
            }
            sizes[slot] = size;
            prefixed(size)
        }
    })
}

fn reserve(sizes: &mut Vec<usize>) -> usize {
    sizes.push(0);
    sizes.len() - 1
}

struct Writer {
    out: BytesMut,
    sizes: Vec<usize>,
    next: usize,
}

impl Writer {
    fn object(&mut self, object: &Map<String, Value>) {
        for (key, value) in object {
            let value_size = self.size_of(value);
            self.prefix(ENTRY, prefixed(key.len()) + prefixed(value_size));
            self.text(KEY, key);
            self.prefix(VALUE, value_size);
            self.value(value);
        }
    }

    fn value(&mut self, value: &Value) {
        match value {
            Value::Null => self.out.put_slice(&[NULL, 0]),
            Value::Bool(truth) => self.out.put_slice(&[BOOL, u8::from(*truth)]),
            Value::Number(number) => {
                self.out.put_u8(NUMBER);
                // Integers past 2^53 lose digits here, as they do in every implementation: a `Struct` has
                // doubles only.
                self.out.put_f64_le(number.as_f64().unwrap_or_default());
            }
            Value::String(text) => self.text(STRING, text),
            Value::Object(object) => {
                let size = self.take_size();
                self.prefix(STRUCT, size);
                self.object(object);
            }
            Value::Array(items) => {
                let size = self.take_size();
                self.prefix(LIST, size);
                for item in items {
                    let size = self.size_of(item);
                    self.prefix(ITEM, size);
                    self.value(item);
                }
            }
        }
    }

    fn size_of(&self, value: &Value) -> usize {
        match value {
            Value::Null | Value::Bool(_) => 2,
            Value::Number(_) => 9,
            Value::String(text) => prefixed(text.len()),
            Value::Object(_) | Value::Array(_) => prefixed(self.sizes[self.next]),
        }
    }

    fn take_size(&mut self) -> usize {
        self.next += 1;
        self.sizes[self.next - 1]
    }

    fn prefix(&mut self, tag: u8, size: usize) {
        self.out.put_u8(tag);
        encode_varint(size as u64, &mut self.out);
    }

    fn text(&mut self, tag: u8, text: &str) {
        self.prefix(tag, text.len());
        self.out.put_slice(text.as_bytes());
    }
}

pub(crate) fn decode(bytes: &[u8]) -> Result<Map<String, Value>, StructError> {
    decode_object(bytes, MAX_DEPTH)
}

fn decode_object(bytes: &[u8], depth: usize) -> Result<Map<String, Value>, StructError> {
    let depth = depth.checked_sub(1).ok_or(StructError::TooDeep)?;
    let mut object = Map::new();
    for entry in Fields(bytes) {
        // Unknown fields are skipped, as everywhere in protobuf: a later version of the message may have
        // them.
        let (1, WireField::Bytes(entry)) = entry? else { continue };
        let (key, value) = split_entry(entry)?;
        object.insert(key.to_owned(), decode_value(value, depth)?);
    }
    Ok(object)
}

fn decode_value(bytes: &[u8], depth: usize) -> Result<Value, StructError> {
    Ok(match kind_of(bytes)? {
        ValueKind::Null => Value::Null,
        ValueKind::Bool(truth) => Value::Bool(truth),
        ValueKind::Number(number) => Value::Number(to_number(number)?),
        ValueKind::String(text) => Value::String(text.to_owned()),
        ValueKind::Struct(bytes) => Value::Object(decode_object(bytes, depth)?),
        ValueKind::List(bytes) => {
            let depth = depth.checked_sub(1).ok_or(StructError::TooDeep)?;
            Value::Array(items(bytes).map(|item| decode_value(item?, depth)).collect::<Result<_, _>>()?)
        }
    })
}

/// Whether the bytes are an object at all, and if so whether equal objects would have equal bytes.
pub(crate) fn check(bytes: &[u8]) -> Result<bool, StructError> {
    check_object(bytes, MAX_DEPTH)
}

fn check_object(bytes: &[u8], depth: usize) -> Result<bool, StructError> {
    let depth = depth.checked_sub(1).ok_or(StructError::TooDeep)?;
    let mut is_canonical = true;
    let mut previous = None;
    for entry in Fields(bytes) {
        let (1, WireField::Bytes(entry)) = entry? else { continue };
        let (key, value) = split_entry(entry)?;
        // Keys in strictly rising order are how `encode` writes; anything else may be an equal object in
        // other bytes.
        is_canonical &= check_value(value, depth)? && previous < Some(key);
        previous = Some(key);
    }
    Ok(is_canonical)
}

fn check_value(bytes: &[u8], depth: usize) -> Result<bool, StructError> {
    match kind_of(bytes)? {
        ValueKind::Null | ValueKind::Bool(_) | ValueKind::String(_) => Ok(true),
        ValueKind::Number(number) if number.is_finite() => Ok(true),
        ValueKind::Number(_) => Err(StructError::NotFinite),
        ValueKind::Struct(bytes) => check_object(bytes, depth),
        ValueKind::List(bytes) => {
            let depth = depth.checked_sub(1).ok_or(StructError::TooDeep)?;
            let mut is_canonical = true;
            for item in items(bytes) {
                is_canonical &= check_value(item?, depth)?;
            }
            Ok(is_canonical)
        }
    }
}

/// Integers stay integers: typed fields of Kubernetes objects refuse `1.0`.
fn to_number(number: f64) -> Result<Number, StructError> {
    // The two limits are exactly representable: -2^63 and 2^64.
    const LOWEST: f64 = -9_223_372_036_854_775_808.0;
    const PAST_HIGHEST: f64 = 18_446_744_073_709_551_616.0;
    if number.fract() == 0.0 && (LOWEST..PAST_HIGHEST).contains(&number) {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked above")]
        return Ok(if number < 0.0 { Number::from(number as i64) } else { Number::from(number as u64) });
    }
    Number::from_f64(number).ok_or(StructError::NotFinite)
}

enum ValueKind<'a> {
    Null,
    Bool(bool),
    Number(f64),
    String(&'a str),
    Struct(&'a [u8]),
    List(&'a [u8]),
}

/// The last field that is set wins, as everywhere in protobuf.
fn kind_of(value: &[u8]) -> Result<ValueKind<'_>, StructError> {
    let mut kind = None;
    for field in Fields(value) {
        kind = match field? {
            (1, WireField::Varint(_)) => Some(ValueKind::Null),
            (2, WireField::Fixed64(bits)) => Some(ValueKind::Number(f64::from_bits(bits))),
            (3, WireField::Bytes(bytes)) => Some(ValueKind::String(to_text(bytes)?)),
            (4, WireField::Varint(truth)) => Some(ValueKind::Bool(truth != 0)),
            (5, WireField::Bytes(bytes)) => Some(ValueKind::Struct(bytes)),
            (6, WireField::Bytes(bytes)) => Some(ValueKind::List(bytes)),
            _ => kind,
        };
    }
    kind.ok_or(StructError::NoKind)
}

fn split_entry(entry: &[u8]) -> Result<(&str, &[u8]), StructError> {
    let (mut key, mut value) = ("", None);
    for field in Fields(entry) {
        match field? {
            (1, WireField::Bytes(bytes)) => key = to_text(bytes)?,
            (2, WireField::Bytes(bytes)) => value = Some(bytes),
            _ => {}
        }
    }
    Ok((key, value.ok_or(StructError::NoKind)?))
}

fn items(list: &[u8]) -> impl Iterator<Item = Result<&[u8], StructError>> {
    Fields(list).filter_map(|field| match field {
        Ok((1, WireField::Bytes(item))) => Some(Ok(item)),
        Ok(_) => None,
        Err(error) => Some(Err(error)),
    })
}

fn to_text(bytes: &[u8]) -> Result<&str, StructError> {
    std::str::from_utf8(bytes).map_err(|_| StructError::NotText)
}

pub(crate) enum WireField<'a> {
    Varint(u64),
    Fixed64(u64),
    Bytes(&'a [u8]),
    Fixed32,
}

/// The fields of a message, in the order in which they stand.
pub(crate) struct Fields<'a>(pub(crate) &'a [u8]);

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(u64, WireField<'a>), StructError>;

    fn next(&mut self) -> Option<Self::Item> {
        // Emptied after an error, so that the iterator ends rather than reading garbage from the middle of a
        // field.
        (!self.0.is_empty()).then(|| self.field().ok_or(StructError::Malformed).inspect_err(|_| self.0 = &[]))
    }
}

impl<'a> Fields<'a> {
    fn field(&mut self) -> Option<(u64, WireField<'a>)> {
        let key = self.varint()?;
        let field = match key & 7 {
            0 => WireField::Varint(self.varint()?),
            1 => WireField::Fixed64(u64::from_le_bytes(*self.take_array()?)),
            2 => {
                let length = usize::try_from(self.varint()?).ok()?;
                WireField::Bytes(self.0.split_off(..length)?)
            }
            5 => {
                self.take_array::<4>()?;
                WireField::Fixed32
            }
            // Groups (3 and 4) were never part of this protocol.
            _ => return None,
        };
        Some((key >> 3, field))
    }

    fn take_array<const N: usize>(&mut self) -> Option<&'a [u8; N]> {
        let (head, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(head)
    }

    fn varint(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = *self.0.split_off_first()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use prost::Message;
    use serde_json::json;

    use super::*;

    fn object(value: Value) -> Map<String, Value> {
        let Value::Object(object) = value else { panic!("not an object: {value}") };
        object
    }

    fn round_trip(value: Value) -> Value {
        Value::Object(decode(&encode(&object(value)).unwrap()).unwrap())
    }

    fn nested(levels: usize) -> Value {
        (0..levels).fold(json!("leaf"), |inner, _| json!({ "a": inner }))
    }

    #[test]
    fn every_kind_of_value_survives() {
        let value = json!({
            "null": null, "yes": true, "no": false, "text": "héllo\u{0}", "empty": "", "": 1,
            "list": [1, "two", [3.5], {}], "object": {"nested": {"deep": []}}
        });
        assert_eq!(round_trip(value.clone()), value);
    }

    #[test]
    fn integers_print_without_fraction() {
        let value = json!({"a": 1.0, "b": -0.0, "c": 1e15, "d": 1.5, "e": -3.0, "f": 9.3e18, "g": 1e300});
        let text = round_trip(value).to_string();
        assert_eq!(
            text,
            r#"{"a":1,"b":0,"c":1000000000000000,"d":1.5,"e":-3,"f":9300000000000000000,"g":1e+300}"#
        );
    }

    #[test]
    fn keys_come_out_in_order() {
        let bytes = encode(&object(json!({"b": 1, "a": 2, "c": {"z": 1, "y": 2}}))).unwrap();
        assert!(check(&bytes).unwrap());
        assert_eq!(Value::Object(decode(&bytes).unwrap()).to_string(), r#"{"a":2,"b":1,"c":{"y":2,"z":1}}"#);
    }

    #[test]
    fn unordered_keys_are_valid_but_not_canonical() {
        let mut bytes = encode(&object(json!({"b": 1}))).unwrap().to_vec();
        bytes.extend_from_slice(&encode(&object(json!({"a": 1}))).unwrap());
        assert_eq!(check(&bytes), Ok(false));
        assert_eq!(Value::Object(decode(&bytes).unwrap()), json!({"a": 1, "b": 1}));
    }

    #[test]
    fn too_deep_nesting_is_refused_in_both_directions() {
        assert!(encode(&object(nested(MAX_DEPTH))).is_ok());
        assert_eq!(encode(&object(nested(MAX_DEPTH + 1))).unwrap_err(), StructError::TooDeep);

        let inner = encode(&object(nested(MAX_DEPTH))).unwrap();
        let mut value = vec![STRUCT];
        encode_varint(inner.len() as u64, &mut value);
        value.extend_from_slice(&inner);
        let bytes = entry(&value);
        assert_eq!(decode(&bytes).unwrap_err(), StructError::TooDeep);
        assert_eq!(check(&bytes).unwrap_err(), StructError::TooDeep);
    }

    #[test]
    fn numbers_that_json_lacks_are_refused() {
        for number in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            let mut value = vec![NUMBER];
            value.put_f64_le(number);
            assert_eq!(decode(&entry(&value)).unwrap_err(), StructError::NotFinite);
            assert_eq!(check(&entry(&value)).unwrap_err(), StructError::NotFinite);
        }
    }

    #[test]
    fn value_without_kind_is_refused() {
        assert_eq!(decode(&entry(&[])).unwrap_err(), StructError::NoKind);
        assert_eq!(check(&entry(&[])).unwrap_err(), StructError::NoKind);
    }

    /// A Struct of one entry, `a`, with this encoded Value.
    fn entry(value: &[u8]) -> Vec<u8> {
        let mut entry = vec![KEY, 1, b'a', VALUE];
        encode_varint(value.len() as u64, &mut entry);
        entry.extend_from_slice(value);
        let mut out = vec![ENTRY];
        encode_varint(entry.len() as u64, &mut out);
        out.extend(entry);
        out
    }

    fn to_prost(value: &Value) -> prost_types::Value {
        use prost_types::value::Kind;
        let kind = match value {
            Value::Null => Kind::NullValue(0),
            Value::Bool(truth) => Kind::BoolValue(*truth),
            Value::Number(number) => Kind::NumberValue(number.as_f64().unwrap()),
            Value::String(text) => Kind::StringValue(text.clone()),
            Value::Array(items) => {
                Kind::ListValue(prost_types::ListValue { values: items.iter().map(to_prost).collect() })
            }
            Value::Object(object) => Kind::StructValue(to_prost_struct(object)),
        };
        prost_types::Value { kind: Some(kind) }
    }

    fn to_prost_struct(object: &Map<String, Value>) -> prost_types::Struct {
        prost_types::Struct {
            fields: object.iter().map(|(key, value)| (key.clone(), to_prost(value))).collect(),
        }
    }

    fn any_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            (-1_000_000_000_000_i64..1_000_000_000_000).prop_map(Value::from),
            any::<f64>().prop_filter_map("finite", |number| Number::from_f64(number).map(Value::Number)),
            ".{0,12}".prop_map(Value::from),
        ];
        leaf.prop_recursive(5, 64, 6, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
                prop::collection::btree_map(".{1,8}", inner, 0..6)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    fn any_object() -> impl Strategy<Value = Map<String, Value>> {
        prop::collection::btree_map(".{1,8}", any_value(), 0..6).prop_map(|map| map.into_iter().collect())
    }

    proptest! {
        #[test]
        fn bytes_are_those_of_a_generic_encoder(object in any_object()) {
            let ours = encode(&object).unwrap();
            prop_assert_eq!(&ours, &to_prost_struct(&object).encode_to_vec());
            prop_assert_eq!(check(&ours), Ok(true));
        }

        #[test]
        fn decoding_undoes_encoding(object in any_object()) {
            let once = decode(&encode(&object).unwrap()).unwrap();
            let twice = decode(&encode(&once).unwrap()).unwrap();
            prop_assert_eq!(&once, &twice);
            prop_assert_eq!(to_prost_struct(&once), to_prost_struct(&object));
        }

        #[test]
        fn any_bytes_are_an_object_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            prop_assert_eq!(decode(&bytes).map(|_| ()), check(&bytes).map(|_| ()));
        }
    }
}
