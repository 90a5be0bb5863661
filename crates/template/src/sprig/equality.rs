//! Whether two values are the same all the way down.
//!
//! Follows Go 1.26, `reflect/deepequal.go`.

use std::rc::Rc;

use crate::{Context, Failure, Object, Value};

/// Dictionaries may contain themselves: this is as deep as two values are compared.
const MAX_DEPTH: u32 = 500;

/// Values of different types are never equal, and no list is equal to one that is nil.
pub(super) fn are_equal(ctx: &mut Context<'_>, one: &Value, other: &Value) -> Result<bool, Failure> {
    compare(ctx, one, other, 0)
}

fn compare(ctx: &mut Context<'_>, one: &Value, other: &Value, depth: u32) -> Result<bool, Failure> {
    ctx.step(1)?;
    if depth > MAX_DEPTH {
        return Err(Failure::new("the values are nested too deeply to compare them"));
    }
    Ok(match (one, other) {
        (Value::Nil, Value::Nil) => true,
        (Value::Bool(one), Value::Bool(other)) => one == other,
        (Value::Int(one), Value::Int(other)) | (Value::Int64(one), Value::Int64(other)) => one == other,
        (Value::Uint8(one), Value::Uint8(other)) => one == other,
        (Value::Uint64(one), Value::Uint64(other)) => one == other,
        (Value::Float(one), Value::Float(other)) => are_same(*one, *other),
        (Value::Complex(one), Value::Complex(other)) => {
            one.iter().zip(&**other).all(|(one, other)| are_same(*one, *other))
        }
        (Value::String(one), Value::String(other)) | (Value::Bytes(one), Value::Bytes(other)) => {
            ctx.step(one.len() as u64 / 1024)?;
            one == other
        }
        (Value::List(one), Value::List(other)) => {
            if one.element() != other.element() || one.len() != other.len() || one.is_nil() != other.is_nil()
            {
                return Ok(false);
            }
            // Go takes the same list to be equal to itself, even if not every item is.
            Rc::ptr_eq(one, other) || all(ctx, one.iter().zip(other.iter()), depth)?
        }
        (Value::Map(one), Value::Map(other)) => {
            if one.element() != other.element() || one.len() != other.len() || one.is_nil() != other.is_nil()
            {
                return Ok(false);
            }
            if Rc::ptr_eq(one, other) {
                return Ok(true);
            }
            let (one, other) = (one.entries(), other.entries());
            // All keys are compared before the first value.
            ctx.step(one.keys().map(|key| 1 + key.len() as u64 / 256).sum())?;
            let has_same_keys = one.keys().eq(other.keys());
            has_same_keys && all(ctx, one.values().zip(other.values()), depth)?
        }
        (Value::AnyMap(one), Value::AnyMap(other)) => {
            if Rc::ptr_eq(one, other) {
                return Ok(true);
            }
            if one.len() != other.len() {
                return Ok(false);
            }
            ctx.step(one.len() as u64)?;
            let pairs = one.iter().map(|(key, value)| Some((value, other.get(key)?)));
            match pairs.collect::<Option<Vec<_>>>() {
                Some(pairs) => all(ctx, pairs.into_iter(), depth)?,
                None => false,
            }
        }
        (Value::Object(one), Value::Object(other)) => are_same_objects(&**one, &**other),
        _ => false,
    })
}

fn all<'v>(
    ctx: &mut Context<'_>,
    pairs: impl Iterator<Item = (&'v Value, &'v Value)>,
    depth: u32,
) -> Result<bool, Failure> {
    for (one, other) in pairs {
        if !compare(ctx, one, other, depth + 1)? {
            return Ok(false);
        }
    }
    Ok(true)
}

#[expect(clippy::float_cmp, reason = "Go compares exactly")]
fn are_same(one: f64, other: f64) -> bool {
    one == other
}

fn are_same_objects(one: &dyn Object, other: &dyn Object) -> bool {
    if one.type_of() != other.type_of() {
        return false;
    }
    match (one.as_any().downcast_ref(), other.as_any().downcast_ref()) {
        // Pointers are followed.
        (Some(one), Some(other)) => super::semver::SemanticVersion::has_same_parts(one, other),
        _ => one.equals(other).unwrap_or_default(),
    }
}
