//! A composed resource that changes its kind is replaced: the old object is deleted, the new one gets a name of
//! its own. Crossplane gives the new one the name of the old one, and forgets the old one.

use serde_json::{Map, Value};

use super::{Views, items};
use crate::case::list;

pub(super) fn changed(views: &mut Views<'_>) -> bool {
    let mut is_found = false;
    for old in views.case.observed() {
        let key = old["metadata"]["annotations"]["crossplane.io/composition-resource-name"]
            .as_str()
            .unwrap_or_default();
        let place = format!("/output/composedResources/{}", key.replace('~', "~0").replace('/', "~1"));
        let (Some(our_new), Some(their_new)) = (views.ours.pointer(&place), views.theirs.pointer(&place))
        else {
            continue;
        };
        let is_kept =
            ["name", "namespace"].iter().all(|field| their_new["metadata"][field] == old["metadata"][field]);
        if group_kind(old) == group_kind(their_new) || !is_kept {
            continue;
        }
        let (our_new, their_new) = (our_new.clone(), their_new.clone());
        if our_new["metadata"]["name"] == old["metadata"]["name"] || !forget_deletion(&mut views.ours, old) {
            continue;
        }
        forget_warning(&mut views.ours, key);
        if let Some(object) = views.theirs.pointer_mut(&place) {
            take_name(object, &our_new);
        }
        refer_alike(&mut views.theirs, &their_new, &our_new);
        is_found = true;
    }
    is_found
}

fn group_kind(object: &Value) -> (&str, &Value) {
    let version = object["apiVersion"].as_str().unwrap_or_default();
    (version.rsplit_once('/').map_or("", |(group, _)| group), &object["kind"])
}

/// The old object is deleted if, and only if, it is proven to be the composite resource's own.
fn forget_deletion(ours: &mut Value, old: &Value) -> bool {
    let is_own = list(&old["metadata"]["ownerReferences"]).iter().any(|owner| owner["controller"] == true);
    let deleted = ours.pointer_mut("/output/deletedResources").and_then(Value::as_array_mut);
    let Some(deleted) = deleted else { return false };
    let before = deleted.len();
    deleted.retain(|object| {
        group_kind(object) != group_kind(old) || object["metadata"]["name"] != old["metadata"]["name"]
    });
    is_own == (deleted.len() < before)
}

/// The new object is not where the old one was, which may be worth a warning.
fn forget_warning(ours: &mut Value, key: &str) {
    let about = format!("composed resource {key:?} in namespace ");
    if let Some(events) = ours.pointer_mut("/output/events").and_then(Value::as_array_mut) {
        events.retain(|event| {
            event["reason"] != "NamespaceOverridden"
                || !event["message"].as_str().unwrap_or_default().contains(&about)
        });
    }
}

fn take_name(object: &mut Value, other: &Value) {
    let Some(metadata) = object["metadata"].as_object_mut() else { return };
    for field in ["name", "namespace", "generateName"] {
        metadata.remove(field);
        if let Some(value) = other["metadata"].get(field) {
            metadata.insert(field.to_owned(), value.clone());
        }
    }
}

/// Let the reference to their object be one to ours, in its place.
fn refer_alike(theirs: &mut Value, their_object: &Value, our_object: &Value) {
    for machinery in ["/output/compositeResource/spec/crossplane", "/output/compositeResource/spec"] {
        let is_namespaced = theirs.pointer("/output/compositeResource/metadata/namespace").is_some();
        let (before, after) = (reference(their_object, is_namespaced), reference(our_object, is_namespaced));
        for present in
            items(theirs, &format!("{machinery}/resourceRefs")).filter(|present| **present == before)
        {
            *present = after.clone();
        }
        let references =
            theirs.pointer_mut(&format!("{machinery}/resourceRefs")).and_then(Value::as_array_mut);
        if let Some(references) = references {
            references.sort_by_cached_key(|reference| {
                ["apiVersion", "kind", "name", "namespace"]
                    .map(|field| reference[field].as_str().unwrap_or_default())
                    .concat()
            });
        }
    }
}

fn reference(object: &Value, is_namespaced: bool) -> Value {
    let mut reference = Map::new();
    for field in ["apiVersion", "kind"] {
        reference.insert(field.to_owned(), object[field].clone());
    }
    let fields: &[_] = if is_namespaced { &["name"] } else { &["name", "namespace"] };
    for field in fields {
        if let Some(value) = object["metadata"].get(field).filter(|value| **value != "") {
            reference.insert((*field).to_owned(), value.clone());
        }
    }
    Value::Object(reference)
}
