//! Decides which package owns the objects in packages, and how they are written.
//!
//! # Invariants
//! * One revision controls an object. It never takes one from another package; it does take one from another revision of its own package,
//!   which it replaces.
//! * The package owns the objects of all of its revisions, so that none is deleted with a revision: a definition that a newer version
//!   left out would be deleted with all objects of its kind.
//! * An inactive revision never creates anything.

use std::collections::{BTreeMap, BTreeSet};

use ferroplane_api::{Object, meta};
use serde_json::{Value, json};

use super::managed_kinds::{activate_kind, is_active_kind};

/// The package and the revision that own objects.
#[derive(Debug, Clone, Copy)]
pub struct Party<'a> {
    pub package: &'a Object,
    pub revision: &'a Object,
    /// The uids of the other revisions of the package.
    pub siblings: &'a BTreeSet<String>,
}

/// How objects are established.
#[derive(Debug, Clone, Copy)]
pub struct Establishing<'a> {
    pub party: Party<'a>,
    /// Whether the revision controls them.
    pub control: bool,
    /// Labels that every object gets, whatever the package says.
    pub common_labels: &'a BTreeMap<String, String>,
    pub common_annotations: &'a BTreeMap<String, String>,
}

/// An object that something else controls.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{kind} `{name}` is already controlled by {owner_kind} `{owner}` (UID {uid})")]
pub struct AlreadyControlled {
    pub kind: String,
    pub name: String,
    pub owner_kind: String,
    pub owner: String,
    pub uid: String,
}

/// The object to write. None if nothing is to change.
pub fn establish(
    wanted: &Object,
    live: Option<&Object>,
    how: &Establishing<'_>,
) -> Result<Option<Object>, AlreadyControlled> {
    let Some(live) = live else {
        return Ok(how.control.then(|| {
            let mut object = labelled(wanted, how);
            set_owners(&mut object, Vec::new(), how);
            object
        }));
    };
    // Also without control: owners of a kind gain rights on it.
    if let Some(foreign) = foreign_controller(live, how.party) {
        return Err(foreign);
    }
    if !how.control {
        // Only adds an owner: the controlling revision decides about the content.
        let mut object = live.clone();
        set_owners(&mut object, owners(live), how);
        return Ok((object != *live).then_some(object));
    }
    let is_ours = meta::controller_uid(live) == Some(meta::uid(how.party.revision));
    let mut object = merged(&labelled(wanted, how), live);
    set_owners(&mut object, owners(live), how);
    // An object that this revision has written is left as it is. After another revision everything is written:
    // fields that only the other one had cannot be recognised.
    let is_so = is_ours && contains(&Value::Object(live.clone()), &Value::Object(object.clone()));
    Ok((!is_so).then_some(object))
}

/// The object without this revision as its controller. None if it is not the controller.
pub fn release(live: &Object, party: Party<'_>) -> Option<Object> {
    let mut object = live.clone();
    let mut owners = owners(live);
    set_owner(&mut owners, party.revision, false);
    meta::child(&mut object, "metadata").insert("ownerReferences".to_owned(), Value::Array(owners));
    (object != *live).then_some(object)
}

pub(super) fn labelled(wanted: &Object, how: &Establishing<'_>) -> Object {
    let mut object = wanted.clone();
    for (key, value) in how.common_labels {
        meta::set_label(&mut object, key, value);
    }
    for (key, value) in how.common_annotations {
        meta::set_annotation(&mut object, key, value);
    }
    object
}

/// The object to write over a live one: that of the package, with the metadata that others added.
fn merged(wanted: &Object, live: &Object) -> Object {
    let mut object = wanted.clone();
    if let Some(status) = live.get("status") {
        object.insert("status".to_owned(), status.clone());
    }
    // A policy activated it, and an active definition stays active.
    if meta::kind(live) == "ManagedResourceDefinition" && is_active_kind(live) {
        object = activate_kind(&object);
    }
    let wanted = meta::child(&mut object, "metadata").clone();
    let mut metadata = live.get("metadata").and_then(Value::as_object).cloned().unwrap_or_default();
    for field in ["labels", "annotations"] {
        if let Some(Value::Object(entries)) = wanted.get(field) {
            let mut present = metadata.get(field).and_then(Value::as_object).cloned().unwrap_or_default();
            present.extend(entries.clone());
            metadata.insert(field.to_owned(), Value::Object(present));
        }
    }
    object.insert("metadata".to_owned(), Value::Object(metadata));
    object
}

pub(super) fn foreign_controller(live: &Object, party: Party<'_>) -> Option<AlreadyControlled> {
    let uid = meta::controller_uid(live)?;
    if uid == meta::uid(party.revision) || party.siblings.contains(uid) {
        return None;
    }
    let owner = meta::controller(live);
    let text =
        |field: &str| owner.and_then(|owner| owner.get(field)?.as_str()).unwrap_or_default().to_owned();
    Some(AlreadyControlled {
        kind: meta::kind(live).to_owned(),
        name: meta::name(live).to_owned(),
        owner_kind: text("kind"),
        owner: text("name"),
        uid: uid.to_owned(),
    })
}

pub(super) fn owners(object: &Object) -> Vec<Value> {
    let owners = object.get("metadata").and_then(|metadata| metadata.get("ownerReferences")?.as_array());
    owners.cloned().unwrap_or_default()
}

fn set_owners(object: &mut Object, mut owners: Vec<Value>, how: &Establishing<'_>) {
    if how.control {
        for owner in &mut owners {
            // A sibling that was replaced before it released the object. An API server refuses two controllers.
            let uid = owner.get("uid").and_then(Value::as_str).unwrap_or_default();
            if how.party.siblings.contains(uid) {
                owner["controller"] = json!(false);
            }
        }
    }
    set_owner(&mut owners, how.party.revision, how.control);
    if !owners.iter().any(|owner| is_reference_to(owner, how.party.package)) {
        set_owner(&mut owners, how.party.package, false);
    }
    meta::child(object, "metadata").insert("ownerReferences".to_owned(), Value::Array(owners));
}

pub(super) fn set_owner(owners: &mut Vec<Value>, owner: &Object, control: bool) {
    let reference = json!({
        "apiVersion": meta::api_version(owner), "kind": meta::kind(owner), "name": meta::name(owner),
        "uid": meta::uid(owner), "controller": control, "blockOwnerDeletion": true,
    });
    match owners.iter_mut().find(|present| is_reference_to(present, owner)) {
        Some(present) if !control => present["controller"] = json!(false),
        Some(present) => *present = reference,
        None => owners.push(reference),
    }
}

pub(super) fn is_reference_to(reference: &Value, owner: &Object) -> bool {
    reference.get("uid").and_then(Value::as_str) == Some(meta::uid(owner))
}

/// Whether `live` contains everything in `wanted`. An API server adds defaults.
pub(super) fn contains(live: &Value, wanted: &Value) -> bool {
    match (live, wanted) {
        (Value::Object(live), Value::Object(wanted)) => wanted
            .iter()
            .all(|(key, value)| value.is_null() || live.get(key).is_some_and(|live| contains(live, value))),
        (Value::Array(live), Value::Array(wanted)) => {
            live.len() == wanted.len() && live.iter().zip(wanted).all(|(live, wanted)| contains(live, wanted))
        }
        _ => live == wanted,
    }
}

#[cfg(test)]
mod tests;
