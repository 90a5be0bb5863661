//! What several kinds have.
#![allow(
    dead_code,
    clippy::doc_markdown,
    clippy::struct_field_names,
    reason = "only the schemas of these types are of interest, and words and names are for users of the API"
)]

use schemars::JsonSchema;
use serde_json::json;

use super::marks::{atomic, atomic_map, keyed_by, or, set};

/// How it is doing.
#[derive(JsonSchema)]
pub(super) struct Status {
    /// What is true of it right now, why, and since when.
    #[schemars(transform = keyed_by("type"))]
    conditions: Option<Vec<Condition>>,
}

#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Condition {
    /// What it is about.
    r#type: String,
    /// Whether it holds: True, False or Unknown.
    status: String,
    /// Since when.
    #[schemars(transform = set("format", json!("date-time")))]
    last_transition_time: String,
    /// Why, in a word.
    reason: String,
    /// Why, for people.
    message: Option<String>,
    /// The generation of the object that this was said about.
    observed_generation: Option<i64>,
    /// What failed, for programs: a code that never changes its meaning.
    code: Option<String>,
    /// The step of the pipeline that failed.
    step: Option<String>,
    /// What the Composition calls the composed resource that failed.
    resource: Option<String>,
}

#[derive(JsonSchema)]
pub(super) struct NameRef {
    /// Its name.
    name: String,
}

/// What every package says about how it is installed.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct PackageOptions {
    /// When the image is pulled: IfNotPresent, Always or Never.
    #[schemars(transform = or(json!("IfNotPresent")))]
    package_pull_policy: Option<String>,
    /// Secrets to pull the image with.
    package_pull_secrets: Option<Vec<PullSecret>>,
    /// Install it even if it asks for another version of the plane.
    #[schemars(transform = or(json!(false)))]
    ignore_crossplane_constraints: Option<bool>,
    /// Install it without what it depends on.
    #[schemars(transform = or(json!(false)))]
    skip_dependency_resolution: Option<bool>,
    /// Labels for everything that it brings.
    common_labels: Option<std::collections::BTreeMap<String, String>>,
    /// Annotations for everything that it brings.
    common_annotations: Option<std::collections::BTreeMap<String, String>>,
    /// How it is run.
    #[schemars(transform = or(json!({"name": "default"})))]
    runtime_config_ref: Option<RuntimeConfigRef>,
}

#[derive(JsonSchema)]
#[schemars(transform = atomic_map)]
pub(super) struct PullSecret {
    /// Its name.
    #[schemars(transform = or(json!("")))]
    name: Option<String>,
}

#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct RuntimeConfigRef {
    /// Group and version.
    #[schemars(transform = or(json!("pkg.crossplane.io/v1beta1")))]
    api_version: Option<String>,
    /// The kind.
    #[schemars(transform = or(json!("DeploymentRuntimeConfig")))]
    kind: Option<String>,
    /// Its name.
    name: String,
}

#[derive(JsonSchema)]
pub(super) struct AppliedImageConfig {
    /// Its name.
    name: String,
    /// Which effect.
    reason: String,
}

#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = atomic_map)]
pub(super) struct LabelSelector {
    /// Labels that must be there with these values.
    match_labels: Option<std::collections::BTreeMap<String, String>>,
    /// Further conditions on labels.
    #[schemars(transform = atomic)]
    match_expressions: Option<Vec<LabelRequirement>>,
}

#[derive(JsonSchema)]
pub(super) struct LabelRequirement {
    /// The label.
    key: String,
    /// In, NotIn, Exists or DoesNotExist.
    operator: String,
    /// The values that In and NotIn look for.
    #[schemars(transform = atomic)]
    values: Option<Vec<String>>,
}
