//! `CompositeResourceDefinition`: a kind of composite resource.

use serde::Deserialize;
use serde_json::Value;

use crate::Object;

/// Defines a kind of composite resource.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CompositeResourceDefinition {
    pub api_version: String,
    pub kind: String,
    #[serde(default)]
    pub metadata: Object,
    pub spec: DefinitionSpec,
}

#[derive(Debug, Clone, Deserialize)]
pub struct DefinitionSpec {
    pub group: String,
    pub names: DefinitionNames,
    #[serde(default)]
    pub scope: Option<Scope>,
    #[serde(default)]
    pub versions: Vec<DefinitionVersion>,
}

#[derive(Debug, Clone, Deserialize)]
pub struct DefinitionNames {
    pub kind: String,
}

/// Where composite resources live, and how their machinery is laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub enum Scope {
    Namespaced,
    Cluster,
    /// Cluster scoped, with the machinery directly under `spec`, and claims.
    LegacyCluster,
}

#[derive(Debug, Clone, Deserialize)]
pub struct DefinitionVersion {
    pub name: String,
    #[serde(default)]
    pub schema: Option<VersionSchema>,
}

#[derive(Debug, Clone, Deserialize)]
pub struct VersionSchema {
    #[serde(default, rename = "openAPIV3Schema")]
    pub open_api_v3_schema: Option<Value>,
}

impl CompositeResourceDefinition {
    /// Whether its composite resources have the legacy layout. It is the scope that tells, never the version
    /// of the definition: a definition stored as v1 can be read as v2.
    pub fn is_legacy(&self) -> bool {
        self.scope() == Scope::LegacyCluster
    }

    /// Where its composite resources live.
    pub fn scope(&self) -> Scope {
        let default =
            // Only for definitions that did not go through an API server, which fills the default in.
            if self.api_version.ends_with("/v1") { Scope::LegacyCluster } else { Scope::Namespaced };
        self.spec.scope.unwrap_or(default)
    }

    /// The schema of one version.
    pub fn schema(&self, version: &str) -> Option<&Value> {
        let version = self.spec.versions.iter().find(|candidate| candidate.name == version)?;
        version.schema.as_ref()?.open_api_v3_schema.as_ref()
    }
}
