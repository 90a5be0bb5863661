//! Defaults in their surroundings. A default says nothing about where it stands, so to prune one, an object is
//! built around it, pruned as a whole, and taken apart again.
//!
//! Follows apiextensions-apiserver 0.36.4, `pkg/apiserver/schema/defaulting/surroundingobject.go`.

use serde_json::{Map, Value};

use super::coerce::{self, Coercion};
use super::compile::{Others, SchemaNode};
use super::prune;
use crate::field::Path;

/// The fields and items that lead from the root of a resource to a value.
#[derive(Debug, Clone, Copy)]
pub(super) enum PathToRoot<'w> {
    Root,
    Field(&'w PathToRoot<'w>, &'w str),
    Item(&'w PathToRoot<'w>),
}

impl PathToRoot<'_> {
    /// The object with the value where the path ends.
    pub(super) fn surround(&self, value: Value) -> Value {
        match self {
            Self::Root => value,
            Self::Field(outer, name) => {
                outer.surround(Value::Object(Map::from_iter([((*name).to_owned(), value)])))
            }
            Self::Item(outer) => outer.surround(Value::Array(vec![value])),
        }
    }

    /// The value where the path ends, if the object still has it.
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
    prune_below(root, &as_written, PathToRoot::Root);
}

fn prune_below(node: &mut SchemaNode, root: &SchemaNode, way: PathToRoot<'_>) {
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
        prune_below(other, root, PathToRoot::Field(&way, "*"));
    }
    if let Some(item) = &mut node.items {
        prune_below(item, root, PathToRoot::Item(&way));
    }
    for (name, property) in &mut node.properties {
        prune_below(property, root, PathToRoot::Field(&way, name));
    }
}
