//! Dictionaries, which change in place.
//!
//! Keys and values are in the order of the keys. Go gives them in a new order each time.
//!
//! Follows sprig 3.3.0, `dict.go`.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::arguments::{charge_items, map, strings, text};
use super::merge::{self, Mode};
use super::{cast, defaults, function, variadic};
use crate::{Context, Failure, Function, Map, Text, Type, Value};

use Type::{Any, Bool, String};

const MAP: Type = Type::MAP;

pub(super) const FUNCTIONS: &[Function] = &[
    variadic("dict", &[], Any, MAP, dict),
    function("get", &[MAP, String], Any, get),
    function("set", &[MAP, String, Any], MAP, set),
    function("unset", &[MAP, String], MAP, unset),
    function("hasKey", &[MAP, String], Bool, |_, args| {
        Ok(Value::Bool(map(args, 0)?.contains_key(text(args, 1))))
    }),
    variadic("pluck", &[String], MAP, Type::LIST, pluck),
    variadic("keys", &[], MAP, Type::List(&String), keys),
    function("values", &[MAP], Type::LIST, values),
    variadic("pick", &[MAP], String, MAP, |ctx, args| filter(ctx, args, true)),
    variadic("omit", &[MAP], String, MAP, |ctx, args| filter(ctx, args, false)),
    variadic("merge", &[MAP], MAP, Any, |ctx, args| lenient(merge_all(ctx, args, Mode::Fill))),
    variadic("mustMerge", &[MAP], MAP, Any, |ctx, args| merge_all(ctx, args, Mode::Fill)),
    variadic("mergeOverwrite", &[MAP], MAP, Any, |ctx, args| lenient(merge_all(ctx, args, Mode::Overwrite))),
    variadic("mustMergeOverwrite", &[MAP], MAP, Any, |ctx, args| merge_all(ctx, args, Mode::Overwrite)),
    variadic("dig", &[], Any, Any, dig),
    function("deepCopy", &[Any], Any, defaults::deep_copy),
    function("mustDeepCopy", &[Any], Any, defaults::deep_copy),
];

/// Keys and values by turns. A last key without a value has the empty text.
fn dict(ctx: &mut Context<'_>, args: &[Value]) -> Result<Value, Failure> {
    let mut entries = BTreeMap::new();
    for pair in args.chunks(2) {
        let key = cast::to_text(ctx, &pair[0])?;
        entries.insert(key, pair.get(1).cloned().unwrap_or_else(|| Value::text("")));
    }
    ctx.map(entries)
}

fn get(_: &mut Context<'_>, args: &[Value]) -> Result<Value, Failure> {
    Ok(map(args, 0)?.get(text(args, 1)).unwrap_or_else(|| Value::text("")))
}

fn set(ctx: &mut Context<'_>, args: &[Value]) -> Result<Value, Failure> {
    // The dictionary is charged for when it is made, and must not grow for nothing afterwards.
    charge_items(ctx, 4)?;
    map(args, 0)?.insert(text(args, 1).into(), args[2].clone())?;
    Ok(args[0].clone())
}

fn unset(_: &mut Context<'_>, args: &[Value]) -> Result<Value, Failure> {
    // A dictionary that is nil is no mistake here: Go deletes from one without a word.
    let _ = map(args, 0)?.remove(text(args, 1));
    Ok(args[0].clone())
}

fn pluck(ctx: &mut Context<'_>, args: &[Value]) -> Result<Value, Failure> {
    let key = text(args, 0);
    let dicts = (1..args.len()).map(|at| map(args, at)).collect::<Result<Vec<_>, _>>()?;
    ctx.list(dicts.into_iter().filter_map(|dict| dict.get(key)).collect())
}

fn keys(ctx: &mut Context<'_>, args: &[Value]) -> Result<Value, Failure> {
    let mut keys = Vec::new();
    for at in 0..args.len() {
        let dict = map(args, at)?;
        charge_items(ctx, dict.len())?;
        keys.extend(dict.entries().keys().cloned().map(Value::String));
    }
    strings(ctx, keys)
}

fn values(ctx: &mut Context<'_>, args: &[Value]) -> Result<Value, Failure> {
    let dict = map(args, 0)?;
    charge_items(ctx, dict.len())?;
    let values = dict.entries().values().cloned().collect();
    ctx.list(values)
}

/// A new dictionary with those keys that are named, or with those that are not.
fn filter(ctx: &mut Context<'_>, args: &[Value], keeps_named: bool) -> Result<Value, Failure> {
    let dict = map(args, 0)?;
    ctx.step(dict.len() as u64)?;
    let named: std::collections::BTreeSet<&[u8]> = (1..args.len()).map(|at| text(args, at)).collect();
    let entries =
        dict.to_vec().into_iter().filter(|(key, _)| named.contains(&key[..]) == keeps_named).collect();
    ctx.map(entries)
}

fn merge_all(ctx: &mut Context<'_>, args: &[Value], mode: Mode) -> Result<Value, Failure> {
    let mut target = Rc::clone(map(args, 0)?);
    for at in 1..args.len() {
        let source = map(args, at)?;
        // Nothing can be added to a dictionary that is nil: it is replaced by a new one.
        if target.is_nil() && !source.is_nil() {
            target = ctx.heap().map(&Any, BTreeMap::new());
        }
        merge::merge(ctx, &target, source, mode)?;
    }
    Ok(Value::Map(target))
}

/// What cannot be merged is the empty text, but a panic is one for all.
fn lenient(result: Result<Value, Failure>) -> Result<Value, Failure> {
    match result {
        Err(Failure::Message(message)) if message == merge::DIFFERENT_TYPES => Ok(Value::text("")),
        result => result,
    }
}

/// What nested keys lead to in the last argument, or the last but one if the way ends before.
fn dig(_: &mut Context<'_>, args: &[Value]) -> Result<Value, Failure> {
    let [keys @ .., default, dict] = args else {
        return Err(Failure::new("dig needs at least three arguments"));
    };
    if keys.is_empty() {
        return Err(Failure::new("dig needs at least three arguments"));
    }
    let mut dict = as_map(dict)?;
    let keys = keys.iter().map(as_text).collect::<Result<Vec<_>, _>>()?;
    for (at, key) in keys.iter().enumerate() {
        let Some(step) = dict.get(key) else { return Ok(default.clone()) };
        if at + 1 == keys.len() {
            return Ok(step);
        }
        dict = as_map(&step)?;
    }
    Ok(default.clone())
}

fn as_map(value: &Value) -> Result<Rc<Map>, Failure> {
    match value {
        Value::Map(map) if value.type_of() == MAP => Ok(Rc::clone(map)),
        other => Err(conversion(other, "map[string]interface {}")),
    }
}

fn as_text(value: &Value) -> Result<&Text, Failure> {
    if let Value::String(text) = value { Ok(text) } else { Err(conversion(value, "string")) }
}

fn conversion(value: &Value, wanted: &str) -> Failure {
    let found = if let Value::Nil = value { "nil".to_owned() } else { value.type_of().to_string() };
    Failure::new(format!("interface conversion: interface {{}} is {found}, not {wanted}"))
}
