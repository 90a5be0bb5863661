//! What can be done with a kind, and with which parameters. Clients decide by these what a server is able to do.
//!
//! Follows apiextensions-apiserver 0.36.4, `pkg/controller/openapi/builder/builder.go`.

use serde_json::{Map, Value};

use super::Subject;
use super::meta::{DELETE_OPTIONS, PATCH, SCALE, STATUS};
use super::operation::{MEDIA, Operation, OperationContext, Parameter, parameter};

const PATCHES: [&str; 3] =
    ["application/json-patch+json", "application/merge-patch+json", "application/apply-patch+yaml"];

/// Where operations are, and what is added to their names.
struct PathItem {
    path: String,
    suffix: String,
    named: Vec<&'static str>,
}

pub(super) fn of_kind(subject: &Subject<'_>) -> Value {
    let definition = subject.definition;
    let names = &definition.names;
    let is_namespaced = definition.scope == "Namespaced";
    let base = format!("/apis/{}/{}", definition.group, subject.version);
    let all = format!("{base}/{}", names.plural);
    let mut paths = Map::new();
    let (kind, list) = (subject.model(&names.kind), subject.model(&names.list_kind));
    let listing = Operation::list(&list);
    let mut in_path = Vec::new();
    let mut root = all.clone();
    if is_namespaced {
        let suffix = format!("{}ForAllNamespaces", names.kind);
        PathItem { path: all, suffix, named: Vec::new() }.put(subject, &[&listing], &mut paths);
        in_path.push("namespace");
        root = format!("{base}/namespaces/{{namespace}}/{}", names.plural);
    }
    let scope = if is_namespaced { "Namespaced" } else { "" };
    let suffix = |subresource: &str| format!("{scope}{}{subresource}", names.kind);
    let collection = PathItem { path: root.clone(), suffix: suffix(""), named: in_path.clone() };
    let (create, delete_all) = (Operation::create(&kind), Operation::delete_collection(STATUS));
    collection.put(subject, &[&listing, &create, &delete_all], &mut paths);
    in_path.insert(0, "name");
    let delete = Operation::delete(DELETE_OPTIONS, STATUS);
    let mut put = |subresource: &str, title: &str, answer: &str, more: Option<&Operation<'_>>| {
        let path = format!("{root}/{{name}}{subresource}");
        let item = PathItem { path, suffix: suffix(title), named: in_path.clone() };
        let single = single(answer);
        let operations: Vec<_> = single.iter().chain(more).collect();
        item.put(subject, &operations, &mut paths);
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
    [Operation::read(kind), Operation::replace(kind), Operation::patch(PATCH, &["200"], kind)]
}

impl PathItem {
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
        let context = OperationContext {
            edition: subject.edition,
            group: &subject.definition.group,
            version: subject.version,
            suffix: &self.suffix,
            group_version_kind: subject.group_version_kind(&subject.definition.names.kind),
            bodies: &MEDIA,
            patches: &PATCHES,
        };
        for operation in operations {
            let own = operation.parameters.iter().filter(|parameter| !is_common(parameter));
            item.insert(operation.method.to_owned(), operation.describe(&context, own));
        }
        paths.insert(self.path.clone(), Value::Object(item));
    }
}
