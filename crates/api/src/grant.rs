//! `AccessGrant`: what an administrator lets composite resources and actions of Blueprints do outside of their namespace.
//!
//! It has no field that nothing enforces: a caller that reads a grant may believe every word of it.

use serde::{Deserialize, Serialize};

use crate::InterceptMode;

/// In a list of a grant: whatever it is called.
pub const ANY: &str = "*";

/// Specification of the access that is granted, and of the composite resources and actions that have it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AccessGrantSpec {
    /// Composite resources and actions that get the access.
    pub to: GrantSubjects,
    /// Objects that functions and actions can read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub read: Vec<ReadGrant>,
    /// Objects that actions of Blueprints can read and write.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub write: Vec<ReadGrant>,
    /// Privileges of images that steps run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub run: Vec<RunGrant>,
    /// Hosts that webhooks can call though they have addresses of this machine.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub call: Vec<CallGrant>,
    /// Processes of developers that the control plane can call in place of functions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub intercept: Vec<InterceptGrant>,
}

/// Who is allowed something.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct GrantSubjects {
    /// Namespaces of the composite resources and ActionSets. `*` means all namespaces, and cluster-scoped composite resources.
    pub namespaces: Vec<String>,
    /// Kinds of the composite resources; for actions, ActionSet in cr.kanister.io. If unset, all kinds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kinds: Vec<GrantedKind>,
    /// Names of the functions. The grant holds only for steps and phases that call them. If unset, it holds for all functions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub functions: Vec<String>,
}

/// A kind of composite resource.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct GrantedKind {
    /// API group of the kind.
    pub api_group: String,
    /// Name of the kind.
    pub kind: String,
}

/// Objects that functions are given to read, or have changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ReadGrant {
    /// API groups of the objects. The empty text is the core group, `*` means all groups.
    pub api_groups: Vec<String>,
    /// Kinds of the objects. `*` means all kinds except Secret, which has to be listed.
    pub kinds: Vec<String>,
    /// Namespaces of the objects. `*` means all namespaces. Selecting objects by labels in all namespaces requires it.
    pub namespaces: Vec<String>,
    /// Names of the objects. If unset, all objects, including those that are selected by labels.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
}

/// What images may do that are run for steps.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RunGrant {
    /// Privileges of the images: `Network` is the network of the control plane, `Chroot` is running without a container.
    pub privileges: Vec<Privilege>,
    /// Images that get the privileges. An image without tag and digest covers all of its tags, `*` covers all images.
    pub images: Vec<String>,
}

/// Something that an image may do only with a grant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
pub enum Privilege {
    /// Use the network of the process that runs it.
    Network,
    /// Run without a container, as an ordinary process with another root directory.
    Chroot,
}

/// Processes of developers that may be called in place of functions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct InterceptGrant {
    /// Hosts of the processes, as spec.to of a FunctionIntercept has them.
    pub hosts: Vec<String>,
    /// Modes that a FunctionIntercept can have: `Shadow`, `ForReal` or both.
    pub modes: Vec<InterceptMode>,
}

/// Servers that webhooks may call though they are on this machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CallGrant {
    /// Host names or IP addresses, as the URLs of the webhooks have them.
    pub hosts: Vec<String>,
}
