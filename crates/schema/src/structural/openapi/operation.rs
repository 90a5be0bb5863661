//! One way to use a path, as both editions of `OpenAPI` describe it: for custom resources and for Kubernetes' own kinds.
//!
//! Follows kube-openapi of 2026-03-17, `pkg/builder3/openapi.go`, `pkg/builder/openapi.go`.

use std::borrow::Cow;

use ferroplane_golang::unicode::{is_digit, is_letter};
use serde_json::{Map, Value, json};

use super::Edition;

pub(crate) type Parameter = (&'static str, &'static str);

const GET: &[Parameter] = &[("resourceVersion", "string")];
const WRITE: &[Parameter] =
    &[("dryRun", "string"), ("fieldManager", "string"), ("fieldValidation", "string")];
const APPLY: &[Parameter] =
    &[("dryRun", "string"), ("fieldManager", "string"), ("fieldValidation", "string"), ("force", "boolean")];
const DELETE: &[Parameter] = &[
    ("dryRun", "string"),
    ("gracePeriodSeconds", "integer"),
    ("ignoreStoreReadErrorWithClusterBreakingPotential", "boolean"),
    ("orphanDependents", "boolean"),
    ("propagationPolicy", "string"),
];
const LIST: &[Parameter] = &[
    ("allowWatchBookmarks", "boolean"),
    ("continue", "string"),
    ("fieldSelector", "string"),
    ("labelSelector", "string"),
    ("limit", "integer"),
    ("resourceVersion", "string"),
    ("resourceVersionMatch", "string"),
    ("sendInitialEvents", "boolean"),
    ("shardSelector", "string"),
    ("timeoutSeconds", "integer"),
    ("watch", "boolean"),
];
pub(crate) const MEDIA: [&str; 2] = ["application/json", "application/yaml"];

/// One way to use a path.
#[derive(Debug)]
pub(crate) struct Operation<'o> {
    pub(crate) method: &'static str,
    /// What its name starts with.
    verb: &'static str,
    action: &'static str,
    pub(crate) parameters: &'static [Parameter],
    body: Option<Cow<'o, str>>,
    answers: &'static [&'static str],
    answer: Cow<'o, str>,
}

/// Whose operations they are, and what all of them have in common.
#[derive(Debug)]
pub(crate) struct OperationContext<'o> {
    pub(crate) edition: Edition,
    /// As the names of operations have it: `core` for the group without a name.
    pub(crate) group: &'o str,
    pub(crate) version: &'o str,
    /// What is added to the names of operations.
    pub(crate) suffix: &'o str,
    pub(crate) group_version_kind: Value,
    /// Media types of bodies, and of patches.
    pub(crate) bodies: &'static [&'static str],
    pub(crate) patches: &'static [&'static str],
}

impl<'o> Operation<'o> {
    pub(crate) fn list(list: impl Into<Cow<'o, str>>) -> Self {
        Self::new("get", "list", "list", LIST, &["200"], list)
    }

    pub(crate) fn read(kind: impl Into<Cow<'o, str>>) -> Self {
        Self::new("get", "read", "get", GET, &["200"], kind)
    }

    pub(crate) fn create(kind: impl Into<Cow<'o, str>>) -> Self {
        Self::new("post", "create", "post", WRITE, &["200", "201", "202"], kind).with_answer_as_body()
    }

    pub(crate) fn replace(kind: impl Into<Cow<'o, str>>) -> Self {
        Self::new("put", "replace", "put", WRITE, &["200", "201"], kind).with_answer_as_body()
    }

    pub(crate) fn patch(
        patch: impl Into<Cow<'o, str>>,
        answers: &'static [&'static str],
        kind: impl Into<Cow<'o, str>>,
    ) -> Self {
        Self { body: Some(patch.into()), ..Self::new("patch", "patch", "patch", APPLY, answers, kind) }
    }

    pub(crate) fn delete(options: impl Into<Cow<'o, str>>, status: impl Into<Cow<'o, str>>) -> Self {
        let body = Some(options.into());
        Self { body, ..Self::new("delete", "delete", "delete", DELETE, &["200", "202"], status) }
    }

    pub(crate) fn delete_collection(status: impl Into<Cow<'o, str>>) -> Self {
        Self::new("delete", "deletecollection", "deletecollection", LIST, &["200"], status)
    }

    fn new(
        method: &'static str,
        verb: &'static str,
        action: &'static str,
        parameters: &'static [Parameter],
        answers: &'static [&'static str],
        answer: impl Into<Cow<'o, str>>,
    ) -> Self {
        Self { method, verb, action, parameters, body: None, answers, answer: answer.into() }
    }

    fn with_answer_as_body(self) -> Self {
        Self { body: Some(self.answer.clone()), ..self }
    }

    /// The operation with those of its parameters that the path does not already have.
    pub(crate) fn describe<'p>(
        &self,
        context: &OperationContext<'_>,
        own: impl Iterator<Item = &'p Parameter>,
    ) -> Value {
        let OperationContext { edition, version, .. } = *context;
        let group = context.group.strip_suffix(".k8s.io").unwrap_or(context.group);
        let mut json = json!({
            "operationId": self.id(group, context),
            "tags": [format!("{}_{}", identifier(group, false), identifier(version, false))],
            "x-kubernetes-action": self.action,
            "x-kubernetes-group-version-kind": context.group_version_kind,
            "responses": responses(edition, self.answers, &self.answer),
        });
        let mut parameters: Vec<_> = own.map(|own| parameter(edition, *own, "query")).collect();
        let media = if self.method == "patch" { context.patches } else { context.bodies };
        match edition {
            Edition::Two => {
                json["schemes"] = json!(["https"]);
                json["produces"] = json!(MEDIA);
                json["consumes"] = json!(media);
                if let Some(body) = &self.body {
                    let body = json!({"name": "body", "in": "body", "schema": edition.reference(body)});
                    parameters.insert(0, self.as_required(body));
                }
            }
            Edition::Three => {
                if let Some(body) = &self.body {
                    json["requestBody"] = self.as_required(json!({"content": content(edition, body, media)}));
                }
            }
        }
        if !parameters.is_empty() {
            json["parameters"] = Value::Array(parameters);
        }
        json
    }

    fn id(&self, group: &str, context: &OperationContext<'_>) -> String {
        // A collection is deleted by the verb for deleting.
        let (verb, collection) = match self.verb {
            "deletecollection" => ("delete", "collection"),
            verb => (verb, ""),
        };
        let rest = format!("{collection}{}", context.suffix);
        let parts = [group, context.version, &rest].map(|part| identifier(part, true));
        format!("{verb}{}", parts.concat())
    }

    /// A user who deletes need not send options.
    fn as_required(&self, mut body: Value) -> Value {
        if self.method != "delete" {
            body["required"] = json!(true);
        }
        body
    }
}

pub(crate) fn parameter(edition: Edition, (name, kind): (&str, &str), place: &str) -> Value {
    let mut json = json!({"name": name, "in": place});
    if place == "path" {
        json["required"] = json!(true);
    }
    match edition {
        Edition::Two => {
            json["type"] = json!(kind);
            json["uniqueItems"] = json!(true);
        }
        Edition::Three => json["schema"] = json!({"type": kind, "uniqueItems": true}),
    }
    json
}

fn content(edition: Edition, schema: &str, media: &[&str]) -> Value {
    media.iter().map(|media| ((*media).to_owned(), json!({"schema": edition.reference(schema)}))).collect()
}

fn responses(edition: Edition, answers: &[&str], answer: &str) -> Value {
    let mut responses = Map::new();
    for code in answers {
        let words = match *code {
            "201" => "Created",
            "202" => "Accepted",
            _ => "OK",
        };
        let mut response = json!({"description": words});
        match edition {
            Edition::Two => response["schema"] = edition.reference(answer),
            Edition::Three => response["content"] = content(edition, answer, &MEDIA),
        }
        responses.insert((*code).to_owned(), response);
    }
    responses.insert("401".to_owned(), json!({"description": "Unauthorized"}));
    Value::Object(responses)
}

/// The text without what cannot be in a name; what follows such a character is a capital letter.
pub(crate) fn identifier(text: &str, mut capitalize: bool) -> String {
    let mut identifier = String::with_capacity(text.len());
    for (index, character) in text.char_indices() {
        if is_letter(character) || character == '_' || (index > 0 && is_digit(character)) {
            if std::mem::take(&mut capitalize) {
                identifier.extend(character.to_uppercase());
            } else {
                identifier.push(character);
            }
        } else {
            capitalize = true;
        }
    }
    identifier
}
