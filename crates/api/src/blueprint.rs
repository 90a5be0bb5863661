//! `Blueprint`: named actions made of phases that call functions.
//!
//! The fields are Kanister's, so that its Blueprints work as they are; `funcVersion` is the one that it lacks. The content of a
//! Blueprint is at the top level of the object, as Kanister has it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::Object;
#[cfg(feature = "generate")]
use crate::generate::marks::set;

/// What a Blueprint says.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Blueprint {
    /// Actions of the Blueprint, by name.
    #[serde(default)]
    pub actions: BTreeMap<String, BlueprintAction>,
}

/// An action: phases that run one after the other.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct BlueprintAction {
    /// Human-readable label of the action. An ActionSet refers to an action by its key, not by this label.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Kind of object on which the action runs. An ActionSet with an object of another kind fails before its first phase. If empty, any
    /// kind.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// ConfigMaps that an ActionSet has to supply, by the names that templates use.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub config_map_names: Vec<String>,
    /// Secrets that an ActionSet has to supply, by the names that templates use.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub secret_names: Vec<String>,
    /// Artifacts that an ActionSet has to supply, by the names that templates use.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub input_artifact_names: Vec<String>,
    /// Artifacts that the action returns for later actions. Their templates are rendered after all phases have succeeded.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub output_artifacts: BTreeMap<String, Artifact>,
    /// The phases, in the order in which they run.
    #[serde(default)]
    pub phases: Vec<BlueprintPhase>,
    /// A phase that runs at the end, also if another one failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub defer_phase: Option<BlueprintPhase>,
}

/// A call of a function.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct BlueprintPhase {
    /// Name of the function that the phase calls, for example KubeOps.
    #[cfg_attr(feature = "generate", schemars(transform = set("minLength", 1.into())))]
    pub func: String,
    /// Version of the function, for example v0.1.0. Defaults to preferredVersion of the action in the ActionSet, otherwise to the stable
    /// version.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub func_version: String,
    /// Name of the phase. It must be unique in the Blueprint.
    #[cfg_attr(feature = "generate", schemars(transform = set("minLength", 1.into())))]
    pub name: String,
    /// Secrets and ConfigMaps for templates of the phase, by the names that templates use. Their fields are rendered when the action
    /// starts.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub objects: BTreeMap<String, KanisterReference>,
    /// The arguments of the function. Text is rendered as a Go template when the phase starts.
    #[serde(default)]
    pub args: Object,
}

/// What an action leaves, or is given.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Artifact {
    /// Values of the artifact, as text by key.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub key_value: BTreeMap<String, String>,
    /// Description of a Kopia snapshot, as JSON.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub kopia_snapshot: String,
}

/// An object.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct KanisterReference {
    /// The version of its API, without the group, for example v1.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub api_version: String,
    /// The group of its API. Empty for the core group.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// The plural name of its kind, for example deployments.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub resource: String,
    /// Kind of the object, for example Deployment.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// Name of the object.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Namespace of the object. Defaults to the namespace of the ActionSet.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
}

impl Blueprint {
    /// What an object says.
    pub fn of(object: &Object) -> Result<Self, serde_json::Error> {
        let actions = object.get("actions").cloned().unwrap_or_else(|| Object::new().into());
        serde_json::from_value(actions).map(|actions| Self { actions })
    }
}

impl BlueprintAction {
    /// All phases, the one that runs at the end last.
    pub fn all_phases(&self) -> impl Iterator<Item = &BlueprintPhase> {
        self.phases.iter().chain(&self.defer_phase)
    }
}
