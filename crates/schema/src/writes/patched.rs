//! Patches, and configurations that are applied.
//!
//! Follows k8s.io/apiserver 0.36.4, `pkg/endpoints/handlers/patch.go`.

use ferroplane_golang::json;
use ferroplane_golang::json::JsonObject;
use ferroplane_ownership::{self as ownership, ApplyError};
use serde_json::Value;

use super::body::Body;
use super::create::{note_owners, ownership_request};
use super::update::belongs_here;
use super::{Circumstances, Endpoint, Part, Proposal, metadata_text, stored};
use crate::field::{Error, Path};
use crate::patch;
use crate::status::{Cause, Resource, Status};
use crate::structural::strict_json::{self, FieldValidation, strict_error, unknown_field};

pub(super) fn by_json_patch(
    endpoint: &Endpoint<'_>,
    text: &str,
    live: Option<&Value>,
    circumstances: &Circumstances<'_>,
) -> Result<Proposal, Status> {
    let live = existing(endpoint, live)?;
    let patch: Value = serde_json::from_str(text).map_err(|error| Status::bad_request(&error.to_string()))?;
    let complaints = match circumstances.field_validation {
        FieldValidation::Ignore => Vec::new(),
        _ => patch::json::Patch::check(&patch).map_err(|error| error.to_status())?,
    };
    let patch = patch::json::Patch::decode(patch).map_err(|error| error.to_status())?;
    let patched = || patch.clone().apply(Value::Object(live.clone()));
    finish(endpoint, &patched, complaints, live, circumstances)
}

pub(super) fn by_merge_patch(
    endpoint: &Endpoint<'_>,
    text: &str,
    live: Option<&Value>,
    circumstances: &Circumstances<'_>,
) -> Result<Proposal, Status> {
    let live = existing(endpoint, live)?;
    let (patch, complaints) = read(text, circumstances, "error decoding patch: ")?;
    let patched = || {
        let mut patched = live.clone();
        patch::merge::apply(&mut patched, patch.clone())?;
        Ok(Value::Object(patched))
    };
    finish(endpoint, &patched, complaints, live, circumstances)
}

pub(super) fn by_strategic_patch(
    endpoint: &Endpoint<'_>,
    text: &str,
    live: Option<&Value>,
    circumstances: &Circumstances<'_>,
) -> Result<Proposal, Status> {
    let live = existing(endpoint, live)?;
    let Some(kind) = endpoint.behaviour.strategy() else {
        return Err(Status::unsupported_media_type("strategic merge patches are for built-in kinds only"));
    };
    let (patch, complaints) = read(text, circumstances, "")?;
    let Value::Object(patch) = patch else {
        return Err(Status::bad_request("the patch is not an object"));
    };
    let patched = || {
        let mut patched = live.clone();
        patch::strategic::apply(&mut patched, patch.clone(), kind)?;
        Ok(Value::Object(patched))
    };
    finish(endpoint, &patched, complaints, live, circumstances)
}

fn existing<'l>(endpoint: &Endpoint<'_>, live: Option<&'l Value>) -> Result<&'l JsonObject, Status> {
    live.and_then(Value::as_object).ok_or_else(|| Status::not_found(endpoint.resource, endpoint.name))
}

/// Reads a patch, and what is odd about it if that matters.
fn read(
    text: &str,
    circumstances: &Circumstances<'_>,
    context: &str,
) -> Result<(Value, Vec<String>), Status> {
    let (value, duplicates) =
        strict_json::read(text).map_err(|error| Status::bad_request(&format!("{context}{error}")))?;
    let is_fitting = value.is_object() || value.is_null();
    let complaints = match circumstances.field_validation {
        FieldValidation::Ignore => Vec::new(),
        _ if !is_fitting => {
            let kind = patch::json::describe(&value);
            let words = format!(
                "{context}json: cannot unmarshal {kind} into Go value of type map[string]interface {{}}"
            );
            return Err(Status::bad_request(&words));
        }
        _ => duplicates.iter().map(|path| strict_json::duplicate_field(path)).collect(),
    };
    Ok((value, complaints))
}

/// Makes an object of what a patch leaves, and notes who changed what.
fn finish(
    endpoint: &Endpoint<'_>,
    patched: &dyn Fn() -> Result<Value, patch::Error>,
    mut complaints: Vec<String>,
    live: &JsonObject,
    circumstances: &Circumstances<'_>,
) -> Result<Proposal, Status> {
    // Errors show the object as the patch left it. They are rare, so that it is made again rather than copied before.
    let shown = |why: String| {
        let text = patched().map(|patched| json::marshal(&patched)).unwrap_or_default();
        let error = Error::invalid(&Path::new("patch"), text.as_str(), why);
        Status::invalid(&Resource::default(), "", &[error])
    };
    let Value::Object(mut object) = patched().map_err(|error| error.to_status())? else {
        return Err(shown("it is not an object".to_owned()));
    };
    let unknown = endpoint.behaviour.normalise(&mut object).map_err(shown)?;
    complaints.extend(unknown.iter().map(|path| unknown_field(path)));
    let warnings = match circumstances.field_validation {
        FieldValidation::Ignore => Vec::new(),
        FieldValidation::Warn => complaints,
        FieldValidation::Strict if complaints.is_empty() => complaints,
        FieldValidation::Strict => return Err(shown(strict_error(&complaints))),
    };
    note_owners(endpoint, &mut object, Some(live), circumstances);
    match belongs_here(endpoint, &mut object) {
        Ok(()) => Ok(Proposal { object, warnings, is_applied: false }),
        Err(status) => Err(status.warned(warnings)),
    }
}

pub(super) fn by_configuration(
    endpoint: &Endpoint<'_>,
    configuration: Body<'_>,
    is_forced: bool,
    live: Option<&Value>,
    circumstances: &Circumstances<'_>,
) -> Result<Proposal, Status> {
    let live = live.and_then(Value::as_object);
    // Applying creates objects, but not through a part of them.
    if live.is_none() && endpoint.part != Part::Whole {
        return Err(Status::not_found(endpoint.resource, endpoint.name));
    }
    let Body { value, complaints, .. } = configuration;
    let applied = match value {
        Value::Object(mut applied) => {
            // It was YAML, which does not tell whole numbers from others.
            stored::fold_numbers(&mut applied);
            applied
        }
        Value::Null => JsonObject::new(),
        other => {
            return Err(Status::bad_request(&format!(
                "error decoding YAML: error unmarshaling JSON: while decoding JSON: json: cannot unmarshal {} into Go value \
                 of type map[string]interface {{}}",
                patch::json::describe(&other)
            )));
        }
    };
    let request = ownership_request(endpoint, circumstances);
    let plan = ownership::apply(live, &applied, endpoint.behaviour.ownership(), &request, is_forced)
        .map_err(|error| refused(&error))?;
    let warnings = match circumstances.field_validation {
        FieldValidation::Ignore => Vec::new(),
        FieldValidation::Warn => complaints,
        FieldValidation::Strict if complaints.is_empty() => complaints,
        FieldValidation::Strict => {
            let words = format!("error strict decoding YAML: {}", complaints.join("\n"));
            return Err(Status::bad_request(&words));
        }
    };
    let mut object = plan.perform(live.cloned().unwrap_or_default());
    // Whatever is unknown to the schema has been refused already.
    endpoint.behaviour.default(&mut object);
    let is_fine = if live.is_none() { is_new(endpoint, &object) } else { Ok(()) };
    match is_fine.and_then(|()| belongs_here(endpoint, &mut object)) {
        Ok(()) => Ok(Proposal { object, warnings, is_applied: true }),
        Err(status) => Err(status.warned(warnings)),
    }
}

/// A configuration that names an identifier is not meant for an object that does not exist.
fn is_new(endpoint: &Endpoint<'_>, object: &JsonObject) -> Result<(), Status> {
    let uid = metadata_text(object, "uid");
    if uid.is_empty() {
        return Ok(());
    }
    let why =
        format!("uid mismatch: the provided object specified uid {uid}, and no existing object was found");
    Err(Status::conflict(endpoint.resource, endpoint.name, &why))
}

fn refused(error: &ApplyError) -> Status {
    match error {
        ApplyError::Conflicts(_) => {
            let causes = error.causes().into_iter().map(|cause| Cause {
                reason: cause.reason.to_owned(),
                message: cause.message,
                field: cause.field,
            });
            Status::apply_conflict(causes.collect(), &error.to_string())
        }
        ApplyError::BadRequest(words) => Status::bad_request(words),
        ApplyError::Failed(words) => Status::unexpected(words),
    }
}
