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
    #[serde(default)]
    pub mode: Mode,
    #[serde(default)]
    pub pipeline: Vec<Step>,
    /// Only for legacy composite resources.
    #[serde(default)]
    pub write_connection_secrets_to_namespace: Option<String>,
}

/// A kind of composite resource.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TypeRef {
    pub api_version: String,
    pub kind: String,
}

/// How a composition is written down.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
pub enum Mode {
    #[default]
    Pipeline,
}

/// One call of a function.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Step {
    /// Unique in its pipeline.
    pub step: String,
    pub function_ref: FunctionRef,
    #[serde(default)]
    pub input: Option<Object>,
    #[serde(default)]
    pub credentials: Vec<Credential>,
    #[serde(default)]
    pub requirements: Option<Requirements>,
}

#[derive(Debug, Clone, Deserialize)]
pub struct FunctionRef {
    pub name: String,
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
