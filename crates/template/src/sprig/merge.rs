//! Merges dictionaries into the first one, in place.
//!
//! Follows mergo 1.0.2, `merge.go` (`deepMerge`), for dictionaries: structs and pointers in them are never merged.

use super::defaults;
use crate::{Context, Failure, Map, Text, Type, Value};

/// What the library says when something cannot be merged.
pub(super) const DIFFERENT_TYPES: &str = "src and dst must be of same type";

/// Dictionaries may contain themselves: this is as deep as they are merged. Go would continue until its stack is full.
const MAX_DEPTH: u32 = 200;

/// What happens to a key that both have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    /// What is there stays, unless it is empty.
    Fill,
    /// The last one wins, unless both are dictionaries.
    Overwrite,
}

pub(super) fn merge(ctx: &mut Context<'_>, target: &Map, source: &Map, mode: Mode) -> Result<(), Failure> {
    deep_merge(ctx, target, source, mode, 0)
}

fn deep_merge(
    ctx: &mut Context<'_>,
    target: &Map,
    source: &Map,
    mode: Mode,
    depth: u32,
) -> Result<(), Failure> {
    if depth > MAX_DEPTH {
        return Err(Failure::new("the dictionaries are nested too deeply to merge them"));
    }
    let is_overwriting = mode == Mode::Overwrite;
    // A copy, because the two dictionaries can be the same one, or one can be inside the other.
    for (key, new) in ctx.entries_of(source)? {
        // An entry costs about as much as it does in a new dictionary.
        ctx.step(1)?;
        ctx.charge(4 * size_of::<Value>())?;
        let old = target.get(&key);
        if let Value::Nil = new {
            if is_overwriting {
                target.insert(key, new)?;
            }
            continue;
        }
        if let Value::Map(source) = &new {
            merge_into(ctx, old.as_ref(), source, mode, depth)?;
        }
        let stays = match &old {
            // It may have been empty before something was merged into it.
            Some(old) if !is_empty(old) => {
                !is_overwriting || matches!((&new, old), (Value::Map(_), Value::Map(_)))
            }
            _ => false,
        };
        if !stays {
            assign(target, source, key, new)?;
        }
    }
    Ok(())
}

/// Merges a dictionary into what has its key.
fn merge_into(
    ctx: &mut Context<'_>,
    old: Option<&Value>,
    source: &Map,
    mode: Mode,
    depth: u32,
) -> Result<(), Failure> {
    match old {
        Some(Value::Map(target)) if !target.is_nil() => deep_merge(ctx, target, source, mode, depth + 1),
        // A pointer is neither merged nor replaced.
        Some(Value::Object(object)) if matches!(object.type_of(), Type::Pointer(_)) && mode == Mode::Fill => {
            Err(Failure::new(DIFFERENT_TYPES))
        }
        _ => Ok(()),
    }
}

/// A dictionary of texts takes no values of one that can have anything, not even texts.
fn assign(target: &Map, source: &Map, key: Text, value: Value) -> Result<(), Failure> {
    let (wanted, found) = (target.element(), source.element());
    if *wanted != Type::Any && wanted != found {
        let problem =
            format!("reflect.Value.SetMapIndex: value of type {found} is not assignable to type {wanted}");
        return Err(Failure::new(problem));
    }
    target.insert(key, value)
}

fn is_empty(value: &Value) -> bool {
    // Here complex numbers are never empty, and pointers are what they point to.
    !matches!(value, Value::Complex(_)) && defaults::is_empty(value)
}
