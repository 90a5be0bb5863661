//! `Usage` of both groups, and `ClusterUsage`.
#![allow(dead_code, reason = "only the schemas of these types are of interest")]

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde_json::{Value, json};

use super::kind::{Kind, Scope, Version, age, column, condition};
use super::marks::{RULES, rule};
use super::schema::{Schema, of};
use super::shared_fields::{NameRef, Status};

/// Specification of the resource that is in use, and of the resource or reason that needs it.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = rule("has(self.by) || has(self.reason)", "set by or reason"))]
#[schemars(transform = rule(
    "has(self.by) || (!has(self.of.resourceRef) || !has(self.of.resourceRef.__namespace__)) && \
     (!has(self.of.resourceSelector) || !has(self.of.resourceSelector.__namespace__))",
    "set no namespace without spec.by: a Usage protects only resources in its own namespace"
))]
struct Spec {
    /// Resource that is in use and that the control plane protects from deletion.
    of: Used,
    /// Resource that uses the other one. The protection ends when it is deleted. Required if reason is unset.
    by: Option<User>,
    /// Reason why the resource must not be deleted. Required if by is unset; clients whose deletion is denied then see it.
    reason: Option<String>,
    /// Repeat a deletion that the usage blocked, once the resource is no longer in use. Defaults to false.
    replay_deletion: Option<bool>,
}

#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = rule(
    "has(self.resourceRef) || has(self.resourceSelector)",
    "set resourceRef or resourceSelector"
))]
struct Used {
    /// API group and version of the resource.
    api_version: Option<String>,
    /// Kind of the resource.
    kind: Option<String>,
    /// Reference to the resource by name.
    resource_ref: Option<Reference>,
    /// Selects the resource by labels or controller. The first match is used and stored in resourceRef.
    resource_selector: Option<Selector>,
}

#[derive(JsonSchema)]
struct Reference {
    /// Name of the resource.
    name: String,
    /// Namespace of the resource. It must be the namespace of the Usage, which is the default.
    namespace: Option<String>,
}

#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Selector {
    #[serde(flatten)]
    near: NearSelector,
    /// Namespace of the resource. It must be the namespace of the Usage, which is the default.
    namespace: Option<String>,
}

#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = rule(
    "has(self.resourceRef) || has(self.resourceSelector)",
    "set resourceRef or resourceSelector"
))]
struct User {
    /// API group and version of the resource.
    api_version: Option<String>,
    /// Kind of the resource.
    kind: Option<String>,
    /// Reference to the resource by name.
    resource_ref: Option<NameRef>,
    /// Selects the resource by labels or controller. The first match is used and stored in resourceRef.
    resource_selector: Option<NearSelector>,
}

#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
struct NearSelector {
    /// Labels that the resource must have.
    match_labels: Option<BTreeMap<String, String>>,
    /// Select only resources that have the same controller as the usage. Defaults to false.
    match_controller_ref: Option<bool>,
}

pub(super) fn usage() -> Kind {
    Kind::new("protection.crossplane.io", "Usage", Scope::Namespaced)
        .version(version("v1beta1", of::<Spec>()))
}

pub(super) fn cluster_usage() -> Kind {
    Kind::new("protection.crossplane.io", "ClusterUsage", Scope::Cluster)
        .version(version("v1beta1", cluster_spec()))
}

pub(super) fn legacy_usage() -> Kind {
    let deprecation = "apiextensions.crossplane.io Usage is deprecated: use Usage or ClusterUsage of \
                       protection.crossplane.io";
    let version = |name| Version { deprecation: Some(deprecation), ..version(name, cluster_spec()) };
    Kind::new("apiextensions.crossplane.io", "Usage", Scope::Cluster)
        .version(version("v1alpha1"))
        .version(version("v1beta1"))
}

/// What is used is not in a namespace, or it does not matter in which.
fn cluster_spec() -> Schema {
    let mut spec = of::<Spec>();
    spec.remove("of.resourceRef", "namespace");
    spec.remove("of.resourceSelector", "namespace");
    spec.amend("", RULES, Value::Null);
    spec.rule("has(self.by) || has(self.reason)", "set by or reason");
    spec
}

fn version(name: &'static str, spec: Schema) -> Version {
    let mut schema = Schema::of_object("Protects a resource from being deleted while it is used.")
        .with("spec", spec)
        .with("status", of::<Status>());
    schema.amend("", "required", json!(["spec"]));
    let columns = vec![
        column("DETAILS", "string", r".metadata.annotations.crossplane\.io/usage-details"),
        condition("READY", "Ready"),
        age(),
    ];
    Version { columns, has_status: true, ..Version::new(name, schema) }
}
