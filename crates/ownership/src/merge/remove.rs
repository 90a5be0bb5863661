//! Takes items out of an object, or everything but them.
//!
//! Follows structured-merge-diff 6.3.3, `typed/remove.go`.

use ferroplane_cancellation::checkpoint;
use ferroplane_golang::json::JsonObject;
use serde_json::Value;

use super::list::item_element;
use super::path::Element;
use super::set::Set;
use super::shape::{Cursor, Form, Items, ListShape, MapShape};

/// Removes the fields and items of a set.
pub fn remove_items(object: &mut JsonObject, items: &Set<'_>, cursor: Cursor<'_>) {
    if items.is_empty() {
        return;
    }
    let Form::Map(map) = cursor.form(cursor.forms()) else { return };
    // Moved out and back, so that one function serves the root and everything below it.
    let mut value = Value::Object(std::mem::take(object));
    remove_from_map(&mut value, items, map, cursor);
    if let Value::Object(rest) = value {
        *object = rest;
    }
}

fn remove(value: &mut Value, items: &Set<'_>, cursor: Cursor<'_>) {
    checkpoint();
    match cursor.form(cursor.deduce(value)) {
        Form::Scalar(_) => {}
        Form::Map(map) => remove_from_map(value, items, map, cursor),
        Form::List(list) => remove_from_list(value, items, list, cursor),
        Form::None => *value = Value::Null,
    }
}

/// A map of which nothing is left is null: whether it goes, too, is for the one above to say.
fn remove_from_map(value: &mut Value, items: &Set<'_>, map: &MapShape, cursor: Cursor<'_>) {
    let Value::Object(object) = value else {
        *value = Value::Null;
        return;
    };
    if map.is_atomic || object.is_empty() {
        *value = Value::Null;
        return;
    }
    object.retain(|name, field| {
        let Some(node) = items.node(&Element::field(name.as_str())) else { return true };
        if !node.is_member && !node.below.is_empty() {
            remove(field, &node.below, cursor.field_or_deduced(map, name));
        }
        !node.is_member
    });
    if object.is_empty() {
        *value = Value::Null;
    }
}

fn remove_from_list(value: &mut Value, items: &Set<'_>, list: &ListShape, cursor: Cursor<'_>) {
    let Value::Array(array) = value else {
        *value = Value::Null;
        return;
    };
    if matches!(list.items, Items::Atomic) || array.is_empty() {
        *value = Value::Null;
        return;
    }
    array.retain_mut(|item| {
        let found = items.node(&item_element(list, cursor, item).unwrap_or(Element::Unnamed));
        let below = match found {
            None => return true,
            Some(node) if node.is_member => return false,
            Some(node) => &node.below,
        };
        if !below.is_empty() {
            remove(item, below, cursor.at(list.element));
        }
        true
    });
    if array.is_empty() {
        *value = Value::Null;
    }
}

/// Only the fields and items of a set.
pub fn extract_items(object: &JsonObject, items: &Set<'_>, cursor: Cursor<'_>) -> JsonObject {
    let Form::Map(map) = cursor.form(cursor.forms()) else { return JsonObject::new() };
    match extract_from_map(object, items, map, cursor) {
        Value::Object(object) => object,
        _ => JsonObject::new(),
    }
}

fn extract(value: &Value, items: &Set<'_>, cursor: Cursor<'_>) -> Value {
    match (cursor.form(cursor.deduce(value)), value) {
        (Form::Scalar(_), _) => value.clone(),
        (Form::Map(map), Value::Object(object)) => extract_from_map(object, items, map, cursor),
        (Form::List(list), Value::Array(array)) => extract_from_list(array, items, list, cursor),
        _ => Value::Null,
    }
}

fn extract_from_map(object: &JsonObject, items: &Set<'_>, map: &MapShape, cursor: Cursor<'_>) -> Value {
    if map.is_atomic || object.is_empty() {
        return Value::Object(object.clone());
    }
    let mut kept = JsonObject::new();
    for (name, field) in object {
        let Some(node) = items.node(&Element::field(name.as_str())) else { continue };
        // The set of the level above is passed on for members, as upstream does. It looks wrong and matters
        // only for maps whose nested names repeat those above.
        let below = if node.is_member { items } else { &node.below };
        kept.insert(name.clone(), extract(field, below, cursor.field_or_deduced(map, name)));
    }
    if kept.is_empty() { Value::Null } else { Value::Object(kept) }
}

fn extract_from_list(array: &[Value], items: &Set<'_>, list: &ListShape, cursor: Cursor<'_>) -> Value {
    if matches!(list.items, Items::Atomic) || array.is_empty() {
        return Value::Array(array.to_vec());
    }
    let kept = array.iter().filter_map(|item| {
        let node = items.node(&item_element(list, cursor, item).unwrap_or(Element::Unnamed))?;
        let is_whole = node.below.is_empty();
        Some(if is_whole { item.clone() } else { extract(item, &node.below, cursor.at(list.element)) })
    });
    let kept: Vec<_> = kept.collect();
    if kept.is_empty() { Value::Null } else { Value::Array(kept) }
}
