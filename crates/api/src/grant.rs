//! `AccessGrant`: what an administrator lets composite resources and actions of Blueprints do outside of their namespace.
//!
//! It has no field that nothing enforces: whoever reads a grant may believe every word of it.

use serde::{Deserialize, Serialize};

use crate::InterceptMode;

/// In a list of a grant: whatever it is called.
pub const ANY: &str = "*";

/// What composite resources and actions of Blueprints are allowed to do outside of their namespace, and which ones.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AccessGrantSpec {
    /// Who is allowed something.
    pub to: GrantSubjects,
    /// What functions are given to read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub read: Vec<ReadGrant>,
    /// What actions of Blueprints may change. They may read it, too.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub write: Vec<ReadGrant>,
    /// What images may do that are run for steps.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub run: Vec<RunGrant>,
    /// Which servers on this machine and on its links webhooks may call.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub call: Vec<CallGrant>,
    /// Which processes of developers may be called in place of functions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub intercept: Vec<InterceptGrant>,
}

/// Who is allowed something.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct GrantSubjects {
    /// Composite resources and ActionSets in these namespaces. `*` means all namespaces.
    pub namespaces: Vec<String>,
    /// Only composite resources of these kinds; for actions, ActionSet in cr.kanister.io. Without it, all kinds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kinds: Vec<GrantedKind>,
    /// Only for steps and phases that call these functions, by the names of the functions. Without it, for all of them.
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

/// Objects that functions are given to read, or have changed.
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

/// Processes of developers that may be called in place of functions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct InterceptGrant {
    /// The hosts on which they run, as those who intercept name them.
    pub hosts: Vec<String>,
    /// What may become of their answers.
    pub modes: Vec<InterceptMode>,
}

/// Servers that webhooks may call though they are on this machine or on its links.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CallGrant {
    /// The hosts, as the URLs of the webhooks have them.
    pub hosts: Vec<String>,
}
