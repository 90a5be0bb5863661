//! The fields that an object names.
//!
//! Follows structured-merge-diff 6.3.3, `typed/tofieldset.go`.

use ferroplane_cancellation::checkpoint;
use ferroplane_golang::json::JsonObject;
use serde_json::Value;

use super::list::{compare_to_item, first_run, item_element, sorted_positions};
use super::path::Element;
use super::set::{Set, SetNode};
use super::shape::{Cursor, Form, Items, ListShape, MapShape};

/// The set of all fields and items of an object: what a manager owns that applied it.
pub fn field_set<'a>(object: &'a JsonObject, cursor: Cursor<'a>) -> Set<'a> {
    match cursor.form(cursor.forms()) {
        Form::Map(map) if !map.is_atomic => map_set(object, map, cursor),
        _ => Set::default(),
    }
}

/// What a value adds to the set at its own place, and below it.
pub(super) fn value_set<'a>(value: &'a Value, cursor: Cursor<'a>) -> (bool, Set<'a>) {
    checkpoint();
    match (cursor.form(cursor.deduce(value)), value) {
        (Form::Scalar(_) | Form::List(ListShape { items: Items::Atomic, .. }), _) => (true, Set::default()),
        (Form::Map(map), _) if map.is_atomic => (true, Set::default()),
        (Form::Map(map), Value::Object(object)) => (false, map_set(object, map, cursor)),
        (Form::List(list), Value::Array(items)) => (false, list_set(items, list, cursor)),
        _ => (false, Set::default()),
    }
}

/// Whether a set is [`field_set`] of an object, apart from fields that are never in it.
///
/// Fields of `left_out` are never in it, and nothing below those of `reset`, which are at the top.
pub(crate) fn is_field_set_of(
    set: &Set<'_>,
    object: &JsonObject,
    cursor: Cursor<'_>,
    left_out: &Set<'_>,
    reset: Option<&Set<'_>>,
) -> bool {
    match cursor.form(cursor.forms()) {
        Form::Map(map) if !map.is_atomic => fits_map(set, object, map, cursor, Some(left_out), reset),
        _ => false,
    }
}

fn fits_map(
    set: &Set<'_>,
    object: &JsonObject,
    map: &MapShape,
    cursor: Cursor<'_>,
    left_out: Option<&Set<'_>>,
    reset: Option<&Set<'_>>,
) -> bool {
    let mut nodes = set.nodes.iter().peekable();
    for (name, value) in object {
        let is_own = |element: &Element<'_>| matches!(element, Element::Field(own) if own == name);
        let node = nodes.next_if(|node| is_own(&node.element));
        // Fields that the server resets cannot be owned; an owner of one is from before they were reset.
        if reset.is_some_and(|set| set.nodes.iter().any(|node| is_own(&node.element))) {
            if node.is_some() {
                return false;
            }
            continue;
        }
        let (field, is_declared) = cursor.field(map, name);
        let Some(field) = field else { return false };
        let left_out = left_out.and_then(|set| set.node(&Element::field(name.as_str())));
        let nothing = Set::default();
        let below = node.map_or(&nothing, |node| &node.below);
        let Some(is_leaf) = fits_value(below, value, field, left_out.map(|node| &node.below)) else {
            return false;
        };
        let is_blank = value.is_null() || value.as_object().is_some_and(JsonObject::is_empty);
        let is_left_out = left_out.is_some_and(|node| node.is_member);
        let is_member = (is_leaf || is_blank || !is_declared) && !is_left_out;
        if node.is_some_and(|node| node.is_member) != is_member {
            return false;
        }
    }
    nodes.peek().is_none()
}

/// Whether the set is what lies below a value. If so, whether the value is one piece.
fn fits_value(set: &Set<'_>, value: &Value, cursor: Cursor<'_>, left_out: Option<&Set<'_>>) -> Option<bool> {
    let fits = |is_leaf: bool, fits: bool| fits.then_some(is_leaf);
    match (cursor.form(cursor.deduce(value)), value) {
        (Form::Scalar(_) | Form::List(ListShape { items: Items::Atomic, .. }), _) => {
            fits(true, set.is_empty())
        }
        (Form::Map(map), _) if map.is_atomic => fits(true, set.is_empty()),
        (Form::Map(map), Value::Object(object)) => {
            fits(false, fits_map(set, object, map, cursor, left_out, None))
        }
        (Form::List(list), Value::Array(items)) => fits(false, fits_list(set, items, list, cursor)),
        _ => fits(false, set.is_empty()),
    }
}

fn fits_list(set: &Set<'_>, items: &[Value], list: &ListShape, cursor: Cursor<'_>) -> bool {
    let fits_item = |item: &Value| {
        let found = set.nodes.binary_search_by(|node| compare_to_item(&node.element, list, item));
        let node = found.ok().map(|index| &set.nodes[index]);
        node.is_some_and(|node| {
            node.is_member && fits_value(&node.below, item, cursor.at(list.element), None).is_some()
        })
    };
    set.nodes.len() == items.len() && items.iter().all(fits_item)
}

fn map_set<'a>(object: &'a JsonObject, map: &'a MapShape, cursor: Cursor<'a>) -> Set<'a> {
    let mut nodes = Vec::with_capacity(object.len());
    for (name, value) in object {
        let (field, is_declared) = cursor.field(map, name);
        let Some(field) = field else { continue };
        let (is_leaf, below) = value_set(value, field);
        let is_blank = value.is_null() || value.as_object().is_some_and(JsonObject::is_empty);
        // Declared fields on the way to others are left out, because everybody who sets something below would
        // own them.
        let is_member = is_leaf || is_blank || !is_declared;
        if is_member || !below.is_empty() {
            nodes.push(SetNode { element: Element::field(name.as_str()), is_member, below });
        }
    }
    Set { nodes }
}

fn list_set<'a>(items: &'a [Value], list: &'a ListShape, cursor: Cursor<'a>) -> Set<'a> {
    let positions = sorted_positions(list, items);
    let mut nodes = Vec::with_capacity(items.len());
    let mut rest = positions.as_slice();
    while let [first, ..] = rest {
        let run = first_run(rest, list, items);
        rest = &rest[run.len()..];
        let item = &items[*first as usize];
        let element = item_element(list, cursor, item).unwrap_or(Element::Unnamed);
        // Nothing can be said about items that exist twice, except that they exist.
        let below = if run.len() == 1 { value_set(item, cursor.at(list.element)).1 } else { Set::default() };
        nodes.push(SetNode { element, is_member: true, below });
    }
    Set { nodes }
}

impl Set<'_> {
    /// Adds the declared fields on the way to members, which field sets leave out.
    pub(crate) fn add_declared_fields(&mut self, cursor: Option<Cursor<'_>>) {
        for node in self.nodes.iter_mut().filter(|node| !node.below.is_empty()) {
            let below = match (&node.element, cursor) {
                (Element::Field(name), Some(cursor)) => {
                    node.is_member |= cursor.has_field(name);
                    cursor.shape().map.as_ref().and_then(|map| cursor.field(map, name).0)
                }
                (Element::Key(_), Some(cursor)) => {
                    cursor.shape().list.as_ref().map(|list| cursor.at(list.element))
                }
                _ => None,
            };
            node.below.add_declared_fields(below);
        }
    }

    /// Whether nothing named can seem to be gone once all is gone that is not named: items have something named
    /// in them, and what is named as empty is empty.
    pub(crate) fn is_firm(&self, live: &JsonObject, cursor: Cursor<'_>) -> bool {
        match cursor.form(cursor.forms()) {
            Form::Map(map) => is_firm_map(self, Some(live), map, cursor),
            _ => false,
        }
    }
}

fn is_firm_map(set: &Set<'_>, live: Option<&JsonObject>, map: &MapShape, cursor: Cursor<'_>) -> bool {
    set.nodes.iter().all(|node| {
        let Element::Field(name) = &node.element else { return true };
        let Some(field) = cursor.field(map, name).0 else { return true };
        let value = live.and_then(|live| live.get(&**name));
        if node.below.is_empty() { !is_container(value, field) } else { is_firm_below(node, value, field) }
    })
}

fn is_firm_below(node: &SetNode<'_>, live: Option<&Value>, cursor: Cursor<'_>) -> bool {
    let shape = cursor.shape();
    let is_firm_as_map = || match &shape.map {
        Some(map) => is_firm_map(&node.below, live.and_then(Value::as_object), map, cursor),
        None => false,
    };
    match (node.below.nodes.first().map(|first| &first.element), &shape.list) {
        (Some(Element::Key(_) | Element::Value(_) | Element::Index(_)), Some(list)) => {
            let items = live.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
            is_firm_list(&node.below, items, list, cursor)
        }
        _ => is_firm_as_map(),
    }
}

fn is_firm_list(set: &Set<'_>, items: &[Value], list: &ListShape, cursor: Cursor<'_>) -> bool {
    let element_cursor = cursor.at(list.element);
    let is_atomic = element_cursor.shape().map.as_ref().is_some_and(|map| map.is_atomic);
    let positions = sorted_positions(list, items);
    let mut rest = positions.iter().map(|position| &items[*position as usize]).peekable();
    set.nodes.iter().filter(|node| matches!(node.element, Element::Key(_))).all(|node| {
        while rest.next_if(|item| compare_to_item(&node.element, list, item).is_gt()).is_some() {}
        let item = rest.next_if(|item| compare_to_item(&node.element, list, item).is_eq());
        let has_leaf = node.below.nodes.iter().any(|node| node.is_member && node.below.is_empty());
        is_atomic || has_leaf && is_firm_below(node, item, element_cursor)
    })
}

/// Whether a value has parts that may be owned apart from it.
fn is_container(value: Option<&Value>, cursor: Cursor<'_>) -> bool {
    let Some(value) = value else { return false };
    match (cursor.form(cursor.deduce(value)), value) {
        (Form::Map(map), Value::Object(fields)) => !map.is_atomic && !fields.is_empty(),
        (Form::List(list), Value::Array(items)) => !matches!(list.items, Items::Atomic) && !items.is_empty(),
        _ => false,
    }
}
