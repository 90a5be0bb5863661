//! Schemas of types, from the tables.
//!
//! Follows kube-openapi of 2026-03-17, `pkg/builder3`, `pkg/builder`.

use serde_json::{Map, Value, json};

use super::super::shapes::schema_default;
use super::super::table::{FieldType, Form, ListType, Package, Type, TypeField};
use super::super::{kind, kinds};
use crate::structural::openapi::Edition;

const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.";
const EXTENSIONS: &str = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.";

/// Collects the schemas that a document needs.
pub(super) struct Collector {
    edition: Edition,
    schemas: Map<String, Value>,
}

impl Collector {
    pub(super) fn new(edition: Edition) -> Self {
        Self { edition, schemas: Map::new() }
    }

    pub(super) fn finish(self) -> Value {
        Value::Object(self.schemas)
    }

    /// Adds the schema of a kind with all it needs, and says what it is called.
    pub(super) fn kind(&mut self, group: &str, version: &str, name: &str) -> Option<String> {
        Some(self.structure(kind(group, version, name)?.of))
    }

    /// Adds the schema of patches, which may be anything.
    pub(super) fn patch(&mut self) -> String {
        self.special("Patch", META, || json!({"type": "object"}))
    }

    fn structure(&mut self, of: &'static Type) -> String {
        let model = of.model();
        if self.schemas.contains_key(&model) {
            return model;
        }
        // Before its fields, for it may contain itself.
        self.schemas.insert(model.clone(), Value::Null);
        let schema = self.describe(of);
        self.schemas.insert(model.clone(), schema);
        model
    }

    fn describe(&mut self, of: &'static Type) -> Value {
        let mut properties = Map::new();
        if of.is_kind {
            properties.insert("apiVersion".to_owned(), json!({"type": "string"}));
            properties.insert("kind".to_owned(), json!({"type": "string"}));
        }
        for field in of.fields().iter().filter(|field| !field.is_hidden) {
            let schema = self.field(field);
            properties.insert(field.name.to_owned(), schema);
        }
        let mut schema = json!({"type": "object"});
        if !properties.is_empty() {
            schema["properties"] = Value::Object(properties);
        }
        let required: Vec<_> = required(of);
        if !required.is_empty() {
            schema["required"] = json!(required);
        }
        if let Some(map_type) = of.map_type {
            schema["x-kubernetes-map-type"] = json!(map_type);
        }
        if let Some(unions) = of.unions {
            schema["x-kubernetes-unions"] = serde_json::from_str(unions).unwrap_or_default();
        }
        let names = group_version_kinds(of);
        if !names.is_empty() {
            schema["x-kubernetes-group-version-kind"] = Value::Array(names);
        }
        schema
    }

    fn field(&mut self, field: &'static TypeField) -> Value {
        let default = schema_default(field);
        let mut extensions = Map::new();
        let mut extend = |name: &str, value: Value| extensions.insert(format!("x-kubernetes-{name}"), value);
        match &field.list {
            None => {}
            Some(ListType::Atomic) => _ = extend("list-type", json!("atomic")),
            Some(ListType::Set) => _ = extend("list-type", json!("set")),
            Some(ListType::Map(keys)) => {
                extend("list-type", json!("map"));
                extend("list-map-keys", json!(keys));
            }
        }
        for (name, value) in [
            ("map-type", field.map_type),
            ("patch-strategy", field.patch),
            ("patch-merge-key", field.merge_key),
        ] {
            value.map(|value| extend(name, json!(value)));
        }
        let mut schema = self.value(&field.shape, field, true);
        if let Some(default) = default {
            schema["default"] = default;
        }
        if let Value::Object(schema) = &mut schema {
            schema.extend(extensions);
        }
        schema
    }

    fn value(&mut self, shape: &'static FieldType, field: &'static TypeField, has_more: bool) -> Value {
        let typed = |kind: &str| json!({"type": kind});
        let formatted = |kind: &str, format: &str| json!({"type": kind, "format": format});
        match &shape.form {
            Form::Text => {
                let mut schema = typed("string");
                if let Some(allowed) = field.allowed() {
                    schema["enum"] = json!(allowed);
                }
                schema
            }
            Form::Flag => typed("boolean"),
            Form::Int32 => formatted("integer", "int32"),
            Form::Int64 => formatted("integer", "int64"),
            Form::Double => formatted("number", "double"),
            Form::Bytes => formatted("string", "byte"),
            Form::List { item, .. } => {
                let items = self.element(item, field);
                json!({"type": "array", "items": items})
            }
            Form::Map(item) => {
                let items = self.element(item, field);
                json!({"type": "object", "additionalProperties": items})
            }
            _ => {
                let name = self.named(shape);
                self.refer(&name, has_more)
            }
        }
    }

    /// What is in lists and maps is never absent, which its schema says by a default.
    fn element(&mut self, item: &'static FieldType, field: &'static TypeField) -> Value {
        let default = match item.form {
            Form::Struct(_) => Some(json!({})),
            Form::Text => Some(json!("")),
            Form::Int32 | Form::Int64 | Form::Double => Some(json!(0)),
            Form::Flag => Some(json!(false)),
            _ => None,
        };
        let mut schema = self.value(item, field, default.is_some());
        if let Some(default) = default {
            schema["default"] = default;
        }
        schema
    }

    fn refer(&self, name: &str, has_more: bool) -> Value {
        if has_more { self.edition.wrapped_reference(name) } else { self.edition.reference(name) }
    }

    /// A type that has a name.
    fn named(&mut self, shape: &'static FieldType) -> String {
        let text = |format: &str| json!({"type": "string", "format": format});
        match &shape.form {
            Form::Struct(reference) => self.structure(reference.get()),
            Form::Quantity => {
                let three = || json!({"oneOf": [{"type": "string"}, {"type": "number"}]});
                self.alternative("Quantity", "io.k8s.apimachinery.pkg.api.resource.", "", three)
            }
            Form::IntOrText => {
                let three =
                    || json!({"format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}]});
                self.alternative(
                    "IntOrString",
                    "io.k8s.apimachinery.pkg.util.intstr.",
                    "int-or-string",
                    three,
                )
            }
            Form::Time => self.special("Time", META, || text("date-time")),
            Form::MicroTime => self.special("MicroTime", META, || text("date-time")),
            Form::FieldsV1 => self.special("FieldsV1", META, || json!({"type": "object"})),
            Form::Raw => {
                self.special("RawExtension", "io.k8s.apimachinery.pkg.runtime.", || json!({"type": "object"}))
            }
            Form::SchemaOrList => self.special("JSONSchemaPropsOrArray", EXTENSIONS, || json!({})),
            Form::SchemaOrFlag => self.special("JSONSchemaPropsOrBool", EXTENSIONS, || json!({})),
            Form::SchemaOrTexts => self.special("JSONSchemaPropsOrStringArray", EXTENSIONS, || json!({})),
            _ => self.special("JSON", EXTENSIONS, || json!({})),
        }
    }

    /// Version 2 cannot say that there are several types.
    fn alternative(&mut self, name: &str, package: &str, format: &str, three: fn() -> Value) -> String {
        let edition = self.edition;
        self.special(name, package, || match (edition, format) {
            (Edition::Three, _) => three(),
            (Edition::Two, "") => json!({"type": "string"}),
            (Edition::Two, format) => json!({"type": "string", "format": format}),
        })
    }

    fn special(&mut self, name: &str, package: &str, schema: impl FnOnce() -> Value) -> String {
        let model = format!("{package}{name}");
        self.schemas.entry(model.clone()).or_insert_with(schema);
        model
    }
}

/// The required fields, in the order of Go.
fn required(of: &'static Type) -> Vec<&'static str> {
    use super::super::table::Row;
    let mut names = Vec::new();
    for row in &of.rows {
        match row {
            Row::Field(field) if field.is_required => names.push(field.name),
            Row::Field(_) => {}
            Row::Inline { of, .. } => names.extend(required(of.get())),
        }
    }
    names
}

/// The kinds that a type is.
fn group_version_kinds(of: &'static Type) -> Vec<Value> {
    let meta = Package::number("meta.v1");
    if Some(of.package) == meta {
        // Options and statuses are kinds of every group; clients look for these.
        let is_common =
            matches!(of.name, "Status" | "DeleteOptions" | "APIResourceList" | "APIGroup" | "APIGroupList");
        return if is_common {
            vec![json!({"group": "", "version": "v1", "kind": of.name})]
        } else {
            Vec::new()
        };
    }
    if !of.is_kind {
        return Vec::new();
    }
    // By identity, because a type can be a kind of several groups under one name.
    let own = kinds().filter(|kind| std::ptr::eq(kind.of, of));
    own.map(|kind| json!({"group": kind.group(), "version": kind.version(), "kind": kind.name()})).collect()
}
