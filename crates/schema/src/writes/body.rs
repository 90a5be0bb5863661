//! What is sent, read: an object, and what was odd about it.
//!
//! Follows k8s.io/apiserver 0.36.4, `pkg/endpoints/handlers/create.go`.

use ferroplane_golang::json::JsonObject;
use serde_json::Value;

use super::{Circumstances, Endpoint};
use crate::status::Status;
use crate::structural::strict_json::{self, FieldValidation, strict_error, unknown_field};

/// How much of a body that makes no sense is shown.
const SHOWN: usize = 30;

/// What is sent. It may have been YAML or protobuf; here it is JSON.
#[derive(Debug, Clone)]
pub struct Body<'b> {
    pub value: Value,
    /// Complaints about the text, as fields that are there twice, in words.
    pub complaints: Vec<String>,
    /// The text, for errors that show it.
    pub text: &'b [u8],
}

impl<'b> Body<'b> {
    /// Reads JSON.
    pub fn json(text: &'b [u8]) -> Result<Self, String> {
        let utf8 = std::str::from_utf8(text).map_err(|error| error.to_string())?;
        let (value, duplicates) = strict_json::read(utf8).map_err(|error| error.to_string())?;
        let complaints = duplicates.iter().map(|path| strict_json::duplicate_field(path)).collect();
        Ok(Self { value, complaints, text })
    }
}

/// The beginning of a body that makes no sense, for whoever sent it.
pub fn shown(text: &[u8]) -> String {
    let beginning = &text[..text.len().min(SHOWN)];
    let mut shown = match text.first() {
        None => "<empty>".to_owned(),
        Some(b'{') => String::from_utf8_lossy(beginning).into_owned(),
        Some(_) => beginning.iter().fold(String::new(), |mut text, byte| {
            text.push_str(&format!("{byte:02x}"));
            text
        }),
    };
    if text.len() > SHOWN {
        shown.push_str(" ...");
    }
    shown
}

/// An object in its normal form, and what a client should be told about it.
pub(super) struct Decoded {
    pub(super) object: JsonObject,
    pub(super) warnings: Vec<String>,
}

/// An object of one of Kubernetes' own kinds need not say what it is: the path does.
fn assume_kind(value: &mut Value, endpoint: &Endpoint<'_>) {
    let Value::Object(object) = value else { return };
    let assumed =
        [("kind", endpoint.behaviour.kind().name.as_str()), ("apiVersion", endpoint.behaviour.api_version())];
    for (name, text) in assumed {
        if object.get(name).is_none_or(|value| value == "" || value.is_null()) {
            object.insert(name.to_owned(), text.into());
        }
    }
}

/// Reads the object that a body has.
pub(super) fn decode(
    endpoint: &Endpoint<'_>,
    body: Body<'_>,
    circumstances: &Circumstances<'_>,
) -> Result<Decoded, Status> {
    let behaviour = endpoint.behaviour;
    let unrecognised = |why: &str, body: &Body<'_>| {
        let kind = &behaviour.kind().name;
        let shown = shown(body.text);
        Status::bad_request(&format!(
            "the object provided is unrecognized (must be of type {kind}): {why} ({shown})"
        ))
    };
    let text = |value: &Value, name: &str| value.get(name).and_then(Value::as_str).map(str::to_owned);
    let is_builtin = behaviour.is_builtin();
    let mut body = body;
    if is_builtin {
        assume_kind(&mut body.value, endpoint);
    }
    let kind = text(&body.value, "kind").filter(|kind| !kind.is_empty());
    let Some(kind) = kind else {
        let why = format!("Object 'Kind' is missing in '{}'", String::from_utf8_lossy(body.text));
        // Strict decoding and lenient decoding are two paths in Kubernetes, with two ways to say this.
        if circumstances.field_validation != FieldValidation::Ignore {
            return Err(unrecognised(&why, &body));
        }
        let kind = &behaviour.kind().name;
        let version = behaviour.api_version().rsplit('/').next().unwrap_or_default();
        let words = format!("{kind} in version \"{version}\" cannot be handled as a {kind}: {why}");
        return Err(Status::bad_request(&words));
    };
    let api_version = text(&body.value, "apiVersion").unwrap_or_default();
    let wrong = |why: String| {
        if api_version.is_empty() {
            return Status::bad_request("Object 'apiVersion' is missing in 'object has no apiVersion field'");
        }
        let version = api_version.rsplit('/').next().unwrap_or_default();
        let wanted = &behaviour.kind().name;
        Status::bad_request(&format!(
            "{kind} in version \"{version}\" cannot be handled as a {wanted}: {why}"
        ))
    };
    let is_this = api_version == behaviour.api_version() && kind == behaviour.kind().name;
    if is_builtin && !api_version.is_empty() && !is_this {
        return Err(wrong(format!(
            // Kubernetes names its scheme after the line of code that made it, and clients see it.
            "no kind \"{kind}\" is registered for version \"{api_version}\" in scheme \"pkg/runtime/scheme.go:111\""
        )));
    }
    let Body { value: Value::Object(mut object), complaints, .. } = body else {
        return Err(wrong("it is no object".to_owned()));
    };
    let mut complaints = complaints;
    // What claims to be of another kind has no schema here; what is wrong with it is said later.
    if is_of_kind(&object, endpoint) {
        let unknown = behaviour.normalise(&mut object).map_err(wrong)?;
        complaints.extend(unknown.iter().map(|path| unknown_field(path)));
    }
    let warnings = match circumstances.field_validation {
        FieldValidation::Ignore => Vec::new(),
        FieldValidation::Warn => complaints,
        FieldValidation::Strict if complaints.is_empty() => complaints,
        FieldValidation::Strict => return Err(wrong(strict_error(&complaints))),
    };
    if api_version != behaviour.api_version() {
        let words = format!(
            "the API version in the data ({api_version}) does not match the expected API version ({})",
            behaviour.api_version()
        );
        return Err(Status::bad_request(&words).warned(warnings));
    }
    Ok(Decoded { object, warnings })
}

fn is_of_kind(object: &JsonObject, endpoint: &Endpoint<'_>) -> bool {
    let text = |name: &str| object.get(name).and_then(Value::as_str).unwrap_or_default();
    text("kind") == endpoint.behaviour.kind().name && text("apiVersion") == endpoint.behaviour.api_version()
}
