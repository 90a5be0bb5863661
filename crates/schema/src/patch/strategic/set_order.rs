//! Carries out the directives about the order of lists.
//!
//! Follows apimachinery 0.36.4, `pkg/util/strategicpatch/patch.go`.

use std::collections::HashMap;

use ferroplane_golang::fmt;
use ferroplane_golang::json::JsonObject;
use serde_json::Value;

use super::key::MergeKey;
use super::list::{MAP, Merged, Mode, is_of_objects, keys, merge};
use super::order::{self, Rank};
use super::{DIRECTIVE, SET_ORDER, field_of, malformed, no_merge_key, wrong_type};
use crate::patch::Error;
use crate::patch::facts::PatchScope;

const LIST: &str = "[]interface {}";
const WRONG_ORDER: &str = "invalid patch format of setElementOrder list";

/// Carries out the directives about the order of lists, merging the lists that they are about.
pub(super) fn set_orders(
    object: &mut JsonObject,
    patch: &mut JsonObject,
    scope: PatchScope<'_>,
    depth: usize,
) -> Result<(), Error> {
    let names: Vec<_> = patch.keys().filter(|name| name.starts_with(SET_ORDER)).cloned().collect();
    for name in names {
        let wanted = match patch.remove(&name) {
            Some(Value::Array(wanted)) => wanted,
            other => return Err(wrong_type(LIST, &other.unwrap_or_default())),
        };
        let field = field_of(&name, SET_ORDER).ok_or_else(|| malformed(WRONG_ORDER))?;
        set_order(object, patch, field, &wanted, scope, depth)?;
    }
    Ok(())
}

fn set_order(
    object: &mut JsonObject,
    patch: &mut JsonObject,
    field: &str,
    wanted: &[Value],
    scope: PatchScope<'_>,
    depth: usize,
) -> Result<(), Error> {
    let current = list_of(object, field)?;
    let change = list_of(patch, field)?;
    let found = scope.list(field)?;
    // Before either list is taken out, so that a refusal leaves the object as it was.
    check_order(change.map_or(&[], Vec::as_slice), wanted, found.merge_key)?;
    let (current, change) = match (current, change) {
        (None, None) => return Ok(()),
        (current, change) => (current.is_some(), change.is_some()),
    };
    let take = |from: &mut JsonObject| match from.remove(field) {
        Some(Value::Array(items)) => items,
        _ => Vec::new(),
    };
    let (current, change) = (current.then(|| take(object)), change.then(|| take(patch)));
    let is_of_objects =
        is_of_objects(current.as_deref().unwrap_or_default(), change.as_deref().unwrap_or_default());
    let merged = match (current, change) {
        (Some(current), None) => Merged { memory: keys(&current, found.merge_key), items: current },
        (current, Some(change)) => match current {
            Some(current) => merge(current, change, found, Mode::Remember, depth)?,
            None => match super::without_directives(Value::Array(change), depth)? {
                Some(Value::Array(items)) => items.into(),
                _ => return Ok(()),
            },
        },
        (None, None) => return Ok(()),
    };
    let items = reorder(merged, wanted, found.merge_key, is_of_objects)?;
    object.insert(field.to_owned(), Value::Array(items));
    Ok(())
}

fn list_of<'o>(object: &'o JsonObject, field: &str) -> Result<Option<&'o Vec<Value>>, Error> {
    match object.get(field) {
        None => Ok(None),
        Some(Value::Array(items)) => Ok(Some(items)),
        Some(other) => Err(wrong_type(LIST, other)),
    }
}

fn reorder(
    merged: Merged,
    wanted: &[Value],
    merge_key: &str,
    is_of_objects: Result<bool, Error>,
) -> Result<Vec<Value>, Error> {
    let Merged { items, memory } = merged;
    if merge_key.is_empty()
        && is_of_objects == Ok(true)
        && let Some(item) = items.iter().chain(wanted).chain(&memory).next()
    {
        return Err(if item.is_object() { no_merge_key(item, merge_key) } else { wrong_type(MAP, item) });
    }
    let order = {
        let key_of = |item| {
            if merge_key.is_empty() { MergeKey::of(item).map(Some) } else { item_key(item, merge_key) }
        };
        let mut places = HashMap::with_capacity(wanted.len());
        for (index, item) in wanted.iter().enumerate() {
            if !merge_key.is_empty() && !item.is_object() {
                return Err(Error::Internal(format!("value for key {index} is not a map")));
            }
            if let Some(key) = key_of(item)? {
                places.entry(key).or_insert(index);
            }
        }
        let mut known = HashMap::with_capacity(memory.len());
        for (index, item) in memory.iter().enumerate() {
            known.entry(MergeKey::of(item)?).or_insert(index);
        }
        let mut ranks = Vec::with_capacity(items.len());
        for item in &items {
            let key = key_of(item)?.ok_or_else(|| no_merge_key(item, merge_key))?;
            ranks.push(Rank { wanted: places.get(&key).copied(), known: known.get(&key).copied() });
        }
        if is_of_objects? && let Some(item) = wanted.iter().find(|item| item.get(merge_key).is_none()) {
            return Err(if item.is_object() { no_merge_key(item, merge_key) } else { wrong_type(MAP, item) });
        }
        order::arrange(&ranks)
    };
    Ok(order::permute(items, &order))
}

fn item_key<'v>(item: &'v Value, merge_key: &str) -> Result<Option<MergeKey<'v>>, Error> {
    if item.is_object() { MergeKey::of_item(item, merge_key) } else { Err(wrong_type(MAP, item)) }
}

/// The items of the patch must be in the wanted order, and all of them must be wanted.
fn check_order(patch: &[Value], wanted: &[Value], merge_key: &str) -> Result<(), Error> {
    if patch.is_empty() || wanted.is_empty() {
        return Ok(());
    }
    let is_deletion = |item: &Value| item.get(DIRECTIVE).is_some_and(|directive| directive == "delete");
    let mut items = Vec::with_capacity(patch.len());
    for item in patch {
        match merge_key {
            "" => items.push(item),
            _ if !item.is_object() => return Err(wrong_type(MAP, item)),
            _ if is_deletion(item) => {}
            _ => items.push(item),
        }
    }
    let (mut items, mut candidates) = (items.into_iter().peekable(), wanted.iter().peekable());
    while let (Some(item), Some(candidate)) = (items.peek(), candidates.peek()) {
        // Other directives have no place in the order.
        if item.get(DIRECTIVE).is_some() {
            items.next();
            continue;
        }
        if is_same_item(item, candidate, merge_key)? {
            items.next();
        }
        candidates.next();
    }
    if items.peek().is_none() {
        return Ok(());
    }
    Err(Error::Internal(format!(
        "The order in patch list:\n{}\n doesn't match {SET_ORDER} list:\n{}\n",
        fmt::plain_list(patch),
        fmt::plain_list(wanted)
    )))
}

fn is_same_item(one: &Value, other: &Value, merge_key: &str) -> Result<bool, Error> {
    if merge_key.is_empty() {
        return Ok(fmt::is_same_type(one, other) && MergeKey::of(one)? == MergeKey::of(other)?);
    }
    let keyed = |item| item_key(item, merge_key)?.ok_or_else(|| no_merge_key(item, merge_key));
    Ok(keyed(one)? == keyed(other)?)
}
