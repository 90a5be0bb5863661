//! A finding about an object.

use ferroplane_api::{keys, meta};
use ferroplane_schema::field::{BadValue, Error};
use serde::Serialize;
use serde_json::Value;

use crate::manifest::Manifest;

/// What becomes of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Verdict {
    Valid,
    Invalid,
    /// Nothing says what objects of its kind look like.
    MissingSchema,
}

/// What kind of mistake it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum ProblemKind {
    /// The object does not fit its schema.
    Schema,
    /// The object breaks a rule.
    Cel,
    UnknownField,
    DuplicateField,
    /// What is defined cannot be.
    Definition,
    /// A composition is for composite resources that there are not.
    CompositeType,
    /// A function cannot make anything of its input.
    FunctionInput,
    /// The function is unknown.
    UnknownFunction,
    /// The function is known, and no such pipeline can call it, or it does not have the version.
    NotCallable,
    /// A field is read and has no effect.
    NoEffect,
    /// What the kind of the object is missing.
    MissingSchema,
}

/// Something that is wrong, or might be.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Problem {
    #[serde(rename = "type")]
    pub(crate) kind: ProblemKind,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) field: String,
    pub(crate) message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) value: Option<Value>,
    pub(crate) line: u64,
}

impl Problem {
    pub(crate) fn new(
        kind: ProblemKind,
        manifest: &Manifest,
        field: &str,
        message: impl Into<String>,
    ) -> Self {
        let line = manifest.line_at(field);
        Self { kind, field: field.to_owned(), message: message.into(), value: None, line }
    }

    /// A mistake in Kubernetes' words.
    pub(crate) fn of(kind: ProblemKind, manifest: &Manifest, error: &Error) -> Self {
        let value = match &error.value {
            BadValue::Json(Value::Null) | BadValue::Omitted => None,
            BadValue::Json(value) => Some(value.clone()),
            BadValue::Text(text) => Some(text.as_str().into()),
        };
        Self { value, ..Self::new(kind, manifest, &error.field, error.to_string()) }
    }

    /// A field that no schema knows.
    pub(crate) fn unknown_field(kind: ProblemKind, manifest: &Manifest, field: &str) -> Self {
        let name = field.rsplit('.').next().unwrap_or_default();
        let message = format!("{field}: Invalid value: \"{name}\": unknown field: \"{name}\"");
        Self { value: Some(name.into()), ..Self::new(kind, manifest, field, message) }
    }
}

/// What was found out about an object.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Finding {
    pub(crate) api_version: String,
    pub(crate) kind: String,
    pub(crate) name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) namespace: String,
    pub(crate) status: Verdict,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) errors: Vec<Problem>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) warnings: Vec<Problem>,
    pub(crate) file: String,
    pub(crate) line: u64,
}

impl Finding {
    /// Nothing was found out yet.
    pub(crate) fn about(manifest: &Manifest) -> Self {
        let object = manifest.object();
        let name = match meta::name(object) {
            "" => meta::annotation(object, keys::RESOURCE_NAME),
            name => name,
        };
        Self {
            api_version: meta::api_version(object).to_owned(),
            kind: meta::kind(object).to_owned(),
            name: name.to_owned(),
            namespace: meta::namespace(object).to_owned(),
            status: Verdict::Valid,
            errors: Vec::new(),
            warnings: Vec::new(),
            file: manifest.source().to_string(),
            line: manifest.line_at(""),
        }
    }

    /// The form for users who only want to see mistakes.
    pub(crate) fn is_fine(&self) -> bool {
        self.status == Verdict::Valid && self.warnings.is_empty()
    }
}

/// What was found out about all objects.
#[derive(Debug, Serialize)]
pub struct Report {
    pub summary: Summary,
    pub(crate) resources: Vec<Finding>,
}

/// How many objects there are, and what became of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Summary {
    pub total: usize,
    pub valid: usize,
    pub invalid: usize,
    pub missing_schemas: usize,
}

impl Report {
    pub(crate) fn new(resources: Vec<Finding>) -> Self {
        let count = |status| resources.iter().filter(|finding| finding.status == status).count();
        let summary = Summary {
            total: resources.len(),
            valid: count(Verdict::Valid),
            invalid: count(Verdict::Invalid),
            missing_schemas: count(Verdict::MissingSchema),
        };
        Self { summary, resources }
    }
}
