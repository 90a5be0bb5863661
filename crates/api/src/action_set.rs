//! `ActionSet`: which actions of Blueprints to run, for which objects, and how far that got.
//!
//! The fields are Kanister's, so that its clients can read and write them. The status has more: what ran in which version, where a phase
//! that waits will go on, conditions and warnings.
#![allow(clippy::doc_markdown, reason = "the words are for users of the API")]

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

#[cfg(feature = "generate")]
use crate::generate::marks::set;
use crate::{Artifact, KanisterReference, Object};

/// Which actions to run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ActionSetSpec {
    /// The actions.
    #[serde(default)]
    pub actions: Vec<ActionSpec>,
    /// Whether actions run at the same time, or one after the other as long as they succeed.
    #[serde(default, skip_serializing_if = "is_default")]
    pub execution_mode: ExecutionMode,
}

/// When the actions of an ActionSet run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
pub enum ExecutionMode {
    /// All at the same time.
    #[default]
    Parallel,
    /// Each after the one before has completed.
    Sequential,
}

/// An action of a Blueprint, and what it is for.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ActionSpec {
    /// The name of the action in its Blueprint.
    pub name: String,
    /// The object that the action is about.
    #[serde(default)]
    pub object: KanisterReference,
    /// The Blueprint, in the namespace of the ActionSet.
    #[serde(default)]
    pub blueprint: String,
    /// What earlier actions left, by the names that templates use.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub artifacts: BTreeMap<String, Artifact>,
    /// ConfigMaps, by the names that templates use.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub config_maps: BTreeMap<String, KanisterReference>,
    /// Secrets, by the names that templates use.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub secrets: BTreeMap<String, KanisterReference>,
    /// A Profile, which says where data is kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<KanisterReference>,
    /// A patch of the spec of pods that functions create.
    #[serde(default, skip_serializing_if = "Object::is_empty")]
    pub pod_override: Object,
    /// Text for templates, by key.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub options: BTreeMap<String, String>,
    /// The version of functions for phases that name none. A function without it runs in its stable version or in v0.0.0.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub preferred_version: String,
    /// Labels of pods that functions create.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub pod_labels: BTreeMap<String, String>,
    /// Annotations of pods that functions create.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub pod_annotations: BTreeMap<String, String>,
}

/// How far something is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum ActionState {
    /// It has not begun.
    #[default]
    Pending,
    /// It runs.
    Running,
    /// It failed. It is not tried again.
    Failed,
    /// It succeeded.
    Complete,
}

/// How far an ActionSet is.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct ActionSetStatus {
    /// How far it is.
    pub state: ActionState,
    /// The actions, in the order of the spec.
    pub actions: Vec<ActionStatus>,
    /// Why it failed: the first failure, for people.
    #[serde(skip_serializing_if = "is_default")]
    pub error: ActionSetError,
    /// All failures, the first one first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<PhaseError>,
    /// What users should know about versions of functions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<PhaseWarning>,
    /// How much is done.
    pub progress: ActionProgress,
    /// What is true of it right now. Its schema is that of all conditions.
    #[cfg_attr(feature = "generate", schemars(skip))]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Value>,
}

/// Why an ActionSet failed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct ActionSetError {
    /// The reason, for people.
    pub message: String,
}

/// A failure.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct PhaseError {
    /// The action, from 0.
    pub action: i64,
    /// The phase. Empty if none had begun.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub phase: String,
    /// The function that the phase called.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub function: String,
    /// The version of the function.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub version: String,
    /// What failed, for programs.
    pub code: String,
    /// What failed, for people.
    pub message: String,
}

/// Something that users should know about the version of a function.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct PhaseWarning {
    /// The action, from 0.
    pub action: i64,
    /// The phase.
    pub phase: String,
    /// The function.
    pub function: String,
    /// The version that runs.
    pub version: String,
    /// Why this is told, for programs.
    pub reason: String,
    /// The same for people.
    pub message: String,
    /// The release without the version.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub removed_in: String,
    /// The version to use instead.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub replaced_by: String,
}

/// How far an action is.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct ActionStatus {
    /// The name of the action in its Blueprint.
    pub name: String,
    /// The object that the action is about.
    pub object: KanisterReference,
    /// The Blueprint.
    pub blueprint: String,
    /// The phases, in the order in which they run.
    pub phases: Vec<PhaseStatus>,
    /// What the action left. Empty until it is complete.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub artifacts: BTreeMap<String, Artifact>,
    /// The phase that runs at the end.
    pub defer_phase: PhaseStatus,
    /// When the action began, which is what templates see as .Time.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub time: String,
    /// The Blueprint as it was when the action began: a hash. An action whose Blueprint changes meanwhile fails.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub blueprint_hash: String,
    /// The pods, containers and volumes of the object when the action began, which is what templates see.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workload: Option<Workload>,
}

/// The pods of a Deployment or StatefulSet.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct Workload {
    /// The names of the pods that run.
    pub pods: Vec<String>,
    /// The names of their containers, in the order of the pods.
    pub containers: Vec<Vec<String>>,
    /// Where claims are mounted, by pod and claim.
    pub persistent_volume_claims: BTreeMap<String, BTreeMap<String, String>>,
}

/// How far a phase is.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct PhaseStatus {
    /// The name of the phase. Empty if there is none.
    pub name: String,
    /// How far it is. Empty if there is no phase.
    pub state: PhaseState,
    /// What the function put out.
    #[serde(skip_serializing_if = "Object::is_empty")]
    pub output: Object,
    /// How much of it is done.
    #[serde(skip_serializing_if = "is_default")]
    pub progress: PhaseProgress,
    /// What runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub function: Option<PhaseCallee>,
    /// Where the function goes on after a wait or a restart. At most 4096 bytes.
    #[serde(skip_serializing_if = "Value::is_null")]
    #[cfg_attr(feature = "generate", schemars(transform = set("x-kubernetes-preserve-unknown-fields", true.into())))]
    pub checkpoint: Value,
    /// When it began.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub started_at: String,
    /// When it ended.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub ended_at: String,
}

/// How far a phase is; nothing if there is no phase.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
pub enum PhaseState {
    /// There is no phase.
    #[default]
    #[serde(rename = "")]
    None,
    /// It has not begun.
    #[serde(rename = "pending")]
    Pending,
    /// It runs.
    #[serde(rename = "running")]
    Running,
    /// It failed.
    #[serde(rename = "failed")]
    Failed,
    /// It succeeded.
    #[serde(rename = "complete")]
    Complete,
}

/// The version of a function that a phase calls. It is chosen before the first phase runs, and stays.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct PhaseCallee {
    /// The function.
    pub name: String,
    /// Its version.
    pub version: String,
    /// The name of its revision.
    pub revision: String,
    /// What the version was in the release that chose it: available, stable or deprecated.
    pub state: String,
}

/// How much of a phase is done.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct PhaseProgress {
    /// In percent.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub progress_percent: String,
    /// How many bytes were downloaded.
    #[serde(skip_serializing_if = "is_default")]
    pub size_downloaded_b: i64,
    /// How many bytes were uploaded.
    #[serde(skip_serializing_if = "is_default")]
    pub size_uploaded_b: i64,
    /// How many bytes will be downloaded.
    #[serde(skip_serializing_if = "is_default")]
    pub estimated_download_size_b: i64,
    /// How many bytes will be uploaded.
    #[serde(skip_serializing_if = "is_default")]
    pub estimated_upload_size_b: i64,
    /// How many seconds it will take.
    #[serde(skip_serializing_if = "is_default")]
    pub estimated_time_seconds: i64,
    /// When it last changed.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub last_transition_time: String,
}

/// How much of an ActionSet is done.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct ActionProgress {
    /// A phase that runs. Empty if none does.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub running_phase: String,
    /// In percent.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub percent_completed: String,
    /// How many bytes were downloaded.
    #[serde(skip_serializing_if = "is_default")]
    pub size_downloaded_b: i64,
    /// How many bytes were uploaded.
    #[serde(skip_serializing_if = "is_default")]
    pub size_uploaded_b: i64,
    /// How many bytes will be downloaded.
    #[serde(skip_serializing_if = "is_default")]
    pub estimated_download_size_b: i64,
    /// How many bytes will be uploaded.
    #[serde(skip_serializing_if = "is_default")]
    pub estimated_upload_size_b: i64,
    /// When it last changed.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub last_transition_time: String,
}

impl ActionState {
    /// As it is written.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Running => "running",
            Self::Failed => "failed",
            Self::Complete => "complete",
        }
    }

    /// Whether it stays so.
    pub fn is_final(self) -> bool {
        matches!(self, Self::Failed | Self::Complete)
    }
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
