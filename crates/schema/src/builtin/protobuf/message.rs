//! Messages by the tables: numbers become names, and values the JSON that Kubernetes would write.
//!
//! Follows apimachinery 0.36.4, `pkg/runtime/generated.proto`.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use super::super::MAX_DEPTH;
use super::super::table::{FieldType, Form, Package, Row, Type, TypeField};
use super::Error;
use super::wire::{self, Reader};
use crate::structural::number_to_json;
use crate::structural::object_meta::time;

/// Go's zero time, which JSON has as null: the first second of the year one.
const FIRST_MOMENT: i64 = -62_135_596_800;

/// Reads a message of a type.
pub(super) fn read(of: &'static Type, bytes: &[u8]) -> Result<Map<String, Value>, Error> {
    let mut fields = Map::new();
    structure(of, bytes, &mut fields, 0)?;
    Ok(fields)
}

/// Text, with what is no text replaced.
pub(super) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Reads a message into fields, of which some may be there already: parts of a message may come in several pieces.
fn structure(
    of: &'static Type,
    bytes: &[u8],
    fields: &mut Map<String, Value>,
    depth: usize,
) -> Result<(), Error> {
    if depth > MAX_DEPTH {
        return Err(Error::TooDeep);
    }
    let mut reader = Reader::new(bytes);
    while let Some((number, value)) = reader.next()? {
        // Fields of newer versions are passed over.
        match of.rows.iter().find(|row| number_of(row) == number) {
            None => {}
            Some(Row::Inline { of: inner, .. }) => {
                let wire::Value::Bytes(bytes) = value else { return Err(Error::WireType(inner.name)) };
                structure(inner.get(), bytes, fields, depth + 1)?;
            }
            Some(Row::Field(field)) => member(field, value, fields, depth)?,
        }
    }
    Ok(())
}

fn number_of(row: &Row) -> u32 {
    match row {
        Row::Field(field) => field.number,
        Row::Inline { number, .. } => *number,
    }
}

fn member(
    field: &'static TypeField,
    value: wire::Value<'_>,
    fields: &mut Map<String, Value>,
    depth: usize,
) -> Result<(), Error> {
    let name = field.name;
    match &field.shape.form {
        Form::List { item, is_message: false } => {
            let list = fields.entry(name).or_insert_with(|| json!([]));
            let Value::Array(list) = list else { return Ok(()) };
            push(item, name, value, list, depth)
        }
        Form::Map(item) => {
            let map = fields.entry(name).or_insert_with(|| json!({}));
            let (Value::Object(map), wire::Value::Bytes(entry)) = (map, value) else {
                return Err(Error::WireType(name));
            };
            let (key, value) = read_entry(item, name, entry, depth)?;
            map.insert(key, value);
            Ok(())
        }
        Form::Struct(reference) => {
            // Merged, not replaced: protobuf lets the parts of a message come apart.
            let inner = fields.entry(name).or_insert_with(|| json!({}));
            let (Value::Object(inner), wire::Value::Bytes(bytes)) = (inner, value) else {
                return Err(Error::WireType(name));
            };
            structure(reference.get(), bytes, inner, depth + 1)
        }
        _ => {
            let value = single(&field.shape, name, value, depth)?;
            fields.insert(name.to_owned(), value);
            Ok(())
        }
    }
}

/// Numbers may come packed, many in one value.
fn push(
    item: &'static FieldType,
    name: &'static str,
    value: wire::Value<'_>,
    list: &mut Vec<Value>,
    depth: usize,
) -> Result<(), Error> {
    let is_number = matches!(item.form, Form::Int32 | Form::Int64 | Form::Flag);
    if let (true, wire::Value::Bytes(packed)) = (is_number, value) {
        let mut reader = Reader::new(packed);
        while !reader.is_done() {
            let number = wire::Value::Varint(reader.varint()?);
            list.push(single(item, name, number, depth)?);
        }
        return Ok(());
    }
    list.push(single(item, name, value, depth)?);
    Ok(())
}

fn read_entry(
    item: &'static FieldType,
    name: &'static str,
    bytes: &[u8],
    depth: usize,
) -> Result<(String, Value), Error> {
    let (mut key, mut found) = (String::new(), None);
    let mut reader = Reader::new(bytes);
    while let Some((number, value)) = reader.next()? {
        match (number, value) {
            (1, wire::Value::Bytes(bytes)) => key = text(bytes),
            (1, _) => return Err(Error::WireType(name)),
            (2, value) => found = Some(single(item, name, value, depth + 1)?),
            _ => {}
        }
    }
    Ok((key, found.unwrap_or(Value::Null)))
}

/// A value that stands alone.
fn single(
    shape: &'static FieldType,
    name: &'static str,
    value: wire::Value<'_>,
    depth: usize,
) -> Result<Value, Error> {
    Ok(match (&shape.form, value) {
        (Form::Flag, wire::Value::Varint(number)) => Value::from(number != 0),
        // Negative numbers come as ten bytes, of which Go keeps the lower 32 bits.
        (Form::Int32, wire::Value::Varint(number)) => Value::from(low_half(number)),
        (Form::Int64, wire::Value::Varint(number)) => Value::from(number.cast_signed()),
        (Form::Double, wire::Value::Fixed64(bits)) => number_to_json(f64::from_bits(bits)),
        (form, wire::Value::Bytes(bytes)) => match form {
            Form::Text => Value::from(text(bytes)),
            Form::Bytes => Value::from(STANDARD.encode(bytes)),
            // Without its text a quantity is zero, like Go's empty one.
            Form::Quantity => Value::from(text(last(bytes, 1, name)?.unwrap_or(b"0"))),
            Form::Time => timestamp(bytes, name, false)?,
            Form::MicroTime => timestamp(bytes, name, true)?,
            Form::IntOrText => int_or_text(bytes, name)?,
            Form::Raw | Form::FieldsV1 | Form::Json => json_of(last(bytes, 1, name)?)?,
            Form::SchemaOrList | Form::SchemaOrFlag | Form::SchemaOrTexts => {
                schema_or(&shape.form, bytes, name, depth)?
            }
            Form::Struct(reference) => {
                let mut fields = Map::new();
                structure(reference.get(), bytes, &mut fields, depth + 1)?;
                Value::Object(fields)
            }
            Form::List { item, .. } => {
                let mut list = Vec::new();
                let mut reader = Reader::new(bytes);
                while let Some((number, value)) = reader.next()? {
                    if number == 1 {
                        push(item, name, value, &mut list, depth + 1)?;
                    }
                }
                Value::Array(list)
            }
            Form::Flag | Form::Int32 | Form::Int64 | Form::Double | Form::Map(_) => {
                return Err(Error::WireType(name));
            }
        },
        _ => return Err(Error::WireType(name)),
    })
}

#[expect(clippy::cast_possible_truncation, reason = "as Kubernetes does")]
fn low_half(number: u64) -> i32 {
    (number as u32).cast_signed()
}

/// The last bytes of that number in a message: protobuf lets later values replace earlier ones.
fn last<'b>(bytes: &'b [u8], wanted: u32, name: &'static str) -> Result<Option<&'b [u8]>, Error> {
    let mut found = None;
    let mut reader = Reader::new(bytes);
    while let Some((number, value)) = reader.next()? {
        if number == wanted {
            let wire::Value::Bytes(bytes) = value else { return Err(Error::WireType(name)) };
            found = Some(bytes);
        }
    }
    Ok(found)
}

/// Bytes that hold JSON.
fn json_of(bytes: Option<&[u8]>) -> Result<Value, Error> {
    match bytes {
        None | Some(b"") => Ok(Value::Null),
        Some(bytes) => serde_json::from_slice(bytes).map_err(|error| Error::Json(error.to_string())),
    }
}

/// Seconds and nanoseconds since 1970.
fn timestamp(bytes: &[u8], name: &'static str, has_micros: bool) -> Result<Value, Error> {
    // How Go's first moment is written: `Time.Unmarshal` reads the length, because no seconds are 1970.
    if bytes.is_empty() {
        return Ok(Value::Null);
    }
    let (mut seconds, mut nanos) = (0, 0);
    let mut reader = Reader::new(bytes);
    while let Some((number, value)) = reader.next()? {
        match (number, value) {
            (1, wire::Value::Varint(value)) => seconds = value.cast_signed(),
            (2, wire::Value::Varint(value)) => nanos = i64::from(low_half(value)),
            (1 | 2, _) => return Err(Error::WireType(name)),
            _ => {}
        }
    }
    // Towards zero. Times without a fraction ignore what was sent of one.
    let micros = if has_micros { nanos / 1000 } else { 0 };
    let seconds = seconds.saturating_add(micros.div_euclid(1_000_000));
    let micros = micros.rem_euclid(1_000_000);
    if (seconds, micros) == (FIRST_MOMENT, 0) {
        return Ok(Value::Null);
    }
    // Years of four digits; other times cannot be recorded.
    if !(-62_167_219_200..=253_402_300_799).contains(&seconds) {
        return Err(Error::Overflow);
    }
    let text = if has_micros { time::format_utc_micro(seconds, micros) } else { time::format_utc(seconds) };
    Ok(text.map_or(Value::Null, Value::from))
}

fn int_or_text(bytes: &[u8], name: &'static str) -> Result<Value, Error> {
    let (mut is_text, mut number_value, mut text_value) = (false, 0, String::new());
    let mut reader = Reader::new(bytes);
    while let Some((number, value)) = reader.next()? {
        match (number, value) {
            (1, wire::Value::Varint(value)) => is_text = value == 1,
            (2, wire::Value::Varint(value)) => number_value = low_half(value),
            (3, wire::Value::Bytes(bytes)) => text_value = text(bytes),
            (1..=3, _) => return Err(Error::WireType(name)),
            _ => {}
        }
    }
    Ok(if is_text { Value::from(text_value) } else { Value::from(number_value) })
}

/// A schema of custom resources, or what may stand in its place.
fn schema_or(form: &Form, bytes: &[u8], name: &'static str, depth: usize) -> Result<Value, Error> {
    let package = Package::number("apiextensions.v1").map(Package::get);
    let Some(of) = package.and_then(|package| package.find("JSONSchemaProps")) else {
        return Ok(Value::Null);
    };
    let (mut schema, mut list, mut is_allowed) = (None, Vec::new(), false);
    let mut reader = Reader::new(bytes);
    while let Some((number, value)) = reader.next()? {
        match (form, number, value) {
            (Form::SchemaOrFlag, 1, wire::Value::Varint(flag)) => is_allowed = flag != 0,
            (Form::SchemaOrFlag, 2, wire::Value::Bytes(bytes))
            | (Form::SchemaOrList | Form::SchemaOrTexts, 1, wire::Value::Bytes(bytes)) => {
                let mut fields = Map::new();
                structure(of, bytes, &mut fields, depth + 1)?;
                schema = Some(Value::Object(fields));
            }
            (Form::SchemaOrList, 2, wire::Value::Bytes(bytes)) => {
                let mut fields = Map::new();
                structure(of, bytes, &mut fields, depth + 1)?;
                list.push(Value::Object(fields));
            }
            (Form::SchemaOrTexts, 2, wire::Value::Bytes(bytes)) => list.push(Value::from(text(bytes))),
            (_, 1 | 2, _) => return Err(Error::WireType(name)),
            _ => {}
        }
    }
    Ok(match (form, schema) {
        (Form::SchemaOrList | Form::SchemaOrTexts, _) if !list.is_empty() => Value::Array(list),
        (_, Some(schema)) => schema,
        (Form::SchemaOrFlag, None) => Value::from(is_allowed),
        (_, None) => Value::Null,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_zero_time_of_go_is_no_time() {
        let read = |bytes: &[u8], has_micros| timestamp(bytes, "time", has_micros).unwrap();
        let first =
            [&[8_u8][..], &[0x80, 0x92, 0xb8, 0xc3, 0x98, 0xfe, 0xff, 0xff, 0xff, 1], &[16, 0]].concat();
        for has_micros in [false, true] {
            assert_eq!(read(&[], has_micros), Value::Null);
            assert_eq!(read(&first, has_micros), Value::Null);
        }
        assert_eq!(read(&[8, 0, 16, 0], false), json!("1970-01-01T00:00:00Z"));
        assert_eq!(read(&[8, 0, 16, 0], true), json!("1970-01-01T00:00:00.000000Z"));
        // One second and 1500 nanoseconds; a time without a fraction does not care.
        assert_eq!(read(&[8, 1, 16, 0xdc, 0x0b], true), json!("1970-01-01T00:00:01.000001Z"));
        assert_eq!(read(&[8, 1, 16, 0xdc, 0x0b], false), json!("1970-01-01T00:00:01Z"));
    }
}
