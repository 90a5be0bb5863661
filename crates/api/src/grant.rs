//! `AccessGrant`: what an administrator lets composite resources do outside of their namespace.
//!
//! It has no field that nothing enforces: whoever reads a grant may believe every word of it.

use serde::{Deserialize, Serialize};

/// In a list of a grant: whatever it is called.
pub const ANY: &str = "*";

/// What composite resources are allowed to do outside of their namespace, and which ones.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AccessGrantSpec {
    /// Who is allowed something.
    pub to: GrantSubjects,
    /// What functions are given to read.
    pub read: Vec<ReadGrant>,
}

/// Who is allowed something.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct GrantSubjects {
    /// Composite resources in these namespaces. `*` means all namespaces.
    pub namespaces: Vec<String>,
    /// Only composite resources of these kinds. Without it, those of all kinds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kinds: Vec<GrantedKind>,
    /// Only for steps that call these functions, by the names of the Functions. Without it, for all steps.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub functions: Vec<String>,
}

/// A kind of composite resource.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct GrantedKind {
    /// Its API group.
    pub api_group: String,
    /// The kind.
    pub kind: String,
}

/// Objects that functions are given to read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ReadGrant {
    /// Their API groups. The group of Kubernetes' core kinds is empty. `*` means all groups.
    pub api_groups: Vec<String>,
    /// Their kinds. `*` means all kinds but Secret, which has to be named.
    pub kinds: Vec<String>,
    /// Their namespaces. `*` means all namespaces, and is needed to select objects by labels in all of them.
    pub namespaces: Vec<String>,
    /// Only objects with these names. Without it, all objects, also those that are selected by labels.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
}
