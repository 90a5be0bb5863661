//! What expressions know of a value, from its schema.
//!
//! Follows k8s.io/apiserver 0.36.4, `pkg/cel/common/schemas.go`.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use ferroplane_cel::{Struct, Type, ValueSchema, escape};

use crate::structural::Props;

/// The type that expressions see, if they can see such a value at all.
pub(super) fn kind(props: &Props, is_resource: bool, name: &str) -> Option<Type> {
    if props.int_or_string {
        // Could be an integer or a text, which CEL has no union for.
        return Some(Type::Dyn);
    }
    let props = with_type_and_metadata(props, is_resource);
    match props.kind.as_str() {
        "array" => {
            let item = props.item()?;
            Some(Type::List(Box::new(kind(item, item.embedded_resource, &format!("{name}.@idx"))?)))
        }
        "object" => match props.additional_schema() {
            Some(value) => {
                let value = kind(value, value.embedded_resource, &format!("{name}.@elem"))?;
                Some(Type::Map(Box::new(Type::String), Box::new(value)))
            }
            None => Some(structure(&props, name)),
        },
        "string" => Some(match props.format.as_str() {
            "byte" => Type::Bytes,
            "duration" => Type::Duration,
            "date" | "date-time" => Type::Timestamp,
            _ => Type::String,
        }),
        "boolean" => Some(Type::Bool),
        "number" => Some(Type::Double),
        "integer" => Some(Type::Int),
        _ => None,
    }
}

fn structure(props: &Props, name: &str) -> Type {
    let fields = props.properties().filter_map(|(field, property)| {
        let escaped = escape(field)?;
        let kind = kind(property, property.embedded_resource, &format!("{name}.{escaped}"))?;
        Some((escaped, kind))
    });
    Type::Struct(Arc::new(Struct { name: name.to_owned(), fields: fields.collect() }))
}

/// How expressions see a value.
pub(super) fn shape(props: &Props, is_resource: bool) -> ValueSchema {
    if props.int_or_string {
        return ValueSchema::Plain;
    }
    let props = with_type_and_metadata(props, is_resource || props.embedded_resource);
    match props.kind.as_str() {
        "array" => {
            let item = Box::new(props.item().map_or(ValueSchema::Plain, |item| shape(item, false)));
            match props.list_type.as_deref() {
                Some("set") => ValueSchema::Set(item),
                Some("map") => {
                    let keys = props.list_map_keys().iter();
                    // Kubernetes looks for the escaped name, but in the object as it is.
                    let keys = keys.map(|key| escape(key).unwrap_or_else(|| key.clone()).into());
                    ValueSchema::Keyed(item, keys.collect())
                }
                _ => ValueSchema::List(item),
            }
        }
        "object" => match props.additional_schema().filter(|_| !props.has_properties()) {
            Some(value) => ValueSchema::Map(Box::new(shape(value, false))),
            None if props.has_properties() => ValueSchema::Struct(
                props
                    .properties()
                    .map(|(name, property)| (name.as_str().into(), shape(property, false)))
                    .collect(),
            ),
            None => ValueSchema::Unknown,
        },
        "string" => match props.format.as_str() {
            "byte" => ValueSchema::Bytes,
            "duration" => ValueSchema::Duration,
            "date" => ValueSchema::Date,
            "date-time" => ValueSchema::DateTime,
            _ => ValueSchema::Plain,
        },
        "number" => ValueSchema::Double,
        "boolean" | "integer" => ValueSchema::Plain,
        _ => ValueSchema::Opaque,
    }
}

/// Every resource has a type and a name, whether or not its schema says so.
pub(super) fn with_type_and_metadata(props: &Props, is_resource: bool) -> Cow<'_, Props> {
    let is_text =
        |props: &Props, name: &str| props.property(name).is_some_and(|property| property.kind == "string");
    let is_said = is_text(props, "kind")
        && is_text(props, "apiVersion")
        && props.property("metadata").is_some_and(|metadata| {
            metadata.kind == "object" && is_text(metadata, "name") && is_text(metadata, "generateName")
        });
    if !is_resource || is_said {
        return Cow::Borrowed(props);
    }
    let text = || Box::new(Props { kind: "string".to_owned(), ..Props::default() });
    let names = BTreeMap::from([("name".to_owned(), text()), ("generateName".to_owned(), text())]);
    let metadata = Props { kind: "object".to_owned(), properties: Some(names), ..Props::default() };
    let mut props = props.clone();
    // A resource has no items.
    props.items = None;
    props.properties.get_or_insert_default().extend([
        ("kind".to_owned(), text()),
        ("apiVersion".to_owned(), text()),
        ("metadata".to_owned(), Box::new(metadata)),
    ]);
    Cow::Owned(props)
}
