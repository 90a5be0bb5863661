//! `AdmissionReview`: the document that a webhook is sent, and the one that it sends back.

use base64::engine::general_purpose::STANDARD;
use base64::{DecodeError, Engine as _};
use ferroplane_schema::status::{Resource as Subject, Status};
use serde_json::{Value, json};

use super::connections::Reply;

const VERSION: &str = "admission.k8s.io/v1";
/// What every document is read as first, in Go.
const ENVELOPE: &str = "value of type struct { APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \
                        \"json:\\\"kind,omitempty\\\"\" }";

/// Why what came back is no review, or not the verdict that was asked for. The words are those of Kubernetes and of Go.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum ReviewError {
    /// The webhook says itself that it failed.
    #[error("{0}")]
    Failed(String),
    #[error("0-length response with status code: {code} and content type: {content_type}")]
    Empty { code: u16, content_type: String },
    #[error(
        "couldn't get version/kind; json parse error: json: cannot unmarshal {found} into Go {}",
        ENVELOPE
    )]
    NotAnObject { found: &'static str },
    #[error(
        "no kind {kind:?} is registered for version {api_version:?} in scheme \"pkg/runtime/scheme.go:111\""
    )]
    UnknownKind { kind: String, api_version: String },
    #[error(
        "json: cannot unmarshal {found} into Go struct field AdmissionResponse.response.allowed of type bool"
    )]
    UnreadableVerdict { found: &'static str },
    #[error("illegal base64 data at input byte {0}")]
    UnreadablePatch(usize),
    #[error("webhook response was absent")]
    NoResponse,
    #[error("expected response.uid={expected:?}, got {found:?}")]
    OtherRequest { expected: String, found: String },
    #[error("expected webhook response of {}, Kind=AdmissionReview, got {api_version}, Kind={kind}", VERSION)]
    OtherVersion { api_version: String, kind: String },
    #[error("{0}")]
    UnexpectedPatch(&'static str),
}

/// What a webhook says.
#[derive(Debug, Default)]
pub(super) struct AdmissionResponse {
    pub(super) is_allowed: bool,
    /// Operations on the object, as JSON; empty if there are none.
    pub(super) patch: Vec<u8>,
    pub(super) patch_type: String,
    /// Why it is not allowed.
    pub(super) status: Option<Value>,
    pub(super) warnings: Vec<String>,
    pub(super) annotations: Vec<(String, String)>,
}

/// The document to send.
pub(super) fn ask(request: &Value) -> Value {
    json!({"kind": "AdmissionReview", "apiVersion": VERSION, "request": request})
}

/// Reads what came back as an `AdmissionReview`. Anything but success is an error.
pub(super) fn document(reply: &Reply) -> Result<Value, ReviewError> {
    let document = read(reply, "admission.k8s.io", "AdmissionReview")?;
    let allowed = &document["response"]["allowed"];
    if !allowed.is_null() && !allowed.is_boolean() {
        return Err(ReviewError::UnreadableVerdict { found: json_type(allowed) });
    }
    decode_patch(&document["response"])?;
    Ok(document)
}

/// Reads what came back as a document of some kind, or one that does not say what it is.
pub(super) fn read(reply: &Reply, group: &str, kind: &str) -> Result<Value, ReviewError> {
    let parsed = serde_json::from_slice::<Value>(&reply.body);
    if !(200..=206).contains(&reply.code) {
        return Err(ReviewError::Failed(failure(reply, parsed.ok())));
    }
    if reply.body.is_empty() {
        return Err(ReviewError::Empty { code: reply.code, content_type: reply.content_type.clone() });
    }
    // Whatever is no JSON is YAML, and there plain words are a text.
    let document = parsed.unwrap_or_else(|_| Value::String(String::new()));
    check_kind(&document, group, kind)?;
    Ok(document)
}

fn check_kind(document: &Value, group: &str, wanted: &str) -> Result<(), ReviewError> {
    let Value::Object(fields) = document else {
        return Err(ReviewError::NotAnObject { found: json_type(document) });
    };
    let text = |name: &str| fields.get(name).and_then(Value::as_str).unwrap_or_default();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    let is_known = match api_version.split_once('/') {
        None => api_version.is_empty(),
        Some((found, version)) => found == group && matches!(version, "v1" | "v1beta1"),
    };
    if !is_known || !kind.is_empty() && kind != wanted {
        return Err(ReviewError::UnknownKind { kind: kind.to_owned(), api_version: api_version.to_owned() });
    }
    Ok(())
}

/// Go's word for the type of a JSON value.
fn json_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn decode_patch(response: &Value) -> Result<Vec<u8>, ReviewError> {
    let patch = response["patch"].as_str().unwrap_or_default();
    STANDARD.decode(patch).map_err(|error| {
        ReviewError::UnreadablePatch(match error {
            DecodeError::InvalidByte(byte, _) | DecodeError::InvalidLastSymbol { offset: byte, .. } => byte,
            // Go reads four characters at a time, and names where it began to read those that are not whole.
            DecodeError::InvalidLength(_) | DecodeError::InvalidPadding => patch.len() / 4 * 4,
        })
    })
}

fn failure(reply: &Reply, document: Option<Value>) -> String {
    if let Some(document) = document.filter(|document| document["kind"] == "Status") {
        let status = Status::from_json(&document);
        if !status.is_success && !status.message.is_empty() {
            return status.message;
        }
    }
    // Only plain words are passed on.
    let is_plain = reply.content_type.is_empty() || reply.content_type.starts_with("text/");
    let text = String::from_utf8_lossy(&reply.body[..reply.body.len().min(2048)]).trim().to_owned();
    let text = if is_plain { text } else { "unknown".to_owned() };
    Status::generic(reply.code, "POST", &Subject::default(), "", &text).message
}

/// Reads a verdict, if it is one on what was asked.
pub(super) fn verdict(
    document: &Value,
    uid: &str,
    may_change: bool,
) -> Result<AdmissionResponse, ReviewError> {
    let response = &document["response"];
    if !response.is_object() {
        return Err(ReviewError::NoResponse);
    }
    let text = |name: &str| response[name].as_str().unwrap_or_default();
    if text("uid") != uid {
        return Err(ReviewError::OtherRequest { expected: uid.to_owned(), found: text("uid").to_owned() });
    }
    let (api_version, kind) = (document["apiVersion"].as_str(), document["kind"].as_str());
    if (api_version, kind) != (Some(VERSION), Some("AdmissionReview")) {
        let text = |found: Option<&str>| found.unwrap_or_default().to_owned();
        return Err(ReviewError::OtherVersion { api_version: text(api_version), kind: text(kind) });
    }
    let patch = decode_patch(response)?;
    check_patch(&patch, response.get("patchType").and_then(Value::as_str), may_change)?;
    let annotations = response["auditAnnotations"].as_object().into_iter().flatten();
    let warnings = response["warnings"].as_array().into_iter().flatten();
    Ok(AdmissionResponse {
        is_allowed: response["allowed"] == true,
        patch,
        patch_type: text("patchType").to_owned(),
        status: response.get("status").filter(|status| status.is_object()).cloned(),
        warnings: warnings.filter_map(Value::as_str).map(str::to_owned).collect(),
        annotations: annotations
            .filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())))
            .collect(),
    })
}

fn check_patch(patch: &[u8], patch_type: Option<&str>, may_change: bool) -> Result<(), ReviewError> {
    let wrong = match (may_change, patch.is_empty(), patch_type) {
        (true, false, None) => "webhook returned response.patch but not response.patchType",
        (true, true, Some(_)) => "webhook returned response.patchType but not response.patch",
        (true, false, Some("")) => "webhook returned invalid response.patchType of \"\"",
        (false, false, _) => "validating webhook may not return response.patch",
        (false, true, Some(_)) => "validating webhook may not return response.patchType",
        _ => return Ok(()),
    };
    Err(ReviewError::UnexpectedPatch(wrong))
}

/// The refusal of a request by a webhook.
pub(super) fn denied(name: &str, status: Option<&Value>) -> Status {
    let mut refusal = Status::from_json(status.unwrap_or(&Value::Null));
    refusal.is_success = false;
    refusal.code = refusal.code.max(400);
    let denied = format!("admission webhook {name:?} denied the request");
    refusal.message = match (refusal.message.as_str(), &*refusal.reason) {
        ("", "") => format!("{denied} without explanation"),
        ("", reason) => format!("{denied}: {reason}"),
        (message, _) => format!("{denied}: {message}"),
    };
    refusal
}
