//! What is sent, read: an object, and what was odd about it.
//!
//! Follows k8s.io/apiserver 0.36.4, `pkg/endpoints/handlers/create.go`.

use ferroplane_golang::json::JsonObject;
use serde_json::Value;

use super::{Circumstances, Endpoint};
use crate::status::Status;
use crate::structural::strict_json::{self, FieldValidation, strict_error, unknown_field};

/// How much of a body that is invalid is shown.
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

/// The beginning of a body that is invalid, for a client that sent it.
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
    mut body: Body<'_>,
    circumstances: &Circumstances<'_>,
) -> Result<Decoded, Status> {
    let behaviour = endpoint.behaviour;
    if behaviour.is_builtin() {
        assume_kind(&mut body.value, endpoint);
    }
    let Some(claimed) = ClaimedKind::of(&body.value) else {
        return Err(kind_missing(endpoint, &body, circumstances.field_validation));
    };
    let is_this = claimed.api_version == behaviour.api_version() && claimed.kind == behaviour.kind().name;
    if behaviour.is_builtin() && !claimed.api_version.is_empty() && !is_this {
        let ClaimedKind { kind, api_version } = &claimed;
        // Kubernetes names its scheme after the line of code that made it, and clients see it.
        let why = format!(
            "no kind \"{kind}\" is registered for version \"{api_version}\" in scheme \"pkg/runtime/scheme.go:111\""
        );
        return Err(claimed.refused(endpoint, &why));
    }
    let Body { value: Value::Object(mut object), mut complaints, .. } = body else {
        return Err(claimed.refused(endpoint, "it is not an object"));
    };
    // What claims to be of another kind has no schema here; what is wrong with it is said later.
    if is_of_kind(&object, endpoint) {
        let unknown = behaviour.normalise(&mut object).map_err(|why| claimed.refused(endpoint, &why))?;
        complaints.extend(unknown.iter().map(|path| unknown_field(path)));
    }
    let warnings = match circumstances.field_validation {
        FieldValidation::Ignore => Vec::new(),
        FieldValidation::Warn => complaints,
        FieldValidation::Strict if complaints.is_empty() => complaints,
        FieldValidation::Strict => return Err(claimed.refused(endpoint, &strict_error(&complaints))),
    };
    if claimed.api_version != behaviour.api_version() {
        let words = format!(
            "the API version in the data ({}) does not match the expected API version ({})",
            claimed.api_version,
            behaviour.api_version()
        );
        return Err(Status::bad_request(&words).warned(warnings));
    }
    Ok(Decoded { object, warnings })
}

/// What a body says that it is.
struct ClaimedKind {
    kind: String,
    /// Empty if it does not say.
    api_version: String,
}

impl ClaimedKind {
    /// None if the body does not say its kind.
    fn of(value: &Value) -> Option<Self> {
        let text = |name: &str| value.get(name).and_then(Value::as_str).map(str::to_owned);
        let kind = text("kind").filter(|kind| !kind.is_empty())?;
        Some(Self { kind, api_version: text("apiVersion").unwrap_or_default() })
    }

    /// A body that cannot be read as an object of the endpoint's kind.
    fn refused(&self, endpoint: &Endpoint<'_>, why: &str) -> Status {
        let Self { kind, api_version } = self;
        // Kubernetes looks for the version before anything else, so that this hides whatever else is wrong.
        if api_version.is_empty() {
            return Status::bad_request("Object 'apiVersion' is missing in 'object has no apiVersion field'");
        }
        Status::bad_request(&cannot_be_handled(kind, api_version, endpoint, why))
    }
}

fn kind_missing(endpoint: &Endpoint<'_>, body: &Body<'_>, validation: FieldValidation) -> Status {
    let behaviour = endpoint.behaviour;
    let kind = &behaviour.kind().name;
    let why = format!("Object 'Kind' is missing in '{}'", String::from_utf8_lossy(body.text));
    // Strict decoding and lenient decoding are two paths in Kubernetes, with two ways to say this.
    if validation == FieldValidation::Ignore {
        return Status::bad_request(&cannot_be_handled(kind, behaviour.api_version(), endpoint, &why));
    }
    let shown = shown(body.text);
    Status::bad_request(&format!(
        "the object provided is unrecognized (must be of type {kind}): {why} ({shown})"
    ))
}

fn cannot_be_handled(kind: &str, api_version: &str, endpoint: &Endpoint<'_>, why: &str) -> String {
    let version = api_version.rsplit('/').next().unwrap_or_default();
    let wanted = &endpoint.behaviour.kind().name;
    format!("{kind} in version \"{version}\" cannot be handled as a {wanted}: {why}")
}

fn is_of_kind(object: &JsonObject, endpoint: &Endpoint<'_>) -> bool {
    let text = |name: &str| object.get(name).and_then(Value::as_str).unwrap_or_default();
    text("kind") == endpoint.behaviour.kind().name && text("apiVersion") == endpoint.behaviour.api_version()
}
