//! A new object.
//!
//! Follows k8s.io/apiserver 0.36.4, `pkg/registry/rest/create.go`, `pkg/endpoints/handlers/create.go`.

use ferroplane_golang::json::JsonObject;
use ferroplane_ownership as ownership;
use serde_json::Value;

use super::body::{Body, decode};
use super::update::not_a_version;
use super::{Circumstances, Endpoint, Proposal, Written, metadata_mut, metadata_text, owners, stored};
use crate::field::{Error, Path};
use crate::meta::{self, NameRule};
use crate::status::{Resource, Status};

pub(super) fn propose(
    endpoint: &Endpoint<'_>,
    body: Body<'_>,
    circumstances: &Circumstances<'_>,
) -> Result<Proposal, Status> {
    let decoded = decode(endpoint, body, circumstances)?;
    let mut proposal = Proposal { object: decoded.object, warnings: decoded.warnings, is_applied: false };
    let metadata = metadata_mut(&mut proposal.object);
    // Before owners are noted, or a client would come to own a creation time that it invented.
    meta::clear_system_fields(metadata);
    meta::match_namespace(metadata, endpoint.namespace)
        .map_err(|status| status.warned(proposal.warnings.clone()))?;
    owners::deduplicate(&mut proposal, false);
    note_owners(endpoint, &mut proposal.object, None, circumstances);
    Ok(proposal)
}

/// The refusal of a new object because another has its name.
pub fn already_exists(resource: &Resource, new: &JsonObject, live: &JsonObject) -> Status {
    let name = metadata_text(new, "name");
    let status = if metadata_text(new, "generateName").is_empty() {
        Status::already_exists(resource, name)
    } else {
        Status::generated_name_exists(resource, name, 1)
    };
    if metadata_text(live, "deletionTimestamp").is_empty() {
        return status;
    }
    Status { message: format!("object is being deleted: {}", status.message), ..status }
}

/// Notes who set what. What keeps this from being done is no reason to refuse a write.
pub(super) fn note_owners(
    endpoint: &Endpoint<'_>,
    object: &mut JsonObject,
    live: Option<&JsonObject>,
    circumstances: &Circumstances<'_>,
) {
    let request = ownership_request(endpoint, circumstances);
    // Fields that every object of the kind has from the start have no owner.
    let live = live.or_else(|| endpoint.behaviour.blank());
    let new = std::mem::take(object);
    *object = ownership::update(live, new, endpoint.behaviour.ownership(), &request).object;
}

pub(super) fn ownership_request<'r>(
    endpoint: &Endpoint<'r>,
    circumstances: &Circumstances<'r>,
) -> ownership::Request<'r> {
    ownership::Request {
        manager: circumstances.manager,
        api_version: endpoint.behaviour.api_version(),
        subresource: endpoint.part.subresource(),
        time: circumstances.time,
        reset_fields: endpoint.behaviour.reset_fields(endpoint.part),
        converter: circumstances.converter.or_else(|| endpoint.behaviour.converter()),
    }
}

pub(super) fn settle(
    endpoint: &Endpoint<'_>,
    proposal: Proposal,
    circumstances: &Circumstances<'_>,
) -> Result<Written, Status> {
    let Proposal { object, mut warnings, is_applied } = proposal;
    let has_version = if is_applied { is_version(&object) } else { Ok(()) };
    let finished = has_version.and_then(|()| finished(endpoint, object, circumstances, &mut warnings));
    match finished.and_then(|object| stored(endpoint, object, is_applied)) {
        Ok(object) => Ok(Written { object, warnings, is_created: true, changes_nothing: false }),
        Err(status) => Err(status.warned(warnings)),
    }
}

fn finished(
    endpoint: &Endpoint<'_>,
    mut object: JsonObject,
    circumstances: &Circumstances<'_>,
    warnings: &mut Vec<String>,
) -> Result<JsonObject, Status> {
    let behaviour = endpoint.behaviour;
    fill_in(metadata_mut(&mut object), circumstances);
    meta::match_namespace(metadata_mut(&mut object), endpoint.namespace)?;
    // After names and namespace were filled in, which it may check, and before validation, which needs what
    // it sets.
    behaviour.prepare_create(&mut object);
    let object = validated(endpoint, object)?;
    warnings.extend(behaviour.warnings(&object, None));
    Ok(object)
}

/// Only updates look at a version before anything else, and a configuration is one even if there is nothing to update.
fn is_version(object: &JsonObject) -> Result<(), Status> {
    let version = metadata_text(object, "resourceVersion");
    if version.is_empty() || version.parse::<u64>().is_ok() { Ok(()) } else { Err(not_a_version(version)) }
}

/// A new object has no version yet. Who says that it has one is wrong, which is noticed in some ways and not in others.
fn stored(endpoint: &Endpoint<'_>, mut object: JsonObject, is_applied: bool) -> Result<JsonObject, Status> {
    let version = metadata_text(&object, "resourceVersion").parse::<u64>();
    // An update that creates has a name to create, and is not asked.
    let is_posted = !is_applied && endpoint.name.is_empty();
    if is_posted && version.is_ok_and(|version| version > 0) {
        return Err(Status::unexpected("resourceVersion should not be set on objects to be created"));
    }
    let metadata = metadata_mut(&mut object);
    metadata.remove("resourceVersion");
    metadata.remove("selfLink");
    stored::read_back(endpoint, &mut object, is_applied);
    Ok(object)
}

/// What the server gives every new object.
fn fill_in(metadata: &mut JsonObject, circumstances: &Circumstances<'_>) {
    metadata.insert("uid".to_owned(), circumstances.uid.into());
    metadata.insert("creationTimestamp".to_owned(), circumstances.time.into());
    let text = |name: &str| metadata.get(name).and_then(Value::as_str).unwrap_or_default();
    let prefix = text("generateName");
    if text("name").is_empty() && !prefix.is_empty() {
        let name = meta::generate_name(prefix, circumstances.random);
        metadata.insert("name".to_owned(), name.into());
    }
}

fn validated(endpoint: &Endpoint<'_>, object: JsonObject) -> Result<JsonObject, Status> {
    let behaviour = endpoint.behaviour;
    let value = Value::Object(object);
    let mut errors = behaviour.check_create(&value);
    let Value::Object(object) = value else { unreachable!("it was made an object just now") };
    if errors.is_empty()
        && let Some(Value::Object(metadata)) = object.get("metadata")
    {
        let path = Path::new("metadata");
        errors = meta::validate(metadata, behaviour.is_namespaced(), NameRule::PathSegment, &path);
    }
    if errors.is_empty() {
        return Ok(object);
    }
    Err(invalid(&object, &errors))
}

/// The refusal of an object, with its own name.
pub(super) fn invalid(object: &JsonObject, errors: &[Error]) -> Status {
    let text = |name: &str| object.get(name).and_then(Value::as_str).unwrap_or_default();
    let group = text("apiVersion").rsplit_once('/').map_or("", |(group, _)| group);
    Status::invalid(&Resource::new(group, text("kind")), metadata_text(object, "name"), errors)
}
