//! Defaults, emptiness, copies and JSON.
//!
//! Follows sprig 3.3.0, `defaults.go`, `dict.go` (`deepCopy`), and copystructure 1.2.0.

use super::arguments::text;
use super::{function, json, variadic};
use crate::{AnyMap, Context, Failure, Function, List, Type, Value};

use Type::{Any, Bool, String};

pub(super) const FUNCTIONS: &[Function] = &[
    variadic("default", &[Any], Any, Any, default),
    function("empty", &[Any], Bool, |_, args| Ok(Value::Bool(is_empty(&args[0])))),
    variadic("coalesce", &[], Any, Any, coalesce),
    variadic("all", &[], Any, Bool, |_, args| Ok(Value::Bool(!args.iter().any(is_empty)))),
    variadic("any", &[], Any, Bool, |_, args| Ok(Value::Bool(!args.iter().all(is_empty)))),
    function("ternary", &[Any, Any, Bool], Any, ternary),
    function("fromJson", &[String], Any, |ctx, args| Ok(json::decode(ctx, text(args, 0))?.0)),
    function("mustFromJson", &[String], Any, must_from_json),
    function("toJson", &[Any], String, |ctx, args| lenient(to_json(ctx, args, json::COMPACT))),
    function("mustToJson", &[Any], String, |ctx, args| to_json(ctx, args, json::COMPACT)),
    function("toPrettyJson", &[Any], String, |ctx, args| lenient(to_json(ctx, args, json::PRETTY))),
    function("mustToPrettyJson", &[Any], String, |ctx, args| to_json(ctx, args, json::PRETTY)),
    function("toRawJson", &[Any], String, |ctx, args| to_json(ctx, args, json::RAW)),
    function("mustToRawJson", &[Any], String, |ctx, args| to_json(ctx, args, json::RAW)),
];

/// The second argument, unless it is missing or empty.
fn default(_: &mut Context<'_>, args: &[Value]) -> Result<Value, Failure> {
    Ok(args.get(1).filter(|given| !is_empty(given)).unwrap_or(&args[0]).clone())
}

/// Nothing, zero, or without items. Structs and pointers are never empty.
pub(super) fn is_empty(value: &Value) -> bool {
    !value.is_true()
}

fn coalesce(_: &mut Context<'_>, args: &[Value]) -> Result<Value, Failure> {
    Ok(args.iter().find(|value| !is_empty(value)).cloned().unwrap_or(Value::Nil))
}

fn ternary(_: &mut Context<'_>, args: &[Value]) -> Result<Value, Failure> {
    let is_true = matches!(args[2], Value::Bool(true));
    Ok(args[usize::from(!is_true)].clone())
}

fn must_from_json(ctx: &mut Context<'_>, args: &[Value]) -> Result<Value, Failure> {
    match json::decode(ctx, text(args, 0))? {
        (value, None) => Ok(value),
        (_, Some(problem)) => Err(Failure::new(problem)),
    }
}

fn to_json(ctx: &mut Context<'_>, args: &[Value], style: json::Style) -> Result<Value, Failure> {
    Ok(Value::text(json::encode(ctx, &args[0], style)?))
}

/// What cannot be written is the empty text.
fn lenient(result: Result<Value, Failure>) -> Result<Value, Failure> {
    match result {
        Err(Failure::Message(_)) => Ok(Value::text("")),
        result => result,
    }
}

/// Dictionaries may contain themselves: this is as deep as they are copied.
const MAX_DEPTH: u32 = 200;

pub(super) fn deep_copy(ctx: &mut Context<'_>, args: &[Value]) -> Result<Value, Failure> {
    if let Value::Nil = &args[0] {
        return Err(Failure::new("reflect: call of reflect.Value.Type on zero Value"));
    }
    copy(ctx, &args[0], 0)
}

fn copy(ctx: &mut Context<'_>, value: &Value, depth: u32) -> Result<Value, Failure> {
    ctx.step(1)?;
    ctx.charge(size_of::<Value>())?;
    if depth > MAX_DEPTH {
        return Err(Failure::new("deepCopy error: the value is nested too deeply"));
    }
    Ok(match value {
        Value::List(list) if !list.is_nil() => {
            let items = list.iter().map(|item| copy(ctx, item, depth + 1)).collect::<Result<_, _>>()?;
            Value::List(List::new(list.element(), items)?)
        }
        Value::Map(map) if !map.is_nil() => {
            let mut entries = std::collections::BTreeMap::new();
            for (key, value) in ctx.entries_of(map)? {
                entries.insert(key, copy(ctx, &value, depth + 1)?);
            }
            ctx.typed_map(map.element(), entries)?
        }
        Value::AnyMap(map) => {
            let entries = map.iter().map(|(key, value)| Ok((key.clone(), copy(ctx, value, depth + 1)?)));
            Value::AnyMap(AnyMap::new(entries.collect::<Result<_, Failure>>()?))
        }
        // Everything else never changes.
        other => other.clone(),
    })
}
