//! What expressions know of a value, from its schema.
//!
//! Follows k8s.io/apiserver 0.36.4, `pkg/cel/common/schemas.go`.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::{Arc, LazyLock};

use ferroplane_cel::{Struct, Type, ValueSchema, escape};

use crate::structural::Props;

/// How many bytes the name of a type has at most. Paths of fields in the wild are far shorter. Without a limit, a few fields with long
/// names around many others would take gigabytes.
const LONGEST_NAME: usize = 1024;

/// What every resource has, whether or not its schema says so.
static RESOURCE: LazyLock<Props> = LazyLock::new(|| {
    let text =
        |name: &str| (name.to_owned(), Box::new(Props { kind: "string".to_owned(), ..Props::default() }));
    let object = |fields: BTreeMap<String, Box<Props>>| Props {
        kind: "object".to_owned(),
        properties: Some(fields),
        ..Props::default()
    };
    let metadata = object([text("name"), text("generateName")].into());
    object([text("kind"), text("apiVersion"), ("metadata".to_owned(), Box::new(metadata))].into())
});

/// Whether expressions can see such a value, which takes no more than a look at what lists and maps are of.
pub(super) fn is_visible(props: &Props, is_resource: bool) -> bool {
    if props.int_or_string {
        return true;
    }
    let is_seen = |part: &Props| is_visible(part, part.embedded_resource);
    match props.kind.as_str() {
        "array" => item(props, is_resource).is_some_and(is_seen),
        "object" => props.additional_schema().is_none_or(is_seen),
        kind => matches!(kind, "string" | "boolean" | "number" | "integer"),
    }
}

/// The type that expressions see, if they can see such a value at all.
pub(super) fn kind(props: &Props, is_resource: bool, name: &str) -> Option<Type> {
    if props.int_or_string {
        // Could be an integer or a text, which CEL has no union for.
        return Some(Type::Dyn);
    }
    match props.kind.as_str() {
        "array" => {
            let item = item(props, is_resource)?;
            Some(Type::List(Box::new(kind(item, item.embedded_resource, &part_name(name, "@idx"))?)))
        }
        "object" => match props.additional_schema() {
            Some(value) => {
                let value = kind(value, value.embedded_resource, &part_name(name, "@elem"))?;
                Some(Type::Map(Box::new(Type::String), Box::new(value)))
            }
            None => Some(structure(props, is_resource, name)),
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

fn structure(props: &Props, is_resource: bool, name: &str) -> Type {
    let fields = fields(props, is_resource).filter_map(|(field, property)| {
        let escaped = escape(field)?;
        let kind = kind(property, property.embedded_resource, &part_name(name, &escaped))?;
        Some((escaped, kind))
    });
    Type::Struct(Arc::new(Struct { name: name.to_owned(), fields: fields.collect() }))
}

/// How expressions see a value.
pub(super) fn shape(props: &Props, is_resource: bool) -> ValueSchema {
    if props.int_or_string {
        return ValueSchema::Plain;
    }
    let is_resource = is_resource || props.embedded_resource;
    match props.kind.as_str() {
        "array" => {
            let item = item(props, is_resource);
            let item = Box::new(item.map_or(ValueSchema::Plain, |item| shape(item, false)));
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
        "object" if props.has_properties() || lacks_type(props, is_resource) => {
            let fields = fields(props, is_resource);
            let fields = fields.map(|(name, property)| (name.as_str().into(), shape(property, false)));
            ValueSchema::Struct(fields.collect())
        }
        "object" => props
            .additional_schema()
            .map_or(ValueSchema::Unknown, |value| ValueSchema::Map(Box::new(shape(value, false)))),
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

/// How expressions see a property of such a value, if they know it.
pub(super) fn property_in<'s>(shape: &'s ValueSchema, name: &str) -> Option<&'s ValueSchema> {
    match shape {
        ValueSchema::Struct(fields) => fields.get(name),
        _ => None,
    }
}

/// The same for the items of a list.
pub(super) fn item_in(shape: &ValueSchema) -> Option<&ValueSchema> {
    match shape {
        ValueSchema::List(item) | ValueSchema::Set(item) | ValueSchema::Keyed(item, _) => Some(item),
        _ => None,
    }
}

/// The same for the values of a map.
pub(super) fn additional_in(shape: &ValueSchema) -> Option<&ValueSchema> {
    match shape {
        ValueSchema::Map(value) => Some(value),
        _ => None,
    }
}

/// Whether expressions see a property of this name as every resource has it, and not as the schema says.
pub(super) fn is_replaced(props: &Props, is_resource: bool, name: &str) -> bool {
    lacks_type(props, is_resource || props.embedded_resource) && RESOURCE.property(name).is_some()
}

/// Whether expressions see the items of a list as the schema says.
pub(super) fn has_items(props: &Props, is_resource: bool) -> bool {
    item(props, is_resource || props.embedded_resource).is_some()
}

/// The fields of an object as expressions see them.
pub(super) fn fields(props: &Props, is_resource: bool) -> impl Iterator<Item = (&String, &Props)> {
    let added: Option<&Props> = lacks_type(props, is_resource).then_some(&*RESOURCE);
    let is_replaced = move |name: &str| added.is_some_and(|added| added.property(name).is_some());
    let own = props.properties().filter(move |(name, _)| !is_replaced(name));
    own.chain(added.into_iter().flat_map(Props::properties))
}

/// What a list is of. A resource has no items.
pub(super) fn item(props: &Props, is_resource: bool) -> Option<&Props> {
    props.item().filter(|_| !lacks_type(props, is_resource))
}

/// Whether this is a resource whose schema does not say that it has a type and a name.
fn lacks_type(props: &Props, is_resource: bool) -> bool {
    let is_text =
        |props: &Props, name: &str| props.property(name).is_some_and(|property| property.kind == "string");
    let is_said = || {
        is_text(props, "kind")
            && is_text(props, "apiVersion")
            && props.property("metadata").is_some_and(|metadata| {
                metadata.kind == "object" && is_text(metadata, "name") && is_text(metadata, "generateName")
            })
    };
    is_resource && !is_said()
}

/// The name of the type of a part. Types are identified by their names, so that one that would be too long ends in a hash of the rest.
fn part_name(name: &str, part: &str) -> String {
    if name.len() + part.len() < LONGEST_NAME {
        return format!("{name}.{part}");
    }
    let mut hasher = DefaultHasher::new();
    (name, part).hash(&mut hasher);
    let start = name.get(..LONGEST_NAME / 2).unwrap_or(name);
    format!("{start}.{:016x}", hasher.finish())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::{Map, Value, json};

    use super::*;

    fn names(kind: &Type, found: &mut Vec<String>) {
        if let Type::Struct(of) = kind {
            found.push(of.name.clone());
            of.fields.values().for_each(|kind| names(kind, found));
        }
    }

    #[test]
    fn names_of_types_stay_short_and_different_however_long_fields_are_called() {
        let leaves: Map<_, _> =
            (0..100).map(|number| (format!("leaf{number}"), json!({"type": "object"}))).collect();
        let object = |properties: Value| json!({"type": "object", "properties": properties});
        let outer = "a".repeat(100_000);
        let inner = outer.clone();
        let inside = object(json!({inner: object(leaves.into())}));
        let schema = object(json!({"short": object(json!({outer: inside}))}));
        let kind = kind(&Props::decode(&schema).unwrap(), false, "selfType").unwrap();
        let mut found = Vec::new();
        names(&kind, &mut found);
        assert_eq!(found[..2], ["selfType", "selfType.short"]);
        assert_eq!(found.len(), 104);
        assert_eq!(found.iter().collect::<BTreeSet<_>>().len(), found.len(), "two types have the same name");
        assert!(found.iter().all(|name| name.len() <= LONGEST_NAME), "{found:?}");
    }
}
