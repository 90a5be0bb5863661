//! Discovery: every group, version and resource, in the old form and in the aggregated one.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

use crate::registry::{Catalogue, Origin, Resource, Version};
use crate::request::Verb;

/// `/api`: the versions of the core group.
pub(crate) fn core_versions(catalogue: &Catalogue, address: &str) -> Value {
    json!({
        "kind": "APIVersions",
        "versions": catalogue.versions(""),
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}],
    })
}

/// `/apis`: all groups but the core.
pub(crate) fn groups(catalogue: &Catalogue) -> Value {
    let groups: Vec<_> =
        named_groups(catalogue).map(|name| group_fields(catalogue, name)).map(Value::Object).collect();
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
}

fn named_groups(catalogue: &Catalogue) -> impl Iterator<Item = &str> {
    catalogue.groups().filter(|name| !name.is_empty())
}

/// `/apis/GROUP`: its versions.
pub(crate) fn group(catalogue: &Catalogue, name: &str) -> Option<Value> {
    if catalogue.versions(name).is_empty() {
        return None;
    }
    let mut fields = group_fields(catalogue, name);
    fields.insert("kind".to_owned(), "APIGroup".into());
    fields.insert("apiVersion".to_owned(), "v1".into());
    Some(Value::Object(fields))
}

fn group_fields(catalogue: &Catalogue, name: &str) -> Map<String, Value> {
    let versions: Vec<_> = catalogue
        .versions(name)
        .into_iter()
        .map(|version| json!({"groupVersion": format!("{name}/{version}"), "version": version}))
        .collect();
    let mut fields = Map::new();
    fields.insert("name".to_owned(), name.into());
    fields.insert("preferredVersion".to_owned(), versions.first().cloned().unwrap_or_default());
    fields.insert("versions".to_owned(), versions.into());
    fields
}

/// `/apis/GROUP/VERSION`: its resources.
pub(crate) fn resources(catalogue: &Catalogue, group: &str, version: &str) -> Option<Value> {
    if !catalogue.has_version(group, version) {
        return None;
    }
    let mut list = Vec::new();
    for resource in catalogue.resources(group) {
        if let Some(served) = resource.served(version) {
            list.push(plain(resource, served));
            list.extend(parts(resource, served).into_iter().map(|part| plain_part(resource, &part)));
        }
    }
    let group_version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
    let mut document = json!({"kind": "APIResourceList", "groupVersion": group_version, "resources": list});
    // The core is older than this field.
    if !group.is_empty() {
        document["apiVersion"] = "v1".into();
    }
    Some(document)
}

fn plain(resource: &Resource, version: &Version) -> Value {
    let names = &resource.names;
    let mut fields = Map::new();
    fields.insert("name".to_owned(), names.plural.clone().into());
    fields.insert("singularName".to_owned(), names.singular.clone().into());
    fields.insert("namespaced".to_owned(), resource.is_namespaced.into());
    fields.insert("kind".to_owned(), names.kind.clone().into());
    fields.insert("verbs".to_owned(), verbs(&version.verbs));
    put_list(&mut fields, "shortNames", &names.short);
    put_list(&mut fields, "categories", &names.categories);
    if !matches!(resource.origin, Origin::Review) {
        fields.insert("storageVersionHash".to_owned(), storage_version_hash(resource).into());
    }
    Value::Object(fields)
}

/// Clients see from it whether objects are stored in another version than before.
fn storage_version_hash(resource: &Resource) -> String {
    let stored = format!("{}/{}/{}", resource.group, resource.stored().name, resource.names.kind);
    BASE64.encode(&Sha256::digest(stored)[..8])
}

fn plain_part(resource: &Resource, part: &Part<'_>) -> Value {
    let mut fields = Map::new();
    fields.insert("name".to_owned(), format!("{}/{}", resource.names.plural, part.name).into());
    fields.insert("singularName".to_owned(), "".into());
    fields.insert("namespaced".to_owned(), resource.is_namespaced.into());
    if let Some((group, version, kind)) = part.kind {
        fields.insert("group".to_owned(), group.into());
        fields.insert("version".to_owned(), version.into());
        fields.insert("kind".to_owned(), kind.into());
    } else {
        fields.insert("kind".to_owned(), resource.names.kind.clone().into());
    }
    fields.insert("verbs".to_owned(), verbs(part.verbs));
    Value::Object(fields)
}

/// A subresource.
struct Part<'v> {
    name: &'v str,
    /// Group, version and kind of what it holds, unless that is the object itself.
    kind: Option<(&'v str, &'v str, &'v str)>,
    verbs: &'v [Verb],
}

fn parts<'v>(resource: &Resource, version: &'v Version) -> Vec<Part<'v>> {
    const READ_AND_WRITE: &[Verb] = &[Verb::Get, Verb::Patch, Verb::Update];
    let mut parts = Vec::new();
    if version.has_status {
        parts.push(Part { name: "status", kind: None, verbs: READ_AND_WRITE });
    }
    if version.scale.is_some() {
        let kind = Some(("autoscaling", "v1", "Scale"));
        parts.push(Part { name: "scale", kind, verbs: READ_AND_WRITE });
    }
    parts.extend(version.parts.iter().map(|part| Part {
        name: part.name,
        kind: part.kind,
        verbs: part.verbs,
    }));
    if !matches!(resource.origin, Origin::Custom { .. }) {
        parts.sort_by_key(|part| part.name);
    }
    parts
}

fn verbs(verbs: &[Verb]) -> Value {
    verbs.iter().map(|verb| verb.name()).collect()
}

fn put_list(fields: &mut Map<String, Value>, name: &str, values: &[String]) {
    if !values.is_empty() {
        fields.insert(name.to_owned(), values.into());
    }
}

/// `/api` or `/apis` in the aggregated form: everything at once.
pub(crate) fn aggregated(catalogue: &Catalogue, is_core: bool) -> Value {
    let groups = catalogue.groups().filter(|name| name.is_empty() == is_core);
    let items: Vec<_> = groups.map(|name| aggregated_group(catalogue, name)).collect();
    json!({
        "kind": "APIGroupDiscoveryList",
        "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {},
        "items": items,
    })
}

fn aggregated_group(catalogue: &Catalogue, group: &str) -> Value {
    let versions: Vec<_> = catalogue
        .versions(group)
        .into_iter()
        .map(|version| {
            let resources: Vec<_> = catalogue
                .resources(group)
                .filter_map(|resource| Some(aggregated_resource(resource, resource.served(version)?)))
                .collect();
            json!({"version": version, "resources": resources, "freshness": "Current"})
        })
        .collect();
    let metadata = if group.is_empty() {
        json!({"creationTimestamp": null})
    } else {
        json!({"name": group, "creationTimestamp": null})
    };
    json!({"metadata": metadata, "versions": versions})
}

fn aggregated_resource(resource: &Resource, version: &Version) -> Value {
    let names = &resource.names;
    let response_kind =
        |group: &str, version: &str, kind: &str| json!({"group": group, "version": version, "kind": kind});
    let mut fields = Map::new();
    fields.insert("resource".to_owned(), names.plural.clone().into());
    fields.insert("responseKind".to_owned(), response_kind(&resource.group, &version.name, &names.kind));
    let scope = if resource.is_namespaced { "Namespaced" } else { "Cluster" };
    fields.insert("scope".to_owned(), scope.into());
    fields.insert("singularResource".to_owned(), names.singular.clone().into());
    fields.insert("verbs".to_owned(), verbs(&version.verbs));
    put_list(&mut fields, "shortNames", &names.short);
    put_list(&mut fields, "categories", &names.categories);
    let parts: Vec<_> = parts(resource, version)
        .into_iter()
        .map(|part| {
            let (group, version, kind) = part.kind.unwrap_or((&resource.group, &version.name, &names.kind));
            json!({
                "subresource": part.name,
                "responseKind": response_kind(group, version, kind),
                "verbs": verbs(part.verbs),
            })
        })
        .collect();
    if !parts.is_empty() {
        fields.insert("subresources".to_owned(), parts.into());
    }
    Value::Object(fields)
}
