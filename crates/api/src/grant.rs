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
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub read: Vec<ReadGrant>,
    /// What images may do that are run for steps.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub run: Vec<RunGrant>,
    /// Which servers on this machine and on its links webhooks may call.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub call: Vec<CallGrant>,
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

/// What images may do that are run for steps.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RunGrant {
    /// What they may do.
    pub privileges: Vec<Privilege>,
    /// The images, as steps name them. `*` means all images.
    pub images: Vec<String>,
}

/// Something that an image may do only with a grant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
pub enum Privilege {
    /// Use the network of whoever runs it.
    Network,
    /// Run without a container, as an ordinary process with another root directory.
    Chroot,
}

/// Servers that webhooks may call though they are on this machine or on its links.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CallGrant {
    /// The hosts, as the URLs of the webhooks have them.
    pub hosts: Vec<String>,
}
