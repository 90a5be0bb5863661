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

/// Specification of how composite resources of a kind are composed.
#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct CompositionSpec {
    /// Kind of composite resources that this Composition composes. It cannot be changed.
    #[cfg_attr(feature = "generate", schemars(transform = fixed))]
    pub composite_type_ref: TypeRef,
    /// Form of the Composition: Pipeline has steps that call functions, Resources has templates with patches. Defaults to Resources if
    /// resources are listed, otherwise to Pipeline.
    #[serde(default)]
    pub mode: Option<Mode>,
    /// Steps of the pipeline, in the order in which the control plane calls their functions.
    #[serde(default)]
    #[cfg_attr(feature = "generate", schemars(transform = keyed_by("step")))]
    pub pipeline: Vec<Step>,
    /// The resources to compose, with the patches that fill them in. Only with mode Resources.
    #[serde(default)]
    pub resources: Vec<Object>,
    /// Patches that several resources share. Only with mode Resources.
    #[serde(default)]
    pub patch_sets: Vec<Object>,
    /// Environment whose data patches can read and write. Only with mode Resources.
    #[serde(default)]
    pub environment: Option<Object>,
    /// Images that the control plane runs and webhooks that it calls, in this order and after the resources. An alpha feature.
    #[serde(default)]
    #[cfg_attr(feature = "generate", schemars(transform = keyed_by("name")))]
    pub functions: Vec<CompositionFunction>,
    /// Namespace of the connection Secrets. Only for legacy composite resources.
    #[serde(default)]
    pub write_connection_secrets_to_namespace: Option<String>,
    /// Has no effect. It is accepted because Crossplane 1 set this field in every Composition.
    #[serde(default)]
    pub publish_connection_details_with_store_config_ref: Option<Object>,
}

impl CompositionSpec {
    /// The form of the composition. Without a mode, listed resources mean `Resources`.
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
    /// API group and version of the kind.
    pub api_version: String,
    /// Name of the kind.
    pub kind: String,
}

/// The form of a composition.
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
#[cfg_attr(
    feature = "generate",
    schemars(transform = rule(
        "!has(self.functionRef.version) || !has(self.functionRevisionRef) && !has(self.functionRevisionSelector)",
        "functionRef.version excludes functionRevisionRef and functionRevisionSelector"
    ))
)]
#[serde(rename_all = "camelCase")]
pub struct Step {
    /// The name of the step. No other step of the pipeline has it.
    pub step: String,
    /// The function to call.
    pub function_ref: FunctionRef,
    /// Revision of the function that the step calls. The step fails if it is not active. Excludes functionRevisionSelector.
    #[serde(default)]
    pub function_revision_ref: Option<FunctionRevisionRef>,
    /// Selects the revision of the function by labels. The step calls the newest active match. Excludes functionRevisionRef.
    #[serde(default)]
    pub function_revision_selector: Option<FunctionRevisionSelector>,
    /// Input for the function. The function defines its kind and schema. Excludes inputRef.
    #[serde(default)]
    #[cfg_attr(feature = "generate", schemars(transform = embedded))]
    pub input: Option<Object>,
    /// Object that the function gets as its input, so that several steps can share it. Excludes input.
    #[serde(default)]
    pub input_ref: Option<InputRef>,
    /// Credentials that the control plane passes to the function.
    #[serde(default)]
    #[cfg_attr(feature = "generate", schemars(transform = keyed_by("name")))]
    pub credentials: Vec<Credential>,
    /// Resources and schemas that the function gets with its first call.
    #[serde(default)]
    pub requirements: Option<Requirements>,
}

/// A function, by name.
#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
pub struct FunctionRef {
    /// Name of the Function, or of a built-in function.
    pub name: String,
    /// Version of the function to call, for example v0.7.0. The step fails if it is not available. If unset, the stable version of a
    /// built-in function, or the newest active revision of a package.
    #[serde(default)]
    pub version: Option<String>,
}

/// A revision of a function, by name.
#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
pub struct FunctionRevisionRef {
    /// Name of the revision.
    pub name: String,
}

/// Revisions of a function, by labels.
#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct FunctionRevisionSelector {
    /// Labels that the revision must have.
    #[serde(default)]
    pub match_labels: BTreeMap<String, String>,
}

/// An object that is the input of a step, so that several can share it.
#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct InputRef {
    /// API group and version of the object.
    pub api_version: String,
    /// Kind of the object.
    pub kind: String,
    /// Name of the object.
    pub name: String,
    /// Namespace of the object. Unset for cluster-scoped kinds.
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
        "credentials from a Secret need secretRef"
    ))
)]
#[serde(rename_all = "camelCase")]
pub struct Credential {
    /// Name under which the function finds the credentials.
    pub name: String,
    /// Source of the credentials.
    pub source: CredentialSource,
    /// Secret with the credentials. Required with the source Secret.
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
    /// Namespace of the Secret.
    pub namespace: String,
    /// Name of the Secret.
    pub name: String,
}

/// What a step is given before it is first called.
#[derive(Debug, Clone, Default, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Requirements {
    /// Objects that the function gets.
    #[serde(default)]
    #[cfg_attr(feature = "generate", schemars(transform = keyed_by("requirementName")))]
    pub required_resources: Vec<RequiredResource>,
    /// Kinds whose OpenAPI schemas the function gets.
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
    /// Name under which the function finds the objects.
    pub requirement_name: String,
    /// API group and version of the objects.
    pub api_version: String,
    /// Kind of the objects.
    pub kind: String,
    /// Namespace of the objects. If unset, objects selected by labels can be in any namespace.
    #[serde(default)]
    pub namespace: Option<String>,
    /// Name of the object. Excludes matchLabels.
    #[serde(default)]
    pub name: Option<String>,
    /// Labels that the objects must have. Without name and matchLabels, the function gets all objects of the kind.
    #[serde(default)]
    pub match_labels: BTreeMap<String, String>,
}

/// The schema of a kind.
#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct RequiredSchema {
    /// Name under which the function finds the schema.
    pub requirement_name: String,
    /// Group and version of the kind.
    pub api_version: String,
    /// Name of the kind.
    pub kind: String,
}
