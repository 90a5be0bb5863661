//! The schema of a kind and of its list.
//!
//! Follows apiextensions-apiserver 0.36.4, `pkg/controller/openapi/builder/builder.go`.

use std::collections::HashSet;

use serde_json::{Value, json};

use super::meta::{LIST_META, OBJECT_META};
use super::{Edition, Subject};
use crate::structural::{Additional, Props, rules};

pub(super) fn of_kind(subject: &Subject<'_>) -> Value {
    let names = &subject.definition.names;
    let schema = subject.definition.schema(subject.version).filter(|schema| is_publishable(schema));
    let preserves = subject.definition.preserve_unknown_fields;
    let mut json = match schema {
        None => json!({"type": "object"}),
        Some(schema)
            // Not even the metadata is described: kubectl would complain about all other fields as unknown.
            if subject.edition == Edition::Two && (schema.preserves_unknown_fields() || preserves) =>
        {
            json!({"type": "object"})
        }
        Some(schema) => {
            let mut json = publish(schema, subject.edition);
            put_type_and_metadata(&mut json, subject.edition);
            json
        }
    };
    json["x-kubernetes-group-version-kind"] = json!([subject.group_version_kind(&names.kind)]);
    put_selectable(&mut json, subject);
    json
}

pub(super) fn of_list(subject: &Subject<'_>) -> Value {
    let names = &subject.definition.names;
    let edition = subject.edition;
    let mut json = json!({
        "description": format!("{} is a list of {}", names.list_kind, names.kind),
        "type": "object",
        "required": ["items"],
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": edition.wrapped_reference(LIST_META),
            "items": {"type": "array", "items": edition.reference(&subject.model(&names.kind))},
        },
        "x-kubernetes-group-version-kind": [subject.group_version_kind(&names.list_kind)],
    });
    put_selectable(&mut json, subject);
    json
}

/// Only structural schemas are published.
fn is_publishable(schema: &Props) -> bool {
    const KINDS: [&str; 7] = ["", "array", "boolean", "integer", "number", "object", "string"];
    !schema.has(&mut |schema| !KINDS.contains(&schema.kind.as_str()))
        && rules::unsupported(schema).is_none()
        && rules::check(schema, &crate::field::Path::NIL).is_empty()
}

fn put_selectable(json: &mut Value, subject: &Subject<'_>) {
    let fields = subject.definition.selectable_fields(subject.version);
    if !fields.is_empty() {
        let fields = fields.iter().map(|path| json!({"fieldPath": path.strip_prefix('.').unwrap_or(path)}));
        json["x-kubernetes-selectable-fields"] = Value::Array(fields.collect());
    }
}

fn put_type_and_metadata(json: &mut Value, edition: Edition) {
    json["properties"]["apiVersion"] = json!({"type": "string"});
    json["properties"]["kind"] = json!({"type": "string"});
    json["properties"]["metadata"] = edition.wrapped_reference(OBJECT_META);
}

/// The schema as clients should see it: with what extensions mean spelt out where the edition can say it.
fn publish(schema: &Props, edition: Edition) -> Value {
    let mut schema = schema.clone();
    unfold(&mut schema);
    if edition == Edition::Two {
        simplify(&mut schema);
    }
    let (items, properties, additional) =
        (schema.items.take(), schema.properties.take(), schema.additional_properties.take());
    drop_nested_additional(&mut schema);
    let mut json = schema.to_json();
    if let Some(item) = items.and_then(|items| items.schema) {
        json["items"] = publish(&item, edition);
    }
    for (name, property) in properties.iter().flatten() {
        json["properties"][name] = publish(property, edition);
    }
    match additional {
        None => {}
        Some(Additional::Allowed(allowed)) => json["additionalProperties"] = json!(allowed),
        Some(Additional::Schema(schema)) => json["additionalProperties"] = publish(&schema, edition),
    }
    let is_open = edition == Edition::Two && schema.preserves_unknown_fields();
    if schema.embedded_resource && !is_open {
        put_type_and_metadata(&mut json, edition);
        let mut required = schema.required().to_vec();
        // In this order, as the builder of Kubernetes appends them.
        for name in ["kind", "apiVersion"] {
            if !required.iter().any(|required| required == name) {
                required.push(name.to_owned());
            }
        }
        json["required"] = json!(required);
    }
    json
}

/// Says of integers or strings that they are that.
fn unfold(schema: &mut Props) {
    if !schema.int_or_string
        || rules::is_int_or_string_any_of(schema)
        || rules::is_int_or_string_all_of(schema)
    {
        return;
    }
    let kind = |kind: &str| Props { kind: kind.to_owned(), ..Props::default() };
    let both = vec![kind("integer"), kind("string")];
    if schema.any_of().is_empty() {
        schema.any_of = Some(both);
    } else {
        let nested = Props { any_of: Some(both), ..Props::default() };
        schema.all_of.get_or_insert_default().insert(0, nested);
    }
}

/// Takes away what the older specification cannot say.
fn simplify(schema: &mut Props) {
    schema.all_of = None;
    schema.one_of = None;
    schema.any_of = None;
    schema.not = None;
    // Version 2 knows no null, and kubectl cannot cope with items or properties of a value without type
    // (`ToStructuralOpenAPIV2`).
    if schema.nullable {
        schema.kind.clear();
        schema.nullable = false;
        schema.items = None;
        schema.properties = None;
    }
    if schema.preserves_unknown_fields() {
        schema.items = None;
        schema.properties = None;
    }
    // kubectl cannot cope with an array without a schema for its items either.
    if schema.item().is_none() && schema.kind == "array" {
        schema.kind.clear();
    }
    if schema.preserves_unknown_fields() && schema.kind == "object" {
        schema.kind.clear();
    }
    let nullable: HashSet<_> =
        schema.properties().filter(|(_, property)| property.nullable).map(|(name, _)| name.clone()).collect();
    if let Some(required) = &mut schema.required {
        required.retain(|name| !nullable.contains(name));
    }
    if schema.additional_schema().is_some_and(|schema| schema.nullable) {
        schema.required = None;
    }
}

/// Under junctors, nothing is said of fields without a name.
fn drop_nested_additional(schema: &mut Props) {
    let lists = [&mut schema.all_of, &mut schema.any_of, &mut schema.one_of];
    let nested = lists.into_iter().flatten().flatten().chain(schema.not.as_deref_mut());
    for nested in nested {
        nested.additional_properties = None;
        drop_nested_additional(nested);
        for property in nested.properties.iter_mut().flat_map(|properties| properties.values_mut()) {
            property.additional_properties = None;
            drop_nested_additional(property);
        }
        if let Some(item) = nested.items.as_mut().and_then(|items| items.schema.as_deref_mut()) {
            item.additional_properties = None;
            drop_nested_additional(item);
        }
    }
}
