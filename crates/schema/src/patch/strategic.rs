//! Strategic merge patches: like merge patches, but lists of objects are merged item by item, by the key that the
//! [`PatchedKind`] names, and directives say what cannot be said by example.
//!
//! * `$patch: replace` or `delete` in an object or in an item of a list;
//! * `$deleteFromPrimitiveList/<field>`: values to take out of a list;
//! * `$setElementOrder/<field>`: in which order the items of a list shall be;
//! * `$retainKeys`: which fields of an object may stay.
//!
//! Follows apimachinery 0.36.4, `pkg/util/strategicpatch/patch.go`.

mod key;
mod list;
mod order;
mod plan;
mod set_order;

use ferroplane_cancellation::checkpoint;
use ferroplane_golang::fmt;
use ferroplane_golang::json::JsonObject;
use serde_json::Value;

use super::facts::{Found, PatchScope, PatchedKind, Strategy};
use super::{Error, MAX_DEPTH};
use key::MergeKey;
use list::Mode;

const DIRECTIVE: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const SET_ORDER: &str = "$setElementOrder";
const DELETE_VALUES: &str = "$deleteFromPrimitiveList";

/// Applies a strategic merge patch to an object of a kind. If it fails, part of it may have been applied.
pub fn apply(object: &mut JsonObject, patch: JsonObject, kind: PatchedKind<'_>) -> Result<(), Error> {
    merge(object, patch, kind.0, 0)
}

fn merge(
    object: &mut JsonObject,
    mut patch: JsonObject,
    scope: PatchScope<'_>,
    depth: usize,
) -> Result<(), Error> {
    if depth > MAX_DEPTH {
        return Err(Error::too_deep());
    }
    if let Some(directive) = patch.get(DIRECTIVE) {
        match directive.as_str() {
            Some("replace") => {
                patch.remove(DIRECTIVE);
                *object = patch;
            }
            Some("delete") => object.clear(),
            _ => return Err(unknown_directive(directive, &patch)),
        }
        return Ok(());
    }
    // Before anything is merged: what is not retained must not be merged into.
    retain_keys(object, &mut patch)?;
    // Merges the lists that it orders, too, and takes them out of the patch, so that `merge_field` does not
    // merge them again.
    set_order::set_orders(object, &mut patch, scope, depth)?;
    patch.into_iter().try_for_each(|(name, value)| merge_field(object, name, value, scope, depth))
}

fn merge_field(
    object: &mut JsonObject,
    name: String,
    value: Value,
    scope: PatchScope<'_>,
    depth: usize,
) -> Result<(), Error> {
    checkpoint();
    let is_deletion = name.starts_with(DELETE_VALUES);
    let name = match field_of(&name, DELETE_VALUES) {
        Some(field) if !field.is_empty() => field.to_owned(),
        None if is_deletion => return Err(malformed("invalid patch format of primitive list")),
        _ => name,
    };
    if value.is_null() {
        object.remove(&name);
        return Ok(());
    }
    let Some(current) = object.get_mut(&name) else {
        // Deleting values from a list that is not there is no mistake.
        if !is_deletion && let Some(value) = prepared(value, depth)? {
            object.insert(name, value);
        }
        return Ok(());
    };
    match (current, value) {
        (Value::Object(current), Value::Object(value)) => {
            let Found { scope, strategy, .. } = scope.object(&name)?;
            if strategy == Strategy::Replace {
                *current = value;
                return Ok(());
            }
            merge(current, value, scope, depth + 1)
        }
        (Value::Array(current), Value::Array(value)) => {
            let found = scope.list(&name)?;
            let mode = if is_deletion { Mode::Delete } else { Mode::Merge };
            let merged = list::merge(std::mem::take(current), value, found, mode, depth)?;
            *current = merged.items;
            Ok(())
        }
        // Upstream compares types first, and a deletion that meets something else does nothing.
        (current, value) if is_deletion && !fmt::is_same_type(current, &value) => Ok(()),
        (_, value) => replace(object, name, value, depth),
    }
}

/// What a patch has in place of a value of another type, or of one without parts. Directives alone leave nothing to put there.
fn replace(object: &mut JsonObject, name: String, value: Value, depth: usize) -> Result<(), Error> {
    match prepared(value, depth)? {
        Some(value) => drop(object.insert(name, value)),
        None => drop(object.remove(&name)),
    }
    Ok(())
}

/// Drops the fields that the patch says not to keep.
fn retain_keys(object: &mut JsonObject, patch: &mut JsonObject) -> Result<(), Error> {
    const WRONG: &str = "invalid patch format of retainKeys";
    let Some(keys) = patch.remove(RETAIN_KEYS) else { return Ok(()) };
    let Value::Array(keys) = keys else { return Err(malformed(WRONG)) };
    let mut retained = std::collections::BTreeSet::new();
    for key in &keys {
        if let MergeKey::Text(key) = MergeKey::of(key)? {
            retained.insert(key);
        }
    }
    let is_directive = |name: &str| name.starts_with(DELETE_VALUES) || name.starts_with(SET_ORDER);
    let is_allowed = |(name, value): (&String, &Value)| {
        // A patch that sets a field and does not retain it contradicts itself.
        value.is_null() || is_directive(name) || retained.contains(name.as_str())
    };
    if !patch.iter().all(is_allowed) {
        return Err(malformed(WRONG));
    }
    object.retain(|name, _| retained.contains(name.as_str()));
    Ok(())
}

/// The name of the field that a directive is about.
fn field_of<'n>(name: &'n str, directive: &str) -> Option<&'n str> {
    name.strip_prefix(directive)?.strip_prefix('/')
}

/// A value of a patch that there was nothing to merge with: without nulls, and without what carries a directive.
fn prepared(mut value: Value, depth: usize) -> Result<Option<Value>, Error> {
    discard_nulls(&mut value, depth)?;
    without_directives(value, depth)
}

fn discard_nulls(value: &mut Value, depth: usize) -> Result<(), Error> {
    if depth > MAX_DEPTH {
        return Err(Error::too_deep());
    }
    match value {
        Value::Object(fields) => {
            fields.retain(|_, field| !field.is_null());
            fields.values_mut().try_for_each(|field| discard_nulls(field, depth + 1))
        }
        Value::Array(items) => items.iter_mut().try_for_each(|item| discard_nulls(item, depth + 1)),
        _ => Ok(()),
    }
}

fn without_directives(value: Value, depth: usize) -> Result<Option<Value>, Error> {
    if depth > MAX_DEPTH {
        return Err(Error::too_deep());
    }
    Ok(Some(match value {
        Value::Object(fields) if fields.contains_key(DIRECTIVE) => return Ok(None),
        Value::Object(mut fields) => {
            let mut dropped = Vec::new();
            for (name, field) in &mut fields {
                if !field.is_object() && !field.is_array() {
                    continue;
                }
                match without_directives(field.take(), depth + 1)? {
                    Some(kept) => *field = kept,
                    None => dropped.push(name.clone()),
                }
            }
            for name in dropped {
                fields.remove(&name);
            }
            Value::Object(fields)
        }
        Value::Array(items) => {
            let kept = items.into_iter().map(|item| without_directives(item, depth + 1));
            Value::Array(kept.filter_map(Result::transpose).collect::<Result<_, _>>()?)
        }
        other => other,
    }))
}

fn malformed(words: &str) -> Error {
    Error::Malformed(words.to_owned())
}

fn unknown_directive(directive: &Value, patch: &JsonObject) -> Error {
    let shown = match (directive, fmt::type_name(directive)) {
        (Value::String(text), _) => text.clone(),
        (_, None) => "%!s(<nil>)".to_owned(),
        (other, Some(name)) => format!("%!s({name}={})", fmt::plain(other)),
    };
    let patch = fmt::plain(&Value::Object(patch.clone()));
    Error::Internal(format!("unknown patch type: {shown} in map: {patch}"))
}

fn no_merge_key(item: &Value, key: &str) -> Error {
    Error::Internal(format!("map: {} does not contain declared merge key: {key}", fmt::plain(item)))
}

fn wrong_type(expected: &str, actual: &Value) -> Error {
    let actual = fmt::type_name(actual).unwrap_or("%!s(<nil>)");
    Error::Internal(format!("expected a {expected}, but received a {actual}"))
}

#[cfg(test)]
mod tests;
