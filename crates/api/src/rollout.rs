//! `FunctionRollout`: how new revisions of a function reach composite resources.
//!
//! The status is all that a rollout remembers: a caller that reads it continues where another one was ended.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// On a `FunctionRollout`: the revision that is to be called by all composite resources at once.
pub const PROMOTE_ANNOTATION: &str = "rollout.ferroplane.io/promote";
/// On a `FunctionRollout`: the revision to undo.
pub const UNDO_ANNOTATION: &str = "rollout.ferroplane.io/undo";
/// On a `FunctionRollout`: when that was requested, so that the same can be requested again.
pub const REQUESTED_AT_ANNOTATION: &str = "rollout.ferroplane.io/requested-at";

/// Specification of how composite resources move to new revisions of a Function or a Composition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct FunctionRolloutSpec {
    /// Function whose revisions are rolled out. Its activeRevisionLimit must be at least 2. Excludes compositionRef.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "generate", schemars(transform = crate::generate::marks::fixed))]
    pub function_ref: Option<RolloutFunction>,
    /// Composition whose revisions are rolled out. Excludes functionRef.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "generate", schemars(transform = crate::generate::marks::fixed))]
    pub composition_ref: Option<RolloutFunction>,
    /// Number or percentage of composite resources that use the new revision after each wave, for example 1 or 10%. The last wave must be
    /// 100%. Defaults to 1, 10%, 50% and 100%.
    #[serde(default = "default_waves")]
    pub waves: Vec<String>,
    /// Selects composite resources that move before all others. If unset, none have priority.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first: Option<RolloutFirst>,
    /// Number or percentage of composite resources that can be moved but not yet ready at the same time. At least 1. Defaults to 1%.
    #[serde(default = "default_max_unavailable")]
    pub max_unavailable: String,
    /// Seconds for which all composite resources of a wave must be ready before the next wave begins. Defaults to 60.
    #[serde(default = "default_min_ready_seconds")]
    pub min_ready_seconds: i64,
    /// Seconds within which a moved composite resource must become ready. After that it counts as failed. Defaults to 600.
    #[serde(default = "default_progress_deadline_seconds")]
    pub progress_deadline_seconds: i64,
    /// Number of composite resources that can fail before the rollout fails. Defaults to 0.
    #[serde(default)]
    pub max_failures: i64,
    /// Action on failure of the rollout: `RollBack` (the default) returns to the old revision. `Pause` moves no more composite resources
    /// until a user promotes or undoes the revision.
    #[serde(default)]
    pub on_failure: RolloutFailurePolicy,
    /// Differences between the results of both revisions that make the rollout fail. They are found before anything is applied. Defaults to
    /// Deleted and Renamed.
    #[serde(default = "default_refuse")]
    pub refuse: Vec<RolloutDifference>,
    /// Call the new revision for all composite resources before the first one moves, without applying the results. Defaults to false.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub preview: bool,
    /// Limits for errors, latency and size of the new revision, compared with the old one.
    #[serde(default)]
    pub gates: RolloutGates,
    /// Pause the rollout: no more composite resources move. Failures are still handled. Defaults to false.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub paused: bool,
}

/// From when on a new revision is too slow, too large or fails too often, compared with the old one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct RolloutGates {
    /// Number of calls of each revision before their errors and latency are compared. Defaults to 20.
    pub min_calls: i64,
    /// Percentage points by which the error rate of the new revision can exceed that of the old one. Defaults to 5; 100 disables the check.
    pub max_error_percent: i64,
    /// Factor by which calls of the new revision can be slower, at the 99th percentile and in each comparison. Defaults to 5; 0 disables
    /// the check.
    pub max_latency_factor: i64,
    /// Calls that take at most this many milliseconds never count as slow. Defaults to 100.
    pub slow_milliseconds: i64,
    /// Factor by which composed resources can grow before the difference counts as Larger. Defaults to 2; 0 disables the check.
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
    /// What it is for. The API server requires one.
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
    /// Name of the Function or Composition.
    pub name: String,
}

/// Composite resources that come first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct RolloutFirst {
    /// Labels that the composite resources must have.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub match_labels: BTreeMap<String, String>,
    /// Namespaces of the composite resources. If unset, any namespace.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub namespaces: Vec<String>,
}

impl RolloutFirst {
    /// Whether a composite resource with this namespace and these labels is moved first. Without labels and namespaces, none is.
    pub fn selects<'l>(&self, namespace: &str, label: impl Fn(&str) -> Option<&'l str>) -> bool {
        let is_specific = !self.match_labels.is_empty() || !self.namespaces.is_empty();
        is_specific
            && (self.namespaces.is_empty() || self.namespaces.iter().any(|it| it == namespace))
            && self.match_labels.iter().all(|(key, value)| label(key) == Some(value.as_str()))
    }
}

/// What happens when a rollout fails.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
pub enum RolloutFailurePolicy {
    /// All composite resources call the old revision again.
    #[default]
    RollBack,
    /// No further composite resource is moved until a user promotes or undoes the revision.
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
    /// State of the rollout.
    pub state: RolloutState,
    /// Human-readable reason for the state.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// Revision that composite resources use if they have not moved.
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
    /// Time at which the controller first observed the candidate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started_at: Option<String>,
    /// Number of the current wave, from 1. It is 0 before the first wave.
    pub wave: i64,
    /// Composite resources that have moved, as ranges of creation times and hashes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cohort: Vec<RolloutCohort>,
    /// Time at which the last composite resource of the wave became ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wave_ready_at: Option<String>,
    /// Hashes of the UIDs of composite resources that were not ready before they moved, at most 128.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unready_before: Vec<String>,
    /// Number of composite resources in each state of the rollout. Those whose steps name a revision are not counted.
    #[serde(skip_serializing_if = "is_default")]
    pub composites: RolloutCounts,
    /// Number of composite resources by the difference that the candidate makes for them.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub differences: BTreeMap<String, i64>,
    /// Human-readable examples of the differences, at most 5.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub examples: Vec<String>,
    /// Resources that only the candidate composes, at most 5.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub added: Vec<String>,
    /// Recordings of the reconciles with these examples, in the same order, as arguments for `ferroplane replay show`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub recordings: Vec<String>,
    /// Calls of the stable revision and of the candidate, since the candidate was observed or the control plane started.
    #[serde(skip_serializing_if = "is_default")]
    pub calls: RolloutCalls,
    /// The last request to promote a revision that was handled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub handled_promote: Option<String>,
    /// The last request to undo a revision that was handled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub handled_undo: Option<String>,
    /// How earlier rollouts ended, newest first. At most 10.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub history: Vec<RolloutRecord>,
}

/// Composite resources that have been moved: those that were there at some time, up to some hash.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct RolloutCohort {
    /// The range has composite resources that were created before this time.
    pub until: String,
    /// The range has composite resources with a hash up to this one.
    pub bound: String,
    /// Time at which the last composite resource of the range moved.
    pub moved_at: String,
}

/// Composite resources, in numbers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct RolloutCounts {
    /// Number of composite resources that the rollout moves.
    pub total: i64,
    /// Number of composite resources that have moved.
    pub moved: i64,
    /// Number of composite resources that have moved and are as ready as before.
    pub ready: i64,
    /// Number of composite resources that have moved and fail.
    pub failed: i64,
    /// Number of composite resources with the update policy Manual. A rollout does not move them.
    pub manual: i64,
}

/// Calls of both revisions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct RolloutCalls {
    /// Calls of the stable revision.
    pub stable: RevisionCalls,
    /// Calls of the candidate.
    pub candidate: RevisionCalls,
}

/// Calls of a revision.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct RevisionCalls {
    /// Number of calls.
    pub total: i64,
    /// Number of calls that failed or returned a fatal result.
    pub errors: i64,
    /// 99th percentile of the latency, in milliseconds.
    pub p99_milliseconds: i64,
}

/// How a rollout ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct RolloutRecord {
    /// The revision that was rolled out.
    pub revision: String,
    /// Name of the revision that was stable before.
    pub from: String,
    /// State in which the rollout ended.
    pub result: RolloutState,
    /// Human-readable reason for the result.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// Recording of the reconcile that shows the reason, as arguments for `ferroplane replay show`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub recording: String,
    /// Time at which the rollout began.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub started_at: String,
    /// Time at which the rollout ended.
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
