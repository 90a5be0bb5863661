//! Documents of version 2 in protobuf, as gnostic's `openapi.v2` has them: clients written in Go ask for nothing else.
//!
//! A table says which number a field has and what is in it. What the table does not know is left out, unless its name says
//! that it is an extension.
//!
//! Follows gnostic-models 0.7.0, `openapiv2/OpenAPIv2.proto`.

use serde_json::{Map, Value};

/// A message: its fields by their names in JSON.
struct Message {
    fields: &'static [(&'static str, u32, Form)],
    /// The number of extensions.
    extensions: Option<u32>,
}

/// What is in a field.
#[derive(Clone, Copy)]
enum Form {
    Text,
    Flag,
    Integer,
    Double,
    Texts,
    /// Anything, as text.
    Any,
    Anys,
    One(&'static Message),
    Many(&'static Message),
    /// Messages by their names.
    Named(&'static Message),
    /// Names of types, of which there is mostly one.
    Types,
    /// A schema, or several, for items of lists.
    Items,
    /// A schema, or whether there may be more properties.
    Additional,
    Parameters,
    /// Answers by their codes.
    Answers,
    Paths,
    /// A schema where there might also be a file.
    Content,
}

use Form::{
    Additional, Answers, Any, Anys, Content, Double, Flag, Integer, Items, Many, Named, One, Parameters,
    Paths, Text, Texts, Types,
};

static DOCUMENT: Message = Message {
    fields: &[
        ("swagger", 1, Text),
        ("info", 2, One(&INFO)),
        ("host", 3, Text),
        ("basePath", 4, Text),
        ("schemes", 5, Texts),
        ("consumes", 6, Texts),
        ("produces", 7, Texts),
        ("paths", 8, Paths),
        ("definitions", 9, Named(&SCHEMA)),
    ],
    extensions: Some(16),
};

static INFO: Message = Message {
    fields: &[("title", 1, Text), ("version", 2, Text), ("description", 3, Text)],
    extensions: Some(7),
};

static PATH: Message = Message {
    fields: &[
        ("$ref", 1, Text),
        ("get", 2, One(&OPERATION)),
        ("put", 3, One(&OPERATION)),
        ("post", 4, One(&OPERATION)),
        ("delete", 5, One(&OPERATION)),
        ("options", 6, One(&OPERATION)),
        ("head", 7, One(&OPERATION)),
        ("patch", 8, One(&OPERATION)),
        ("parameters", 9, Parameters),
    ],
    extensions: Some(10),
};

static OPERATION: Message = Message {
    fields: &[
        ("tags", 1, Texts),
        ("summary", 2, Text),
        ("description", 3, Text),
        ("operationId", 5, Text),
        ("produces", 6, Texts),
        ("consumes", 7, Texts),
        ("parameters", 8, Parameters),
        ("responses", 9, Answers),
        ("schemes", 10, Texts),
        ("deprecated", 11, Flag),
    ],
    extensions: Some(13),
};

static RESPONSE: Message =
    Message { fields: &[("description", 1, Text), ("schema", 2, Content)], extensions: Some(5) };

static BODY_PARAMETER: Message = Message {
    fields: &[
        ("description", 1, Text),
        ("name", 2, Text),
        ("in", 3, Text),
        ("required", 4, Flag),
        ("schema", 5, One(&SCHEMA)),
    ],
    extensions: Some(6),
};

static QUERY_PARAMETER: Message = Message {
    fields: &[
        ("required", 1, Flag),
        ("in", 2, Text),
        ("description", 3, Text),
        ("name", 4, Text),
        ("allowEmptyValue", 5, Flag),
        ("type", 6, Text),
        ("format", 7, Text),
        ("default", 10, Any),
        ("pattern", 17, Text),
        ("uniqueItems", 20, Flag),
        ("enum", 21, Anys),
    ],
    extensions: Some(23),
};

/// Parameters in paths and in headers have the same fields.
static PATH_PARAMETER: Message = Message {
    fields: &[
        ("required", 1, Flag),
        ("in", 2, Text),
        ("description", 3, Text),
        ("name", 4, Text),
        ("type", 5, Text),
        ("format", 6, Text),
        ("default", 9, Any),
        ("pattern", 16, Text),
        ("uniqueItems", 19, Flag),
        ("enum", 20, Anys),
    ],
    extensions: Some(22),
};

static SCHEMA: Message = Message {
    fields: &[
        ("$ref", 1, Text),
        ("format", 2, Text),
        ("title", 3, Text),
        ("description", 4, Text),
        ("default", 5, Any),
        ("multipleOf", 6, Double),
        ("maximum", 7, Double),
        ("exclusiveMaximum", 8, Flag),
        ("minimum", 9, Double),
        ("exclusiveMinimum", 10, Flag),
        ("maxLength", 11, Integer),
        ("minLength", 12, Integer),
        ("pattern", 13, Text),
        ("maxItems", 14, Integer),
        ("minItems", 15, Integer),
        ("uniqueItems", 16, Flag),
        ("maxProperties", 17, Integer),
        ("minProperties", 18, Integer),
        ("required", 19, Texts),
        ("enum", 20, Anys),
        ("additionalProperties", 21, Additional),
        ("type", 22, Types),
        ("items", 23, Items),
        ("allOf", 24, Many(&SCHEMA)),
        ("properties", 25, Named(&SCHEMA)),
        ("discriminator", 26, Text),
        ("readOnly", 27, Flag),
        ("externalDocs", 29, One(&EXTERNAL_DOCUMENTS)),
        ("example", 30, Any),
    ],
    extensions: Some(31),
};

static EXTERNAL_DOCUMENTS: Message =
    Message { fields: &[("description", 1, Text), ("url", 2, Text)], extensions: Some(3) };

/// A document of version 2 in protobuf.
pub fn version_2_in_protobuf(document: &Value) -> Vec<u8> {
    message(document, &DOCUMENT)
}

fn message(value: &Value, of: &Message) -> Vec<u8> {
    let mut out = Vec::new();
    let Value::Object(fields) = value else { return out };
    for (name, number, form) in of.fields {
        if let Some(value) = fields.get(*name) {
            put(&mut out, *number, value, *form);
        }
    }
    if let Some(number) = of.extensions {
        put_extensions(&mut out, number, fields);
    }
    out
}

fn put_extensions(out: &mut Vec<u8>, number: u32, fields: &Map<String, Value>) {
    for (name, value) in fields.iter().filter(|(name, _)| name.starts_with("x-")) {
        put_named(out, number, name, &any(value));
    }
}

fn put(out: &mut Vec<u8>, number: u32, value: &Value, form: Form) {
    match form {
        Text => put_text(out, number, value),
        Flag => put_flag(out, number, value),
        Integer => put_integer(out, number, value),
        Double => put_double(out, number, value),
        Texts => items(value).for_each(|item| put_text(out, number, item)),
        Any => put_bytes(out, number, &any(value)),
        Anys => items(value).for_each(|item| put_bytes(out, number, &any(item))),
        One(of) => put_bytes(out, number, &message(value, of)),
        Many(of) => items(value).for_each(|item| put_bytes(out, number, &message(item, of))),
        Named(of) => put_bytes(out, number, &named(value, of)),
        Types => {
            let mut types = Vec::new();
            items(value).for_each(|item| put_text(&mut types, 1, item));
            put_bytes(out, number, &types);
        }
        Items => {
            let mut schemas = Vec::new();
            items(value).for_each(|item| put_bytes(&mut schemas, 1, &message(item, &SCHEMA)));
            put_bytes(out, number, &schemas);
        }
        Additional => put_bytes(out, number, &additional(value)),
        Parameters => items(value).for_each(|item| put_bytes(out, number, &parameter(item))),
        Answers => put_bytes(out, number, &answers(value)),
        Paths => put_bytes(out, number, &paths(value)),
        Content => {
            let mut content = Vec::new();
            put_bytes(&mut content, 1, &message(value, &SCHEMA));
            put_bytes(out, number, &content);
        }
    }
}

/// The items of a list, or the one that stands for it.
fn items(value: &Value) -> impl Iterator<Item = &Value> {
    let list = value.as_array();
    list.into_iter().flatten().chain(list.is_none().then_some(value))
}

/// An `Any` is encoded as YAML, which JSON is.
fn any(value: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    // With the line break that a YAML document ends in: gnostic's `Any.yaml`.
    put_bytes(&mut out, 2, format!("{value}\n").as_bytes());
    out
}

fn named(value: &Value, of: &Message) -> Vec<u8> {
    let mut out = Vec::new();
    for (name, value) in value.as_object().into_iter().flatten() {
        put_named(&mut out, 1, name, &message(value, of));
    }
    out
}

fn additional(value: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    match value {
        // One of two is encoded even if it is false.
        Value::Bool(flag) => {
            put_tag(&mut out, 2, 0);
            out.push(u8::from(*flag));
        }
        schema => put_bytes(&mut out, 1, &message(schema, &SCHEMA)),
    }
    out
}

/// What a parameter looks like depends on where it is.
fn parameter(value: &Value) -> Vec<u8> {
    let (number, inner) = match value["in"].as_str() {
        Some("body") => (1, message(value, &BODY_PARAMETER)),
        place => {
            let (number, of) = match place {
                Some("header") => (1, &PATH_PARAMETER),
                Some("path") => (4, &PATH_PARAMETER),
                _ => (3, &QUERY_PARAMETER),
            };
            (2, wrapped(number, &message(value, of)))
        }
    };
    wrapped(1, &wrapped(number, &inner))
}

fn answers(value: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    let Value::Object(fields) = value else { return out };
    for (code, value) in fields.iter().filter(|(code, _)| !code.starts_with("x-")) {
        put_named(&mut out, 1, code, &wrapped(1, &message(value, &RESPONSE)));
    }
    put_extensions(&mut out, 2, fields);
    out
}

fn paths(value: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    let Value::Object(fields) = value else { return out };
    put_extensions(&mut out, 1, fields);
    // gnostic tells paths from extensions by how they begin.
    for (path, value) in fields.iter().filter(|(path, _)| path.starts_with('/')) {
        put_named(&mut out, 2, path, &message(value, &PATH));
    }
    out
}

fn wrapped(number: u32, inner: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(inner.len() + 8);
    put_bytes(&mut out, number, inner);
    out
}

fn put_named(out: &mut Vec<u8>, number: u32, name: &str, value: &[u8]) {
    let mut pair = Vec::with_capacity(name.len() + value.len() + 16);
    put_bytes(&mut pair, 1, name.as_bytes());
    put_bytes(&mut pair, 2, value);
    put_bytes(out, number, &pair);
}

fn put_text(out: &mut Vec<u8>, number: u32, value: &Value) {
    if let Some(text) = value.as_str() {
        put_bytes(out, number, text.as_bytes());
    }
}

fn put_flag(out: &mut Vec<u8>, number: u32, value: &Value) {
    // What is false, zero or empty is not written in proto3, and reads as if it were.
    if value == &Value::Bool(true) {
        put_tag(out, number, 0);
        out.push(1);
    }
}

fn put_integer(out: &mut Vec<u8>, number: u32, value: &Value) {
    if let Some(integer) = value.as_i64().filter(|integer| *integer != 0) {
        put_tag(out, number, 0);
        put_varint(out, integer.cast_unsigned());
    }
}

fn put_double(out: &mut Vec<u8>, number: u32, value: &Value) {
    if let Some(double) = value.as_f64().filter(|double| *double != 0.0) {
        put_tag(out, number, 1);
        out.extend_from_slice(&double.to_le_bytes());
    }
}

fn put_bytes(out: &mut Vec<u8>, number: u32, bytes: &[u8]) {
    put_tag(out, number, 2);
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

fn put_tag(out: &mut Vec<u8>, number: u32, wire: u64) {
    put_varint(out, u64::from(number) << 3 | wire);
}

/// Seven bits to a byte, the lowest first.
fn put_varint(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number.to_le_bytes()[0] | 0x80);
        number >>= 7;
    }
    out.push(number.to_le_bytes()[0]);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn document_is_written_as_the_wire_has_it() {
        let document = json!({
            "swagger": "2.0",
            "info": {"title": "T"},
            "definitions": {"A": {"type": "string", "maxLength": 300, "x-a": 1}},
        });
        let schema = b"\x58\xac\x02\xb2\x01\x08\x0a\x06string\xfa\x01\x0b\x0a\x03x-a\x12\x04\x12\x021\n";
        let mut expected = b"\x0a\x032.0\x12\x03\x0a\x01T".to_vec();
        let pair = [&b"\x0a\x01A\x12"[..], &[u8::try_from(schema.len()).unwrap()], schema].concat();
        put_bytes(&mut expected, 9, &wrapped(1, &pair));
        assert_eq!(version_2_in_protobuf(&document), expected);
    }

    #[test]
    fn extra_properties_that_are_forbidden_are_told() {
        assert_eq!(message(&json!({"additionalProperties": false}), &SCHEMA), b"\xaa\x01\x02\x10\x00");
    }
}
