//! Items of lists, maps and texts: `index`, `slice` and `len`.
//!
//! Follows Go 1.26, `text/template/funcs.go` (`indexArg` to `length`).

use crate::execute::Slot;
use crate::{Context, Failure, List, Text, Type, Value, print};

/// What Go panics with where it asks a value for its type that is none.
const NO_TYPE: &str = "reflect: call of reflect.Value.Type on zero Value";

pub(super) fn index(slots: &[Slot]) -> Result<Slot, Failure> {
    let Some((item, indexes)) = slots.split_first() else { return Ok(Slot::Invalid) };
    let mut item = item.clone().unboxed();
    if let Slot::Invalid = item {
        return Err(Failure::new("index of untyped nil"));
    }
    for index in indexes {
        item = step(item, index.clone().unboxed())?;
    }
    Ok(item)
}

fn step(item: Slot, index: Slot) -> Result<Slot, Failure> {
    let value = match item {
        Slot::Invalid | Slot::Boxed(Value::Nil) => return Err(Failure::new("index of nil pointer")),
        Slot::Plain(value) | Slot::Boxed(value) => value,
    };
    let boxed =
        |kind: Type, value: Value| if kind == Type::Any { Slot::Boxed(value) } else { Slot::Plain(value) };
    match &value {
        Value::List(list) => {
            let at = position(&index, list.len())?;
            let value = list.get(at).cloned().ok_or_else(|| out_of_range("slice"))?;
            Ok(boxed(*list.element(), value))
        }
        Value::String(text) | Value::Bytes(text) => {
            let what = if matches!(value, Value::String(_)) { "string" } else { "slice" };
            let at = position(&index, text.len())?;
            text.get(at).map(|byte| Slot::Plain(Value::Uint8(*byte))).ok_or_else(|| out_of_range(what))
        }
        Value::Map(map) => {
            let key = match index {
                Slot::Invalid => return Err(Failure::new("value is nil; should be of type string")),
                Slot::Plain(Value::String(key)) => key,
                Slot::Plain(other) | Slot::Boxed(other) => {
                    let kind = other.type_of();
                    return Err(Failure::new(format!("value has type {kind}; should be string")));
                }
            };
            let element = *map.element();
            Ok(match map.get(&key) {
                Some(value) => boxed(element, value),
                // Unlike a field that is missing, a key that is missing does not depend on the option
                // `missingkey`.
                None => boxed(element, zero(element)),
            })
        }
        Value::AnyMap(map) => {
            let key = index.into_value();
            if let Value::List(_) | Value::Bytes(_) | Value::Map(_) | Value::AnyMap(_) = key {
                return Err(Failure::new(format!(
                    "runtime error: hash of unhashable type {}",
                    key.type_of()
                )));
            }
            Ok(Slot::Boxed(map.get(&key).cloned().unwrap_or(Value::Nil)))
        }
        other => Err(Failure::new(format!("can't index item of type {}", other.type_of()))),
    }
}

/// What Go panics with: the length itself passes its check, and reflection refuses it.
fn out_of_range(what: &str) -> Failure {
    Failure::new(format!("reflect: {what} index out of range"))
}

fn zero(element: Type) -> Value {
    match element {
        Type::String => Value::text(""),
        Type::Bool => Value::Bool(false),
        Type::Int => Value::Int(0),
        Type::Int64 => Value::Int64(0),
        Type::Uint8 => Value::Uint8(0),
        Type::Uint64 => Value::Uint64(0),
        Type::Float64 => Value::Float(0.0),
        other => print::zero(other),
    }
}

/// An index up to and including the length.
fn position(index: &Slot, length: usize) -> Result<usize, Failure> {
    let number = match index {
        Slot::Invalid => return Err(Failure::new("cannot index slice/array with nil")),
        Slot::Plain(Value::Int(number) | Value::Int64(number)) => *number,
        Slot::Plain(Value::Uint8(number)) => (*number).into(),
        #[expect(clippy::cast_possible_wrap, reason = "Go does it, too")]
        Slot::Plain(Value::Uint64(number)) => *number as i64,
        Slot::Plain(Value::Object(object)) if object.integer().is_some() => object.integer().unwrap_or(0),
        Slot::Plain(other) => {
            let kind = other.type_of();
            return Err(Failure::new(format!("cannot index slice/array with type {kind}")));
        }
        Slot::Boxed(_) => return Err(Failure::new("cannot index slice/array with type interface {}")),
    };
    match usize::try_from(number) {
        Ok(at) if at <= length => Ok(at),
        _ => Err(Failure::new(format!("index out of range: {number}"))),
    }
}

pub(super) fn slice(ctx: &mut Context<'_>, slots: &[Slot]) -> Result<Slot, Failure> {
    let Some((item, indexes)) = slots.split_first() else { return Ok(Slot::Invalid) };
    let Slot::Plain(value) = item.clone().unboxed() else {
        return Err(Failure::new("slice of untyped nil"));
    };
    if indexes.len() > 3 {
        return Err(Failure::new(format!("too many slice indexes: {}", indexes.len())));
    }
    let length = match &value {
        Value::String(_) if indexes.len() == 3 => return Err(Failure::new("cannot 3-index slice a string")),
        Value::String(text) | Value::Bytes(text) => text.len(),
        // What is behind the end of a list in Go, its capacity, does not exist here.
        Value::List(list) => list.len(),
        other => return Err(Failure::new(format!("can't slice item of type {}", other.type_of()))),
    };
    let mut bounds = [0, length, length];
    for (at, index) in indexes.iter().enumerate() {
        bounds[at] = position(index, length)?;
    }
    for (low, high) in [(bounds[0], bounds[1]), (bounds[1], bounds[2])] {
        if low > high {
            return Err(Failure::new(format!("invalid slice index: {low} > {high}")));
        }
    }
    part(ctx, &value, bounds[0], bounds[1]).map(Slot::Plain)
}

fn part(ctx: &mut Context<'_>, value: &Value, start: usize, end: usize) -> Result<Value, Failure> {
    ctx.charge((end - start).saturating_mul(if matches!(value, Value::List(_)) {
        size_of::<Value>()
    } else {
        1
    }))?;
    Ok(match value {
        Value::String(text) => Value::String(Text::from(&text[start..end])),
        Value::Bytes(text) => Value::Bytes(Text::from(&text[start..end])),
        Value::List(list) if list.is_nil() => value.clone(),
        Value::List(list) => Value::List(List::new(list.element(), list[start..end].to_vec())?),
        other => other.clone(),
    })
}

pub(super) fn length(slots: &[Slot]) -> Result<Slot, Failure> {
    let length = match slots.first() {
        None | Some(Slot::Invalid) => return Err(Failure::new(NO_TYPE)),
        Some(Slot::Boxed(Value::Nil)) => return Err(Failure::new("len of nil pointer")),
        Some(Slot::Plain(value) | Slot::Boxed(value)) => match value {
            Value::String(text) | Value::Bytes(text) => text.len(),
            Value::List(list) => list.len(),
            Value::Map(map) => map.len(),
            Value::AnyMap(map) => map.len(),
            other => return Err(Failure::new(format!("len of type {}", other.type_of()))),
        },
    };
    Ok(Slot::Plain(Value::Int(i64::try_from(length).unwrap_or(i64::MAX))))
}
