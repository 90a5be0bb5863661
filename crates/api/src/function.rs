//! `Function`: a package that holds a function.

use std::collections::BTreeMap;

use serde::Deserialize;

/// A function, as far as calling it needs to know.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Function {
    pub api_version: String,
    pub kind: String,
    pub metadata: FunctionMetadata,
    #[serde(default)]
    pub spec: FunctionSpec,
}

#[derive(Debug, Clone, Deserialize)]
pub struct FunctionMetadata {
    pub name: String,
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    #[serde(default)]
    pub annotations: BTreeMap<String, String>,
}

#[derive(Debug, Clone, Default, Deserialize)]
pub struct FunctionSpec {
    /// The image that holds the function.
    #[serde(default)]
    pub package: String,
}
