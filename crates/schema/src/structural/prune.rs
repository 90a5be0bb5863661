//! Takes away what a schema does not name.
//!
//! Follows apiextensions-apiserver 0.36.4, `pkg/apiserver/schema/pruning/algorithm.go`.

use ferroplane_cancellation::checkpoint;
use serde_json::{Map, Value};

use super::compile::{Schema, SchemaNode};
use super::{MAX_VALUE_DEPTH, default};

impl Schema {
    /// Prunes an object of the kind, leaving alone what every object has. Says which fields went, in order.
    pub fn prune(&self, object: &mut Map<String, Value>) -> Vec<String> {
        let mut pruner = Pruner { path: Some(String::new()), unknown: Vec::new(), depth: 0 };
        pruner.object(object, &self.root, true);
        // Kubernetes ranges over maps in random order and sorts; here it is the order of `retain` that is no
        // order.
        pruner.unknown.sort_unstable();
        pruner.unknown
    }

    /// The same, without saying which fields went.
    pub fn prune_silently(&self, object: &mut Map<String, Value>) {
        prune_object(object, &self.root, true);
    }

    /// Takes away nulls that may neither be there nor be replaced by a default.
    pub fn drop_nulls(&self, object: &mut Map<String, Value>) {
        default::drop_nulls_in(object, &self.root);
    }
}

/// Prunes an object without saying what went.
pub(super) fn prune_object(object: &mut Map<String, Value>, node: &SchemaNode, is_resource: bool) {
    Pruner { path: None, unknown: Vec::new(), depth: 0 }.object(object, node, is_resource);
}

/// Prunes any value without saying what went.
pub(super) fn prune_value(value: &mut Value, node: &SchemaNode, is_resource: bool) {
    match value {
        Value::Object(object) => prune_object(object, node, is_resource),
        other => Pruner { path: None, unknown: Vec::new(), depth: 0 }.value(other, Some(node)),
    }
}

fn is_meta(name: &str) -> bool {
    matches!(name, "apiVersion" | "kind" | "metadata")
}

struct Pruner {
    /// Where we are, if anybody wants to know.
    path: Option<String>,
    unknown: Vec<String>,
    depth: usize,
}

impl Pruner {
    fn value(&mut self, value: &mut Value, node: Option<&SchemaNode>) {
        checkpoint();
        match (value, node) {
            (Value::Object(fields), Some(node)) => self.object(fields, node, node.is_embedded),
            (Value::Object(fields), None) => {
                if self.path.is_some() {
                    fields.keys().for_each(|name| self.record(name));
                }
                fields.clear();
            }
            (Value::Array(items), node) => {
                let item = node.and_then(|node| node.items.as_deref());
                let skips = node.is_some_and(|node| node.preserves_unknown);
                self.items(items, item, skips);
            }
            _ => {}
        }
    }

    fn items(&mut self, items: &mut [Value], node: Option<&SchemaNode>, skips: bool) {
        // Only lists count: objects end where the schema ends, but lists of lists are followed without one.
        if (skips && node.is_none()) || self.depth >= MAX_VALUE_DEPTH {
            return;
        }
        self.depth += 1;
        for (index, item) in items.iter_mut().enumerate() {
            let length = self.enter(|path| path.push_str(&format!("[{index}]")));
            match node {
                Some(node) if skips => self.unpruned(item, node),
                node => self.value(item, node),
            }
            self.leave(length);
        }
        self.depth -= 1;
    }

    fn object(&mut self, fields: &mut Map<String, Value>, node: &SchemaNode, is_resource: bool) {
        if node.preserves_unknown {
            return self.unpruned_object(fields, node, is_resource);
        }
        fields.retain(|name, value| {
            if is_resource && is_meta(name) {
                return true;
            }
            let known = KnownFields::of(node, name);
            if matches!(known, KnownFields::No) {
                // At the top these fields belong to every object, and their removal is nobody's mistake.
                if !is_meta(name) || self.path.as_ref().is_some_and(|path| !path.is_empty()) {
                    self.record(name);
                }
                return false;
            }
            self.field(name, value, known.schema());
            true
        });
    }

    /// What is unknown stays, but what is known is pruned within.
    fn unpruned(&mut self, value: &mut Value, node: &SchemaNode) {
        checkpoint();
        match value {
            Value::Object(fields) => self.unpruned_object(fields, node, node.is_embedded),
            Value::Array(items) => self.items(items, node.items.as_deref(), true),
            _ => {}
        }
    }

    fn unpruned_object(&mut self, fields: &mut Map<String, Value>, node: &SchemaNode, is_resource: bool) {
        for (name, value) in fields.iter_mut() {
            if is_resource && is_meta(name) {
                continue;
            }
            let known = KnownFields::of(node, name);
            if !matches!(known, KnownFields::No) {
                self.field(name, value, known.schema());
            }
        }
    }

    fn field(&mut self, name: &str, value: &mut Value, below: Option<&SchemaNode>) {
        // Most fields are scalars, for which the path need not be written.
        if !matches!(value, Value::Object(_) | Value::Array(_)) {
            return;
        }
        let length = self.enter(|path| push_key(path, name));
        self.value(value, below);
        self.leave(length);
    }

    fn enter(&mut self, step: impl FnOnce(&mut String)) -> usize {
        let Some(path) = &mut self.path else { return 0 };
        let length = path.len();
        step(path);
        length
    }

    fn leave(&mut self, length: usize) {
        if let Some(path) = &mut self.path {
            path.truncate(length);
        }
    }

    fn record(&mut self, name: &str) {
        if let Some(path) = &self.path {
            let mut path = path.clone();
            push_key(&mut path, name);
            self.unknown.push(path);
        }
    }
}

/// What a schema says of a field.
enum KnownFields<'n> {
    /// It may not be there.
    No,
    /// It may be there, but nothing in it is known.
    Only,
    Schema(&'n SchemaNode),
}

impl<'n> KnownFields<'n> {
    fn of(node: &'n SchemaNode, name: &str) -> Self {
        match node.property(name).or_else(|| node.additional.schema()) {
            Some(property) => Self::Schema(property),
            None if node.additional.is_said() => Self::Only,
            None => Self::No,
        }
    }

    fn schema(&self) -> Option<&'n SchemaNode> {
        match self {
            Self::Schema(node) => Some(node),
            _ => None,
        }
    }
}

fn push_key(path: &mut String, name: &str) {
    if !path.is_empty() {
        path.push('.');
    }
    path.push_str(name);
}
