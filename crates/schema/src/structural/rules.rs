//! What makes a schema structural, and what Kubernetes says if it is not.
//!
//! Follows apiextensions-apiserver 0.36.4, `pkg/apiserver/schema/validation.go`,
//! `pkg/apiserver/schema/complete.go`.

use super::props::{Additional, Props};
use crate::field::{Error, Path};

/// Where a schema stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Level {
    Root,
    Item,
    Field,
}

/// What keeps the schema from being read as a structural one at all, if anything.
pub fn unsupported(props: &Props) -> Option<String> {
    let said = |name: &str| Some(format!("OpenAPIV3Schema '{name}' is not supported"));
    if !props.id.is_empty() {
        return said("id");
    }
    if !props.schema.is_empty() {
        return said("schema");
    }
    if props.reference.as_ref().is_some_and(|reference| !reference.is_empty()) {
        return said("$ref");
    }
    if props.pattern_properties.as_ref().is_some_and(|map| !map.is_empty()) {
        return said("patternProperties");
    }
    if props.dependencies.as_ref().is_some_and(|map| !map.is_empty()) {
        return said("dependencies");
    }
    if props.additional_items.is_some() {
        return said("additionalItems");
    }
    if props.definitions.as_ref().is_some_and(|map| !map.is_empty()) {
        return said("definitions");
    }
    let junctors =
        props.not.as_deref().into_iter().chain(props.all_of()).chain(props.any_of()).chain(props.one_of());
    if let Some(problem) = junctors.into_iter().find_map(unsupported) {
        return Some(problem);
    }
    if props.preserve_unknown_fields == Some(false) {
        let said = "internal error: 'x-kubernetes-preserve-unknown-fields' must be true or undefined";
        return Some(said.to_owned());
    }
    if !props.items_list().is_empty() {
        return Some("OpenAPIV3Schema 'items' must be a schema, but is an array".to_owned());
    }
    let children = props.item().into_iter().chain(props.properties().map(|(_, property)| property));
    children.chain(props.additional_schema()).find_map(unsupported)
}

/// Everything that keeps the schema from being structural, in order of the messages.
pub fn check(props: &Props, path: &Path<'_>) -> Vec<Error> {
    let mut errors = Vec::new();
    check_invariants(props, Level::Root, path, &mut errors);
    // Only from the root, as upstream does: junctors further down are reached through it.
    check_complete(props, Some(props), path, path, &mut errors);
    let mut keyed: Vec<_> = errors.into_iter().map(|error| (error.to_string(), error)).collect();
    // Upstream sorts by message, because it ranges over maps.
    keyed.sort_by(|one, other| one.0.cmp(&other.0));
    keyed.into_iter().map(|(_, error)| error).collect()
}

fn check_invariants(props: &Props, level: Level, path: &Path<'_>, errors: &mut Vec<Error>) {
    if props.kind == "array" && props.item().is_none() {
        errors.push(Error::required(&path.child("items"), "must be specified"));
    }
    if let Some(item) = props.item() {
        check_invariants(item, Level::Item, &path.child("items"), errors);
    }
    for (name, property) in props.properties() {
        check_invariants(property, Level::Field, &path.child("properties").key(name), errors);
    }
    if let Some(additional) = &props.additional_properties {
        if level == Level::Root {
            errors
                .push(Error::forbidden(&path.child("additionalProperties"), "must not be used at the root"));
        }
        if let Additional::Schema(schema) = additional {
            check_invariants(schema, Level::Field, &path.child("additionalProperties"), errors);
        }
    }
    check_extensions(props, path, errors);
    check_values(props, is_int_or_string_any_of(props), is_int_or_string_all_of(props), path, errors);
    check_type(props, level, path, errors);
    check_metadata(props, level, path, errors);
}

fn check_extensions(props: &Props, path: &Path<'_>, errors: &mut Vec<Error>) {
    const DETAIL: &str = "must be false if x-kubernetes-int-or-string is true";
    if props.int_or_string && props.preserves_unknown_fields() {
        errors.push(Error::invalid(&path.child("x-kubernetes-preserve-unknown-fields"), true, DETAIL));
    }
    if props.int_or_string && props.embedded_resource {
        errors.push(Error::invalid(&path.child("x-kubernetes-embedded-resource"), true, DETAIL));
    }
}

fn check_type(props: &Props, level: Level, path: &Path<'_>, errors: &mut Vec<Error>) {
    let kind = path.child("type");
    if props.embedded_resource && props.kind != "object" {
        let detail = "must be object if x-kubernetes-embedded-resource is true";
        errors.push(if props.kind.is_empty() {
            Error::required(&kind, detail)
        } else {
            Error::invalid(&kind, &props.kind, detail)
        });
    } else if props.kind.is_empty() && !props.int_or_string && !props.preserves_unknown_fields() {
        errors.push(Error::required(
            &kind,
            match level {
                Level::Root => "must not be empty at the root",
                Level::Item => "must not be empty for specified array items",
                Level::Field => "must not be empty for specified object fields",
            },
        ));
    }
    if props.embedded_resource && props.additional_properties.is_some() {
        errors.push(Error::forbidden(
            &path.child("additionalProperties"),
            "must not be used if x-kubernetes-embedded-resource is set",
        ));
    }
    if level == Level::Root && !props.kind.is_empty() && props.kind != "object" {
        errors.push(Error::invalid(&kind, &props.kind, "must be object at the root"));
    }
}

fn check_metadata(props: &Props, level: Level, path: &Path<'_>, errors: &mut Vec<Error>) {
    let is_resource = level == Level::Root || props.embedded_resource;
    for name in ["kind", "apiVersion"] {
        if let Some(property) =
            props.property(name).filter(|property| is_resource && property.kind != "string")
        {
            let path = path.child("properties");
            let path = path.key(name);
            errors.push(Error::invalid(&path.child("type"), &property.kind, "must be string"));
        }
    }
    if let Some(metadata) = props.property("metadata") {
        let path = path.child("properties");
        let path = path.key("metadata");
        if is_resource && metadata.kind != "object" {
            errors.push(Error::invalid(&path.child("type"), &metadata.kind, "must be object"));
        }
        if level == Level::Root && !is_implicit_metadata(metadata) {
            errors.push(Error::forbidden(
                &path,
                "must not specify anything other than name and generateName, but metadata is implicitly specified",
            ));
        }
    }
    if props.embedded_resource && !props.preserves_unknown_fields() && !props.has_properties() {
        errors.push(Error::required(
            &path.child("properties"),
            "must not be empty if x-kubernetes-embedded-resource is true without \
             x-kubernetes-preserve-unknown-fields",
        ));
    }
}

/// Whether nothing is said of the metadata but its type, its default, and its name.
fn is_implicit_metadata(metadata: &Props) -> bool {
    let mut rest = without_empties(metadata);
    rest.kind.clear();
    rest.default = None;
    if rest.properties.as_ref().is_some_and(|properties| {
        properties.is_empty() || properties.keys().all(|name| name == "name" || name == "generateName")
    }) {
        rest.properties = None;
    }
    rest == Props::default()
}

/// The same without lists that Kubernetes drops when they are empty.
fn without_empties(props: &Props) -> Props {
    let mut props = props.clone();
    props.values = props.values.filter(|list| !list.is_empty());
    props.all_of = props.all_of.filter(|list| !list.is_empty());
    props.any_of = props.any_of.filter(|list| !list.is_empty());
    props.one_of = props.one_of.filter(|list| !list.is_empty());
    props
}

fn is_int_or_string(any_of: &[Props]) -> bool {
    let is_only = |props: &Props, kind: &str| {
        without_empties(props) == Props { kind: kind.to_owned(), ..Props::default() }
    };
    matches!(any_of, [one, other] if is_only(one, "integer") && is_only(other, "string"))
}

pub(super) fn is_int_or_string_any_of(props: &Props) -> bool {
    is_int_or_string(props.any_of())
}

pub(super) fn is_int_or_string_all_of(props: &Props) -> bool {
    props.all_of().first().is_some_and(|first| is_int_or_string(first.any_of()))
}

fn check_values(
    props: &Props,
    skip_any_of: bool,
    skip_first_all_of: bool,
    path: &Path<'_>,
    errors: &mut Vec<Error>,
) {
    if !skip_any_of {
        for (index, nested) in props.any_of().iter().enumerate() {
            check_nested(nested, false, &path.child("anyOf").index(index), errors);
        }
    }
    for (index, nested) in props.all_of().iter().enumerate() {
        // `x-kubernetes-int-or-string` allows two fixed patterns of junctors that would otherwise not be
        // structural.
        check_nested(nested, skip_first_all_of && index == 0, &path.child("allOf").index(index), errors);
    }
    for (index, nested) in props.one_of().iter().enumerate() {
        check_nested(nested, false, &path.child("oneOf").index(index), errors);
    }
    if let Some(nested) = &props.not {
        check_nested(nested, false, &path.child("not"), errors);
    }
    if let Some(Err(error)) = props.pattern.expression() {
        errors.push(Error::invalid(
            &path.child("pattern"),
            props.pattern.as_str(),
            format!("must be a valid regular expression, but isn't: {error}"),
        ));
    }
}

/// Under a junctor only values may be restricted, nothing may be declared.
fn check_nested(props: &Props, skip_any_of: bool, path: &Path<'_>, errors: &mut Vec<Error>) {
    const EMPTY: &str = "must be empty to be structural";
    const UNDEFINED: &str = "must be undefined to be structural";
    const FALSE: &str = "must be false to be structural";
    check_values(props, skip_any_of, false, path, errors);
    if let Some(item) = props.item() {
        check_nested(item, false, &path.child("items"), errors);
    }
    for (name, property) in props.properties() {
        check_nested(property, false, &path.child("properties").key(name), errors);
    }
    let forbidden = [
        // The order does not matter: all errors are sorted in the end.
        (!props.kind.is_empty(), "type", EMPTY),
        (
            props.additional_properties.as_ref().is_some_and(Additional::allows),
            "additionalProperties",
            UNDEFINED,
        ),
        (props.default.is_some(), "default", UNDEFINED),
        (!props.title.is_empty(), "title", EMPTY),
        (!props.description.is_empty(), "description", EMPTY),
        (props.nullable, "nullable", FALSE),
        (props.preserves_unknown_fields(), "x-kubernetes-preserve-unknown-fields", FALSE),
        (props.embedded_resource, "x-kubernetes-embedded-resource", FALSE),
        (props.int_or_string, "x-kubernetes-int-or-string", FALSE),
        (!props.list_map_keys().is_empty(), "x-kubernetes-list-map-keys", EMPTY),
        (props.list_type.is_some(), "x-kubernetes-list-type", UNDEFINED),
        (props.map_type.is_some(), "x-kubernetes-map-type", UNDEFINED),
        (!props.validations().is_empty(), "x-kubernetes-validations", EMPTY),
    ];
    for (_, name, detail) in forbidden.into_iter().filter(|(is_set, ..)| *is_set) {
        errors.push(Error::forbidden(&path.child(name), detail));
    }
    if props.property("metadata").is_some() {
        let path = path.child("properties");
        errors.push(Error::forbidden(&path.key("metadata"), "must not be specified in a nested context"));
    }
}

/// What a junctor of the root restricts must be declared outside of it.
fn check_complete(
    nested: &Props,
    declared: Option<&Props>,
    declared_path: &Path<'_>,
    path: &Path<'_>,
    errors: &mut Vec<Error>,
) {
    let Some(declared) = declared else {
        errors.push(Error::required(declared_path, format!("because it is defined in {path}")));
        return;
    };
    if let Some(not) = &nested.not {
        check_nested_complete(not, Some(declared), declared_path, &path.child("not"), errors);
    }
    let junctors = [("allOf", nested.all_of()), ("anyOf", nested.any_of()), ("oneOf", nested.one_of())];
    for (name, list) in junctors {
        for (index, nested) in list.iter().enumerate() {
            check_nested_complete(
                nested,
                Some(declared),
                declared_path,
                &path.child(name).index(index),
                errors,
            );
        }
    }
}

fn check_nested_complete(
    nested: &Props,
    declared: Option<&Props>,
    declared_path: &Path<'_>,
    path: &Path<'_>,
    errors: &mut Vec<Error>,
) {
    let Some(schema) = declared else {
        errors.push(Error::required(declared_path, format!("because it is defined in {path}")));
        return;
    };
    check_complete(nested, declared, declared_path, path, errors);
    if let Some(item) = nested.item() {
        check_nested_complete(
            item,
            schema.item(),
            &declared_path.child("items"),
            &path.child("items"),
            errors,
        );
    }
    for (name, property) in nested.properties() {
        check_nested_complete(
            property,
            schema.property(name),
            &declared_path.child("properties").key(name),
            &path.child("properties").key(name),
            errors,
        );
    }
}
