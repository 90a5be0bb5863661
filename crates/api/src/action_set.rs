//! `ActionSet`: which actions of Blueprints to run, for which objects, and how far that got.
//!
//! The fields are Kanister's, so that its clients can read and write them. The status has more: what ran in which version, where a phase
//! that waits will continue, conditions and warnings.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

#[cfg(feature = "generate")]
use crate::generate::marks::set;
use crate::{Artifact, KanisterReference, Object};

/// Specification of the actions to run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ActionSetSpec {
    /// Actions to run.
    #[serde(default)]
    pub actions: Vec<ActionSpec>,
    /// Execution mode: Parallel (the default) runs all actions at the same time. Sequential runs each action after the one before has
    /// succeeded.
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
    /// Object on which the action runs.
    #[serde(default)]
    pub object: KanisterReference,
    /// The Blueprint, in the namespace of the ActionSet.
    #[serde(default)]
    pub blueprint: String,
    /// Input artifacts, usually the output of an earlier action, by the names that templates use.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub artifacts: BTreeMap<String, Artifact>,
    /// ConfigMaps, by the names that templates use.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub config_maps: BTreeMap<String, KanisterReference>,
    /// Secrets, by the names that templates use.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub secrets: BTreeMap<String, KanisterReference>,
    /// Reference to the Profile with the location of the data and its credentials.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<KanisterReference>,
    /// A patch of the spec of pods that functions create.
    #[serde(default, skip_serializing_if = "Object::is_empty")]
    pub pod_override: Object,
    /// Options for templates, as text by key.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub options: BTreeMap<String, String>,
    /// Version of the functions for phases that set no funcVersion. A function that does not have it runs in its stable version or in
    /// v0.0.0.
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
    /// State of the ActionSet: pending, running, failed or complete.
    pub state: ActionState,
    /// The actions, in the order of the spec.
    pub actions: Vec<ActionStatus>,
    /// First failure of the ActionSet.
    #[serde(skip_serializing_if = "is_default")]
    pub error: ActionSetError,
    /// All failures, oldest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<PhaseError>,
    /// Warnings about versions of functions, for example deprecated ones.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<PhaseWarning>,
    /// Progress of the ActionSet.
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
    /// Human-readable text of the failure.
    pub message: String,
}

/// A failure.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct PhaseError {
    /// Index of the action, from 0.
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
    /// Stable code of the failure, for programs.
    pub code: String,
    /// Human-readable text of the failure.
    pub message: String,
}

/// Something that users should know about the version of a function.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct PhaseWarning {
    /// Index of the action, from 0.
    pub action: i64,
    /// Name of the phase.
    pub phase: String,
    /// Name of the function.
    pub function: String,
    /// Version of the function that the phase calls.
    pub version: String,
    /// Reason for the warning, as one word for programs.
    pub reason: String,
    /// Human-readable text of the warning.
    pub message: String,
    /// Ferroplane release that removes the version of the function.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub removed_in: String,
    /// Version of the function to call instead.
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
    /// Object on which the action runs.
    pub object: KanisterReference,
    /// Name of the Blueprint.
    pub blueprint: String,
    /// The phases, in the order in which they run.
    pub phases: Vec<PhaseStatus>,
    /// Output artifacts of the action. Empty until the action is complete.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub artifacts: BTreeMap<String, Artifact>,
    /// Status of the deferred phase, which runs last.
    pub defer_phase: PhaseStatus,
    /// Time at which the action began. Templates read it as .Time.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub time: String,
    /// Hash of the Blueprint at the time the action began. The action fails if the Blueprint changes while it runs.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub blueprint_hash: String,
    /// Pods, containers and volumes of the object at the time the action began, for templates.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workload: Option<Workload>,
}

/// The pods of a Deployment or StatefulSet.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct Workload {
    /// Names of the running Pods.
    pub pods: Vec<String>,
    /// The names of their containers, in the order of the pods.
    pub containers: Vec<Vec<String>>,
    /// Mount paths of PersistentVolumeClaims, by Pod and claim.
    pub persistent_volume_claims: BTreeMap<String, BTreeMap<String, String>>,
}

/// How far a phase is.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct PhaseStatus {
    /// The name of the phase. Empty if there is none.
    pub name: String,
    /// State of the phase: pending, running, failed or complete. Empty if there is no phase.
    pub state: PhaseState,
    /// Output of the function, for templates of later phases.
    #[serde(skip_serializing_if = "Object::is_empty")]
    pub output: Object,
    /// Progress of the phase.
    #[serde(skip_serializing_if = "is_default")]
    pub progress: PhaseProgress,
    /// Version of the function that the phase calls. It is chosen before the first phase runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub function: Option<PhaseCallee>,
    /// State from which the function resumes after a wait or a restart, at most 4096 bytes.
    #[serde(skip_serializing_if = "Value::is_null")]
    #[cfg_attr(feature = "generate", schemars(transform = set("x-kubernetes-preserve-unknown-fields", true.into())))]
    pub checkpoint: Value,
    /// Time at which the phase began.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub started_at: String,
    /// Time at which the phase ended.
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
    /// Name of the function.
    pub name: String,
    /// Version of the function.
    pub version: String,
    /// Name of the revision of the function.
    pub revision: String,
    /// Support state of the version in the release that chose it: available, stable or deprecated.
    pub state: String,
}

/// How much was moved, and how much there is to move.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct TransferredBytes {
    /// Number of bytes that were downloaded.
    #[serde(skip_serializing_if = "is_default")]
    pub size_downloaded_b: i64,
    /// Number of bytes that were uploaded.
    #[serde(skip_serializing_if = "is_default")]
    pub size_uploaded_b: i64,
    /// Estimated number of bytes to download in total.
    #[serde(skip_serializing_if = "is_default")]
    pub estimated_download_size_b: i64,
    /// Estimated number of bytes to upload in total.
    #[serde(skip_serializing_if = "is_default")]
    pub estimated_upload_size_b: i64,
}

/// How much of a phase is done.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct PhaseProgress {
    /// Progress in percent.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub progress_percent: String,
    #[serde(flatten)]
    pub transferred: TransferredBytes,
    /// Estimated duration in seconds.
    #[serde(skip_serializing_if = "is_default")]
    pub estimated_time_seconds: i64,
    /// Time at which the progress last changed.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub last_transition_time: String,
}

/// How much of an ActionSet is done.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct ActionProgress {
    /// Name of a phase that is running. Empty if none is running.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub running_phase: String,
    /// Progress in percent.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub percent_completed: String,
    #[serde(flatten)]
    pub transferred: TransferredBytes,
    /// Time at which the progress last changed.
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
