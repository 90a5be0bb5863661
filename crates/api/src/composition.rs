//! `Composition`: through which steps a composite resource becomes other resources.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::Object;
use crate::external::CompositionFunction;
#[cfg(feature = "generate")]
use crate::generate::marks::{embedded, fixed, keyed_by, rule};

/// Says how a kind of composite resource becomes other resources.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Composition {
    pub api_version: String,
    pub kind: String,
    #[serde(default)]
    pub metadata: Object,
    pub spec: CompositionSpec,
}

impl Composition {
    /// Its name, or nothing.
    pub fn name(&self) -> &str {
        self.metadata.get("name").and_then(serde_json::Value::as_str).unwrap_or_default()
    }

    /// A label, or nothing.
    pub fn label(&self, key: &str) -> Option<&str> {
        self.metadata.get("labels")?.get(key)?.as_str()
    }
}

/// What becomes of a composite resource.
#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct CompositionSpec {
    /// The kind of composite resource that this is for.
    #[cfg_attr(feature = "generate", schemars(transform = fixed))]
    pub composite_type_ref: TypeRef,
    /// Whether this is written as steps or as resources with patches. Without it, whoever lists resources means those.
    #[serde(default)]
    pub mode: Option<Mode>,
    /// The steps, in the order in which their functions are called.
    #[serde(default)]
    #[cfg_attr(feature = "generate", schemars(transform = keyed_by("step")))]
    pub pipeline: Vec<Step>,
    /// The resources to compose, with the patches that fill them in. Only with mode Resources.
    #[serde(default)]
    pub resources: Vec<Object>,
    /// Patches that several resources share. Only with mode Resources.
    #[serde(default)]
    pub patch_sets: Vec<Object>,
    /// Data that patches can take from and give to. Only with mode Resources.
    #[serde(default)]
    pub environment: Option<Object>,
    /// Images to run and webhooks to call, in this order, after the resources if there are any. An alpha feature.
    #[serde(default)]
    #[cfg_attr(feature = "generate", schemars(transform = keyed_by("name")))]
    pub functions: Vec<CompositionFunction>,
    /// Where connection secrets go. Only for legacy composite resources.
    #[serde(default)]
    pub write_connection_secrets_to_namespace: Option<String>,
    /// Has no effect. Crossplane 1 gave every Composition this field, so those that come from there have it.
    #[serde(default)]
    pub publish_connection_details_with_store_config_ref: Option<Object>,
}

impl CompositionSpec {
    /// How it is written down. Whoever does not say but lists resources means those.
    pub fn mode(&self) -> Mode {
        // Manifests for Crossplane 1 often leave the mode out, and it meant resources then.
        let guess = if self.resources.is_empty() { Mode::Pipeline } else { Mode::Resources };
        self.mode.unwrap_or(guess)
    }
}

/// A kind of composite resource.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct TypeRef {
    /// Group and version.
    pub api_version: String,
    /// The kind.
    pub kind: String,
}

/// How a composition is written down.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
pub enum Mode {
    /// As steps, each of which calls a function.
    Pipeline,
    /// As resources with patches.
    Resources,
}

/// One call of a function.
#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
#[cfg_attr(
    feature = "generate",
    schemars(transform = rule(
        "!(has(self.input) && has(self.inputRef))",
        "input and inputRef exclude each other"
    ))
)]
#[cfg_attr(
    feature = "generate",
    schemars(transform = rule(
        "!(has(self.functionRevisionRef) && has(self.functionRevisionSelector))",
        "functionRevisionRef and functionRevisionSelector exclude each other"
    ))
)]
#[serde(rename_all = "camelCase")]
pub struct Step {
    /// The name of the step. No other step of the pipeline has it.
    pub step: String,
    /// The function to call.
    pub function_ref: FunctionRef,
    /// Call this revision of the function.
    #[serde(default)]
    pub function_revision_ref: Option<FunctionRevisionRef>,
    /// Call the newest active revision of the function that has these labels.
    #[serde(default)]
    pub function_revision_selector: Option<FunctionRevisionSelector>,
    /// What the function is given. Its kind is up to the function.
    #[serde(default)]
    #[cfg_attr(feature = "generate", schemars(transform = embedded))]
    pub input: Option<Object>,
    /// Take the input of the function from this object.
    #[serde(default)]
    pub input_ref: Option<InputRef>,
    /// Secrets that the function may see.
    #[serde(default)]
    #[cfg_attr(feature = "generate", schemars(transform = keyed_by("name")))]
    pub credentials: Vec<Credential>,
    /// What the function is given before it asks.
    #[serde(default)]
    pub requirements: Option<Requirements>,
}

/// A function, by name.
#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
pub struct FunctionRef {
    /// Its name.
    pub name: String,
    /// Call this version of it.
    #[serde(default)]
    pub version: Option<String>,
}

/// A revision of a function, by name.
#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
pub struct FunctionRevisionRef {
    /// Its name.
    pub name: String,
}

/// Revisions of a function, by labels.
#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct FunctionRevisionSelector {
    /// The labels.
    #[serde(default)]
    pub match_labels: BTreeMap<String, String>,
}

/// An object that is the input of a step, so that several can share it.
#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct InputRef {
    /// Group and version of its kind.
    pub api_version: String,
    /// Its kind.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// Its namespace, if it has one.
    #[serde(default)]
    pub namespace: Option<String>,
}

/// A secret that a step may read.
#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
#[cfg_attr(
    feature = "generate",
    schemars(transform = rule(
        "self.source == 'Secret' && has(self.secretRef)",
        "credentials come from a Secret: say which with secretRef"
    ))
)]
#[serde(rename_all = "camelCase")]
pub struct Credential {
    /// What the function calls them.
    pub name: String,
    /// Where they come from.
    pub source: CredentialSource,
    /// The Secret that holds them.
    #[serde(default)]
    pub secret_ref: Option<SecretRef>,
}

/// Where credentials come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
pub enum CredentialSource {
    None,
    Secret,
}

/// A Secret.
#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
pub struct SecretRef {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

/// What a step is given before it is first called.
#[derive(Debug, Clone, Default, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Requirements {
    /// Objects to give to it.
    #[serde(default)]
    #[cfg_attr(feature = "generate", schemars(transform = keyed_by("requirementName")))]
    pub required_resources: Vec<RequiredResource>,
    /// OpenAPI schemas to give to it.
    #[serde(default)]
    #[cfg_attr(feature = "generate", schemars(transform = keyed_by("requirementName")))]
    pub required_schemas: Vec<RequiredSchema>,
}

/// Objects by name or by labels.
#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
#[cfg_attr(
    feature = "generate",
    schemars(transform = rule(
        "!(has(self.name) && has(self.matchLabels))",
        "name and matchLabels exclude each other"
    ))
)]
#[serde(rename_all = "camelCase")]
pub struct RequiredResource {
    /// What the function calls them.
    pub requirement_name: String,
    /// Their group and version.
    pub api_version: String,
    /// Their kind.
    pub kind: String,
    /// The namespace they are in.
    #[serde(default)]
    pub namespace: Option<String>,
    /// The name of the one object.
    #[serde(default)]
    pub name: Option<String>,
    /// The labels of the objects. Without name and labels, all objects of the kind are meant.
    #[serde(default)]
    pub match_labels: BTreeMap<String, String>,
}

/// The schema of a kind.
#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct RequiredSchema {
    /// What the function calls it.
    pub requirement_name: String,
    /// Group and version of the kind.
    pub api_version: String,
    /// The kind.
    pub kind: String,
}
