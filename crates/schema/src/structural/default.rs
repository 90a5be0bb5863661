//! Puts defaults where nothing is, or where a null is that may not be there.
//!
//! Follows apiextensions-apiserver 0.36.4, `pkg/apiserver/schema/defaulting/algorithm.go`,
//! `pkg/apiserver/schema/defaulting/prunenulls.go`.

use ferroplane_cancellation::checkpoint;
use serde_json::{Map, Value};

use super::compile::{Schema, SchemaNode};

impl Schema {
    /// Puts in defaults.
    pub fn default(&self, object: &mut Map<String, Value>) {
        default_object(object, &self.root);
    }
}

fn default(value: &mut Value, node: &SchemaNode) {
    checkpoint();
    if !node.has_defaults {
        return;
    }
    match value {
        Value::Object(fields) => default_object(fields, node),
        Value::Array(items) => {
            let Some(node) = node.items.as_deref() else { return };
            for item in items {
                replace_null(item, node);
                default(item, node);
            }
        }
        _ => {}
    }
}

fn default_object(fields: &mut Map<String, Value>, node: &SchemaNode) {
    if !node.has_defaults {
        return;
    }
    // First all defaults of this level, then what lies below, so that a default that was just put in gets the
    // defaults of its own fields.
    for (name, property) in &node.properties {
        let Some(default) = &property.default else { continue };
        match fields.get_mut(&**name) {
            None => {
                fields.insert(name.to_string(), default.clone());
            }
            // A null that may not be there means "not set", as Kubernetes has it since it supports defaults.
            Some(value) => replace_null(value, property),
        }
    }
    for (name, value) in fields.iter_mut() {
        if let Some(property) = node.property(name) {
            default(value, property);
        } else if let Some(other) = node.additional.schema() {
            replace_null(value, other);
            default(value, other);
        }
    }
}

fn replace_null(value: &mut Value, node: &SchemaNode) {
    if value.is_null()
        && !node.nullable
        && let Some(default) = &node.default
    {
        *value = default.clone();
    }
}

fn drop_nulls(value: &mut Value, node: &SchemaNode) {
    checkpoint();
    match value {
        Value::Object(fields) => drop_nulls_in(fields, node),
        Value::Array(items) => {
            let Some(node) = node.items.as_deref() else { return };
            for item in items {
                drop_nulls(item, node);
            }
        }
        _ => {}
    }
}

/// Takes away nulls that may neither be there nor be replaced by a default. Nulls in lists stay.
pub(super) fn drop_nulls_in(fields: &mut Map<String, Value>, node: &SchemaNode) {
    fields.retain(|name, value| {
        let Some(node) = node.field(name) else { return true };
        if value.is_null() {
            // A null with a default stays for now: defaulting replaces it afterwards.
            return node.nullable || node.default.is_some();
        }
        drop_nulls(value, node);
        true
    });
}
