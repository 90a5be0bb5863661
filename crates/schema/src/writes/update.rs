//! An object that replaces a stored one.
//!
//! Follows k8s.io/apiserver 0.36.4, `pkg/registry/rest/update.go`, `pkg/endpoints/handlers/update.go`.

use ferroplane_golang::json::JsonObject;
use ferroplane_golang::strconv;
use ferroplane_ownership as ownership;
use serde_json::Value;

use super::body::{Body, decode};
use super::create::{invalid, note_owners};
use super::{Circumstances, Endpoint, Part, Proposal, Written, metadata_mut, metadata_text, owners, stored};
use crate::field::{Error, Path};
use crate::meta::{self, NameRule, Preconditions};
use crate::status::Status;

pub(super) fn propose(
    endpoint: &Endpoint<'_>,
    body: Body<'_>,
    live: Option<&Value>,
    circumstances: &Circumstances<'_>,
) -> Result<Proposal, Status> {
    let decoded = decode(endpoint, body, circumstances)?;
    let mut proposal = Proposal { object: decoded.object, warnings: decoded.warnings, is_applied: false };
    let live = live.and_then(Value::as_object);
    // Before owners are noted: a write that is refused must not be worked out in vain.
    fits(endpoint, &mut proposal, live).map_err(|status| status.warned(proposal.warnings.clone()))?;
    note_owners(endpoint, &mut proposal.object, live, circumstances);
    Ok(proposal)
}

/// Whether a proposal is for the object that the path names, which is there.
fn fits(endpoint: &Endpoint<'_>, proposal: &mut Proposal, live: Option<&JsonObject>) -> Result<(), Status> {
    belongs_here(endpoint, &mut proposal.object)?;
    owners::deduplicate(proposal, false);
    match live {
        // Not through a part: a service that was created by its status would have addresses that were not allocated.
        None if endpoint.part == Part::Whole && endpoint.behaviour.allows_create_on_update() => Ok(()),
        None => Err(Status::not_found(endpoint.resource, endpoint.name)),
        Some(live) => is_meant_for(endpoint, &proposal.object, live),
    }
}

/// Whether an object has the name and the namespace of the path. No namespace means that one.
pub(super) fn belongs_here(endpoint: &Endpoint<'_>, object: &mut JsonObject) -> Result<(), Status> {
    meta::match_namespace(metadata_mut(object), endpoint.namespace)?;
    let name = metadata_text(object, "name");
    if name == endpoint.name {
        return Ok(());
    }
    let words = if name.is_empty() {
        format!(
            "the name of the object ({} based on URL) was undeterminable: name must be provided",
            endpoint.name
        )
    } else {
        format!("the name of the object ({name}) does not match the name on the URL ({})", endpoint.name)
    };
    Err(Status::bad_request(&words))
}

/// An update that names another identifier is meant for an object that no longer exists.
fn is_meant_for(endpoint: &Endpoint<'_>, new: &JsonObject, live: &JsonObject) -> Result<(), Status> {
    let (Some(Value::Object(new)), Some(Value::Object(live))) = (new.get("metadata"), live.get("metadata"))
    else {
        return Ok(());
    };
    Preconditions::of_update(new).check(live, endpoint.resource, &storage_key(endpoint))
}

/// Where a server with etcd would keep the object, below its prefix. Errors tell it.
fn storage_key(endpoint: &Endpoint<'_>) -> String {
    let Endpoint { resource, namespace, name, .. } = endpoint;
    let parts = [resource.group.as_str(), resource.name.as_str(), namespace, name];
    let parts = parts.into_iter().filter(|part| !part.is_empty());
    format!("/{}", parts.collect::<Vec<_>>().join("/"))
}

pub(super) fn settle(endpoint: &Endpoint<'_>, proposal: Proposal, live: &Value) -> Result<Written, Status> {
    let Proposal { object, mut warnings, is_applied } = proposal;
    match finished(endpoint, object, live, &mut warnings) {
        Ok(mut object) => {
            stored::read_back(endpoint, &mut object, is_applied);
            if let Some(old) = live.as_object() {
                // After the object is in its stored form, with which `old` is compared.
                ownership::keep_times(old, &mut object);
            }
            let changes_nothing = Some(&object) == live.as_object();
            Ok(Written { object, warnings, is_created: false, changes_nothing })
        }
        Err(status) => Err(status.warned(warnings)),
    }
}

fn finished(
    endpoint: &Endpoint<'_>,
    mut object: JsonObject,
    live: &Value,
    warnings: &mut Vec<String>,
) -> Result<JsonObject, Status> {
    let Some(old) = live.as_object() else {
        return Err(Status::internal("the stored object is not a JSON object"));
    };
    // The version first, then everything that compares with the old object: against another one it would mean
    // nothing.
    is_of_newest(endpoint, &mut object, old)?;
    prepare(endpoint, &mut object, old)?;
    let value = Value::Object(object);
    let errors = check(endpoint, &value, live);
    let Value::Object(object) = value else { unreachable!("it was made an object just now") };
    if !errors.is_empty() {
        return Err(invalid(&object, &errors));
    }
    warnings.extend(endpoint.behaviour.warnings(&object, Some(old)));
    Ok(object)
}

/// Whether the update was made with the stored object in view.
fn is_of_newest(endpoint: &Endpoint<'_>, object: &mut JsonObject, old: &JsonObject) -> Result<(), Status> {
    let newest = metadata_text(old, "resourceVersion");
    match metadata_text(object, "resourceVersion") {
        // Zero means "none" to Kubernetes, which keeps versions as numbers internally.
        "" | "0" if endpoint.behaviour.allows_unconditional_update() => {
            metadata_mut(object).insert("resourceVersion".to_owned(), newest.into());
            Ok(())
        }
        "" | "0" => Err(meta::resource_version_required(endpoint.resource, endpoint.name)),
        version if version.parse::<u64>().is_err() => Err(not_a_version(version)),
        version if version == newest => Ok(()),
        _ => Err(Status::modified(endpoint.resource, endpoint.name)),
    }
}

pub(super) fn not_a_version(version: &str) -> Status {
    Status::unexpected(&format!("strconv.ParseUint: parsing {}: invalid syntax", strconv::quote(version)))
}

/// Keeps what no client may change.
fn prepare(endpoint: &Endpoint<'_>, object: &mut JsonObject, old: &JsonObject) -> Result<(), Status> {
    let metadata = metadata_mut(object);
    meta::match_namespace(metadata, endpoint.namespace)?;
    let empty = JsonObject::new();
    let old_metadata = old.get("metadata").and_then(Value::as_object).unwrap_or(&empty);
    meta::keep_system_fields(metadata, old_metadata);
    endpoint.behaviour.prepare_update(endpoint.part, object, old);
    Ok(())
}

fn check(endpoint: &Endpoint<'_>, object: &Value, live: &Value) -> Vec<Error> {
    let mut errors = Vec::new();
    if let (Some(Value::Object(new)), Some(Value::Object(old))) =
        (object.get("metadata"), live.get("metadata"))
    {
        let path = Path::new("metadata");
        let is_namespaced = endpoint.behaviour.is_namespaced();
        // The laxest rule: the name was judged when the object was created, and must stay updatable if rules
        // get stricter.
        errors.extend(meta::validate(new, is_namespaced, NameRule::PathSegment, &path));
        errors.extend(meta::validate_update(new, old, &path));
    }
    errors.extend(endpoint.behaviour.check_update(endpoint.part, object, live));
    errors
}
