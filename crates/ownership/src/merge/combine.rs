//! What applying a configuration changes in an object.
//!
//! One walk along the configuration says what has to be done ([`Change`]) and which fields that changes
//! ([`Comparison`]). Fields that the configuration does not mention are not visited.
//!
//! Follows structured-merge-diff 6.3.3, `typed/merge.go`.

use ferroplane_cancellation::checkpoint;
use ferroplane_golang::json::JsonObject;
use serde_json::Value;

use super::compare::{Comparison, PathStep, ValueComparer};
use super::list::{compare_items, first_run, sorted_positions};
use super::path::are_equal;
use super::shape::{Cursor, Form, Items, ListShape, MapShape};

/// A change to a value.
#[derive(Debug, Clone)]
pub enum Change<'a> {
    /// Another value takes its place.
    Replace(&'a Value),
    /// Some fields of an object change.
    Fields(Vec<(&'a str, Change<'a>)>),
    /// A list gets other items, or others order.
    Items(Vec<Item<'a>>),
}

/// Where an item of a changed list comes from.
#[derive(Debug, Clone)]
pub enum Item<'a> {
    /// It was there, and may change.
    Old(usize, Option<Change<'a>>),
    New(&'a Value),
}

/// What applying a configuration to an object changes. Nothing, if there is no change.
///
/// Both have to be valid, the configuration without duplicates.
pub fn combine<'a, 'c: 'a>(
    live: &'a JsonObject,
    applied: &'c JsonObject,
    cursor: Cursor<'a>,
) -> (Option<Change<'c>>, Comparison<'a>) {
    let mut walk = ValueComparer::default();
    let change = match cursor.form(cursor.forms()) {
        Form::Map(map) => combine_fields(&mut walk, live, applied, map, cursor),
        _ => None,
    };
    (change, walk.comparison)
}

fn combine_values<'a, 'c: 'a>(
    walk: &mut ValueComparer<'a>,
    live: &'a Value,
    applied: &'c Value,
    cursor: Cursor<'a>,
) -> Option<Change<'c>> {
    checkpoint();
    match (cursor.form(cursor.deduce(applied)), live, applied) {
        (Form::Map(map), Value::Object(live), Value::Object(applied))
            if !(map.is_atomic || live.is_empty() && applied.is_empty()) =>
        {
            combine_fields(walk, live, applied, map, cursor)
        }
        // To apply nothing changes nothing, unless it replaces the whole.
        (Form::Map(map), Value::Object(live), Value::Null) if !map.is_atomic && !live.is_empty() => None,
        (
            Form::List(ListShape { items: Items::Set | Items::Keyed(_), .. }),
            Value::Array(live),
            Value::Null,
        ) if !live.is_empty() => None,
        (Form::List(list), Value::Array(live), Value::Array(applied))
            if !(matches!(list.items, Items::Atomic) || live.is_empty() && applied.is_empty()) =>
        {
            combine_items(walk, live, applied, list, cursor)
        }
        // Before the replacement is noted: `1` and `1.0` are the same value, and must not count as a change
        // of owner.
        _ if are_equal(live, applied) => None,
        _ => {
            walk.replaced(live, applied, cursor);
            Some(Change::Replace(applied))
        }
    }
}

fn combine_fields<'a, 'c: 'a>(
    walk: &mut ValueComparer<'a>,
    live: &'a JsonObject,
    applied: &'c JsonObject,
    map: &'a MapShape,
    cursor: Cursor<'a>,
) -> Option<Change<'c>> {
    let mut changes = Vec::new();
    for (name, applied) in applied {
        let field = cursor.field_or_deduced(map, name);
        let step = PathStep::Field(name);
        let change = if let Some(live) = live.get(name) {
            walk.within(step, |walk| combine_values(walk, live, applied, field))
        } else {
            walk.step(step, None, Some(applied), field);
            Some(Change::Replace(applied))
        };
        changes.extend(change.map(|change| (name.as_str(), change)));
    }
    (!changes.is_empty()).then_some(Change::Fields(changes))
}

fn combine_items<'a, 'c: 'a>(
    walk: &mut ValueComparer<'a>,
    live: &'a [Value],
    applied: &'c [Value],
    list: &'a ListShape,
    cursor: Cursor<'a>,
) -> Option<Change<'c>> {
    let pairs = Pairs::of(live, applied, list);
    let mut combined: Vec<Option<Item<'c>>> = vec![None; applied.len()];
    // What is noted in order is noted fast.
    for position in sorted_positions(list, applied).into_iter().map(|position| position as usize) {
        let (item, found) = (&applied[position], pairs.old_of_new[position]);
        let step = PathStep::Item(list, cursor, item);
        combined[position] = Some(combine_item(walk, step, live, found, item, cursor.at(list.element)));
    }
    let mut out = Vec::with_capacity(live.len().max(applied.len()));
    for source in pairs.order() {
        match source {
            ListSide::Old(position) => out.push(Item::Old(position, None)),
            ListSide::New(position) => out.extend(combined[position].take()),
        }
    }
    let is_same = out.len() == live.len()
        && out.iter().enumerate().all(|(index, item)| matches!(item, Item::Old(old, None) if *old == index));
    (!is_same).then_some(Change::Items(out))
}

fn combine_item<'a, 'c: 'a>(
    walk: &mut ValueComparer<'a>,
    step: PathStep<'a>,
    live: &'a [Value],
    found: Found,
    applied: &'c Value,
    cursor: Cursor<'a>,
) -> Item<'c> {
    match found {
        Found::Nowhere => {
            walk.step(step, None, Some(applied), cursor);
            Item::New(applied)
        }
        Found::Once(position) => {
            let live = &live[position];
            Item::Old(position, walk.within(step, |walk| combine_values(walk, live, applied, cursor)))
        }
        // Items that exist more than once make way for the one that is applied.
        Found::Often => {
            walk.step(step, None, Some(applied), cursor);
            // Added and removed at once, so that owners of either copy lose it: upstream compares duplicates
            // as one piece.
            walk.within(step, ValueComparer::note_removed);
            Item::New(applied)
        }
    }
}

/// Which items of two lists are the same.
struct Pairs {
    new_of_old: Vec<Option<usize>>,
    old_of_new: Vec<Found>,
}

/// Where the old list has an item of the new one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Found {
    Nowhere,
    Once(usize),
    Often,
}

/// Whose turn it is in a combined list.
#[derive(Debug, Clone, Copy)]
enum ListSide {
    Old(usize),
    New(usize),
}

impl Pairs {
    fn of(old: &[Value], new: &[Value], list: &ListShape) -> Self {
        let mut pairs =
            Self { new_of_old: vec![None; old.len()], old_of_new: vec![Found::Nowhere; new.len()] };
        let order = sorted_positions(list, old);
        for (position, item) in new.iter().enumerate() {
            let is_before = |other: &u32| compare_items(list, &old[*other as usize], item).is_lt();
            let run = first_run(&order[order.partition_point(is_before)..], list, old);
            let Some(first) = run.first().map(|first| *first as usize) else { continue };
            if compare_items(list, &old[first], item).is_ne() {
                continue;
            }
            pairs.old_of_new[position] = if run.len() == 1 { Found::Once(first) } else { Found::Often };
            for other in run {
                pairs.new_of_old[*other as usize] = Some(position);
            }
        }
        pairs
    }

    /// Applied items keep their order, and items that were not applied keep their place among the shared ones.
    // Follows `visitListItems` in typed/merge.go step by step. It is stored, and a list that changes its
    // order on every apply would never come to rest.
    fn order(&self) -> Vec<ListSide> {
        let (old_length, new_length) = (self.new_of_old.len(), self.old_of_new.len());
        let mut shared = (0..new_length).filter(|position| self.old_of_new[*position] != Found::Nowhere);
        let mut next_shared = shared.next();
        let mut is_taken = vec![false; new_length];
        let mut out = Vec::with_capacity(old_length.max(new_length));
        let (mut old, mut new) = (0, 0);
        while old < old_length || new < new_length {
            let counterpart = self.new_of_old.get(old).copied().flatten();
            if old < old_length && new < new_length && counterpart.is_some() {
                if counterpart == Some(new) {
                    is_taken[new] = true;
                    out.push(ListSide::New(new));
                    old += 1;
                    new += 1;
                    next_shared = shared.next();
                    continue;
                }
                // The old item comes later in the new order: it is skipped here and put where the
                // configuration has it.
                if next_shared.is_some() && next_shared != counterpart {
                    old += 1;
                    continue;
                }
            }
            if old < old_length {
                match counterpart {
                    None => {
                        out.push(ListSide::Old(old));
                        old += 1;
                        continue;
                    }
                    Some(counterpart) if is_taken[counterpart] => old += 1,
                    Some(_) => {}
                }
            }
            if new < new_length {
                is_taken[new] = true;
                out.push(ListSide::New(new));
                if next_shared == Some(new) {
                    next_shared = shared.next();
                }
                new += 1;
            }
        }
        out
    }
}

impl Change<'_> {
    /// Changes an object.
    pub fn perform(&self, object: &mut JsonObject) {
        if let Self::Fields(fields) = self {
            change_fields(object, fields);
        }
    }

    fn change(&self, value: &mut Value) {
        checkpoint();
        match (self, value) {
            (Self::Fields(fields), Value::Object(object)) => change_fields(object, fields),
            (Self::Items(items), Value::Array(array)) => change_items(array, items),
            (Self::Replace(new), value) => *value = (*new).clone(),
            _ => {}
        }
    }
}

fn change_fields(object: &mut JsonObject, fields: &[(&str, Change<'_>)]) {
    for (name, change) in fields {
        match (object.get_mut(*name), change) {
            (Some(value), change) => change.change(value),
            (None, Change::Replace(new)) => {
                object.insert((*name).to_owned(), (*new).clone());
            }
            // A field that is not there can only be put there as a whole, so that nothing else gets here.
            (None, _) => {}
        }
    }
}

fn change_items(array: &mut Vec<Value>, items: &[Item<'_>]) {
    // Items move instead of being cloned: a list of ten thousand may change in one.
    let mut old = std::mem::take(array);
    let changed = items.iter().map(|item| match item {
        Item::New(value) => (*value).clone(),
        Item::Old(position, change) => {
            let mut value = old.get_mut(*position).map(Value::take).unwrap_or_default();
            if let Some(change) = change {
                change.change(&mut value);
            }
            value
        }
    });
    *array = changed.collect();
}
