//! `Composition`: through which steps a composite resource becomes other resources.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::Object;

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

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CompositionSpec {
    pub composite_type_ref: TypeRef,
    /// How it is written down. See [`CompositionSpec::mode`].
    #[serde(default)]
    pub mode: Option<Mode>,
    #[serde(default)]
    pub pipeline: Vec<Step>,
    /// The resources to compose, with the patches that fill them in. Only with `mode: Resources`.
    #[serde(default)]
    pub resources: Vec<Object>,
    /// Patches that several resources share. Only with `mode: Resources`.
    #[serde(default)]
    pub patch_sets: Vec<Object>,
    /// Data that patches can take from and give to. Only with `mode: Resources`.
    #[serde(default)]
    pub environment: Option<Object>,
    /// Only for legacy composite resources.
    #[serde(default)]
    pub write_connection_secrets_to_namespace: Option<String>,
}

impl CompositionSpec {
    /// How it is written down. Whoever does not say but lists resources means those.
    pub fn mode(&self) -> Mode {
        let guess = if self.resources.is_empty() { Mode::Pipeline } else { Mode::Resources };
        self.mode.unwrap_or(guess)
    }
}

/// A kind of composite resource.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TypeRef {
    pub api_version: String,
    pub kind: String,
}

/// How a composition is written down.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub enum Mode {
    /// As steps, each of which calls a function.
    Pipeline,
    /// As resources with patches.
    Resources,
}

/// One call of a function.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Step {
    /// Unique in its pipeline.
    pub step: String,
    pub function_ref: FunctionRef,
    /// Call this revision of the function.
    #[serde(default)]
    pub function_revision_ref: Option<FunctionRevisionRef>,
    /// Call the newest active revision with these labels.
    #[serde(default)]
    pub function_revision_selector: Option<FunctionRevisionSelector>,
    #[serde(default)]
    pub input: Option<Object>,
    /// Take the input from this object.
    #[serde(default)]
    pub input_ref: Option<InputRef>,
    #[serde(default)]
    pub credentials: Vec<Credential>,
    #[serde(default)]
    pub requirements: Option<Requirements>,
}

#[derive(Debug, Clone, Deserialize)]
pub struct FunctionRef {
    pub name: String,
    /// Call this version of the function.
    #[serde(default)]
    pub version: Option<String>,
}

#[derive(Debug, Clone, Deserialize)]
pub struct FunctionRevisionRef {
    pub name: String,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FunctionRevisionSelector {
    #[serde(default)]
    pub match_labels: BTreeMap<String, String>,
}

/// An object that is the input of a step, so that several can share it.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InputRef {
    pub api_version: String,
    pub kind: String,
    pub name: String,
    #[serde(default)]
    pub namespace: Option<String>,
}

/// A secret that a step may read.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Credential {
    pub name: String,
    pub source: CredentialSource,
    #[serde(default)]
    pub secret_ref: Option<SecretRef>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub enum CredentialSource {
    None,
    Secret,
}

#[derive(Debug, Clone, Deserialize)]
pub struct SecretRef {
    pub namespace: String,
    pub name: String,
}

/// What a step is given before it is first called.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Requirements {
    #[serde(default)]
    pub required_resources: Vec<RequiredResource>,
    #[serde(default)]
    pub required_schemas: Vec<RequiredSchema>,
}

/// Objects by name or by labels. Neither means all objects of the kind.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RequiredResource {
    pub requirement_name: String,
    pub api_version: String,
    pub kind: String,
    #[serde(default)]
    pub namespace: Option<String>,
    #[serde(default)]
    pub name: Option<String>,
    #[serde(default)]
    pub match_labels: BTreeMap<String, String>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RequiredSchema {
    pub requirement_name: String,
    pub api_version: String,
    pub kind: String,
}
