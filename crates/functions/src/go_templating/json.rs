//! Values of templates as JSON, and back.

use ferroplane_golang::fmt::Numbers;
use ferroplane_golang::yaml::Node;
use ferroplane_template::{Context, Failure, Text, Type, Value};
use serde_json::{Map, Number, Value as Json};
use std::collections::BTreeMap;

use super::condition;

/// Values may be nested so deeply. One that contains itself has no end.
const DEPTH: usize = 200;

/// The value as JSON. Costs what it makes.
pub(super) fn of(context: &mut Context<'_>, value: &Value) -> Result<Json, Failure> {
    at(context, value, DEPTH)
}

fn at(context: &mut Context<'_>, value: &Value, depth: usize) -> Result<Json, Failure> {
    let Some(depth) = depth.checked_sub(1) else {
        return Err(Failure::new("the value is nested too deeply"));
    };
    context.step(1)?;
    Ok(match value {
        Value::Nil => Json::Null,
        Value::Bool(is_true) => Json::Bool(*is_true),
        Value::Int(integer) | Value::Int64(integer) => Json::from(*integer),
        Value::Uint8(integer) => Json::from(*integer),
        Value::Uint64(integer) => Json::from(*integer),
        Value::Float(float) => Number::from_f64(*float).map_or(Json::Null, Json::Number),
        Value::String(text) => Json::String(charged(context, text)?),
        Value::Bytes(bytes) => bytes.iter().map(|byte| Json::from(*byte)).collect(),
        Value::List(items) => {
            Json::Array(items.iter().map(|item| at(context, item, depth)).collect::<Result<_, _>>()?)
        }
        Value::Map(map) => {
            let mut entries = Map::new();
            for (key, value) in map.to_vec() {
                entries.insert(charged(context, &key)?, at(context, &value, depth)?);
            }
            Json::Object(entries)
        }
        Value::Object(object) => match condition::yaml_fields(&**object) {
            Some(fields) => fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
            None => object.string().map_or(Json::Null, |text| Json::String(text.to_str().into_owned())),
        },
        Value::Complex(..) => return Err(Failure::new("cannot marshal type: complex128")),
    })
}

fn charged(context: &mut Context<'_>, text: &Text) -> Result<String, Failure> {
    context.charge(text.len())?;
    Ok(text.to_str().into_owned())
}

/// A copy that shares nothing with the value.
pub(super) fn copy(context: &mut Context<'_>, value: &Value) -> Result<Value, Failure> {
    let json = of(context, value)?;
    Ok(Value::from_json(context.heap(), &json, Numbers::Integers))
}

/// What was read as YAML, as a value.
pub(super) fn from_yaml(context: &mut Context<'_>, node: Node) -> Result<Value, Failure> {
    context.step(1)?;
    Ok(match node {
        Node::Null => Value::Nil,
        Node::Bool(is_true) => Value::Bool(is_true),
        Node::Int(integer) => Value::Int(integer),
        Node::Uint(integer) => Value::Uint64(integer),
        Node::Float(float) => Value::Float(float),
        // A moment prints as Go prints one; templates that want the text quote it.
        Node::String(text) | Node::Time(text) => Value::text(text),
        Node::List(items) => {
            let items = items.into_iter().map(|item| from_yaml(context, item)).collect::<Result<_, _>>()?;
            context.list(items)?
        }
        Node::Map(entries) => {
            let mut map = BTreeMap::new();
            for (key, value) in entries {
                map.insert(Text::from(key_text(&key)), from_yaml(context, value)?);
            }
            context.map(map)?
        }
    })
}

/// Go keeps what kind of value a key is; here all are text, as templates write them.
fn key_text(key: &Node) -> String {
    match key {
        Node::String(text) | Node::Time(text) => text.clone(),
        Node::Int(integer) => integer.to_string(),
        Node::Uint(integer) => integer.to_string(),
        Node::Bool(is_true) => is_true.to_string(),
        Node::Float(float) => ferroplane_golang::strconv::format_float(*float, 'g', None),
        Node::Null | Node::List(_) | Node::Map(_) => "<nil>".to_owned(),
    }
}

/// An empty list or map that is nil, as helpers return when there is nothing.
pub(super) fn nil_map() -> Value {
    Value::Map(ferroplane_template::Heap::nil_map(&Type::Any))
}
