//! `CompositeResourceDefinition`, in both its versions.
#![allow(
    dead_code,
    clippy::doc_markdown,
    clippy::struct_field_names,
    reason = "only the schemas of these types are of interest, and words and names are for users of the API"
)]

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde_json::{Value, json};

use super::common::{Condition, LabelSelector, NameRef};
use super::kind::{Kind, Scope, Version, age, condition};
use super::marks::{RULES, atomic, fixed, keyed_by, or, rule, set};
use super::schema::{Schema, of};
use crate::TypeRef;

/// What is defined.
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
    /// What they are called.
    names: Names,
    /// Whether they are in namespaces.
    #[schemars(transform = or(json!("LegacyCluster")), transform = fixed)]
    scope: Option<Where>,
    /// What claims of them are called.
    claim_names: Option<Names>,
    /// The keys that their connection secrets may have; all, if none are listed.
    connection_secret_keys: Option<Vec<String>>,
    /// What becomes of the composite resource of a claim that is deleted, if the claim does not say.
    #[schemars(transform = or(json!("Background")))]
    default_composite_delete_policy: Option<DeletePolicy>,
    /// The Composition of those that choose none.
    default_composition_ref: Option<NameRef>,
    /// The revisions of a Composition that those follow that do not say.
    default_composition_revision_selector: Option<LabelSelector>,
    /// The one Composition that there is for them.
    #[schemars(transform = fixed)]
    enforced_composition_ref: Option<NameRef>,
    /// Whether they follow new revisions of their Composition, if they do not say.
    #[schemars(transform = or(json!("Automatic")))]
    default_composition_update_policy: Option<UpdatePolicy>,
    /// The versions of the API.
    versions: Vec<DefinedVersion>,
    /// How one version is turned into another.
    #[schemars(transform = rule(
        "self.strategy == 'Webhook' && has(self.webhook)",
        "a conversion is done by a webhook: say which"
    ))]
    conversion: Option<Conversion>,
    /// What the CustomResourceDefinitions that are made of this get.
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
struct Names {
    /// The kind, in CamelCase.
    kind: String,
    /// The name in the API, in lower case.
    plural: String,
    /// For people who type. The kind in lower case if nothing is said.
    singular: Option<String>,
    /// The kind of a list of them.
    list_kind: Option<String>,
    /// Shorter names for people who type.
    #[schemars(transform = atomic)]
    short_names: Option<Vec<String>>,
    /// Groups of kinds that can be listed together.
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
    /// Such as v1alpha1.
    name: String,
    /// Whether Compositions are written for this version. Exactly one is.
    referenceable: bool,
    /// Whether it can be used.
    served: bool,
    /// Whether those who use it are warned.
    deprecated: Option<bool>,
    /// With which words.
    #[schemars(length(max = 256))]
    deprecation_warning: Option<String>,
    /// What objects of this version look like.
    schema: Option<VersionSchema>,
    /// What kubectl shows of it, one column each.
    additional_printer_columns: Option<Vec<Column>>,
    /// What else can be done to them.
    subresources: Option<Subresources>,
}

#[derive(JsonSchema)]
struct VersionSchema {
    /// An OpenAPI v3 schema.
    #[serde(rename = "openAPIV3Schema")]
    open_api_v3_schema: Option<crate::Object>,
}

#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Column {
    /// The title.
    name: String,
    /// What kind of value it is.
    r#type: String,
    /// How the value is written.
    format: Option<String>,
    /// What it means.
    description: Option<String>,
    /// Above zero: shown only to those who want to see more.
    priority: Option<i32>,
    /// Where the value is.
    json_path: String,
}

#[derive(JsonSchema)]
struct Subresources {
    /// The numbers of replicas, for those who scale it.
    scale: Option<Scale>,
}

#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Scale {
    /// Where the wanted number is.
    spec_replicas_path: String,
    /// Where the actual number is.
    status_replicas_path: String,
    /// Where the selector of its pods is.
    label_selector_path: Option<String>,
}

#[derive(JsonSchema)]
struct Conversion {
    /// None, or Webhook.
    strategy: String,
    /// Who does it.
    webhook: Option<Webhook>,
}

#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Webhook {
    /// How to reach it.
    client_config: Option<ClientConfig>,
    /// The versions of the review that it understands, best first.
    #[schemars(transform = atomic)]
    conversion_review_versions: Vec<String>,
}

#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
struct ClientConfig {
    /// Its address, if it is no Service.
    url: Option<String>,
    /// The Service, if it is one.
    service: Option<Service>,
    /// The certificates to trust, in PEM.
    #[schemars(transform = set("format", json!("byte")))]
    ca_bundle: Option<String>,
}

#[derive(JsonSchema)]
struct Service {
    /// Its namespace.
    namespace: String,
    /// Its name.
    name: String,
    /// Where it listens.
    path: Option<String>,
    /// Its port, 443 if nothing is said.
    port: Option<i32>,
}

#[derive(JsonSchema)]
struct Metadata {
    /// Labels.
    labels: Option<BTreeMap<String, String>>,
    /// Annotations.
    annotations: Option<BTreeMap<String, String>>,
}

/// How it is doing.
#[derive(JsonSchema)]
struct Status {
    /// What is true of it right now, why, and since when.
    #[schemars(transform = keyed_by("type"))]
    conditions: Option<Vec<Condition>>,
    /// What is being looked after.
    controllers: Option<Controllers>,
}

#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Controllers {
    /// The composite resources.
    composite_resource_type: Option<TypeRef>,
    /// The claims.
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
    spec.rule("!has(self.claimNames)", "there are no claims any more");
    spec.rule("!has(self.connectionSecretKeys)", "there are no connection secrets any more");
    for field in ["claimNames", "connectionSecretKeys", "defaultCompositeDeletePolicy"] {
        spec.add_words(field, "Only of use in old definitions.");
    }
    spec
}
