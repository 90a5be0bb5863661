//! Lists.
//!
//! The functions with `must` in their names return the errors with which the others panic; in a template both read the same.
//!
//! Follows sprig 3.3.0, `list.go`.

use std::borrow::Cow;

use super::arguments::{NIL_POINTER, charge_items, int, items, no_list};
use super::cast::{to_int64, truncate};
use super::{defaults, equality, function, reflection, variadic};
use crate::{Context, Failure, Function, List, Type, Value};

use Type::{Any, Bool, Int};

const LIST: Type = Type::LIST;
const CHUNKS: Type = Type::List(&LIST);

pub(super) const FUNCTIONS: &[Function] = &[
    variadic("list", &[], Any, LIST, |ctx, args| ctx.list(args.to_vec())),
    variadic("tuple", &[], Any, LIST, |ctx, args| ctx.list(args.to_vec())),
    function("append", &[Any, Any], LIST, append),
    function("mustAppend", &[Any, Any], LIST, append),
    function("push", &[Any, Any], LIST, append),
    function("mustPush", &[Any, Any], LIST, append),
    function("prepend", &[Any, Any], LIST, prepend),
    function("mustPrepend", &[Any, Any], LIST, prepend),
    variadic("concat", &[], Any, Any, concat),
    function("first", &[Any], Any, first),
    function("mustFirst", &[Any], Any, first),
    function("last", &[Any], Any, last),
    function("mustLast", &[Any], Any, last),
    function("rest", &[Any], LIST, rest),
    function("mustRest", &[Any], LIST, rest),
    function("initial", &[Any], LIST, initial),
    function("mustInitial", &[Any], LIST, initial),
    function("reverse", &[Any], LIST, reverse),
    function("mustReverse", &[Any], LIST, reverse),
    function("compact", &[Any], LIST, compact),
    function("mustCompact", &[Any], LIST, compact),
    function("uniq", &[Any], LIST, uniq),
    function("mustUniq", &[Any], LIST, uniq),
    variadic("without", &[Any], Any, LIST, without),
    variadic("mustWithout", &[Any], Any, LIST, without),
    function("has", &[Any, Any], Bool, has),
    function("mustHas", &[Any, Any], Bool, has),
    variadic("slice", &[Any], Any, Any, slice),
    variadic("mustSlice", &[Any], Any, Any, slice),
    function("chunk", &[Int, Any], CHUNKS, chunk),
    function("mustChunk", &[Int, Any], CHUNKS, chunk),
];

/// The items of a list. Anything else is a mistake, which is reported with its kind.
fn items_of<'v>(
    ctx: &mut Context<'_>,
    value: &'v Value,
    mistake: impl FnOnce(&str) -> String,
) -> Result<Cow<'v, [Value]>, Failure> {
    if let Value::Nil = value {
        return Err(Failure::new(NIL_POINTER));
    }
    let Some(items) = items(value) else { return Err(Failure::new(mistake(reflection::kind(value)))) };
    // What is made of a list is about as long.
    charge_items(ctx, items.len())?;
    Ok(items)
}

fn append(ctx: &mut Context<'_>, args: &[Value]) -> Result<Value, Failure> {
    let mut items = items_of(ctx, &args[0], |kind| format!("Cannot push on type {kind}"))?.into_owned();
    items.push(args[1].clone());
    ctx.list(items)
}

fn prepend(ctx: &mut Context<'_>, args: &[Value]) -> Result<Value, Failure> {
    let items = items_of(ctx, &args[0], |kind| format!("Cannot prepend on type {kind}"))?;
    ctx.list(std::iter::once(&args[1]).chain(items.iter()).cloned().collect())
}

fn concat(ctx: &mut Context<'_>, args: &[Value]) -> Result<Value, Failure> {
    let mut all = Vec::new();
    for list in args {
        all.extend_from_slice(&items_of(ctx, list, |kind| format!("Cannot concat type {kind} as list"))?);
    }
    // sprig appends to a list that is nil, which stays nil if nothing is appended, and is `null` in JSON.
    if all.is_empty() { Ok(no_list()) } else { ctx.list(all) }
}

fn first(ctx: &mut Context<'_>, args: &[Value]) -> Result<Value, Failure> {
    let items = items_of(ctx, &args[0], |kind| format!("Cannot find first on type {kind}"))?;
    Ok(items.first().cloned().unwrap_or(Value::Nil))
}

fn last(ctx: &mut Context<'_>, args: &[Value]) -> Result<Value, Failure> {
    let items = items_of(ctx, &args[0], |kind| format!("Cannot find last on type {kind}"))?;
    Ok(items.last().cloned().unwrap_or(Value::Nil))
}

fn rest(ctx: &mut Context<'_>, args: &[Value]) -> Result<Value, Failure> {
    let items = items_of(ctx, &args[0], |kind| format!("Cannot find rest on type {kind}"))?;
    items.split_first().map_or_else(|| Ok(no_list()), |(_, rest)| ctx.list(rest.to_vec()))
}

fn initial(ctx: &mut Context<'_>, args: &[Value]) -> Result<Value, Failure> {
    let items = items_of(ctx, &args[0], |kind| format!("Cannot find initial on type {kind}"))?;
    items.split_last().map_or_else(|| Ok(no_list()), |(_, initial)| ctx.list(initial.to_vec()))
}

fn reverse(ctx: &mut Context<'_>, args: &[Value]) -> Result<Value, Failure> {
    let items = items_of(ctx, &args[0], |kind| format!("Cannot find reverse on type {kind}"))?;
    ctx.list(items.iter().rev().cloned().collect())
}

fn compact(ctx: &mut Context<'_>, args: &[Value]) -> Result<Value, Failure> {
    let items = items_of(ctx, &args[0], |kind| format!("Cannot compact on type {kind}"))?;
    ctx.list(items.iter().filter(|item| !defaults::is_empty(item)).cloned().collect())
}

fn uniq(ctx: &mut Context<'_>, args: &[Value]) -> Result<Value, Failure> {
    let items = items_of(ctx, &args[0], |kind| format!("Cannot find uniq on type {kind}"))?;
    let mut unique = Vec::new();
    for item in items.iter() {
        if !is_in(ctx, &unique, item)? {
            unique.push(item.clone());
        }
    }
    ctx.list(unique)
}

fn without(ctx: &mut Context<'_>, args: &[Value]) -> Result<Value, Failure> {
    let items = items_of(ctx, &args[0], |kind| format!("Cannot find without on type {kind}"))?;
    let mut kept = Vec::new();
    for item in items.iter() {
        if !is_in(ctx, &args[1..], item)? {
            kept.push(item.clone());
        }
    }
    ctx.list(kept)
}

fn has(ctx: &mut Context<'_>, args: &[Value]) -> Result<Value, Failure> {
    if let Value::Nil = &args[1] {
        return Ok(Value::Bool(false));
    }
    let items = items_of(ctx, &args[1], |kind| format!("Cannot find has on type {kind}"))?;
    Ok(Value::Bool(is_in(ctx, &items, &args[0])?))
}

fn is_in(ctx: &mut Context<'_>, items: &[Value], wanted: &Value) -> Result<bool, Failure> {
    for item in items {
        if equality::are_equal(ctx, wanted, item)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Part of a list with the type that it has. Of an empty list it is nil.
// Go lets the end lie behind the last item if there happens to be room in memory. Here it is out of bounds.
fn slice(ctx: &mut Context<'_>, args: &[Value]) -> Result<Value, Failure> {
    let items = items_of(ctx, &args[0], |kind| format!("list should be type of slice or array but {kind}"))?;
    if items.is_empty() {
        return Ok(Value::Nil);
    }
    let index = |at: usize, default: usize| match args.get(at) {
        Some(index) => usize::try_from(to_int64(index)).ok(),
        None => Some(default),
    };
    let part = index(1, 0).zip(index(2, items.len())).and_then(|(start, end)| items.get(start..end));
    let part = part.ok_or_else(|| Failure::new("reflect.Value.Slice: slice index out of bounds"))?;
    match &args[0] {
        Value::List(list) => ctx.typed_list(list.element(), part.to_vec()),
        _ => Ok(Value::Bytes(
            part.iter()
                .map(|item| if let Value::Uint8(byte) = item { *byte } else { 0 })
                .collect::<Vec<_>>()
                .into(),
        )),
    }
}

#[expect(clippy::cast_precision_loss, reason = "the original computes with floats")]
fn chunk(ctx: &mut Context<'_>, args: &[Value]) -> Result<Value, Failure> {
    let items = items_of(ctx, &args[1], |kind| format!("Cannot chunk type {kind}"))?;
    let no_length = || Failure::new("runtime error: makeslice: len out of range");
    let (size, length) = (int(args, 0), items.len() as f64);
    // A size of zero makes this infinite, which Go converts to a negative length and then refuses.
    let count =
        usize::try_from(truncate(((length - 1.0) / size as f64).floor() + 1.0)).map_err(|_| no_length())?;
    charge_items(ctx, count)?;
    let mut chunks = Vec::with_capacity(count);
    for at in 0..count {
        let rest = truncate((length % size as f64).floor());
        let length = if at + 1 < count || rest == 0 { size } else { rest };
        let length = usize::try_from(length).map_err(|_| no_length())?;
        let start = usize::try_from(size).unwrap_or_default().saturating_mul(at);
        let chunk = items.get(start..start.saturating_add(length)).unwrap_or_default();
        chunks.push(Value::List(List::new(&Any, chunk.to_vec())?));
    }
    ctx.typed_list(&LIST, chunks)
}
