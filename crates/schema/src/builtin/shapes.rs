//! How values of a kind merge, from the tables.
//!
//! Follows kube-openapi of 2026-03-17, `pkg/schemaconv`.

use std::collections::HashMap;

use ferroplane_ownership::merge::shape::{Id, Items, MapShape, MergeShape, ScalarShape, Shapes, UNTYPED};
use serde_json::Value;

use super::read::zero;
use super::table::{FieldType, Form, ListType, SchemaDefault, Type, TypeField};

/// The shapes of a kind.
pub(super) fn of(kind: &'static Type) -> Shapes {
    let mut shapes = Shapes::new();
    let text = shapes.add(MergeShape::scalar(ScalarShape::Text));
    let mut builder = Builder { shapes, text, known: HashMap::new() };
    let root = builder.structure(kind, is_atomic(kind.map_type));
    builder.shapes.set_root(root);
    builder.shapes
}

fn is_atomic(map_type: Option<&str>) -> bool {
    map_type == Some("atomic")
}

struct Builder {
    shapes: Shapes,
    text: Id,
    /// Types by their names, in one piece or not.
    known: HashMap<(usize, &'static str, bool), Id>,
}

impl Builder {
    fn structure(&mut self, of: &'static Type, is_atomic: bool) -> Id {
        let key = (of.package, of.name, is_atomic);
        if let Some(id) = self.known.get(&key) {
            return *id;
        }
        // Before its fields, for it may contain itself.
        let id = self.shapes.add(MergeShape::default());
        self.known.insert(key, id);
        let mut map = MapShape::default().with_atomic(is_atomic);
        if of.is_kind {
            map.declare("apiVersion", self.text);
            map.declare("kind", self.text);
        }
        for field in of.fields() {
            let field_id = self.field(field);
            map.declare(field.name, field_id);
        }
        if map.is_without_fields() {
            // Nothing is known about what is in it.
            map.element = Some(UNTYPED);
        }
        self.shapes.set(id, MergeShape::map(map));
        id
    }

    fn field(&mut self, field: &'static TypeField) -> Id {
        self.value(&field.shape, field.list.as_ref(), field.map_type)
    }

    fn value(&mut self, holds: &'static FieldType, list: Option<&ListType>, map_type: Option<&str>) -> Id {
        let shape = match &holds.form {
            Form::Text | Form::Bytes => return self.text,
            Form::Flag => MergeShape::scalar(ScalarShape::Boolean),
            Form::Int32 | Form::Int64 | Form::Double => MergeShape::scalar(ScalarShape::Numeric),
            Form::Quantity | Form::Time | Form::MicroTime | Form::IntOrText => {
                MergeShape::scalar(ScalarShape::Untyped)
            }
            Form::Raw
            | Form::FieldsV1
            | Form::Json
            | Form::SchemaOrList
            | Form::SchemaOrFlag
            | Form::SchemaOrTexts => return UNTYPED,
            Form::Struct(reference) => {
                let of = reference.get();
                return self.structure(of, is_atomic(map_type.or(of.map_type)));
            }
            Form::Map(item) => {
                let element = self.value(item, None, None);
                MergeShape::map(MapShape::of_elements(element).with_atomic(is_atomic(map_type)))
            }
            Form::List { item, .. } => {
                let element = self.value(item, None, None);
                MergeShape::list(items(item, list), element)
            }
        };
        self.shapes.add(shape)
    }
}

fn items(item: &'static FieldType, list: Option<&ListType>) -> Items {
    match list {
        None | Some(ListType::Atomic) => Items::Atomic,
        Some(ListType::Set) => Items::Set,
        Some(ListType::Map(keys)) => {
            let Form::Struct(reference) = &item.form else { return Items::Atomic };
            let of = reference.get();
            Items::keyed(keys.iter().map(|key| (*key, of.field(key).and_then(schema_default))))
        }
    }
}

/// What the schema of a field gives it.
pub(super) fn schema_default(field: &'static TypeField) -> Option<Value> {
    match &field.schema_default {
        SchemaDefault::None => None,
        SchemaDefault::Value(value) => Some(value.clone()),
        SchemaDefault::Implied => implied_default(field),
    }
}

/// What is always written has a default in its schema.
fn implied_default(field: &'static TypeField) -> Option<Value> {
    if field.is_pointer {
        return None;
    }
    match field.shape.form {
        Form::Struct(_) => Some(Value::Object(serde_json::Map::new())),
        Form::Text | Form::Flag | Form::Int32 | Form::Int64 | Form::Double if field.is_always_written => {
            Some(zero(&field.shape))
        }
        _ => None,
    }
}
