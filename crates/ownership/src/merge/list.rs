//! Names the items of lists.
//!
//! Follows structured-merge-diff 6.3.3, `typed/helpers.go`.

use std::borrow::Cow;
use std::cmp::Ordering;

use ferroplane_golang::strconv::quote;
use serde_json::Value;

use super::path::{Element, Scalar, compare_values};
use super::shape::{Cursor, Items, ListKey, ListShape};

/// The step that leads to an item of a list, or why there is none.
pub(super) fn item_element<'a>(
    list: &'a ListShape,
    cursor: Cursor<'a>,
    item: &'a Value,
) -> Result<Element<'a>, String> {
    match &list.items {
        Items::Atomic => Err("invalid indexing of non-associative list".to_owned()),
        Items::Set => set_element(item),
        // A keyed list without keys is no error upstream: its items are identified as those of a set.
        Items::Keyed(keys) if keys.is_empty() => set_element(item),
        Items::Keyed(keys) => keyed_element(keys, list, cursor, item),
    }
}

fn set_element(item: &Value) -> Result<Element<'_>, String> {
    match item {
        Value::Object(_) => Err("associative list without keys has an element that's a map type".to_owned()),
        Value::Array(_) => Err("not supported: associative list with lists as elements".to_owned()),
        Value::Null => Err("associative list without keys has an element that's an explicit null".to_owned()),
        scalar => Ok(Element::value(Scalar::of(scalar))),
    }
}

fn keyed_element<'a>(
    keys: &'a [ListKey],
    list: &ListShape,
    cursor: Cursor<'a>,
    item: &'a Value,
) -> Result<Element<'a>, String> {
    check_keyed(keys, list, cursor, item)?;
    let found =
        keys.iter().filter_map(|key| Some((Cow::Borrowed(&*key.name), Scalar::of(key_value(key, item)?))));
    Ok(match keys {
        // A single key is sorted already.
        [_] => Element::Key(found.collect()),
        _ => Element::key(found.collect()),
    })
}

/// The value of a key of an item. An item that says nothing is another one than those that do.
fn key_value<'a>(key: &'a ListKey, item: &'a Value) -> Option<&'a Value> {
    item.as_object()?.get(&*key.name).or(key.default.as_ref())
}

fn check_keyed(keys: &[ListKey], list: &ListShape, cursor: Cursor<'_>, item: &Value) -> Result<(), String> {
    let item_fields = match item {
        Value::Object(fields) => fields,
        Value::Null => return Err("associative list with keys may not have a null element".to_owned()),
        _ => return Err("associative list with keys may not have non-map elements".to_owned()),
    };
    let is_map = cursor.at(list.element).shape().map.is_some();
    let is_absent = |key: &&ListKey| !is_map && !item_fields.contains_key(&*key.name);
    // Upstream asks in the order of the schema, and the message names the first.
    if let Some(ListKey { name, .. }) = keys.iter().filter(is_absent).min_by_key(|key| key.place) {
        return Err(format!(
            "couldn't find default value for {name}: associative list may not have non-map types"
        ));
    }
    // One key is enough: an item that lacks some keys is another one than those that have them.
    if keys.iter().all(|key| key_value(key, item).is_none()) {
        // Messages list keys as the schema does, while everything else needs them sorted.
        let mut declared: Vec<_> = keys.iter().collect();
        declared.sort_by_key(|key| key.place);
        let names: Vec<_> = declared.into_iter().map(|key| quote(&key.name)).collect();
        return Err(format!(
            "associative list with keys has an element that omits all key fields [{}] (and doesn't have default values for any key fields)",
            names.join(" ")
        ));
    }
    Ok(())
}

/// Whether an item has a name, or why it has none.
pub(super) fn check_item(list: &ListShape, cursor: Cursor<'_>, item: &Value) -> Result<(), String> {
    match &list.items {
        Items::Keyed(keys) if !keys.is_empty() => check_keyed(keys, list, cursor, item),
        _ => item_element(list, cursor, item).map(drop),
    }
}

/// Compares the step to an item with an item.
pub(super) fn compare_to_item(element: &Element<'_>, list: &ListShape, item: &Value) -> Ordering {
    match &list.items {
        Items::Keyed(keys) if !keys.is_empty() => {
            let values = keys.iter().filter_map(|key| Some((&*key.name, key_value(key, item)?)));
            match element {
                Element::Value(_) => Ordering::Greater,
                _ => element.compare_with(values, item),
            }
        }
        _ => match element {
            Element::Key(_) => Ordering::Less,
            _ => element.compare_with([], item),
        },
    }
}

/// Orders items by name. Those that have none come last.
pub(super) fn compare_items(list: &ListShape, one: &Value, other: &Value) -> Ordering {
    match &list.items {
        Items::Keyed(keys) if !keys.is_empty() => compare_by_keys(keys, one, other),
        _ => compare_options(set_value(one), set_value(other)),
    }
}

fn set_value(item: &Value) -> Option<&Value> {
    Some(item).filter(|item| !(item.is_null() || item.is_array() || item.is_object()))
}

/// Compares values, of which an absent one is the greatest.
fn compare_options(one: Option<&Value>, other: Option<&Value>) -> Ordering {
    match (one, other) {
        (Some(one), Some(other)) => compare_values(one, other),
        (one, other) => one.is_none().cmp(&other.is_none()),
    }
}

/// Keys are compared in the order of their names, in which a list shape has them.
fn compare_by_keys(keys: &[ListKey], one: &Value, other: &Value) -> Ordering {
    if let [key] = keys {
        return compare_options(key_value(key, one), key_value(key, other));
    }
    let values = |item| keys.iter().filter_map(move |key| Some((&*key.name, key_value(key, item)?)));
    let (mut ones, mut others) = (values(one), values(other));
    let mut is_unnamed = true;
    loop {
        let order = match (ones.next(), others.next()) {
            (None, None) => return Ordering::Equal,
            // Fewer keys come first, but none at all last.
            (None, Some(_)) => return if is_unnamed { Ordering::Greater } else { Ordering::Less },
            (Some(_), None) => return if is_unnamed { Ordering::Less } else { Ordering::Greater },
            (Some(one), Some(other)) => one.0.cmp(other.0).then_with(|| compare_values(one.1, other.1)),
        };
        is_unnamed = false;
        if order.is_ne() {
            return order;
        }
    }
}

/// Positions of items, sorted by name and, among those of the same name, by position.
pub(super) fn sorted_positions(list: &ListShape, items: &[Value]) -> Vec<u32> {
    // Positions of 32 bits take half the memory, and no request carries four thousand million items.
    let all = 0..u32::try_from(items.len()).unwrap_or(u32::MAX);
    let is_sorted = items.windows(2).all(|pair| compare_items(list, &pair[0], &pair[1]).is_le());
    match &list.items {
        _ if is_sorted => all.collect(),
        // Looking for the key again and again costs more than remembering it.
        Items::Keyed(keys) if keys.len() == 1 && items.len() > 32 => {
            let values = items.iter().map(|item| key_value(&keys[0], item));
            let mut named: Vec<_> = values.zip(all).collect();
            named.sort_by(|one, other| compare_options(one.0, other.0));
            named.into_iter().map(|(_, position)| position).collect()
        }
        _ => {
            let mut positions: Vec<u32> = all.collect();
            positions
                .sort_by(|one, other| compare_items(list, &items[*one as usize], &items[*other as usize]));
            positions
        }
    }
}

/// The items of the same name at the start of sorted positions.
pub(super) fn first_run<'p>(positions: &'p [u32], list: &ListShape, items: &[Value]) -> &'p [u32] {
    let Some(first) = positions.first() else { return &[] };
    let is_same =
        |position: &&u32| compare_items(list, &items[*first as usize], &items[**position as usize]).is_eq();
    &positions[..positions.iter().take_while(is_same).count()]
}
