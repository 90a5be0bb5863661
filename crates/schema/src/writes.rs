//! What a write does to one object: a request and the stored object in, the new object or a refusal out.
//!
//! Two steps, because mutating webhooks come in between: [`propose`] reads the request, merges it into the stored
//! object and notes the owners; [`settle`] fills in what the server sets, keeps immutable fields, and validates.
//!
//! There is no clock, no randomness and no storage: what they would give is part of the [`Circumstances`]. How kinds
//! differ is said by their [`Behaviour`].
//!
//! Follows k8s.io/apiserver 0.36.4, `pkg/registry/generic/registry/store.go`.
//!
//! # Invariants
//! * A write that changes nothing says so ([`Written::changes_nothing`]), and its object is equal to the stored one.
//! * Nothing is taken from a request that the server must set itself.

mod behaviour;
mod body;
mod builtin;
mod create;
mod custom;
mod owners;
mod patched;
mod stored;
mod update;

use ferroplane_golang::json::JsonObject;
use ferroplane_ownership::Convert;
use serde_json::{Map, Value};

use crate::status::{Resource, Status};
use crate::structural::strict_json::FieldValidation;

pub use behaviour::{Behaviour, Part};
pub use body::{Body, shown};
pub use builtin::Builtin;
pub use create::already_exists;
pub use custom::Custom;

/// Where a write goes.
#[derive(Debug, Clone, Copy)]
pub struct Endpoint<'e> {
    pub behaviour: &'e dyn Behaviour,
    /// The resource as it stands in paths.
    pub resource: &'e Resource,
    pub part: Part,
    /// Empty for objects outside of namespaces.
    pub namespace: &'e str,
    /// Empty if the path names no object.
    pub name: &'e str,
}

/// What the request and the moment add to a write.
#[derive(Debug, Clone, Copy)]
pub struct Circumstances<'c> {
    pub manager: &'c str,
    /// In RFC 3339, UTC, to the second.
    pub time: &'c str,
    /// For an object that is created.
    pub uid: &'c str,
    /// The end of a generated name.
    pub random: &'c str,
    pub field_validation: FieldValidation,
    /// Who knows what objects are in other versions, if the kind itself does not.
    pub converter: Option<&'c dyn Convert>,
}

/// What is asked for.
#[derive(Debug, Clone)]
pub enum Write<'w> {
    Create(Body<'w>),
    Update(Body<'w>),
    JsonPatch(&'w str),
    MergePatch(&'w str),
    StrategicPatch(&'w str),
    Apply { configuration: Body<'w>, is_forced: bool },
}

/// An object as a request wants it, with its owners.
#[derive(Debug, Clone)]
pub struct Proposal {
    pub object: JsonObject,
    pub warnings: Vec<String>,
    /// Whether it came of a configuration.
    is_applied: bool,
}

impl Proposal {
    /// An object that was worked out in some other way, for example through its scale.
    pub fn of(object: JsonObject, warnings: Vec<String>) -> Self {
        Self { object, warnings, is_applied: false }
    }
}

/// What a write comes to.
#[derive(Debug, Clone)]
pub struct Written {
    pub object: JsonObject,
    pub warnings: Vec<String>,
    pub is_created: bool,
    pub changes_nothing: bool,
}

impl Written {
    /// Whether the last thing that kept the object from being deleted is gone.
    pub fn ends_deletion(&self) -> bool {
        let metadata = self.object.get("metadata").and_then(Value::as_object);
        // A namespace has finalizers in its spec besides, which only the namespace controller removes.
        if holds_content(&self.object) {
            return false;
        }
        // A client may apply an object that claims to be deleted.
        !self.is_created
            && metadata.is_some_and(|metadata| {
                let is_empty =
                    |value: Option<&Value>| value.and_then(Value::as_array).is_none_or(Vec::is_empty);
                let grace =
                    metadata.get("deletionGracePeriodSeconds").and_then(Value::as_i64).unwrap_or_default();
                metadata.get("deletionTimestamp").is_some_and(|time| !time.is_null())
                    && grace == 0
                    && is_empty(metadata.get("finalizers"))
            })
    }
}

/// Reads a write and merges it into the stored object, which is in the version of the request and has its defaults.
pub fn propose(
    endpoint: &Endpoint<'_>,
    write: Write<'_>,
    live: Option<&Value>,
    circumstances: &Circumstances<'_>,
) -> Result<Proposal, Status> {
    match write {
        Write::Create(body) => create::propose(endpoint, body, circumstances),
        Write::Update(body) => update::propose(endpoint, body, live, circumstances),
        Write::JsonPatch(patch) => patched::by_json_patch(endpoint, patch, live, circumstances),
        Write::MergePatch(patch) => patched::by_merge_patch(endpoint, patch, live, circumstances),
        Write::StrategicPatch(patch) => patched::by_strategic_patch(endpoint, patch, live, circumstances),
        Write::Apply { configuration, is_forced } => {
            patched::by_configuration(endpoint, configuration, is_forced, live, circumstances)
        }
    }
}

/// Makes a proposal ready to be stored: what the server sets is set, and everything is valid.
pub fn settle(
    endpoint: &Endpoint<'_>,
    mut proposal: Proposal,
    live: Option<&Value>,
    circumstances: &Circumstances<'_>,
) -> Result<Written, Status> {
    let is_after_admission = true;
    // Again, because a webhook may have added owners; the warning says so then.
    owners::deduplicate(&mut proposal, is_after_admission);
    match live {
        None => create::settle(endpoint, proposal, circumstances),
        Some(live) => update::settle(endpoint, proposal, live),
    }
}

/// Whether the object is a namespace with something in it.
fn holds_content(object: &JsonObject) -> bool {
    let is = |name: &str, text: &str| object.get(name).is_some_and(|value| value == text);
    let finalizers = object.get("spec").and_then(|spec| spec.get("finalizers")).and_then(Value::as_array);
    is("apiVersion", "v1") && is("kind", "Namespace") && finalizers.is_some_and(|held| !held.is_empty())
}

/// The metadata, which is made if there is none.
fn metadata_mut(object: &mut JsonObject) -> &mut JsonObject {
    let metadata = object.entry("metadata").or_insert_with(|| Value::Object(Map::new()));
    if !metadata.is_object() {
        *metadata = Value::Object(Map::new());
    }
    metadata.as_object_mut().expect("it was made an object just now")
}

/// A text in the metadata, or nothing.
fn metadata_text<'o>(object: &'o JsonObject, name: &str) -> &'o str {
    object.get("metadata").and_then(|metadata| metadata.get(name)).and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests;
