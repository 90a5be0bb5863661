//! What objects become that do not say everything: defaults from the tables, and those that depend on other fields.
//!
//! Works on objects as [`super::BuiltinKind::read`] leaves them.
//!
//! Follows Kubernetes 1.36.4, `pkg/apis/core/v1/defaults.go`.

mod image;
mod pod_resources;
mod rules;

use ferroplane_cancellation::checkpoint;
use serde_json::{Map, Value};

use super::read::zero;
use super::table::{FieldType, Form, Type, TypeField};

/// Gives an object what it does not say.
pub(super) fn apply(of: &'static Type, object: &mut Map<String, Value>) {
    rules::before(of, object);
    let walk = Defaulter { kind: of.name };
    walk.structure(of, object);
    rules::after(of, object);
}

struct Defaulter {
    kind: &'static str,
}

impl Defaulter {
    fn structure(&self, of: &'static Type, fields: &mut Map<String, Value>) {
        rules::enter(of, fields);
        for field in of.fields() {
            if let Some(default) = &field.default
                && (default.kinds.is_empty() || default.kinds.contains(&self.kind))
                && is_unset(field, fields)
                && rules::applies(of, field, fields)
            {
                fields.insert(field.name.to_owned(), default.value.clone());
            }
        }
        for field in of.fields() {
            if rules::is_left_alone(of, field, fields) {
                continue;
            }
            if let Some(value) = fields.get_mut(field.name) {
                self.value(&field.shape, value);
            }
        }
        // After everything below has its defaults, which these rules look at.
        rules::leave(of, fields);
    }

    /// The types decide how deep this goes. What is in maps is left alone.
    fn value(&self, shape: &'static FieldType, value: &mut Value) {
        checkpoint();
        match (&shape.form, value) {
            (Form::Struct(reference), Value::Object(fields)) => self.structure(reference.get(), fields),
            (Form::List { item, .. }, Value::Array(list)) => {
                for value in list {
                    self.value(item, value);
                }
            }
            (Form::Map(item), Value::Object(map))
                if matches!(item.form, Form::Quantity) && self.rounds(shape) =>
            {
                rules::round_quantities(map);
            }
            _ => {}
        }
    }
}

impl Defaulter {
    fn rounds(&self, shape: &FieldType) -> bool {
        shape.is_called("v1.ResourceList") && self.kind != "RuntimeClass"
    }
}

/// Whether Go sees nothing in a field.
fn is_unset(field: &TypeField, fields: &Map<String, Value>) -> bool {
    match fields.get(field.name) {
        None | Some(Value::Null) => true,
        // Without a pointer Go cannot tell zero from nothing, and defaults overwrite it.
        Some(value) => !field.is_pointer && *value == zero(&field.shape),
    }
}
