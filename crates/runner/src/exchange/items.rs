//! The items of a list: how a composite resource and composed resources become items, and items become what is desired.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use ferroplane_wire::Struct;
use ferroplane_wire::v1::{Ready, Resource};
use serde_json::{Map, Value, json};

pub(super) const TYPE: &str = "fn.apiextensions.crossplane.io/type";
pub(super) const NAME: &str = "fn.apiextensions.crossplane.io/name";
pub(super) const READY: &str = "fn.apiextensions.crossplane.io/ready";
pub(super) const COMPOSITE: &str = "CompositeResource";
pub(super) const COMPOSED: &str = "ComposedResource";
pub(super) const CONNECTION: &str = "ConnectionDetails";

/// What an API server alone writes about an object. It means nothing in what is desired.
const SERVER_OWNED: [&str; 9] = [
    "managedFields",
    "resourceVersion",
    "uid",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "selfLink",
    "ownerReferences",
];
/// Fields of the status of a composite resource that are the control plane's own.
const OWN_STATUS: [&str; 3] = ["conditions", "claimConditionTypes", "connectionDetails"];
/// Annotations that tools for KRM functions add and expect to be taken off again.
const KRM_ANNOTATIONS: [&str; 4] = [
    "internal.config.kubernetes.io/",
    "config.kubernetes.io/path",
    "config.kubernetes.io/index",
    "config.k8s.io/id",
];

pub(super) type Item = Map<String, Value>;

/// The composite resource: as it is observed, with the status that earlier steps want.
pub(super) fn composite_item(observed: &Item, desired: Option<&Resource>) -> Item {
    let mut item = observed.clone();
    if let Some(metadata) = item.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
    }
    let wanted = desired.and_then(|desired| desired.resource.as_ref()?.json().ok()?.get("status"));
    if let Some(wanted) = wanted {
        merge(item.entry("status").or_insert_with(|| json!({})), wanted);
    }
    annotate(&mut item, TYPE, COMPOSITE);
    annotate_ready(&mut item, desired.map_or(0, |desired| desired.ready));
    item
}

/// The status that a program wants for the composite resource, from the item that it returned.
pub(super) fn composite_resource(
    mut item: Item,
    earlier: Option<&Resource>,
) -> Result<Option<Resource>, String> {
    let ready = ready_of(&item)?.unwrap_or_else(|| earlier.map_or(0, |earlier| earlier.ready));
    let mut status = match item.remove("status") {
        None | Some(Value::Null) => Map::new(),
        Some(Value::Object(status)) => status,
        Some(_) => return Err("its status is not an object".to_owned()),
    };
    // The control plane writes these itself: a program that returns what it was shown must not want to own them.
    for field in OWN_STATUS {
        status.remove(field);
    }
    // Nothing rather than an empty resource: functions that come later see whether anybody wants a status.
    if status.is_empty() && earlier.is_none() && ready == 0 {
        return Ok(None);
    }
    let mut resource = earlier.cloned().unwrap_or_default();
    let mut object = Map::new();
    for field in ["apiVersion", "kind"] {
        object.extend(item.remove(field).map(|value| (field.to_owned(), value)));
    }
    if !status.is_empty() {
        object.insert("status".to_owned(), Value::Object(status));
    }
    resource.resource = Some(to_struct(object)?);
    resource.ready = ready;
    Ok(Some(resource))
}

/// A composed resource that an earlier step wants, with what is known of the one that exists.
pub(super) fn wanted_item(name: &str, wanted: &Item, ready: i32, observed: Option<&Item>) -> Item {
    let mut item = wanted.clone();
    if let Some(observed) = observed {
        for field in ["name", "namespace"] {
            if let Some(value) = metadata(observed).and_then(|metadata| metadata.get(field)) {
                let own = item.entry("metadata").or_insert_with(|| json!({}));
                if let Some(own) = own.as_object_mut() {
                    // A program needs names to find its resources. What an earlier step chose stays.
                    own.entry(field).or_insert_with(|| value.clone());
                }
            }
        }
        if let Some(status) = observed.get("status") {
            item.entry("status").or_insert_with(|| status.clone());
        }
    }
    name_item(&mut item, name);
    annotate_ready(&mut item, ready);
    item
}

/// A composed resource that exists and that no step desires so far.
pub(super) fn unwanted_item(name: &str, observed: &Item) -> Item {
    let mut item = observed.clone();
    drop_server_owned(&mut item);
    name_item(&mut item, name);
    item
}

/// What a program wants of a composed resource, from the item that it returned. `sent` is the item that it was given, of a resource
/// that an earlier step wanted as `earlier`.
pub(super) fn composed_resource(
    mut item: Item,
    sent: Option<&Item>,
    earlier: Option<&Resource>,
) -> Result<Resource, String> {
    if let (Some(sent), Some(earlier)) = (sent, earlier)
        // Unchanged means unchanged, whatever this mapping would make of it: the first invariant of the exchange.
        && *sent == item
    {
        return Ok(earlier.clone());
    }
    let ready = ready_of(&item)?.unwrap_or_default();
    let before = earlier.and_then(|earlier| earlier.resource.as_ref()?.json().ok());
    // What the program was shown of the one that exists is not what it wants.
    item.remove("status");
    if let Some(status) = before.and_then(|before| before.get("status")) {
        item.insert("status".to_owned(), status.clone());
    }
    drop_server_owned(&mut item);
    drop_shown_names(&mut item, sent, before);
    drop_annotations(&mut item, before);
    let connection_details = earlier.map(|earlier| earlier.connection_details.clone()).unwrap_or_default();
    Ok(Resource { resource: Some(to_struct(item)?), connection_details, ready })
}

/// Names that an earlier step left to the control plane stay left to it, unless the program chose others.
fn drop_shown_names(item: &mut Item, sent: Option<&Item>, before: Option<&Item>) {
    let (Some(sent), Some(before)) = (sent, before) else { return };
    for field in ["name", "namespace"] {
        let of = |object: &Item| metadata(object).and_then(|metadata| metadata.get(field)).cloned();
        // A name that was only shown, and that comes back, is no choice: owned, it could not be generated any more.
        let is_shown = of(before).is_none() && of(sent) == of(item);
        if let Some(metadata) = item.get_mut("metadata").and_then(Value::as_object_mut)
            && is_shown
        {
            metadata.remove(field);
        }
    }
    let is_empty = metadata(item).is_some_and(Map::is_empty);
    if is_empty && metadata(before).is_none() {
        item.remove("metadata");
    }
}

fn drop_annotations(item: &mut Item, before: Option<&Item>) {
    let had_some = before.and_then(metadata).is_some_and(|metadata| metadata.contains_key("annotations"));
    let Some(metadata) = item.get_mut("metadata").and_then(Value::as_object_mut) else { return };
    let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) else { return };
    annotations.retain(|key, _| {
        ![TYPE, NAME, READY].contains(&key.as_str())
            && !KRM_ANNOTATIONS.iter().any(|prefix| key.starts_with(prefix))
    });
    // An empty map that was not there before would be a difference to every earlier apply.
    if annotations.is_empty() && !had_some {
        metadata.remove("annotations");
    }
    if metadata.is_empty() && before.is_some_and(|before| !before.contains_key("metadata")) {
        item.remove("metadata");
    }
}

/// Connection details as a Secret.
pub(super) fn connection_item(name: Option<&str>, details: &BTreeMap<String, Bytes>) -> Item {
    let data: Map<_, _> =
        details.iter().map(|(key, value)| (key.clone(), BASE64_STANDARD.encode(value).into())).collect();
    let mut item = Map::from_iter([
        ("apiVersion".to_owned(), json!("v1")),
        ("kind".to_owned(), json!("Secret")),
        ("data".to_owned(), Value::Object(data)),
    ]);
    annotate(&mut item, TYPE, CONNECTION);
    if let Some(name) = name {
        annotate(&mut item, NAME, name);
    }
    item
}

/// What a Secret holds.
pub(super) fn connection_details(item: &Item) -> Result<BTreeMap<String, Bytes>, String> {
    let mut details = BTreeMap::new();
    // In this order: in Kubernetes, `stringData` wins over `data`.
    for (field, is_encoded) in [("data", true), ("stringData", false)] {
        let entries = match item.get(field) {
            None | Some(Value::Null) => continue,
            Some(entries) => entries.as_object().ok_or_else(|| format!("{field} is not an object"))?,
        };
        for (key, value) in entries {
            let text = value.as_str().ok_or_else(|| format!("{field}[{key}] is not text"))?;
            let bytes = if is_encoded {
                BASE64_STANDARD.decode(text).map_err(|_| format!("{field}[{key}] is not base64"))?
            } else {
                text.as_bytes().to_vec()
            };
            details.insert(key.clone(), bytes.into());
        }
    }
    Ok(details)
}

pub(super) fn annotation<'i>(item: &'i Item, key: &str) -> Option<&'i str> {
    metadata(item)?.get("annotations")?.get(key)?.as_str()
}

/// What an item is called in errors.
pub(super) fn describe(item: &Item) -> String {
    let text = |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or_default().to_owned();
    let (kind, name) =
        (text(item.get("kind")), text(metadata(item).and_then(|metadata| metadata.get("name"))));
    if name.is_empty() { kind } else { format!("{kind} `{name}`") }
}

fn metadata(item: &Item) -> Option<&Item> {
    item.get("metadata")?.as_object()
}

fn name_item(item: &mut Item, name: &str) {
    annotate(item, TYPE, COMPOSED);
    annotate(item, NAME, name);
}

fn annotate(item: &mut Item, key: &str, value: &str) {
    let Some(metadata) = item.entry("metadata").or_insert_with(|| json!({})).as_object_mut() else { return };
    let annotations = metadata.entry("annotations").or_insert_with(|| json!({}));
    // YAML that ends after `annotations:` has a null there.
    if annotations.is_null() {
        *annotations = json!({});
    }
    if let Some(annotations) = annotations.as_object_mut() {
        annotations.insert(key.to_owned(), value.into());
    }
}

fn annotate_ready(item: &mut Item, ready: i32) {
    match Ready::try_from(ready) {
        Ok(Ready::True) => annotate(item, READY, "True"),
        Ok(Ready::False) => annotate(item, READY, "False"),
        _ => {}
    }
}

fn ready_of(item: &Item) -> Result<Option<i32>, String> {
    match annotation(item, READY) {
        None => Ok(None),
        Some("True") => Ok(Some(Ready::True.into())),
        Some("False") => Ok(Some(Ready::False.into())),
        Some(other) => Err(format!("annotation `{READY}`: expected `True` or `False`, got `{other}`")),
    }
}

fn drop_server_owned(item: &mut Item) {
    if let Some(metadata) = item.get_mut("metadata").and_then(Value::as_object_mut) {
        for field in SERVER_OWNED {
            metadata.remove(field);
        }
    }
}

fn merge(into: &mut Value, from: &Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (key, value) in from {
                merge(into.entry(key.clone()).or_insert(Value::Null), value);
            }
        }
        (into, from) => into.clone_from(from),
    }
}

fn to_struct(object: Item) -> Result<Struct, String> {
    Struct::try_from(object).map_err(|error| error.to_string())
}
