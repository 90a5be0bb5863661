//! Arguments, whose types the engine has checked against the signature.
//!
//! Our own design: Go finds them by reflection.

use std::borrow::Cow;
use std::rc::Rc;

use crate::{Context, Failure, List, Map, Type, Value};

/// What dereferencing nothing says in Go. Many functions of sprig ask for the type of an argument that may be nil.
pub(super) const NIL_POINTER: &str = "runtime error: invalid memory address or nil pointer dereference";

/// The argument at this place, which is text.
pub(super) fn text(args: &[Value], at: usize) -> &[u8] {
    if let Some(Value::String(text)) = args.get(at) { text } else { &[] }
}

/// The argument at this place as characters: what is no UTF-8 becomes replacement characters, as in Go's conversion to runes.
pub(super) fn characters(args: &[Value], at: usize) -> Cow<'_, str> {
    if let Some(Value::String(text)) = args.get(at) { text.to_str() } else { Cow::Borrowed("") }
}

/// The argument at this place, which is an integer.
pub(super) fn int(args: &[Value], at: usize) -> i64 {
    if let Some(Value::Int(whole)) = args.get(at) { *whole } else { 0 }
}

/// The argument at this place, which is a dictionary.
pub(super) fn map(args: &[Value], at: usize) -> Result<&Rc<Map>, Failure> {
    if let Some(Value::Map(map)) = args.get(at) { Ok(map) } else { Err(Failure::new(NIL_POINTER)) }
}

/// The items of a list or of bytes; none of anything else.
pub(super) fn items(value: &Value) -> Option<Cow<'_, [Value]>> {
    match value {
        Value::List(list) => Some(Cow::Borrowed(&list[..])),
        Value::Bytes(bytes) => Some(bytes.iter().map(|byte| Value::Uint8(*byte)).collect::<Vec<_>>().into()),
        _ => None,
    }
}

/// A list of texts, `[]string`.
pub(super) fn strings(ctx: &mut Context<'_>, items: Vec<Value>) -> Result<Value, Failure> {
    ctx.typed_list(&Type::String, items)
}

/// A list of texts that is nil.
pub(super) fn no_strings() -> Value {
    Value::List(List::nil(&Type::String))
}

/// A list of anything that is nil.
pub(super) fn no_list() -> Value {
    Value::List(List::nil(&Type::Any))
}

/// Charges for a number of values before they are made.
pub(super) fn charge_items(ctx: &mut Context<'_>, count: usize) -> Result<(), Failure> {
    ctx.step(count as u64)?;
    Ok(ctx.charge(count.saturating_mul(size_of::<Value>()))?)
}
