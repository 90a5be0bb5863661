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
    /// The Function whose revisions are rolled out. It needs an activeRevisionLimit of 2 or more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "generate", schemars(transform = crate::generate::marks::fixed))]
    pub function_ref: Option<RolloutFunction>,
    /// The Composition whose revisions are rolled out, in place of a Function.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "generate", schemars(transform = crate::generate::marks::fixed))]
    pub composition_ref: Option<RolloutFunction>,
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
    /// From when on the new revision is too slow, too large or fails too often.
    #[serde(default)]
    pub gates: RolloutGates,
    /// Moves no further composite resources while it is true. Failures are still acted on.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub paused: bool,
}

/// From when on a new revision is too slow, too large or fails too often, compared with the old one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct RolloutGates {
    /// So many calls of each revision are waited for before their errors and times are compared.
    pub min_calls: i64,
    /// So many percent of the calls of the new revision may fail beyond those that fail with the old one. With 100, all may.
    pub max_error_percent: i64,
    /// So many times as long as with the old revision may the slowest calls take (the 99th percentile), and single trials. With 0, any time.
    pub max_latency_factor: i64,
    /// Calls and trials that take no longer than this are not slow.
    pub slow_milliseconds: i64,
    /// So many times as large as with the old revision may be what is composed. With 0, any size.
    pub max_size_factor: i64,
}

impl Default for RolloutGates {
    fn default() -> Self {
        Self {
            min_calls: 20,
            max_error_percent: 5,
            max_latency_factor: 5,
            slow_milliseconds: 100,
            max_size_factor: 2,
        }
    }
}

/// What a rollout is for, by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum RolloutTarget<'a> {
    Function(&'a str),
    Composition(&'a str),
}

impl<'a> RolloutTarget<'a> {
    pub fn kind(self) -> &'static str {
        match self {
            Self::Function(_) => "Function",
            Self::Composition(_) => "Composition",
        }
    }

    pub fn name(self) -> &'a str {
        match self {
            Self::Function(name) | Self::Composition(name) => name,
        }
    }
}

impl FunctionRolloutSpec {
    /// What it is for. The API server sees to it that there is one.
    pub fn target(&self) -> RolloutTarget<'_> {
        match (&self.composition_ref, &self.function_ref) {
            (Some(composition), _) => RolloutTarget::Composition(&composition.name),
            (None, function) => RolloutTarget::Function(function.as_ref().map_or("", |it| it.name.as_str())),
        }
    }
}

/// A Function, or a Composition.
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
    /// What it composes is much larger.
    Larger,
    /// It takes much longer.
    Slower,
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
    /// The reconciles in which these differences were found, in the same order: what to tell `ferroplane replay show`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub recordings: Vec<String>,
    /// Calls of the stable revision and of the candidate since the candidate is known, or since the control plane was started.
    #[serde(skip_serializing_if = "is_default")]
    pub calls: RolloutCalls,
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

/// Calls of both revisions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct RolloutCalls {
    /// Of the stable revision.
    pub stable: RevisionCalls,
    /// Of the candidate.
    pub candidate: RevisionCalls,
}

/// Calls of a revision.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct RevisionCalls {
    /// How many there were.
    pub total: i64,
    /// How many of them failed, or had a fatal result.
    pub errors: i64,
    /// How long 99 of 100 took at most, in milliseconds.
    pub p99_milliseconds: i64,
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
    /// The reconcile that shows the reason: what to tell `ferroplane replay show`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub recording: String,
    /// When it began.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub started_at: String,
    /// When it ended.
    pub ended_at: String,
}

impl RolloutDifference {
    /// All of them, the gravest last.
    pub const ALL: [Self; 9] = [
        Self::Equal,
        Self::Larger,
        Self::Slower,
        Self::Changed,
        Self::Added,
        Self::Renamed,
        Self::Deleted,
        Self::NotDeterministic,
        Self::Fails,
    ];

    /// As it is written.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Equal => "Equal",
            Self::Larger => "Larger",
            Self::Slower => "Slower",
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
