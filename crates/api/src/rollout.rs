//! `FunctionRollout`: how new revisions of a function reach composite resources.
//!
//! The status is all that a rollout remembers: whoever reads it goes on where another one was ended.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// On a `FunctionRollout`: the revision that is to be called by all composite resources at once.
pub const PROMOTE_ANNOTATION: &str = "rollout.ferroplane.io/promote";
/// On a `FunctionRollout`: the revision that is to be called by nobody any more.
pub const UNDO_ANNOTATION: &str = "rollout.ferroplane.io/undo";

/// How new revisions of a Function reach composite resources.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct FunctionRolloutSpec {
    /// The Function. It needs an activeRevisionLimit of 2 or more.
    #[cfg_attr(feature = "generate", schemars(transform = crate::generate::marks::fixed))]
    pub function_ref: RolloutFunction,
    /// How many composite resources call the new revision after each wave: a number such as 1, or a percentage such as 10%. The last wave is 100%.
    #[serde(default = "default_waves")]
    pub waves: Vec<String>,
    /// Composite resources that come before all others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first: Option<RolloutFirst>,
    /// How many composite resources may have been moved without being ready again: a number or a percentage. At least 1.
    #[serde(default = "default_max_unavailable")]
    pub max_unavailable: String,
    /// How long all composite resources of a wave have to be ready before the next wave begins.
    #[serde(default = "default_min_ready_seconds")]
    pub min_ready_seconds: i64,
    /// How long a composite resource that was moved may take until it is ready.
    #[serde(default = "default_progress_deadline_seconds")]
    pub progress_deadline_seconds: i64,
    /// How many composite resources may fail before the rollout does.
    #[serde(default)]
    pub max_failures: i64,
    /// What happens when the rollout fails.
    #[serde(default)]
    pub on_failure: RolloutFailurePolicy,
    /// Which differences between the old and the new revision make the rollout fail. They are found before anything is applied.
    #[serde(default = "default_refuse")]
    pub refuse: Vec<RolloutDifference>,
    /// Tries the new revision for all composite resources before the first of them is moved, without applying what it answers.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub preview: bool,
    /// Moves no further composite resources while it is true. Failures are still acted on.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub paused: bool,
}

/// A Function.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
pub struct RolloutFunction {
    /// Its name.
    pub name: String,
}

/// Composite resources that come first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct RolloutFirst {
    /// The labels that they have.
    pub match_labels: BTreeMap<String, String>,
}

/// What happens when a rollout fails.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
pub enum RolloutFailurePolicy {
    /// All composite resources call the old revision again.
    #[default]
    RollBack,
    /// No further composite resource is moved until somebody promotes or undoes the revision.
    Pause,
}

/// How what a new revision would do differs from what the old one would do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
pub enum RolloutDifference {
    /// It does the same.
    Equal,
    /// It composes the same resources with other content, or reports another status.
    Changed,
    /// It composes further resources.
    Added,
    /// It composes another resource in place of one, which is deleted.
    Renamed,
    /// It no longer composes a resource, which is deleted.
    Deleted,
    /// It does something else each time it is called.
    NotDeterministic,
    /// It fails.
    Fails,
}

/// Where a rollout is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
pub enum RolloutState {
    /// There is no new revision.
    #[default]
    Idle,
    /// The new revision is tried for all composite resources, and nothing of it is applied.
    Previewing,
    /// Composite resources are being moved.
    Progressing,
    /// No further composite resource is moved.
    Paused,
    /// Composite resources go back to the old revision.
    RollingBack,
    /// All composite resources call the old revision again.
    RolledBack,
    /// All composite resources call the new revision.
    Promoted,
}

/// How a rollout is doing.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct FunctionRolloutStatus {
    /// Where it is.
    pub state: RolloutState,
    /// Why, for people.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// The revision that composite resources call that were not moved.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stable: Option<String>,
    /// The revision that is being rolled out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub candidate: Option<String>,
    /// The revision that was stable before. Composite resources with the update policy Manual call it as long as it is active.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub previous: Option<String>,
    /// The revision that was rolled back. It is not tried again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rejected: Option<String>,
    /// When the candidate was first seen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started_at: Option<String>,
    /// The wave, from 1. 0 if there is none yet.
    pub wave: i64,
    /// Who has been moved.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cohort: Vec<RolloutCohort>,
    /// Composite resources that were not ready before they were moved, by the hash of their uid. At most 128.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unready_before: Vec<String>,
    /// Composite resources whose steps name no revision of the Function, in numbers.
    #[serde(skip_serializing_if = "is_default")]
    pub composites: RolloutCounts,
    /// How the candidate differs, by composite resources it was tried for.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub differences: BTreeMap<String, i64>,
    /// Some of the differences, for people. At most 5.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub examples: Vec<String>,
    /// How earlier rollouts ended, newest first. At most 10.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub history: Vec<RolloutRecord>,
}

/// Composite resources that have been moved: those that were there at some time, up to some hash.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct RolloutCohort {
    /// Those that were created until then.
    pub until: String,
    /// Those whose hash is not higher.
    pub bound: String,
    /// When the last of them was moved.
    pub moved_at: String,
}

/// Composite resources, in numbers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct RolloutCounts {
    /// All that a rollout moves.
    pub total: i64,
    /// Those that have been moved.
    pub moved: i64,
    /// Those that have been moved and are as ready as before.
    pub ready: i64,
    /// Those that have been moved and fail.
    pub failed: i64,
    /// Those with the update policy Manual, which no rollout moves.
    pub manual: i64,
}

/// How a rollout ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct RolloutRecord {
    /// The revision that was rolled out.
    pub revision: String,
    /// The revision before.
    pub from: String,
    /// How it ended.
    pub result: RolloutState,
    /// Why, for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// When it began.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub started_at: String,
    /// When it ended.
    pub ended_at: String,
}

impl RolloutDifference {
    /// As it is written.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Equal => "Equal",
            Self::Changed => "Changed",
            Self::Added => "Added",
            Self::Renamed => "Renamed",
            Self::Deleted => "Deleted",
            Self::NotDeterministic => "NotDeterministic",
            Self::Fails => "Fails",
        }
    }
}

impl RolloutState {
    /// As it is written.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Idle => "Idle",
            Self::Previewing => "Previewing",
            Self::Progressing => "Progressing",
            Self::Paused => "Paused",
            Self::RollingBack => "RollingBack",
            Self::RolledBack => "RolledBack",
            Self::Promoted => "Promoted",
        }
    }
}

fn default_waves() -> Vec<String> {
    ["1", "10%", "50%", "100%"].map(str::to_owned).to_vec()
}

fn default_max_unavailable() -> String {
    "1%".to_owned()
}

fn default_min_ready_seconds() -> i64 {
    60
}

fn default_progress_deadline_seconds() -> i64 {
    600
}

fn default_refuse() -> Vec<RolloutDifference> {
    vec![RolloutDifference::Deleted, RolloutDifference::Renamed]
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
