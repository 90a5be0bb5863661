//! `Function` and `FunctionRevision`.
#![allow(
    dead_code,
    clippy::doc_markdown,
    clippy::struct_field_names,
    reason = "only the schemas of these types are of interest, and words and names are for users of the API"
)]

use schemars::JsonSchema;
use serde_json::json;

use super::common::{AppliedImageConfig, Condition, PackageOptions};
use super::kind::{Kind, Scope, Version, age, column, condition, wide_column};
use super::marks::{keyed_by, or, rule, set};
use super::schema::{Schema, of};

/// What to install.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = rule(
    "!has(self.activeRevisionLimit) || self.revisionHistoryLimit == 0 || self.activeRevisionLimit <= self.revisionHistoryLimit",
    "activeRevisionLimit cannot be more than revisionHistoryLimit"
))]
struct Spec {
    /// The image.
    #[schemars(transform = rule(
        r"self.matches('^[^\\.\\/]+(\\.[^\\.\\/]+)+(\\/[^\\/:@]+)+(:[^:@]+(@sha256.+)?|@sha256.+)$')",
        "an image is named in full: registry, repository, and tag or digest, as in registry.example.com/team/package:v1.0.0"
    ))]
    package: String,
    /// Automatic: a new revision becomes active at once. Anything else: somebody activates it.
    #[schemars(transform = or(json!("Automatic")))]
    revision_activation_policy: Option<String>,
    /// How many inactive revisions are kept. 0 keeps all.
    #[schemars(transform = or(json!(1)))]
    revision_history_limit: Option<i64>,
    /// How many revisions are active at the same time. 1 if nothing is said.
    #[schemars(transform = set("minimum", json!(1)))]
    active_revision_limit: Option<i64>,
    #[serde(flatten)]
    options: PackageOptions,
}

/// How it is doing.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Status {
    /// What is true of it right now, why, and since when.
    #[schemars(transform = keyed_by("type"))]
    conditions: Option<Vec<Condition>>,
    /// The newest revision.
    current_revision: Option<String>,
    /// The image that it was made of.
    current_identifier: Option<String>,
    /// The image that was pulled, after rewriting.
    resolved_package: Option<String>,
    /// Which ImageConfigs had an effect.
    applied_image_config_refs: Option<Vec<AppliedImageConfig>>,
}

/// What is installed.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
struct RevisionSpec {
    /// The image.
    image: String,
    /// Active or Inactive.
    desired_state: String,
    /// Its number. Newer revisions have higher ones.
    revision: i64,
    #[serde(flatten)]
    options: PackageOptions,
    /// The Secret with the certificate that it serves with.
    tls_server_secret_name: Option<String>,
    /// The Secret with the certificate that it calls others with.
    tls_client_secret_name: Option<String>,
}

/// How it is doing.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
struct RevisionStatus {
    /// What is true of it right now, why, and since when.
    #[schemars(transform = keyed_by("type"))]
    conditions: Option<Vec<Condition>>,
    /// What it brought.
    object_refs: Option<Vec<ObjectRef>>,
    /// How many packages it depends on.
    found_dependencies: Option<i64>,
    /// How many of them are there.
    installed_dependencies: Option<i64>,
    /// How many of them are there in a version that does not fit.
    invalid_dependencies: Option<i64>,
    /// The image that was pulled, after rewriting.
    resolved_image: Option<String>,
    /// Which ImageConfigs had an effect.
    applied_image_config_refs: Option<Vec<AppliedImageConfig>>,
    /// What it says that it can do.
    capabilities: Option<Vec<String>>,
    /// The Secret with the certificate that it serves with.
    tls_server_secret_name: Option<String>,
    /// The Secret with the certificate that it calls others with.
    tls_client_secret_name: Option<String>,
    /// Where it can be called.
    endpoint: Option<String>,
}

#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
struct ObjectRef {
    /// Group and version.
    api_version: String,
    /// The kind.
    kind: String,
    /// The name.
    name: String,
    /// Which of those that ever had the name.
    uid: Option<String>,
}

pub(super) fn function() -> Kind {
    let schema =
        Schema::of_object("Installs a function.").with("spec", of::<Spec>()).with("status", of::<Status>());
    let columns = vec![
        condition("INSTALLED", "Installed"),
        condition("HEALTHY", "Healthy"),
        column("PACKAGE", "string", ".spec.package"),
        age(),
    ];
    let v1 = Version { columns, has_status: true, ..Version::new("v1", schema) };
    Kind { categories: &["crossplane", "pkg"], ..Kind::new("pkg.crossplane.io", "Function", Scope::Cluster) }
        .version(v1.clone())
        .version(Version { name: "v1beta1", ..v1 })
}

pub(super) fn revision() -> Kind {
    let schema = Schema::of_object("A function as it was installed at some time.")
        .with("spec", of::<RevisionSpec>())
        .with("status", of::<RevisionStatus>());
    let columns = vec![
        condition("HEALTHY", "RevisionHealthy"),
        condition("RUNTIME-HEALTHY", "RuntimeHealthy"),
        condition("RUNTIME-ACTIVE", "RuntimeActive"),
        column("IMAGE", "string", ".spec.image"),
        column("STATE", "string", ".spec.desiredState"),
        age(),
        wide_column("REVISION", ".spec.revision"),
        wide_column("DEP-FOUND", ".status.foundDependencies"),
        wide_column("DEP-INSTALLED", ".status.installedDependencies"),
    ];
    let v1 = Version { columns, has_status: true, ..Version::new("v1", schema) };
    let categories = &["crossplane", "pkgrev"];
    Kind { categories, ..Kind::new("pkg.crossplane.io", "FunctionRevision", Scope::Cluster) }
        .version(v1.clone())
        .version(Version { name: "v1beta1", ..v1 })
}
