//! Types of fields that several kinds have.
#![allow(dead_code, reason = "only the schemas of these types are of interest")]

use schemars::JsonSchema;
use serde_json::json;

use super::marks::{atomic, atomic_map, keyed_by, or, set};

/// Observed state of the object.
#[derive(JsonSchema)]
pub(super) struct Status {
    /// Current conditions of the object, one per type.
    #[schemars(transform = keyed_by("type"))]
    conditions: Option<Vec<Condition>>,
}

#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Condition {
    /// Type of the condition, for example Ready or Synced.
    r#type: String,
    /// Status of the condition: True, False or Unknown.
    status: String,
    /// Time at which the status of the condition last changed.
    #[schemars(transform = set("format", json!("date-time")))]
    last_transition_time: String,
    /// Reason for the last change, as one word in CamelCase.
    reason: String,
    /// Human-readable details about the last change.
    message: Option<String>,
    /// Value of metadata.generation for which the controller set the condition.
    observed_generation: Option<i64>,
    /// Stable code of the cause of a failure, for programs. The meaning of a code never changes.
    code: Option<String>,
    /// The step of the pipeline that failed.
    step: Option<String>,
    /// Name of the composed resource that failed, as the Composition has it.
    resource: Option<String>,
}

#[derive(JsonSchema)]
pub(super) struct NameRef {
    /// Name of the referenced object.
    name: String,
}

/// Options for installing a package.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct PackageOptions {
    /// When the control plane pulls the image: IfNotPresent (the default), Always or Never.
    #[schemars(transform = or(json!("IfNotPresent")))]
    package_pull_policy: Option<String>,
    /// Secrets with the registry credentials for pulling the image.
    package_pull_secrets: Option<Vec<PullSecret>>,
    /// Install the package even if it requires another version of Crossplane. Defaults to false.
    #[schemars(transform = or(json!(false)))]
    ignore_crossplane_constraints: Option<bool>,
    /// Install the package without its dependencies. Defaults to false.
    #[schemars(transform = or(json!(false)))]
    skip_dependency_resolution: Option<bool>,
    /// Labels that the control plane adds to every object that the package installs.
    common_labels: Option<std::collections::BTreeMap<String, String>>,
    /// Annotations that the control plane adds to every object that the package installs.
    common_annotations: Option<std::collections::BTreeMap<String, String>>,
    /// Runtime configuration with which the control plane runs the package. Defaults to the DeploymentRuntimeConfig named default.
    #[schemars(transform = or(json!({"name": "default"})))]
    runtime_config_ref: Option<RuntimeConfigRef>,
}

#[derive(JsonSchema)]
#[schemars(transform = atomic_map)]
pub(super) struct PullSecret {
    /// Name of the Secret.
    #[schemars(transform = or(json!("")))]
    name: Option<String>,
}

#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct RuntimeConfigRef {
    /// API group and version of the runtime configuration.
    #[schemars(transform = or(json!("pkg.crossplane.io/v1beta1")))]
    api_version: Option<String>,
    /// Kind of the runtime configuration.
    #[schemars(transform = or(json!("DeploymentRuntimeConfig")))]
    kind: Option<String>,
    /// Name of the runtime configuration.
    name: String,
}

#[derive(JsonSchema)]
pub(super) struct AppliedImageConfig {
    /// Name of the ImageConfig.
    name: String,
    /// Purpose for which the ImageConfig was used.
    reason: String,
}

#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = atomic_map)]
pub(super) struct LabelSelector {
    /// Labels that an object must have, with these values.
    match_labels: Option<std::collections::BTreeMap<String, String>>,
    /// Requirements on labels. An object must meet all of them.
    #[schemars(transform = atomic)]
    match_expressions: Option<Vec<LabelRequirement>>,
}

#[derive(JsonSchema)]
pub(super) struct LabelRequirement {
    /// Key of the label.
    key: String,
    /// Relation between the label and the values: In, NotIn, Exists or DoesNotExist.
    operator: String,
    /// Values for the operators In and NotIn.
    #[schemars(transform = atomic)]
    values: Option<Vec<String>>,
}
