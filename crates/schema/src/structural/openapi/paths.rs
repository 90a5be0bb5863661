//! What can be done with a kind, and with which parameters. Clients decide by these what a server is able to do.

use serde_json::{Map, Value, json};

use super::meta::{DELETE_OPTIONS, PATCH, SCALE, STATUS};
use super::{Edition, Subject};

pub(crate) type Parameter = (&'static str, &'static str);

pub(crate) const GET: &[Parameter] = &[("resourceVersion", "string")];
pub(crate) const WRITE: &[Parameter] =
    &[("dryRun", "string"), ("fieldManager", "string"), ("fieldValidation", "string")];
pub(crate) const APPLY: &[Parameter] =
    &[("dryRun", "string"), ("fieldManager", "string"), ("fieldValidation", "string"), ("force", "boolean")];
pub(crate) const DELETE: &[Parameter] = &[
    ("dryRun", "string"),
    ("gracePeriodSeconds", "integer"),
    ("ignoreStoreReadErrorWithClusterBreakingPotential", "boolean"),
    ("orphanDependents", "boolean"),
    ("propagationPolicy", "string"),
];
pub(crate) const LIST: &[Parameter] = &[
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
const PATCHES: [&str; 3] =
    ["application/json-patch+json", "application/merge-patch+json", "application/apply-patch+yaml"];

/// One way to use a path.
struct Operation<'o> {
    method: &'static str,
    verb: &'static str,
    action: &'static str,
    parameters: &'static [Parameter],
    body: Option<&'o str>,
    answers: &'static [&'static str],
    answer: &'o str,
}

/// Where operations are, and what is added to their names.
struct Place {
    path: String,
    suffix: String,
    named: Vec<&'static str>,
}

pub(super) fn of_kind(subject: &Subject<'_>) -> Value {
    let definition = subject.definition;
    let names = &definition.names;
    let is_namespaced = definition.scope == "Namespaced";
    let all = format!("/apis/{}/{}/{}", definition.group, subject.version, names.plural);
    let mut paths = Map::new();
    let (kind, list) = (subject.model(&names.kind), subject.model(&names.list_kind));
    let listing = Operation {
        method: "get",
        verb: "list",
        action: "list",
        parameters: LIST,
        body: None,
        answers: &["200"],
        answer: &list,
    };
    let mut in_path = Vec::new();
    let mut root = all.clone();
    if is_namespaced {
        let place = Place { path: all, suffix: format!("{}ForAllNamespaces", names.kind), named: Vec::new() };
        place.put(subject, &[&listing], &mut paths);
        in_path.push("namespace");
        root = format!(
            "/apis/{}/{}/namespaces/{{namespace}}/{}",
            definition.group, subject.version, names.plural
        );
    }
    let scope = if is_namespaced { "Namespaced" } else { "" };
    let suffix = |subresource: &str| format!("{scope}{}{subresource}", names.kind);
    let create = Operation {
        method: "post",
        verb: "create",
        action: "post",
        parameters: WRITE,
        body: Some(&kind),
        answers: &["200", "201", "202"],
        answer: &kind,
    };
    let delete_all = Operation {
        method: "delete",
        verb: "deletecollection",
        action: "deletecollection",
        parameters: LIST,
        body: None,
        answers: &["200"],
        answer: STATUS,
    };
    let place = Place { path: root.clone(), suffix: suffix(""), named: in_path.clone() };
    place.put(subject, &[&listing, &create, &delete_all], &mut paths);
    in_path.insert(0, "name");
    let delete = Operation {
        method: "delete",
        verb: "delete",
        action: "delete",
        parameters: DELETE,
        body: Some(DELETE_OPTIONS),
        answers: &["200", "202"],
        answer: STATUS,
    };
    let mut put = |subresource: &str, title: &str, answer: &str, more: Option<&Operation<'_>>| {
        let path = format!("{root}/{{name}}{subresource}");
        let place = Place { path, suffix: suffix(title), named: in_path.clone() };
        let single = single(answer);
        let operations: Vec<_> = single.iter().chain(more).collect();
        place.put(subject, &operations, &mut paths);
    };
    put("", "", &kind, Some(&delete));
    let subresources = definition.subresources(subject.version);
    if subresources.is_some_and(|subresources| subresources.has_status) {
        put("/status", "Status", &kind, None);
    }
    if subresources.is_some_and(|subresources| subresources.scale.is_some()) {
        put("/scale", "Scale", SCALE, None);
    }
    Value::Object(paths)
}

/// Reading, replacing and patching one object.
fn single(kind: &str) -> [Operation<'_>; 3] {
    [
        Operation {
            method: "get",
            verb: "read",
            action: "get",
            parameters: GET,
            body: None,
            answers: &["200"],
            answer: kind,
        },
        Operation {
            method: "put",
            verb: "replace",
            action: "put",
            parameters: WRITE,
            body: Some(kind),
            answers: &["200", "201"],
            answer: kind,
        },
        Operation {
            method: "patch",
            verb: "patch",
            action: "patch",
            parameters: APPLY,
            body: Some(PATCH),
            answers: &["200"],
            answer: kind,
        },
    ]
}

impl Place {
    fn put(&self, subject: &Subject<'_>, operations: &[&Operation<'_>], paths: &mut Map<String, Value>) {
        let mut item = Map::new();
        let is_common = |parameter: &Parameter| operations.iter().all(|it| it.parameters.contains(parameter));
        let mut common: Vec<Value> =
            self.named.iter().map(|name| parameter(subject.edition, (name, "string"), "path")).collect();
        let shared = operations.first().map_or(&[][..], |operation| operation.parameters);
        common.push(parameter(subject.edition, ("pretty", "string"), "query"));
        let shared = shared.iter().filter(|parameter| is_common(parameter));
        common.extend(shared.map(|shared| parameter(subject.edition, *shared, "query")));
        common.sort_by(|one, other| one["name"].as_str().cmp(&other["name"].as_str()));
        item.insert("parameters".to_owned(), Value::Array(common));
        for operation in operations {
            let own: Vec<_> = operation.parameters.iter().filter(|parameter| !is_common(parameter)).collect();
            item.insert(operation.method.to_owned(), self.describe(subject, operation, &own));
        }
        paths.insert(self.path.clone(), Value::Object(item));
    }

    fn describe(&self, subject: &Subject<'_>, operation: &Operation<'_>, own: &[&Parameter]) -> Value {
        let group = subject.definition.group.as_str();
        let group = group.strip_suffix(".k8s.io").unwrap_or(group);
        // A collection is deleted by the verb for deleting.
        let (verb, rest) = match operation.verb {
            "deletecollection" => ("delete", format!("collection{}", self.suffix)),
            verb => (verb, self.suffix.clone()),
        };
        let id = format!(
            "{verb}{}{}{}",
            identifier(group, true),
            identifier(subject.version, true),
            identifier(&rest, true)
        );
        let tag = format!("{}_{}", identifier(group, false), identifier(subject.version, false));
        let mut parameters: Vec<_> =
            own.iter().map(|own| parameter(subject.edition, **own, "query")).collect();
        let mut json = json!({
            "operationId": id,
            "tags": [tag],
            "x-kubernetes-action": operation.action,
            "x-kubernetes-group-version-kind": subject.group_version_kind(&subject.definition.names.kind),
        });
        let is_patch = operation.method == "patch";
        let media: &[&str] = if is_patch { &PATCHES } else { &MEDIA };
        let is_required = operation.method != "delete";
        match subject.edition {
            Edition::Two => {
                json["schemes"] = json!(["https"]);
                json["produces"] = json!(MEDIA);
                json["consumes"] = json!(media);
                if let Some(body) = operation.body {
                    let mut body =
                        json!({"name": "body", "in": "body", "schema": subject.edition.reference(body)});
                    if is_required {
                        body["required"] = json!(true);
                    }
                    parameters.insert(0, body);
                }
            }
            Edition::Three => {
                if let Some(body) = operation.body {
                    json["requestBody"] = json!({"content": content(subject.edition, body, media)});
                    if is_required {
                        json["requestBody"]["required"] = json!(true);
                    }
                }
            }
        }
        if !parameters.is_empty() {
            json["parameters"] = Value::Array(parameters);
        }
        json["responses"] = responses(subject.edition, operation.answers, operation.answer);
        json
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

pub(crate) fn content(edition: Edition, schema: &str, media: &[&str]) -> Value {
    media.iter().map(|media| ((*media).to_owned(), json!({"schema": edition.reference(schema)}))).collect()
}

pub(crate) fn responses(edition: Edition, answers: &[&str], answer: &str) -> Value {
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
        if character.is_alphabetic() || character == '_' || (index > 0 && character.is_numeric()) {
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
