//! `Function` and `FunctionRevision`.
#![allow(dead_code, reason = "only the schemas of these types are of interest")]

use schemars::JsonSchema;
use serde_json::json;

use super::kind::{Kind, Scope, Version, age, column, condition, wide_column};
use super::marks::{keyed_by, or, rule, set};
use super::schema::{Schema, of};
use super::shared_fields::{AppliedImageConfig, Condition, PackageOptions};

/// Specification of the Function package to install.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = rule(
    "!has(self.activeRevisionLimit) || self.revisionHistoryLimit == 0 || self.activeRevisionLimit <= self.revisionHistoryLimit",
    "activeRevisionLimit cannot be more than revisionHistoryLimit"
))]
struct Spec {
    /// Image of the package, with registry, repository, and tag or digest.
    #[schemars(transform = rule(
        r"self.matches('^[^\\.\\/]+(\\.[^\\.\\/]+)+(\\/[^\\/:@]+)+(:[^:@]+(@sha256.+)?|@sha256.+)$')",
        "an image is named in full: registry, repository, and tag or digest, as in registry.example.com/team/package:v1.0.0"
    ))]
    package: String,
    /// Whether the control plane activates a new revision at once (Automatic, the default). With any other value, an administrator
    /// activates it.
    #[schemars(transform = or(json!("Automatic")))]
    revision_activation_policy: Option<String>,
    /// How many revisions the control plane keeps besides the current one. It deletes only inactive ones. Defaults to 1; 0 keeps all.
    #[schemars(transform = or(json!(1)))]
    revision_history_limit: Option<i64>,
    /// How many revisions can be active at the same time. Defaults to 1.
    #[schemars(transform = set("minimum", json!(1)))]
    active_revision_limit: Option<i64>,
    #[serde(flatten)]
    options: PackageOptions,
}

/// Observed state of the Function.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Status {
    /// Current conditions of the object, one per type.
    #[schemars(transform = keyed_by("type"))]
    conditions: Option<Vec<Condition>>,
    /// Name of the newest FunctionRevision.
    current_revision: Option<String>,
    /// Image from which the newest revision was created, as spec.package had it.
    current_identifier: Option<String>,
    /// Image that the control plane pulled, after ImageConfigs rewrote its name.
    resolved_package: Option<String>,
    /// ImageConfigs that the control plane used for the image.
    applied_image_config_refs: Option<Vec<AppliedImageConfig>>,
}

/// Specification of a revision of a Function package.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
struct RevisionSpec {
    /// Image of the package, with registry, repository, and tag or digest.
    image: String,
    /// Desired state of the revision: Active or Inactive. Steps can call only active revisions.
    desired_state: String,
    /// Number of the revision. Newer revisions have higher numbers.
    revision: i64,
    #[serde(flatten)]
    options: PackageOptions,
    /// Name of the Secret with the TLS certificate that the function serves with.
    tls_server_secret_name: Option<String>,
    /// Name of the Secret with the TLS certificate that the function presents as a client.
    tls_client_secret_name: Option<String>,
}

/// Observed state of the FunctionRevision.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
struct RevisionStatus {
    /// Current conditions of the object, one per type.
    #[schemars(transform = keyed_by("type"))]
    conditions: Option<Vec<Condition>>,
    /// Objects that the package installed.
    object_refs: Option<Vec<ObjectRef>>,
    /// Number of packages that this package depends on.
    found_dependencies: Option<i64>,
    /// Number of dependencies that are installed.
    installed_dependencies: Option<i64>,
    /// Number of dependencies that are installed in a version outside of the required range.
    invalid_dependencies: Option<i64>,
    /// Image that the control plane pulled, after ImageConfigs rewrote its name.
    resolved_image: Option<String>,
    /// ImageConfigs that the control plane used for the image.
    applied_image_config_refs: Option<Vec<AppliedImageConfig>>,
    /// Hash of the image and of the signature policy that it satisfied.
    verification: Option<String>,
    /// Capabilities that the package declares.
    capabilities: Option<Vec<String>>,
    /// Name of the Secret with the TLS certificate that the function serves with.
    tls_server_secret_name: Option<String>,
    /// Name of the Secret with the TLS certificate that the function presents as a client.
    tls_client_secret_name: Option<String>,
    /// gRPC endpoint at which the control plane calls the function.
    endpoint: Option<String>,
}

#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
struct ObjectRef {
    /// API group and version of the object.
    api_version: String,
    /// Kind of the object.
    kind: String,
    /// Name of the object.
    name: String,
    /// UID of the object.
    uid: Option<String>,
}

pub(super) fn function() -> Kind {
    let schema = Schema::of_object("Installs a function from a package.")
        .with("spec", of::<Spec>())
        .with("status", of::<Status>());
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
    let schema = Schema::of_object("A revision of a Function, made when its package changes.")
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
