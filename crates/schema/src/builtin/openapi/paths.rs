//! What can be done with a resource, from the table of resources.

use serde_json::{Map, Value, json};

use super::super::resource::{Resource, Scope};
use super::schema::Collector;
use crate::structural::openapi::Edition;
use crate::structural::openapi::paths::{
    APPLY, DELETE, GET, LIST, MEDIA, Parameter, WRITE, content, identifier, parameter, responses,
};

const PATCHES: [&str; 4] = [
    "application/apply-patch+yaml",
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
];
const BODIES: [&str; 3] = ["application/json", "application/vnd.kubernetes.protobuf", "application/yaml"];

/// One way to use a path.
struct Operation {
    method: &'static str,
    /// What its name starts with.
    verb: &'static str,
    action: &'static str,
    parameters: &'static [Parameter],
    body: Option<String>,
    answers: &'static [&'static str],
    answer: String,
}

/// Where operations are, and what they are about.
struct Place<'r> {
    resource: &'r Resource,
    edition: Edition,
    path: String,
    /// What is added to the names of operations.
    suffix: String,
    named: Vec<&'static str>,
    about: Value,
}

/// Adds the paths of a resource, and the schemas that they refer to.
pub(super) fn add(
    resource: &Resource,
    edition: Edition,
    schemas: &mut Collector,
    paths: &mut Map<String, Value>,
) {
    let Resource { group, version, kind, plural, .. } = resource;
    let base = if group.is_empty() { format!("/api/{version}") } else { format!("/apis/{group}/{version}") };
    let about =
        |group: &str, version: &str, kind: &str| json!({"group": group, "version": version, "kind": kind});
    let is_namespaced = resource.scope == Scope::Namespaced;
    let (scope, root) = if is_namespaced {
        ("Namespaced", format!("{base}/namespaces/{{namespace}}/{plural}"))
    } else {
        ("", format!("{base}/{plural}"))
    };
    let mut named: Vec<&'static str> = if is_namespaced { vec!["namespace"] } else { Vec::new() };
    let place = |path: String, suffix: String, named: &[&'static str], about: Value| Place {
        resource,
        edition,
        path,
        suffix,
        named: named.to_vec(),
        about,
    };
    let own = about(group, version, kind);
    let has = |verb: &str| resource.verbs.contains(&verb);
    if is_namespaced && has("list") {
        let all = place(format!("{base}/{plural}"), format!("{kind}ForAllNamespaces"), &[], own.clone());
        all.put(&operations(&["list"], resource.kind, (group, version), schemas), paths);
    }
    let verbs: Vec<_> = ["list", "create", "deletecollection"].into_iter().filter(|verb| has(verb)).collect();
    place(root.clone(), format!("{scope}{kind}"), &named, own.clone())
        .put(&operations(&verbs, kind, (group, version), schemas), paths);
    named.insert(0, "name");
    let verbs: Vec<_> = ["get", "update", "patch", "delete"].into_iter().filter(|verb| has(verb)).collect();
    place(format!("{root}/{{name}}"), format!("{scope}{kind}"), &named, own)
        .put(&operations(&verbs, kind, (group, version), schemas), paths);
    for part in &resource.subresources {
        // Connections are not described: nobody decides anything by them.
        if part.kind.ends_with("Options") {
            continue;
        }
        let about = about(part.group, part.version, part.kind);
        let suffix = format!("{scope}{kind}{}", identifier(part.name, true));
        place(format!("{root}/{{name}}/{}", part.name), suffix, &named, about)
            .put(&operations(&part.verbs, part.kind, (part.group, part.version), schemas), paths);
    }
}

fn operations(
    verbs: &[&str],
    kind: &str,
    (group, version): (&str, &str),
    schemas: &mut Collector,
) -> Vec<Operation> {
    let make = |verb: &&str| operation(verb, kind, (group, version), schemas);
    verbs.iter().filter_map(make).collect()
}

fn operation(
    verb: &str,
    kind: &str,
    (group, version): (&str, &str),
    schemas: &mut Collector,
) -> Option<Operation> {
    let own = schemas.kind(group, version, kind)?;
    let meta = |schemas: &mut Collector, name: &str| schemas.kind("", "v1", name);
    let plain = |method, verb, action, parameters, answers, answer| Operation {
        method,
        verb,
        action,
        parameters,
        body: None,
        answers,
        answer,
    };
    Some(match verb {
        "list" => {
            let list = schemas.kind(group, version, &format!("{kind}List"))?;
            plain("get", "list", "list", LIST, &["200"], list)
        }
        "get" => plain("get", "read", "get", GET, &["200"], own),
        "deletecollection" => {
            let status = meta(schemas, "Status")?;
            plain("delete", "deletecollection", "deletecollection", LIST, &["200"], status)
        }
        "delete" => {
            let body = Some(meta(schemas, "DeleteOptions")?);
            let status = meta(schemas, "Status")?;
            Operation { body, ..plain("delete", "delete", "delete", DELETE, &["200", "202"], status) }
        }
        "create" => {
            let body = Some(own.clone());
            Operation { body, ..plain("post", "create", "post", WRITE, &["200", "201", "202"], own) }
        }
        "update" => {
            let body = Some(own.clone());
            Operation { body, ..plain("put", "replace", "put", WRITE, &["200", "201"], own) }
        }
        "patch" => {
            let body = Some(schemas.patch());
            Operation { body, ..plain("patch", "patch", "patch", APPLY, &["200", "201"], own) }
        }
        _ => return None,
    })
}

impl Place<'_> {
    fn put(&self, operations: &[Operation], paths: &mut Map<String, Value>) {
        if operations.is_empty() {
            return;
        }
        let mut common: Vec<_> =
            self.named.iter().map(|name| parameter(self.edition, (name, "string"), "path")).collect();
        common.push(parameter(self.edition, ("pretty", "string"), "query"));
        let mut item = json!({"parameters": common});
        for operation in operations {
            item[operation.method] = self.describe(operation);
        }
        paths.insert(self.path.clone(), item);
    }

    fn describe(&self, operation: &Operation) -> Value {
        let group = match self.resource.group {
            "" => "core",
            group => group.strip_suffix(".k8s.io").unwrap_or(group),
        };
        let version = self.resource.version;
        // A collection is deleted by the verb for deleting.
        let (verb, rest) = match operation.verb {
            "deletecollection" => ("delete", format!("collection{}", self.suffix)),
            verb => (verb, self.suffix.clone()),
        };
        let id = [group, version, &rest].map(|part| identifier(part, true)).concat();
        let mut json = json!({
            "operationId": format!("{verb}{id}"),
            "tags": [format!("{}_{version}", identifier(group, false))],
            "x-kubernetes-action": operation.action,
            "x-kubernetes-group-version-kind": self.about,
            "responses": responses(self.edition, operation.answers, &operation.answer),
        });
        let parameters = operation.parameters.iter();
        let mut parameters: Vec<_> = parameters.map(|own| parameter(self.edition, *own, "query")).collect();
        let is_patch = operation.method == "patch";
        let media: &[&str] = if is_patch { &PATCHES } else { &BODIES };
        let is_required = operation.method != "delete";
        match (self.edition, &operation.body) {
            (Edition::Two, body) => {
                json["schemes"] = json!(["https"]);
                json["produces"] = json!(MEDIA);
                json["consumes"] = json!(media);
                if let Some(body) = body {
                    let schema = self.edition.reference(body);
                    let mut body = json!({"name": "body", "in": "body", "schema": schema});
                    if is_required {
                        body["required"] = json!(true);
                    }
                    parameters.insert(0, body);
                }
            }
            (Edition::Three, Some(body)) => {
                json["requestBody"] = json!({"content": content(self.edition, body, media)});
                if is_required {
                    json["requestBody"]["required"] = json!(true);
                }
            }
            (Edition::Three, None) => {}
        }
        json["parameters"] = Value::Array(parameters);
        json
    }
}
