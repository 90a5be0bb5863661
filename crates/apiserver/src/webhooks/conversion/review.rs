//! `ConversionReview`: the document that a converter is sent, and the one that it sends back.

use ferroplane_golang::json::JsonObject;
use ferroplane_schema::field::{self, Path};
use ferroplane_schema::meta;
use ferroplane_schema::status::Status;
use serde_json::{Value, json};

use super::super::admission_review::{self, ReviewError};
use super::super::connections::{self, Reply};
use super::super::destination;

const GROUP: &str = "apiextensions.k8s.io";
const KIND: &str = "ConversionReview";

/// Why there are no converted objects.
#[derive(Debug)]
pub(super) enum ConversionProblem {
    /// Nothing came of the call.
    Failed(CallError),
    /// It gave back more or less than it was given.
    Count { found: usize, expected: usize },
    /// It gave back something else.
    Invalid { what: &'static str, index: Option<usize>, why: String },
}

/// Why nothing came of a call. The words are those of Kubernetes.
#[derive(Debug, thiserror::Error)]
pub(super) enum CallError {
    #[error(transparent)]
    Destination(#[from] destination::Error),
    #[error("Post {url:?}: {error}")]
    Unreached { url: String, error: connections::Error },
    #[error(transparent)]
    Review(#[from] ReviewError),
    #[error("no response provided")]
    NoResponse,
    #[error("expected response.uid={expected:?}, got {found:?}")]
    OtherRequest { expected: String, found: String },
    #[error("expected webhook response of {}/v1, Kind={}, got {api_version}, Kind={kind}", GROUP, KIND)]
    OtherVersion { api_version: String, kind: String },
    #[error("response.result.status was '{0}', not 'Success'")]
    NotSuccessful(String),
    /// The webhook says so.
    #[error("{0}")]
    Told(String),
}

impl From<CallError> for ConversionProblem {
    fn from(error: CallError) -> Self {
        Self::Failed(error)
    }
}

impl ConversionProblem {
    /// The error for a client, about an object of a version.
    pub(super) fn to_status(&self, from: &str, kind: &str) -> Status {
        let subject = format!("conversion webhook for {from}, Kind={kind}");
        Status::unexpected(&match self {
            Self::Failed(why) => format!("{subject} failed: {why}"),
            Self::Count { found, expected } => {
                format!("{subject} returned {found} objects, expected {expected}")
            }
            Self::Invalid { what, index: None, why } => format!("{subject} returned invalid {what}: {why}"),
            Self::Invalid { what, index: Some(index), why } => {
                format!("{subject} returned invalid {what} at index {index}: {why}")
            }
        })
    }
}

/// The document to send.
pub(super) fn ask(version: &str, uid: &str, api_version: &str, objects: &[&JsonObject]) -> String {
    let request = json!({"uid": uid, "desiredAPIVersion": api_version, "objects": objects});
    json!({"kind": KIND, "apiVersion": format!("{GROUP}/{version}"), "request": request}).to_string()
}

/// Reads what came back, if it is an answer to what was asked.
pub(super) fn read(reply: &Reply, version: &str, uid: &str) -> Result<Vec<Value>, ConversionProblem> {
    let mut document = admission_review::read(reply, GROUP, KIND).map_err(CallError::from)?;
    let is_strict = version == "v1";
    if is_strict {
        check_kind(&document)?;
    }
    let response = document["response"].take();
    if !response.is_object() {
        return Err(CallError::NoResponse.into());
    }
    let found = response["uid"].as_str().unwrap_or_default();
    if is_strict && found != uid {
        return Err(CallError::OtherRequest { expected: uid.to_owned(), found: found.to_owned() }.into());
    }
    let result = |name: &str| response["result"][name].as_str().unwrap_or_default();
    if result("status") != "Success" {
        return Err(match result("message") {
            "" => CallError::NotSuccessful(result("status").to_owned()).into(),
            message => CallError::Told(message.to_owned()).into(),
        });
    }
    match response {
        Value::Object(mut response) => match response.remove("convertedObjects") {
            Some(Value::Array(objects)) => Ok(objects),
            _ => Ok(Vec::new()),
        },
        _ => Ok(Vec::new()),
    }
}

fn check_kind(document: &Value) -> Result<(), CallError> {
    let text = |name: &str| document[name].as_str().unwrap_or_default();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    if api_version == format!("{GROUP}/v1") && kind == KIND {
        return Ok(());
    }
    let api_version = if api_version.is_empty() { "/" } else { api_version };
    Err(CallError::OtherVersion { api_version: api_version.to_owned(), kind: kind.to_owned() })
}

/// The objects that came back, if each is what the one that was sent is in another version.
pub(super) fn check(
    converted: Vec<Value>,
    sent: &[&JsonObject],
    api_version: &str,
) -> Result<Vec<JsonObject>, ConversionProblem> {
    if converted.len() != sent.len() {
        return Err(ConversionProblem::Count { found: converted.len(), expected: sent.len() });
    }
    let is_list = sent.len() > 1;
    let pairs = converted.into_iter().zip(sent).enumerate();
    pairs
        .map(|(index, (converted, sent))| {
            let checked = accept(converted, sent, api_version);
            checked.map_err(|refusal| refusal.to_problem(index, is_list))
        })
        .collect()
}

/// What is wrong with a converted object.
enum Refusal {
    /// It is of another kind.
    Kind(String),
    /// It is another object.
    Identity(String),
    Metadata(MetadataError),
}

/// What is wrong with the metadata of a converted object. The words are those of Kubernetes.
#[derive(Debug, thiserror::Error)]
enum MetadataError {
    #[error("missing metadata in converted object")]
    Missing,
    #[error("invalid metadata of type {0} in converted object")]
    NotAnObject(&'static str),
    #[error("invalid metadata.{field} of type {found} in converted object")]
    FieldNotAnObject { field: &'static str, found: &'static str },
    #[error("metadata.{field}[{key}] must be a string, but is {found} in converted object")]
    NotText { field: &'static str, key: String, found: &'static str },
    #[error("{}", field::aggregate(.0))]
    Invalid(Vec<field::Error>),
}

impl Refusal {
    fn to_problem(self: Refusal, index: usize, is_list: bool) -> ConversionProblem {
        match (self, is_list) {
            (Self::Kind(why), false) => ConversionProblem::Invalid { what: "object", index: Some(0), why },
            (Self::Identity(why), false) => ConversionProblem::Invalid { what: "object", index: None, why },
            (Self::Metadata(error), false) => {
                ConversionProblem::Invalid { what: "metadata", index: None, why: error.to_string() }
            }
            (Self::Kind(why) | Self::Identity(why), true) => {
                ConversionProblem::Invalid { what: "converted object", index: Some(index), why }
            }
            (Self::Metadata(error), true) => {
                let why = error.to_string();
                ConversionProblem::Invalid { what: "metadata in object", index: Some(index), why }
            }
        }
    }
}

fn accept(converted: Value, sent: &JsonObject, api_version: &str) -> Result<JsonObject, Refusal> {
    let Value::Object(mut converted) = converted else {
        return Err(Refusal::Kind("it is not an object".to_owned()));
    };
    let text = |object: &JsonObject, name: &str| {
        object.get(name).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let found = text(&converted, "apiVersion");
    if found != api_version {
        let words = format!("invalid groupVersion (expected {api_version}, received {found})");
        return Err(Refusal::Kind(words));
    }
    let (expected, found) = (text(sent, "kind"), text(&converted, "kind"));
    if expected != found {
        return Err(Refusal::Kind(format!("invalid kind (expected {expected}, received {found})")));
    }
    for (name, word) in [("name", "name"), ("namespace", "namespace"), ("uid", "UID")] {
        let (expected, found) = (metadata_text(sent, name), metadata_text(&converted, name));
        if expected != found {
            return Err(Refusal::Identity(format!("must have the same {word}: {expected} != {found}")));
        }
    }
    restore_metadata(&mut converted, sent).map_err(Refusal::Metadata)?;
    Ok(converted)
}

fn metadata_text<'o>(object: &'o JsonObject, name: &str) -> &'o str {
    object.get("metadata").and_then(|metadata| metadata.get(name)).and_then(Value::as_str).unwrap_or_default()
}

/// Puts the metadata back as it was, but for labels and annotations.
fn restore_metadata(converted: &mut JsonObject, sent: &JsonObject) -> Result<(), MetadataError> {
    let theirs = match converted.remove("metadata") {
        None => return Err(MetadataError::Missing),
        Some(Value::Object(theirs)) => theirs,
        Some(other) => return Err(MetadataError::NotAnObject(go_type(&other))),
    };
    let mut metadata = sent.get("metadata").and_then(Value::as_object).cloned().unwrap_or_default();
    for name in ["labels", "annotations"] {
        match theirs.get(name).filter(|field| !field.is_null()) {
            None => drop(metadata.remove(name)),
            Some(field) => {
                check_texts(name, field)?;
                if metadata.get(name) != Some(field) {
                    check_changed(name, &theirs)?;
                }
                metadata.insert(name.to_owned(), field.clone());
            }
        }
    }
    converted.insert("metadata".to_owned(), Value::Object(metadata));
    Ok(())
}

fn check_texts(name: &'static str, field: &Value) -> Result<(), MetadataError> {
    let Value::Object(texts) = field else {
        return Err(MetadataError::FieldNotAnObject { field: name, found: go_type(field) });
    };
    match texts.iter().find(|(_, value)| !value.is_string()) {
        None => Ok(()),
        Some((key, value)) => {
            Err(MetadataError::NotText { field: name, key: key.clone(), found: go_type(value) })
        }
    }
}

fn check_changed(name: &str, metadata: &JsonObject) -> Result<(), MetadataError> {
    let root = Path::new("metadata");
    let mut errors = Vec::new();
    if name == "labels" {
        let labels = metadata.get(name).and_then(Value::as_object).into_iter().flatten();
        let labels = labels.map(|(key, value)| (key.as_str(), value.as_str().unwrap_or_default()));
        meta::validate_labels(labels, &root.child("labels"), &mut errors);
    } else {
        // Kubernetes calls it so here.
        meta::validate_annotations(metadata, &root.child("annotation"), &mut errors);
    }
    if errors.is_empty() { Ok(()) } else { Err(MetadataError::Invalid(errors)) }
}

/// What Go calls the type of a value.
fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}
