//! Which fields an object loses if items are taken out of it.
//!
//! Answers without taking anything out, and not always: where items would change their names, or exist twice,
//! it takes a copy of the object to find out.
//!
//! Our own design: upstream removes items and compares afterwards; this finds the difference without a copy.

use ferroplane_cancellation::checkpoint;
use ferroplane_golang::json::JsonObject;
use serde_json::Value;

use super::compare::{Comparison, PathStep, ValueComparer};
use super::fieldset::{field_set, value_set};
use super::list::{compare_items, item_element, sorted_positions};
use super::path::Element;
use super::set::{Set, SetNode};
use super::shape::{Cursor, Form, Items, ListShape, MapShape};

/// What is lost, and what is left.
struct Loss<'a> {
    lost: Set<'a>,
    /// Whether fields are left.
    has_fields: bool,
    /// Whether anything is left at all.
    is_emptied: bool,
}

/// The fields that an object has, and does not have without the items. Declared fields are among them.
pub(crate) fn lost_fields<'a>(
    object: &'a JsonObject,
    items: &Set<'_>,
    cursor: Cursor<'a>,
) -> Option<Set<'a>> {
    match cursor.form(cursor.forms()) {
        Form::Map(map) if !map.is_atomic => lost_in_map(object, items, map, cursor).map(|loss| loss.lost),
        _ => None,
    }
}

fn lost_in_value<'a>(value: &'a Value, items: &Set<'_>, cursor: Cursor<'a>) -> Option<Loss<'a>> {
    checkpoint();
    match (cursor.form(cursor.deduce(value)), value) {
        (Form::Map(map), Value::Object(object)) if !map.is_atomic && !object.is_empty() => {
            lost_in_map(object, items, map, cursor)
        }
        (Form::List(list), Value::Array(array))
            if !matches!(list.items, Items::Atomic) && !array.is_empty() =>
        {
            lost_in_list(array, items, list, cursor)
        }
        _ => None,
    }
}

fn lost_in_map<'a>(
    object: &'a JsonObject,
    items: &Set<'_>,
    map: &'a MapShape,
    cursor: Cursor<'a>,
) -> Option<Loss<'a>> {
    let mut nodes = Vec::new();
    let mut left = Loss { lost: Set::default(), has_fields: false, is_emptied: true };
    for (name, value) in object {
        let (field, is_declared) = cursor.field(map, name);
        let field = field?;
        let element = Element::field(name.as_str());
        let Some(item) = items.node(&element) else {
            left.is_emptied = false;
            left.has_fields |= has_fields(value, field, is_declared);
            continue;
        };
        if item.is_member {
            // Members go with all that lies below them, so that what is below has to be looked up in the
            // object: the set does not name it.
            let (is_leaf, mut below) = value_set(value, field);
            below.add_declared_fields(Some(field));
            let is_member = is_leaf || is_blank(value) || !is_declared || !below.is_empty();
            nodes.extend(is_member.then_some(SetNode { element, is_member, below }));
            continue;
        }
        left.is_emptied = false;
        left.has_fields = true;
        let loss = lost_in_value(value, &item.below, field)?;
        // What remains has fields that no set names, so that the declared field itself would vanish from the
        // sets: the caller takes the long way.
        if is_declared && !loss.is_emptied && !loss.has_fields {
            return None;
        }
        nodes.extend((!loss.lost.is_empty()).then_some(SetNode {
            element,
            is_member: false,
            below: loss.lost,
        }));
    }
    left.lost = Set { nodes };
    Some(left)
}

fn lost_in_list<'a>(
    array: &'a [Value],
    items: &Set<'_>,
    list: &'a ListShape,
    cursor: Cursor<'a>,
) -> Option<Loss<'a>> {
    let positions = sorted_positions(list, array);
    let item_at = |position: u32| &array[position as usize];
    // Of duplicates, removing by name takes all or none; that is for the long way to find out.
    if positions.windows(2).any(|pair| compare_items(list, item_at(pair[0]), item_at(pair[1])).is_eq()) {
        return None;
    }
    let mut nodes = Vec::new();
    let mut left = Loss { lost: Set::default(), has_fields: false, is_emptied: true };
    let element_cursor = cursor.at(list.element);
    for item in positions.into_iter().map(item_at) {
        let element = item_element(list, cursor, item).ok()?;
        match items.node(&element) {
            Some(node) if node.is_member => {
                let (_, mut below) = value_set(item, element_cursor);
                below.add_declared_fields(Some(element_cursor));
                nodes.push(SetNode { element, is_member: true, below });
                continue;
            }
            Some(node) => {
                let loss = lost_in_value(item, &node.below, element_cursor)?;
                // An item without its keys has another name, or none.
                if loss.is_emptied || names_keys(&node.below, list) {
                    return None;
                }
                nodes.extend((!loss.lost.is_empty()).then_some(SetNode {
                    element,
                    is_member: false,
                    below: loss.lost,
                }));
            }
            None => {}
        }
        left.is_emptied = false;
        left.has_fields = true;
    }
    left.lost = Set { nodes };
    Some(left)
}

fn is_blank(value: &Value) -> bool {
    value.is_null() || value.as_object().is_some_and(JsonObject::is_empty)
}

/// Whether a field appears in field sets, with or without what lies below it.
fn has_fields(value: &Value, cursor: Cursor<'_>, is_declared: bool) -> bool {
    if !is_declared || is_blank(value) {
        return true;
    }
    match (cursor.form(cursor.deduce(value)), value) {
        (Form::Map(map), Value::Object(object)) if !map.is_atomic => object.iter().any(|(name, value)| {
            let (field, is_declared) = cursor.field(map, name);
            field.is_some_and(|field| has_fields(value, field, is_declared))
        }),
        (Form::List(list), Value::Array(array)) if !matches!(list.items, Items::Atomic) => !array.is_empty(),
        _ => true,
    }
}

fn names_keys(items: &Set<'_>, list: &ListShape) -> bool {
    let Items::Keyed(keys) = &list.items else { return false };
    let is_key = |name: &str| keys.iter().any(|key| &*key.name == name);
    items.nodes.iter().any(|node| matches!(&node.element, Element::Field(name) if is_key(name)))
}

/// What changes for an object that loses items which [`lost_fields`] could tell.
pub(crate) fn compare_without<'a>(
    object: &'a JsonObject,
    items: &Set<'_>,
    cursor: Cursor<'a>,
) -> Comparison<'a> {
    let mut walk = ValueComparer::default();
    if let Form::Map(map) = cursor.form(cursor.forms()) {
        note_fields(&mut walk, object, items, map, cursor);
    }
    walk.comparison
}

fn note_fields<'a>(
    walk: &mut ValueComparer<'a>,
    object: &'a JsonObject,
    items: &Set<'_>,
    map: &'a MapShape,
    cursor: Cursor<'a>,
) {
    for node in &items.nodes {
        let Element::Field(name) = &node.element else { continue };
        let Some((name, value)) = object.get_key_value(&**name) else { continue };
        note(walk, PathStep::Field(name), value, node, cursor.field_or_deduced(map, name));
    }
}

fn note<'a>(
    walk: &mut ValueComparer<'a>,
    step: PathStep<'a>,
    value: &'a Value,
    node: &SetNode<'_>,
    cursor: Cursor<'a>,
) {
    if node.is_member {
        walk.step(step, Some(value), None, cursor);
        return;
    }
    walk.within(step, |walk| match (cursor.form(cursor.deduce(value)), value) {
        (Form::Map(map), Value::Object(object)) => note_fields(walk, object, &node.below, map, cursor),
        (Form::List(list), Value::Array(array)) => {
            // What is noted in order is noted fast.
            for item in sorted_positions(list, array).into_iter().map(|position| &array[position as usize]) {
                let found =
                    item_element(list, cursor, item).ok().and_then(|element| node.below.node(&element));
                if let Some(node) = found {
                    note(walk, PathStep::Item(list, cursor, item), item, node, cursor.at(list.element));
                }
            }
        }
        _ => {}
    });
}

impl Set<'_> {
    /// Removes the paths of a set, and the declared fields on the way to them.
    pub(crate) fn subtract_with_declared(&mut self, other: &Set<'_>, cursor: Option<Cursor<'_>>) {
        self.nodes.retain_mut(|node| {
            let Some(other) = other.node(&node.element) else { return true };
            let (is_declared, below) = match (&node.element, cursor) {
                (Element::Field(name), Some(cursor)) => {
                    let field = cursor.shape().map.as_ref().and_then(|map| cursor.field(map, name).0);
                    (cursor.has_field(name) && !other.below.is_empty(), field)
                }
                (Element::Key(_), Some(cursor)) => {
                    (false, cursor.shape().list.as_ref().map(|list| cursor.at(list.element)))
                }
                _ => (false, None),
            };
            node.is_member &= !(other.is_member || is_declared);
            node.below.subtract_with_declared(&other.below, below);
            node.is_member || !node.below.is_empty()
        });
    }
}

/// The fields of an object, declared ones among them.
pub(crate) fn all_fields<'a>(object: &'a JsonObject, cursor: Cursor<'a>) -> Set<'a> {
    let mut set = field_set(object, cursor);
    set.add_declared_fields(Some(cursor));
    set
}
