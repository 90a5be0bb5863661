//! Values of templates as JSON, and back.

use ferroplane_golang::fmt::Numbers;
use ferroplane_template::{Context, Failure, Text, Type, Value};
use serde_json::{Map, Number, Value as Json};

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
    context.charge(size_of::<Json>())?;
    Ok(match value {
        Value::Nil => Json::Null,
        Value::Bool(is_true) => Json::Bool(*is_true),
        Value::Int(integer) | Value::Int64(integer) => Json::from(*integer),
        Value::Uint8(integer) => Json::from(*integer),
        Value::Uint64(integer) => Json::from(*integer),
        Value::Float(float) => Number::from_f64(*float).map_or(Json::Null, Json::Number),
        Value::String(text) => Json::String(charged(context, text)?),
        Value::Bytes(bytes) => {
            context.charge(bytes.len().saturating_mul(size_of::<Json>()))?;
            bytes.iter().map(|byte| Json::from(*byte)).collect()
        }
        Value::List(items) => {
            Json::Array(items.iter().map(|item| at(context, item, depth)).collect::<Result<_, _>>()?)
        }
        Value::Map(map) => {
            let mut entries = Map::new();
            for (key, value) in context.entries_of(map)? {
                entries.insert(charged(context, &key)?, at(context, &value, depth)?);
            }
            Json::Object(entries)
        }
        Value::Object(object) => {
            if let Some(text) = object.string() {
                Json::String(charged(context, &text)?)
            } else {
                let fields = object.json_fields().into_iter();
                let fields = fields.map(|(name, value)| Ok((name.to_owned(), at(context, &value, depth)?)));
                Json::Object(fields.collect::<Result<_, Failure>>()?)
            }
        }
        Value::AnyMap(_) => {
            return Err(Failure::new(format!("json: unsupported type: {}", value.type_of())));
        }
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

/// An empty list or map that is nil, as helpers return when there is nothing.
pub(super) fn nil_map() -> Value {
    Value::Map(ferroplane_template::Heap::nil_map(&Type::Any))
}
