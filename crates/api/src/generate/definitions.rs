//! `CompositeResourceDefinition`, in both its versions.
#![allow(dead_code, reason = "only the schemas of these types are of interest")]

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde_json::{Value, json};

use super::kind::{Kind, Scope, Version, age, condition};
use super::marks::{RULES, atomic, fixed, keyed_by, or, rule, set};
use super::schema::{Schema, of};
use super::shared_fields::{Condition, LabelSelector, NameRef};
use crate::TypeRef;

/// Specification of the composite resources that this XRD defines.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = rule("self.scope == 'LegacyCluster' || !has(self.claimNames)", "claims are only for scope LegacyCluster"))]
#[schemars(transform = rule(
    "self.scope == 'LegacyCluster' || !has(self.connectionSecretKeys)",
    "connection secrets are only for scope LegacyCluster"
))]
struct Spec {
    /// The API group of the composite resources.
    #[schemars(transform = fixed)]
    group: String,
    /// Names of the kind of composite resources. They cannot be changed.
    names: Names,
    /// Scope of the composite resources: in a namespace (Namespaced) or not (Cluster). LegacyCluster is the scope of Crossplane 1, with
    /// claims.
    #[schemars(transform = or(json!("LegacyCluster")), transform = fixed)]
    scope: Option<Where>,
    /// Names of the kind of claims. If unset, the composite resources have no claims.
    claim_names: Option<Names>,
    /// Keys that the control plane publishes in connection Secrets. If empty, it publishes all keys.
    connection_secret_keys: Option<Vec<String>>,
    /// How the composite resource of a deleted claim is deleted, if the claim sets no policy: Background (the default) or Foreground.
    #[schemars(transform = or(json!("Background")))]
    default_composite_delete_policy: Option<DeletePolicy>,
    /// Composition for composite resources that set neither compositionRef nor compositionSelector.
    default_composition_ref: Option<NameRef>,
    /// Selects the CompositionRevisions for composite resources that set neither compositionRevisionRef nor compositionRevisionSelector.
    default_composition_revision_selector: Option<LabelSelector>,
    /// Composition for all composite resources of the kind. It overrides the choice of a composite resource and cannot be changed.
    #[schemars(transform = fixed)]
    enforced_composition_ref: Option<NameRef>,
    /// Whether composite resources that set no compositionUpdatePolicy follow new CompositionRevisions: Automatic (the default) or Manual.
    #[schemars(transform = or(json!("Automatic")))]
    default_composition_update_policy: Option<UpdatePolicy>,
    /// Versions of the API of the composite resources.
    versions: Vec<DefinedVersion>,
    /// How the API server converts objects between versions. If unset, it changes only their apiVersion.
    #[schemars(transform = rule(
        "self.strategy == 'Webhook' && has(self.webhook)",
        "conversion needs the strategy Webhook and webhook"
    ))]
    conversion: Option<Conversion>,
    /// Metadata for the CustomResourceDefinitions that the control plane creates from this XRD.
    metadata: Option<Metadata>,
}

#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = fixed)]
#[schemars(transform = rule("self.plural == self.plural.lowerAscii()", "the plural must be in lower case"))]
#[schemars(transform = rule(
    "!has(self.singular) || self.singular == self.singular.lowerAscii()",
    "the singular must be in lower case"
))]
#[allow(clippy::struct_field_names, reason = "the names are those of the API")]
struct Names {
    /// Kind of the objects, in CamelCase and singular.
    kind: String,
    /// Plural name of the kind in URLs of the API, in lower case.
    plural: String,
    /// Singular name of the kind, in lower case. Defaults to the kind in lower case.
    singular: Option<String>,
    /// Kind of a list of these objects. Defaults to the kind with the suffix List.
    list_kind: Option<String>,
    /// Short names of the kind for kubectl.
    #[schemars(transform = atomic)]
    short_names: Option<Vec<String>>,
    /// Categories of the kind, by which kubectl lists several kinds together.
    #[schemars(transform = atomic)]
    categories: Option<Vec<String>>,
}

#[derive(JsonSchema)]
enum Where {
    LegacyCluster,
    Namespaced,
    Cluster,
}

#[derive(JsonSchema)]
enum DeletePolicy {
    Background,
    Foreground,
}

#[derive(JsonSchema)]
enum UpdatePolicy {
    Automatic,
    Manual,
}

#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
struct DefinedVersion {
    /// Name of the version, for example v1alpha1.
    name: String,
    /// Whether Compositions refer to this version. Exactly one version must be referenceable; the API server stores objects in it.
    referenceable: bool,
    /// Whether the API server serves this version.
    served: bool,
    /// Whether the version is deprecated. The API server warns clients that use a deprecated version.
    deprecated: Option<bool>,
    /// Warning for clients that use the deprecated version. If unset, the API server generates one.
    #[schemars(length(max = 256))]
    deprecation_warning: Option<String>,
    /// Schema of the objects in this version.
    schema: Option<VersionSchema>,
    /// Columns that `kubectl get` shows for these objects, in addition to those of all composite resources.
    additional_printer_columns: Option<Vec<Column>>,
    /// Subresources of the objects, besides status, which they always have.
    subresources: Option<Subresources>,
}

#[derive(JsonSchema)]
struct VersionSchema {
    /// OpenAPI v3 schema of the objects. The control plane adds the fields that all composite resources have.
    #[serde(rename = "openAPIV3Schema")]
    open_api_v3_schema: Option<crate::Object>,
}

#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Column {
    /// Title of the column.
    name: String,
    /// OpenAPI type of the values, for example string, integer or date.
    r#type: String,
    /// OpenAPI format of the values, for example int64 or date-time.
    format: Option<String>,
    /// Human-readable description of the column.
    description: Option<String>,
    /// Priority of the column. kubectl shows columns with a priority above 0 only with `-o wide`.
    priority: Option<i32>,
    /// JSONPath of the value in the object, for example .spec.size.
    json_path: String,
}

#[derive(JsonSchema)]
struct Subresources {
    /// Scale subresource, with which autoscalers and `kubectl scale` change the number of replicas.
    scale: Option<Scale>,
}

#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
#[allow(clippy::struct_field_names, reason = "the names are those of the API")]
struct Scale {
    /// JSONPath of the desired number of replicas, under .spec.
    spec_replicas_path: String,
    /// JSONPath of the observed number of replicas, under .status.
    status_replicas_path: String,
    /// JSONPath of the label selector of the Pods, as text. A HorizontalPodAutoscaler needs it.
    label_selector_path: Option<String>,
}

#[derive(JsonSchema)]
struct Conversion {
    /// Conversion strategy: None changes only the apiVersion, Webhook calls the webhook.
    strategy: String,
    /// Webhook that converts objects. Only with the strategy Webhook.
    webhook: Option<Webhook>,
}

#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Webhook {
    /// How the API server connects to the webhook.
    client_config: Option<ClientConfig>,
    /// Versions of ConversionReview that the webhook supports, in order of preference.
    #[schemars(transform = atomic)]
    conversion_review_versions: Vec<String>,
}

#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
struct ClientConfig {
    /// URL of the webhook. Set either url or service.
    url: Option<String>,
    /// Service of the webhook. Set either service or url.
    service: Option<Service>,
    /// CA certificates, as PEM in base64, that the API server trusts when it calls the webhook.
    #[schemars(transform = set("format", json!("byte")))]
    ca_bundle: Option<String>,
}

#[derive(JsonSchema)]
struct Service {
    /// Namespace of the Service.
    namespace: String,
    /// Name of the Service.
    name: String,
    /// URL path to which the API server sends requests.
    path: Option<String>,
    /// Port of the Service. Defaults to 443.
    port: Option<i32>,
}

#[derive(JsonSchema)]
struct Metadata {
    /// Labels for the CustomResourceDefinitions. They override labels of the XRD, which are copied too.
    labels: Option<BTreeMap<String, String>>,
    /// Annotations for the CustomResourceDefinitions.
    annotations: Option<BTreeMap<String, String>>,
}

/// Observed state of the XRD.
#[derive(JsonSchema)]
struct Status {
    /// Current conditions of the object, one per type.
    #[schemars(transform = keyed_by("type"))]
    conditions: Option<Vec<Condition>>,
    /// Kinds that the controllers of the XRD reconcile.
    controllers: Option<Controllers>,
}

#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Controllers {
    /// Kind of composite resources that the control plane reconciles.
    composite_resource_type: Option<TypeRef>,
    /// Kind of claims that the control plane reconciles.
    composite_resource_claim_type: Option<TypeRef>,
}

pub(super) fn definition() -> Kind {
    let version = |name, spec, deprecation| {
        let schema = Schema::of_object("Defines a kind of composite resource.")
            .with("spec", spec)
            .with("status", of::<Status>());
        let columns = vec![condition("ESTABLISHED", "Established"), condition("OFFERED", "Offered"), age()];
        Version { columns, has_status: true, deprecation, ..Version::new(name, schema) }
    };
    let warning = "apiextensions.crossplane.io/v1 CompositeResourceDefinition is deprecated: use v2";
    Kind {
        short_names: &["xrd", "xrds"],
        ..Kind::new("apiextensions.crossplane.io", "CompositeResourceDefinition", Scope::Cluster)
    }
    .version(version("v1", of::<Spec>(), Some(warning)))
    .version(version("v2", modern_spec(), None))
}

/// What version 2 says otherwise: there are no legacy composite resources, and no claims.
fn modern_spec() -> Schema {
    let mut spec = of::<Spec>();
    spec.amend("scope", "enum", json!(["Namespaced", "Cluster"]));
    spec.amend("scope", "default", json!("Namespaced"));
    spec.amend("claimNames", RULES, Value::Null);
    spec.amend("conversion", RULES, Value::Null);
    spec.amend("defaultCompositeDeletePolicy", "default", Value::Null);
    // The rules of version 1 are about the legacy scope, which version 2 does not have; they would never hold
    // or always.
    spec.amend("", RULES, Value::Null);
    spec.rule("!has(self.claimNames)", "claimNames needs the scope LegacyCluster");
    spec.rule("!has(self.connectionSecretKeys)", "connectionSecretKeys needs the scope LegacyCluster");
    for field in ["claimNames", "connectionSecretKeys", "defaultCompositeDeletePolicy"] {
        spec.add_words(field, "Only XRDs with the scope LegacyCluster of version v1 use it.");
    }
    spec
}
