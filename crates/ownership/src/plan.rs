//! What applying a configuration means for an object, ready to be carried out.
//!
//! Our own design: upstream changes the object as it goes; here a plan says what will change.

use ferroplane_golang::json::JsonObject;
use serde_json::Value;

use super::entry::{Slot, take_entries, write_entries};
use super::last_applied;
use crate::merge::combine::Change;
use crate::merge::path::are_equal;
use crate::merge::remove::remove_items;
use crate::merge::set::Set;
use crate::merge::shape::Cursor;

/// What applying a configuration means for an object.
#[derive(Debug)]
pub struct Plan<'a> {
    pub(super) applied: &'a JsonObject,
    pub(super) edit: Edit<'a>,
    /// New managed fields, if they change.
    pub(super) slots: Option<Vec<Slot>>,
    /// Whether the annotation of `kubectl apply` is kept in step.
    pub(super) follows: bool,
}

/// What happens to the object, apart from its managed fields.
#[derive(Debug)]
pub(super) enum Edit<'a> {
    Nothing,
    Change(Change<'a>),
    Remove(Set<'static>, Cursor<'a>),
    Replace(JsonObject),
}

impl Plan<'_> {
    /// Whether the object stays as it is, managed fields and all.
    pub fn changes_nothing(&self) -> bool {
        matches!(self.edit, Edit::Nothing) && self.slots.is_none() && !self.follows
    }

    /// Changes the object that the plan was made for, or an empty one, if there was none.
    pub fn perform(self, mut live: JsonObject) -> JsonObject {
        // The replacing object was worked out without managed fields, so that the old ones have to be carried
        // over.
        let old = if self.slots.is_some() || matches!(self.edit, Edit::Replace(_)) {
            take_entries(&mut live)
        } else {
            None
        };
        let mut object = match self.edit {
            Edit::Nothing => live,
            Edit::Change(change) => {
                change.perform(&mut live);
                live
            }
            Edit::Remove(items, shape) => {
                remove_items(&mut live, &items, shape);
                live
            }
            Edit::Replace(object) => object,
        };
        match (self.slots, old) {
            (Some(slots), old) => write_entries(&mut object, old, slots),
            (None, Some(Value::Array(old))) => {
                let slots = (0..old.len()).map(Slot::Old).collect();
                write_entries(&mut object, Some(Value::Array(old)), slots);
            }
            _ => {}
        }
        if self.follows {
            // After the edit: the annotation is kept in step only if the object still has it.
            last_applied::follow(&mut object, self.applied);
        }
        object
    }
}

impl Edit<'_> {
    /// The object as it becomes, without managed fields.
    pub(super) fn preview(&self, live: &JsonObject) -> JsonObject {
        let mut after = without_managed_fields(live);
        match self {
            Edit::Nothing => {}
            Edit::Change(change) => change.perform(&mut after),
            Edit::Remove(items, shape) => remove_items(&mut after, items, *shape),
            Edit::Replace(object) => after.clone_from(object),
        }
        after
    }
}

fn without_managed_fields(object: &JsonObject) -> JsonObject {
    let keep = |(name, value): (&String, &Value)| (name.clone(), value.clone());
    object
        .iter()
        .map(|(name, value)| match value {
            Value::Object(metadata) if name == "metadata" => {
                let rest = metadata.iter().filter(|(name, _)| *name != "managedFields");
                (name.clone(), Value::Object(rest.map(keep).collect()))
            }
            _ => keep((name, value)),
        })
        .collect()
}

/// Whether two objects are equal, if the one has no managed fields.
pub(super) fn is_equal_but_managed(live: &JsonObject, other: &JsonObject) -> bool {
    live.len() == other.len()
        && live.iter().zip(other).all(|((name, live), (other_name, other))| {
            name == other_name
                && match (live, other) {
                    (Value::Object(live), Value::Object(other)) if name == "metadata" => {
                        let rest = || live.iter().filter(|(name, _)| *name != "managedFields");
                        rest().count() == other.len()
                            && rest()
                                .zip(other)
                                .all(|(one, other)| one.0 == other.0 && are_equal(one.1, other.1))
                    }
                    _ => are_equal(live, other),
                }
        })
}
