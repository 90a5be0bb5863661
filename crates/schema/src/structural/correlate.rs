//! Which old value a new one replaces, and whether it changed. Unchanged values are not held against anybody.
//!
//! Follows k8s.io/apiserver 0.36.4, `pkg/cel/common/equality.go`.

use std::collections::HashMap;

use ferroplane_golang::json;
use serde_json::Value;

use super::compile::{Kinds, ListType, SchemaNode};

/// A value, the old one in its place, and their schema.
#[derive(Debug, Clone, Copy)]
pub(super) struct Correlation<'a> {
    pub(super) old: &'a Value,
    pub(super) new: &'a Value,
    pub(super) node: &'a SchemaNode,
}

impl Correlation<'_> {
    /// The same for a field, if both objects have it and the schema knows it.
    pub(super) fn key(&self, name: &str) -> Option<Self> {
        let old = self.old.as_object()?.get(name)?;
        let new = self.new.as_object()?.get(name)?;
        Some(Self { old, new, node: self.node.field(name)? })
    }

    /// Whether nothing changed. What the schema does not know counts as changed.
    pub(super) fn is_unchanged(&self) -> bool {
        match (self.old, self.new) {
            (Value::Array(old), Value::Array(new)) => {
                if old.len() != new.len() {
                    return false;
                }
                // Items of other lists have no identity, so that any change of order is a change.
                if !matches!(self.node.list, ListType::Map(_)) {
                    return old == new;
                }
                let Some(items) = OldItems::new(self) else { return new.is_empty() };
                new.iter().all(|item| items.correlate(item).is_some_and(|item| item.is_unchanged()))
            }
            (Value::Object(old), Value::Object(new)) => {
                old.len() == new.len()
                    && new.keys().all(|name| self.key(name).is_some_and(|field| field.is_unchanged()))
            }
            (old, new) => old == new,
        }
    }
}

/// The old items of a list that is a map, by their keys.
#[derive(Debug)]
pub(super) struct OldItems<'a> {
    items: HashMap<String, &'a Value>,
    keys: &'a [Box<str>],
    node: &'a SchemaNode,
}

impl<'a> OldItems<'a> {
    /// Nothing unless it is a list whose items can be told apart.
    pub(super) fn new(list: &Correlation<'a>) -> Option<Self> {
        let ListType::Map(keys) = &list.node.list else { return None };
        let (old, node) = (list.old.as_array()?, list.node.items.as_deref()?);
        if keys.is_empty() || list.node.kinds != Kinds::ARRAY {
            return None;
        }
        let mut items = HashMap::with_capacity(old.len());
        for item in old {
            if let Some(key) = key_of(item, keys) {
                // Of duplicates from before the list had keys, the first one counts, as in Kubernetes'
                // `mapList`.
                items.entry(key).or_insert(item);
            }
        }
        Some(Self { items, keys, node })
    }

    pub(super) fn correlate<'n>(&self, new: &'n Value) -> Option<Correlation<'n>>
    where
        'a: 'n,
    {
        let old = *self.items.get(&key_of(new, self.keys)?)?;
        Some(Correlation { old, new, node: self.node })
    }

    /// The old item with the same key.
    pub(super) fn find(&self, new: &Value) -> Option<&'a Value> {
        self.items.get(&key_of(new, self.keys)?).copied()
    }
}

/// What tells an item from others, if all of its keys are there and scalar.
fn key_of(item: &Value, keys: &[Box<str>]) -> Option<String> {
    let fields = item.as_object()?;
    let mut identity = String::new();
    for key in keys {
        match fields.get(&**key)? {
            Value::Null | Value::Array(_) | Value::Object(_) => return None,
            // Integers and floats are different keys even if they are equal.
            Value::Number(number) if number.as_i64().is_none() => {
                identity.push_str(&format!("\0f{number}"));
            }
            scalar => {
                // A separator that JSON text cannot contain unescaped, so that no two sets of keys collide.
                identity.push('\0');
                identity.push_str(&json::marshal(scalar));
            }
        }
    }
    Some(identity)
}
