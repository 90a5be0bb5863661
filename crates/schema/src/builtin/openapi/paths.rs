//! What can be done with a resource, from the table of resources.
//!
//! Follows k8s.io/apiserver 0.36.4, `pkg/endpoints/installer.go`.

use serde_json::{Map, Value, json};

use super::super::resource::{Resource, Scope};
use super::schema::Collector;
use crate::structural::openapi::Edition;
use crate::structural::openapi::operation::{Operation, OperationContext, identifier, parameter};

const PATCHES: [&str; 4] = [
    "application/apply-patch+yaml",
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
];
const BODIES: [&str; 3] = ["application/json", "application/vnd.kubernetes.protobuf", "application/yaml"];

/// Where operations are, and what they are about.
struct PathItem<'r> {
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
    let item = |path: String, suffix: String, named: &[&'static str], about: Value| PathItem {
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
        let all = item(format!("{base}/{plural}"), format!("{kind}ForAllNamespaces"), &[], own.clone());
        all.put(&operations(&["list"], resource.kind, (group, version), schemas), paths);
    }
    let verbs: Vec<_> = ["list", "create", "deletecollection"].into_iter().filter(|verb| has(verb)).collect();
    item(root.clone(), format!("{scope}{kind}"), &named, own.clone())
        .put(&operations(&verbs, kind, (group, version), schemas), paths);
    named.insert(0, "name");
    let verbs: Vec<_> = ["get", "update", "patch", "delete"].into_iter().filter(|verb| has(verb)).collect();
    item(format!("{root}/{{name}}"), format!("{scope}{kind}"), &named, own)
        .put(&operations(&verbs, kind, (group, version), schemas), paths);
    for part in &resource.subresources {
        // Connections are not described: no client depends on them.
        if part.kind.ends_with("Options") {
            continue;
        }
        let about = about(part.group, part.version, part.kind);
        let suffix = format!("{scope}{kind}{}", identifier(part.name, true));
        item(format!("{root}/{{name}}/{}", part.name), suffix, &named, about)
            .put(&operations(&part.verbs, part.kind, (part.group, part.version), schemas), paths);
    }
}

fn operations(
    verbs: &[&str],
    kind: &str,
    (group, version): (&str, &str),
    schemas: &mut Collector,
) -> Vec<Operation<'static>> {
    let make = |verb: &&str| operation(verb, kind, (group, version), schemas);
    verbs.iter().filter_map(make).collect()
}

fn operation(
    verb: &str,
    kind: &str,
    (group, version): (&str, &str),
    schemas: &mut Collector,
) -> Option<Operation<'static>> {
    let own = schemas.kind(group, version, kind)?;
    let meta = |schemas: &mut Collector, name: &str| schemas.kind("", "v1", name);
    Some(match verb {
        "list" => Operation::list(schemas.kind(group, version, &format!("{kind}List"))?),
        "get" => Operation::read(own),
        "deletecollection" => Operation::delete_collection(meta(schemas, "Status")?),
        "delete" => Operation::delete(meta(schemas, "DeleteOptions")?, meta(schemas, "Status")?),
        "create" => Operation::create(own),
        "update" => Operation::replace(own),
        // 201 because applying can create. Custom resources have only 200, although the same is true of them.
        "patch" => Operation::patch(schemas.patch(), &["200", "201"], own),
        _ => return None,
    })
}

impl PathItem<'_> {
    fn put(&self, operations: &[Operation<'_>], paths: &mut Map<String, Value>) {
        if operations.is_empty() {
            return;
        }
        let mut common: Vec<_> =
            self.named.iter().map(|name| parameter(self.edition, (name, "string"), "path")).collect();
        common.push(parameter(self.edition, ("pretty", "string"), "query"));
        let mut item = json!({"parameters": common});
        let context = OperationContext {
            edition: self.edition,
            group: if self.resource.group.is_empty() { "core" } else { self.resource.group },
            version: self.resource.version,
            suffix: &self.suffix,
            group_version_kind: self.about.clone(),
            bodies: &BODIES,
            patches: &PATCHES,
        };
        for operation in operations {
            item[operation.method] = operation.describe(&context, operation.parameters.iter());
        }
        paths.insert(self.path.clone(), item);
    }
}
