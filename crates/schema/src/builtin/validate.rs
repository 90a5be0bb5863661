//! What a server finds wrong with objects of Kubernetes' own kinds, in its words. Objects must be read and defaulted.
//!
//! Follows Kubernetes 1.36.4, `pkg/apis/core/validation/validation.go`.
//!
//! # Limits
//! Metadata is checked for all kinds. More is checked for config maps, secrets, service accounts, namespaces, services,
//! pods and everything that has a template of pods, roles and bindings, events, leases and webhooks; of pods, the parts
//! that people write most: see [`pod`]. Whatever is not checked is taken as it is.

mod data;
mod events;
mod pod;
mod read;
mod roles;
mod service;
mod webhooks;
mod workload;

use ferroplane_golang::json::JsonObject;
use serde_json::{Map, Value};

use super::resource::{Resource, Scope, resources};
use super::table::Type;
use crate::field::{Error, Path};
use crate::meta::{self, NameRule};

pub(crate) use service::check_cluster_addresses;

/// What is wrong with a new object.
pub(super) fn create(of: &Type, group: &str, object: &JsonObject) -> Vec<Error> {
    let mut errors = metadata(of, group, object);
    errors.extend(if of.name == "Event" { events::create(group, object) } else { contents(of, object) });
    errors
}

/// What is wrong with an object that replaces an old one.
pub(super) fn update(of: &Type, group: &str, object: &JsonObject, old: &JsonObject) -> Vec<Error> {
    let path = Path::new("metadata");
    let empty = Map::new();
    let metadata_of = |object| read::object(object, "metadata").unwrap_or(&empty);
    let changed = meta::validate_update(metadata_of(object), metadata_of(old), &path);
    let mut errors = Vec::new();
    match of.name {
        // The order of checks differs by kind in Kubernetes' validation functions, and clients see errors in
        // that order.
        "ConfigMap" | "Secret" => {
            errors.extend(changed);
            errors.extend(data::update(of, object, old));
            errors.extend(metadata(of, group, object));
            errors.extend(contents(of, object));
        }
        "Role" | "ClusterRole" | "RoleBinding" | "ClusterRoleBinding" => {
            errors.extend(metadata(of, group, object));
            errors.extend(contents(of, object));
            errors.extend(changed);
            errors.extend(roles::update(object, old));
        }
        "Event" => {
            errors.extend(changed);
            errors.extend(events::update(group, object, old));
        }
        "Service" => {
            errors.extend(changed);
            errors.extend(finalizers(of, metadata_of(object)));
            errors.extend(service::update(object, old));
            errors.extend(contents(of, object));
        }
        "ValidatingWebhookConfiguration" | "MutatingWebhookConfiguration" => {
            errors.extend(changed);
            errors.extend(finalizers(of, metadata_of(object)));
            errors.extend(webhooks::update(object, old));
        }
        _ => {
            errors.extend(changed);
            errors.extend(finalizers(of, metadata_of(object)));
            errors.extend(contents(of, object));
            errors.extend(workload::update(of, object, old));
        }
    }
    errors
}

fn metadata(of: &Type, group: &str, object: &JsonObject) -> Vec<Error> {
    let Some(metadata) = read::object(object, "metadata") else { return Vec::new() };
    let resource = resources().iter().find(|resource| resource.kind == of.name && resource.group == group);
    let is_namespaced = resource.is_some_and(|resource: &Resource| resource.scope == Scope::Namespaced);
    let mut errors = meta::validate(metadata, is_namespaced, name_rule(of.name), &Path::new("metadata"));
    errors.extend(finalizers(of, metadata));
    errors
}

/// A finalizer without a domain is one that Kubernetes has.
fn finalizers(of: &Type, metadata: &JsonObject) -> Vec<Error> {
    const STANDARD: [&str; 3] = ["kubernetes", "orphan", "foregroundDeletion"];
    // Its validation calls the generic one, which does not look for standard names.
    if of.name == "CustomResourceDefinition" {
        return Vec::new();
    }
    let (root, words) =
        (Path::new("metadata"), "name is neither a standard finalizer name nor is it fully qualified");
    let path = root.child("finalizers");
    let names = metadata.get("finalizers").and_then(Value::as_array).into_iter().flatten().enumerate();
    let names = names.filter_map(|(index, name)| Some((index, name.as_str()?)));
    let unknown = names.filter(|(_, name)| !name.contains('/') && !STANDARD.contains(name));
    unknown.map(|(index, name)| Error::invalid(&path.index(index), name, words)).collect()
}

fn name_rule(kind: &str) -> NameRule {
    match kind {
        "Namespace" | "StatefulSet" | "Service" => NameRule::Label,
        "Role" | "ClusterRole" | "RoleBinding" | "ClusterRoleBinding" => NameRule::PathSegment,
        _ => NameRule::Subdomain,
    }
}

fn contents(of: &Type, object: &JsonObject) -> Vec<Error> {
    match of.name {
        "ConfigMap" => data::config_map(object),
        "Secret" => data::secret(object),
        "Role" | "ClusterRole" => roles::role(of, object),
        "RoleBinding" | "ClusterRoleBinding" => roles::binding(of, object),
        "Lease" => lease(object),
        "Service" => service::check(object),
        "ValidatingWebhookConfiguration" | "MutatingWebhookConfiguration" => webhooks::create(object),
        "Pod" => {
            read::object(object, "spec").map(|spec| pod::spec(spec, &Path::new("spec"))).unwrap_or_default()
        }
        _ => workload::check(of, object),
    }
}

fn lease(object: &JsonObject) -> Vec<Error> {
    let Some(spec) = read::object(object, "spec") else { return Vec::new() };
    let path = Path::new("spec");
    let mut errors = Vec::new();
    if let Some(duration) = read::integer(spec, "leaseDurationSeconds").filter(|seconds| *seconds <= 0) {
        errors.push(Error::invalid(&path.child("leaseDurationSeconds"), duration, "must be greater than 0"));
    }
    errors.extend(read::non_negative(spec, "leaseTransitions", &path));
    errors
}
