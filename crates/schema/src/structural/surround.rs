//! Defaults in their surroundings. A default says nothing about where it stands, so to prune one, an object is
//! built around it, pruned as a whole, and taken apart again.
//!
//! Follows apiextensions-apiserver 0.36.4, `pkg/apiserver/schema/defaulting/surroundingobject.go`.

use serde_json::{Map, Value};

use super::coerce::{self, Coercion};
use super::compile::{Others, SchemaNode};
use super::prune;
use crate::field::Path;

/// The way from the root of a resource to a value.
#[derive(Debug, Clone, Copy)]
pub(super) enum Way<'w> {
    Root,
    Field(&'w Way<'w>, &'w str),
    Item(&'w Way<'w>),
}

impl Way<'_> {
    /// The object with the value at the end of the way.
    pub(super) fn surround(&self, value: Value) -> Value {
        match self {
            Self::Root => value,
            Self::Field(outer, name) => {
                outer.surround(Value::Object(Map::from_iter([((*name).to_owned(), value)])))
            }
            Self::Item(outer) => outer.surround(Value::Array(vec![value])),
        }
    }

    /// The value at the end of the way, if the way is still there.
    pub(super) fn find<'v>(&self, object: &'v Value) -> Option<&'v Value> {
        match self {
            Self::Root => Some(object),
            Self::Field(outer, name) => outer.find(object)?.get(name),
            Self::Item(outer) => outer.find(object)?.get(0),
        }
    }
}

/// Takes out of all defaults what would be pruned from an object.
pub(super) fn prune_defaults(root: &mut SchemaNode) {
    if !root.has_defaults {
        return;
    }
    // Defaults of one schema are checked by the others as they were written.
    let as_written = root.clone();
    prune_below(root, &as_written, Way::Root);
}

fn prune_below(node: &mut SchemaNode, root: &SchemaNode, way: Way<'_>) {
    if !node.has_defaults {
        return;
    }
    if let Some(default) = node.default.take() {
        let mut object = way.surround(default);
        // What cannot be coerced stays as it is; it would not have been accepted.
        let _ = coerce::coerce_value(&mut object, root, true, Coercion::Dropping, &Path::NIL);
        prune::prune_value(&mut object, root, true);
        node.default = way.find(&object).filter(|value| !value.is_null()).cloned();
    }
    if let Others::Schema(other) = &mut node.additional {
        // Any name stands for all of them here; upstream takes this one, too.
        prune_below(other, root, Way::Field(&way, "*"));
    }
    if let Some(item) = &mut node.items {
        prune_below(item, root, Way::Item(&way));
    }
    for (name, property) in &mut node.properties {
        prune_below(property, root, Way::Field(&way, name));
    }
}
