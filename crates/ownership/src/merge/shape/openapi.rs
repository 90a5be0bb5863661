//! Shapes from the structural schema of a custom resource.
//!
//! Follows kube-openapi of 2026-03-17, `pkg/schemaconv`.

use ferroplane_golang::json::JsonObject;
use serde_json::Value;

use super::super::MAX_DEPTH;
use super::{DEDUCED, Id, Items, ListShape, MapShape, MergeShape, ScalarShape, Shapes, UNTYPED, metadata};

/// Why a schema has no shape.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("unrecognized type: '{0}'")]
    Type(String),
    #[error("missing map keys")]
    NoKeys,
    #[error("unknown list type {0}")]
    ListType(String),
    #[error("unknown map type {0}")]
    MapType(String),
    #[error("`items` must be specified on arrays")]
    NoItems,
    #[error("schema is nested too deeply")]
    TooDeep,
}

impl Shapes {
    /// The shapes of a custom resource, from the `openAPIV3Schema` of one of its versions.
    ///
    /// The schema has to be structural: whatever a structural schema may not say is not checked.
    pub fn of_custom_resource(schema: Option<&Value>) -> Result<Self, Error> {
        let mut shapes = Self::new();
        let metadata = metadata::add(&mut shapes);
        let text = shapes.add(MergeShape::scalar(ScalarShape::Text));
        let mut builder = Builder { shapes, metadata, text };
        let root = match schema.and_then(Value::as_object) {
            Some(schema) => builder.root(schema)?,
            None => MapShape { element: Some(DEDUCED), is_undeclared: true, ..MapShape::default() },
        };
        let root = builder.shapes.add(MergeShape::map(root));
        builder.shapes.set_root(root);
        Ok(builder.shapes)
    }
}

struct Builder {
    shapes: Shapes,
    metadata: Id,
    text: Id,
}

impl Builder {
    fn root(&mut self, schema: &JsonObject) -> Result<MapShape, Error> {
        let preserves = flag(schema, "x-kubernetes-preserve-unknown-fields");
        let mut map = self.map(schema, preserves, 0)?;
        self.add_type_and_metadata(&mut map);
        Ok(map)
    }

    /// Preserving unknown fields is passed on to everything below.
    fn shape(&mut self, schema: &Value, preserves: bool, depth: usize) -> Result<Id, Error> {
        if depth > MAX_DEPTH {
            return Err(Error::TooDeep);
        }
        let empty = JsonObject::new();
        let schema = schema.as_object().unwrap_or(&empty);
        let preserves = preserves || flag(schema, "x-kubernetes-preserve-unknown-fields");
        let shape = match text(schema, "type") {
            "" => MergeShape {
                scalar: Some(ScalarShape::Untyped),
                list: Some(self.list(schema, preserves, depth)?),
                map: Some(self.map(schema, preserves, depth)?),
            },
            "object" => MergeShape::map(self.map(schema, preserves, depth)?),
            "array" => {
                MergeShape { list: Some(self.list(schema, preserves, depth)?), ..MergeShape::default() }
            }
            "integer" | "number" => MergeShape::scalar(ScalarShape::Numeric),
            "boolean" => MergeShape::scalar(ScalarShape::Boolean),
            "string" => MergeShape::scalar(match text(schema, "format") {
                // Other formats may be decoded to something else than text in Go (`int-or-string`,
                // `date-time`), so that any scalar passes.
                "" | "byte" => ScalarShape::Text,
                _ => ScalarShape::Untyped,
            }),
            other => return Err(Error::Type(other.to_owned())),
        };
        Ok(self.shapes.add(shape))
    }

    fn map(&mut self, schema: &JsonObject, preserves: bool, depth: usize) -> Result<MapShape, Error> {
        let mut map = MapShape::default();
        for (name, field) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
            map.declare(name, self.shape(field, preserves, depth + 1)?);
        }
        map.element = match schema.get("additionalProperties") {
            // An object of which nothing is declared may hold anything.
            None | Some(Value::Null) if preserves || map.is_without_fields() => Some(DEDUCED),
            None | Some(Value::Null | Value::Bool(false)) => None,
            Some(Value::Bool(true)) => Some(DEDUCED),
            Some(element) => Some(self.shape(element, preserves, depth + 1)?),
        };
        map.is_atomic = match text(schema, "x-kubernetes-map-type") {
            "" | "granular" => false,
            "atomic" => true,
            other => return Err(Error::MapType(other.to_owned())),
        };
        // The question of `isUntypedDeducedMap` in typed/reconcile_schema.go: its sets are left as they are
        // written.
        let is_untyped = |id| id != UNTYPED && self.shapes.get(id).scalar == Some(ScalarShape::Untyped);
        map.is_undeclared = map.is_without_fields() && map.element.is_some_and(is_untyped);
        if flag(schema, "x-kubernetes-embedded-resource") {
            self.add_type_and_metadata(&mut map);
        }
        Ok(map)
    }

    fn list(&mut self, schema: &JsonObject, preserves: bool, depth: usize) -> Result<ListShape, Error> {
        let items = match text(schema, "x-kubernetes-list-type") {
            "" | "atomic" => Items::Atomic,
            "set" => Items::Set,
            "map" => keyed(schema)?,
            other => return Err(Error::ListType(other.to_owned())),
        };
        let element = match schema.get("items") {
            Some(element) => self.shape(element, preserves, depth + 1)?,
            None if text(schema, "type").is_empty() => UNTYPED,
            None => return Err(Error::NoItems),
        };
        Ok(ListShape { items, element })
    }

    fn add_type_and_metadata(&self, map: &mut MapShape) {
        for (name, id) in [("apiVersion", self.text), ("kind", self.text), ("metadata", self.metadata)] {
            map.declare(name, id);
        }
        map.is_undeclared = false;
    }
}

fn keyed(schema: &JsonObject) -> Result<Items, Error> {
    let names = schema.get("x-kubernetes-list-map-keys").and_then(Value::as_array).ok_or(Error::NoKeys)?;
    let properties = schema.get("items").and_then(|items| items.get("properties"));
    let default =
        |name: &str| properties?.get(name)?.get("default").filter(|default| !default.is_null()).cloned();
    let names = names.iter().filter_map(Value::as_str);
    Ok(Items::keyed(names.map(|name| (name, default(name)))))
}

fn text<'a>(schema: &'a JsonObject, name: &str) -> &'a str {
    schema.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn flag(schema: &JsonObject, name: &str) -> bool {
    schema.get(name).and_then(Value::as_bool).unwrap_or_default()
}
