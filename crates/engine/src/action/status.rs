//! The life of an ActionSet: what a reconcile has to do, and its status.
//!
//! # Invariants
//! * An ActionSet that is complete or has failed is never run again, even if its spec changes.
//! * It fails or completes when all of its actions have ended, their deferred phases included: a final state is final.
//! * `error.message` is the first failure, whatever fails after it.
//! * A status that the API server does not store is replaced by one without outputs, which is final.

use std::collections::BTreeMap;

use ferroplane_api::{
    ActionSetSpec, ActionSetStatus, ActionSpec, ActionState, ActionStatus, Blueprint, BlueprintAction, Cause,
    Condition, ExecutionMode, FailurePoint, Object, PhaseError, PhaseState, PhaseStatus, PhaseWarning,
    Status, keys, meta, set_condition,
};
use serde_json::Value;

use super::compile::{ActionFailure, Facilities, ResolvedPhase, action_hash, compile, find_action};
use super::function::PodSupport;
use super::run::{has_begun, has_ended, timestamp};
use crate::advice::{VersionWarning, versions_condition};
use crate::outcome::{Event, EventKind};
use crate::settle::{conditions_in, conditions_to_json};
use crate::status_size::{STATUS_LIMIT, json_size, shortened};

const SUCCEEDED: &str = "Succeeded";

/// How long deferred phases may take after their ActionSet was deleted, in milliseconds.
pub const DELETION_GRACE: i64 = 5 * 60 * 1000;

/// What a reconcile of an ActionSet has to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BeginActionSet {
    /// Nothing: it has ended.
    Ended,
    /// Nothing, until the annotation is removed.
    Paused,
    /// Remove the finalizer: it is done.
    Release,
    /// Join its actions with their Blueprints.
    Start,
    /// Continue with its actions.
    Run,
    /// Continue with its actions, to end them: a user deleted or cancelled it.
    Cancel,
}

/// What a reconcile of an ActionSet has to do.
pub fn begin_action_set(action_set: &Object) -> BeginActionSet {
    let has_finalizer = has_finalizer(action_set);
    let status = status_of(action_set);
    if status.state.is_final() {
        return if has_finalizer { BeginActionSet::Release } else { BeginActionSet::Ended };
    }
    let is_deleted = meta::is_being_deleted(action_set);
    let is_new = status.actions.is_empty() && status.state == ActionState::Pending;
    let is_cancelled = meta::annotation(action_set, keys::CANCEL) == "true";
    match (is_deleted, is_new) {
        // Other controllers may still hold it with their finalizers.
        (true, _) if !has_finalizer => BeginActionSet::Ended,
        (true, true) => BeginActionSet::Release,
        (true, false) => BeginActionSet::Cancel,
        // Joined before it ends, also while it is paused: its status then says which actions were not run.
        (false, true) if is_cancelled => BeginActionSet::Start,
        (false, false) if is_cancelled => BeginActionSet::Cancel,
        (false, _) if meta::annotation(action_set, keys::PAUSED) == "true" => BeginActionSet::Paused,
        (false, true) => BeginActionSet::Start,
        (false, false) => BeginActionSet::Run,
    }
}

fn has_finalizer(action_set: &Object) -> bool {
    let finalizers = action_set.get("metadata").and_then(|metadata| metadata.get("finalizers")?.as_array());
    finalizers.is_some_and(|all| all.iter().any(|it| it == keys::ACTION_SET_FINALIZER))
}

/// The status of an ActionSet. An invalid one counts as empty.
pub fn status_of(action_set: &Object) -> ActionSetStatus {
    let status = action_set.get("status").cloned().unwrap_or_default();
    serde_json::from_value(status).unwrap_or_default()
}

/// The spec of an ActionSet.
pub fn spec_of(action_set: &Object) -> Result<ActionSetSpec, ActionFailure> {
    let spec = action_set.get("spec").cloned().unwrap_or_else(|| Object::new().into());
    serde_json::from_value(spec).map_err(|error| {
        ActionFailure::new(
            Cause::ActionInvalid,
            "",
            format!("cannot read the spec of the ActionSet: {error}"),
        )
    })
}

/// An ActionSet whose actions were joined with their Blueprints, or could not be.
#[derive(Debug, Clone, PartialEq)]
pub struct Prepared {
    pub status: ActionSetStatus,
    pub events: Vec<Event>,
    /// Whether the ActionSet needs a finalizer until it has ended: it has a deferred phase, or one that runs a pod.
    pub has_to_clean_up: bool,
}

/// Join the actions of an ActionSet with their Blueprints, which are given by name. If one cannot be joined, nothing runs.
pub fn prepare(
    spec: &Result<ActionSetSpec, ActionFailure>,
    blueprints: &BTreeMap<String, Blueprint>,
    facilities: &Facilities<'_>,
    now: i64,
) -> Prepared {
    let mut status = ActionSetStatus::default();
    let has_to_clean_up = match spec {
        Err(failure) => {
            status.errors.push(error_of(0, failure));
            false
        }
        Ok(spec) => join(spec, blueprints, facilities, &mut status),
    };
    let mut events = warning_events(&status);
    events.extend(failure_events(&status));
    let mut prepared = Prepared { status, events, has_to_clean_up };
    if prepared.status.errors.is_empty() && !prepared.status.actions.is_empty() {
        "0".clone_into(&mut prepared.status.progress.percent_completed);
        prepared.status.progress.last_transition_time = timestamp(now);
    } else {
        // Nothing has run, so that nothing has to be cleaned up.
        prepared.has_to_clean_up = false;
        settle_state(&mut prepared.status, now);
    }
    prepared
}

/// Join every action with that of its Blueprint, also after one failed: all mistakes are reported at once. Returns whether one of them
/// has to clean up when it is ended early.
fn join(
    spec: &ActionSetSpec,
    blueprints: &BTreeMap<String, Blueprint>,
    facilities: &Facilities<'_>,
    status: &mut ActionSetStatus,
) -> bool {
    let mut has_to_clean_up = false;
    // One in another namespace has no owner, and would go on without its ActionSet.
    let has_pods = facilities.pods == PodSupport::Cluster;
    for (index, action) in spec.actions.iter().enumerate() {
        let found = find_action(action, blueprints.get(&action.blueprint));
        let joined = found.and_then(|found| Ok((found, compile(action, found, facilities)?)));
        match joined {
            Err(failure) => {
                status.actions.push(named(action));
                status.errors.push(error_of(index, &failure));
            }
            Ok((found, phases)) => {
                let runs_pod = has_pods && phases.iter().any(|phase| phase.runs_image);
                has_to_clean_up |= found.defer_phase.is_some() || runs_pod;
                let warnings = phases.iter().flat_map(|phase| phase.warnings.iter().cloned());
                status.warnings.extend(warnings.map(|it| PhaseWarning { action: to_i64(index), ..it }));
                status.actions.push(joined_status(action, found, phases));
            }
        }
    }
    has_to_clean_up
}

fn error_of(index: usize, failure: &ActionFailure) -> PhaseError {
    PhaseError {
        action: to_i64(index),
        phase: failure.phase.clone(),
        code: failure.cause.code().to_owned(),
        message: shortened(failure.message.clone()),
        ..PhaseError::default()
    }
}

fn named(action: &ActionSpec) -> ActionStatus {
    ActionStatus {
        name: action.name.clone(),
        object: action.object.clone(),
        blueprint: action.blueprint.clone(),
        ..ActionStatus::default()
    }
}

fn joined_status(spec: &ActionSpec, action: &BlueprintAction, resolved: Vec<ResolvedPhase>) -> ActionStatus {
    let mut phases: Vec<_> = resolved.into_iter().map(pending).collect();
    let defer_phase = if action.defer_phase.is_some() { phases.pop() } else { None };
    ActionStatus {
        phases,
        defer_phase: defer_phase.unwrap_or_default(),
        blueprint_hash: action_hash(action),
        ..named(spec)
    }
}

fn pending(resolved: ResolvedPhase) -> PhaseStatus {
    PhaseStatus {
        name: resolved.phase,
        state: PhaseState::Pending,
        function: Some(resolved.callee),
        ..PhaseStatus::default()
    }
}

fn warning_events(status: &ActionSetStatus) -> Vec<Event> {
    let warnings = status.warnings.iter();
    warnings
        .map(|it| {
            let message = format!("phase `{}`: {}", it.phase, it.message);
            Event::new(EventKind::Warning, &it.reason, message)
        })
        .collect()
}

fn failure_events(status: &ActionSetStatus) -> Vec<Event> {
    let failures = status.errors.iter().map(|error| {
        let cause = error.code.parse().unwrap_or(Cause::ActionInvalid);
        let point = FailurePoint::new(cause).in_step(&error.phase);
        Event::failure("ActionSetFailed", error.message.clone(), point)
    });
    failures.collect()
}

/// The actions that may run now: those that have not ended, and only the first of them if they run one after the other.
pub fn runnable(spec: &ActionSetSpec, status: &ActionSetStatus) -> Vec<usize> {
    let open = (0..status.actions.len()).filter(|index| !is_ended(status, *index));
    match spec.execution_mode {
        ExecutionMode::Parallel => open.collect(),
        // After a failure the next one does not begin.
        ExecutionMode::Sequential => {
            let may_begin = |index: &usize| status.errors.is_empty() || has_begun(&status.actions[*index]);
            open.take(1).filter(may_begin).collect()
        }
    }
}

fn is_ended(status: &ActionSetStatus, index: usize) -> bool {
    has_ended(&status.actions[index], has_failed(status, index))
}

fn has_failed(status: &ActionSetStatus, index: usize) -> bool {
    status.errors.iter().any(|error| error.action == to_i64(index))
}

/// Abandon an action whose Blueprint no longer exists: nothing of it can run, its deferred phase included.
pub fn abandon(status: &mut ActionSetStatus, index: usize, failure: &ActionFailure, now: i64) -> Event {
    let Some(action) = status.actions.get_mut(index) else {
        return failure_event(failure);
    };
    end_phases(action, now);
    status.errors.push(error_of(index, failure));
    failure_event(failure)
}

/// End the phases of an action that run, and the deferred one.
fn end_phases(action: &mut ActionStatus, now: i64) {
    let running = action.phases.iter_mut().filter(|phase| phase.state == PhaseState::Running);
    let is_open = |phase: &&mut PhaseStatus| matches!(phase.state, PhaseState::Pending | PhaseState::Running);
    let defer = Some(&mut action.defer_phase).filter(is_open);
    for phase in running.chain(defer) {
        phase.state = PhaseState::Failed;
        phase.checkpoint = Value::Null;
        phase.ended_at = timestamp(now);
    }
}

fn failure_event(failure: &ActionFailure) -> Event {
    Event::failure("ActionSetFailed", failure.message.clone(), FailurePoint::new(failure.cause))
}

/// The room that is left in the status of an ActionSet, in bytes of JSON. Its actions share it.
#[derive(Debug, Clone, Copy)]
pub struct StatusRoom(usize);

impl StatusRoom {
    pub fn of(status: &ActionSetStatus) -> Self {
        Self(STATUS_LIMIT.saturating_sub(json_size(status)))
    }

    /// How large the status of an action may become that is like this now.
    pub fn lend(self, action: &ActionStatus) -> usize {
        self.0.saturating_add(json_size(action))
    }

    /// What is left after an action with so much room has become like this.
    #[must_use]
    pub fn without(self, lent: usize, action: &ActionStatus) -> Self {
        Self(lent.saturating_sub(json_size(action)))
    }
}

/// End an ActionSet that cannot go on: none of its phases runs any more, deferred ones included. Returns the event to record.
pub fn end_action_set(
    action_set: &Object,
    status: &mut ActionSetStatus,
    failure: &ActionFailure,
    now: i64,
) -> Event {
    let open = (0..status.actions.len()).find(|index| !is_ended(status, *index));
    for action in &mut status.actions {
        end_phases(action, now);
    }
    status.errors.push(error_of(open.unwrap_or_default(), failure));
    report_progress(status, now);
    settle_state(status, now);
    report_conditions(action_set, status, now);
    failure_event(failure)
}

/// What is left out of a status that the API server does not store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeftOut {
    /// Outputs, artifacts and the like.
    Results,
    /// Everything about the actions.
    Actions,
}

/// End an ActionSet whose status the API server does not store, because it is too large. Returns the event to record.
pub fn end_too_large(
    action_set: &Object,
    status: &mut ActionSetStatus,
    left_out: LeftOut,
    now: i64,
) -> Event {
    let message = "the API server does not store the status of the ActionSet, because it is too large: outputs and artifacts are left out, \
                   and no phase runs any more";
    let failure = ActionFailure::new(Cause::PhaseFailed, "", message);
    let event = end_action_set(action_set, status, &failure, now);
    if left_out == LeftOut::Actions {
        status.actions.clear();
        status.warnings.clear();
        // The first one is what users have to know.
        status.errors.truncate(1);
        status.conditions.retain(|condition| condition["type"] == SUCCEEDED);
    }
    for action in &mut status.actions {
        action.artifacts.clear();
        action.workload = None;
        for phase in action.phases.iter_mut().chain([&mut action.defer_phase]) {
            phase.output.clear();
        }
    }
    event
}

/// Update the status of an ActionSet as a whole from its actions. Returns the events to record.
pub fn settle_action_set(
    action_set: &Object,
    spec: &ActionSetSpec,
    status: &mut ActionSetStatus,
    now: i64,
) -> Vec<Event> {
    let before = status.state;
    status.state = ActionState::Running;
    if runnable(spec, status).is_empty() {
        settle_state(status, now);
    }
    report_progress(status, now);
    report_conditions(action_set, status, now);
    if before != ActionState::Complete && status.state == ActionState::Complete {
        vec![Event::new(EventKind::Normal, "UpdateComplete", "All actions are complete")]
    } else {
        Vec::new()
    }
}

/// Set the final state.
fn settle_state(status: &mut ActionSetStatus, now: i64) {
    match status.errors.first() {
        None => {
            status.state = ActionState::Complete;
            "100".clone_into(&mut status.progress.percent_completed);
        }
        Some(first) => {
            status.state = ActionState::Failed;
            status.error.message.clone_from(&first.message);
        }
    }
    status.progress.running_phase.clear();
    status.progress.last_transition_time = timestamp(now);
}

fn report_progress(status: &mut ActionSetStatus, now: i64) {
    let all: Vec<_> =
        status.actions.iter().flat_map(|action| action.phases.iter().chain([&action.defer_phase])).collect();
    let running = all.iter().find(|phase| phase.state == PhaseState::Running).map(|phase| phase.name.clone());
    let phases: Vec<_> = status.actions.iter().flat_map(|action| &action.phases).collect();
    let percent = |phase: &&PhaseStatus| match phase.state {
        PhaseState::Complete => 100,
        _ => phase.progress.progress_percent.parse::<u64>().unwrap_or_default().min(100),
    };
    let done: u64 = phases.iter().map(percent).sum();
    let percent = done.checked_div(phases.len() as u64).unwrap_or(100).to_string();
    if let Some(first) = status.errors.first() {
        status.error.message.clone_from(&first.message);
    }
    let progress = &mut status.progress;
    let running = running.unwrap_or_default();
    if progress.running_phase != running || progress.percent_completed != percent {
        progress.last_transition_time = timestamp(now);
    }
    progress.running_phase = running;
    progress.percent_completed = percent;
}

/// Set the conditions of an ActionSet.
pub fn report_conditions(action_set: &Object, status: &mut ActionSetStatus, now: i64) {
    let mut conditions = conditions_in(&Value::Array(std::mem::take(&mut status.conditions)));
    let succeeded = match (status.state, status.errors.first()) {
        (ActionState::Complete, _) => Condition::new(SUCCEEDED, Status::True, "ActionsComplete"),
        (ActionState::Failed, Some(first)) => {
            let cause = first.code.parse().unwrap_or(Cause::PhaseFailed);
            let point = FailurePoint::new(cause).in_step(&first.phase);
            Condition::new(SUCCEEDED, Status::False, "ActionFailed")
                .with_message(first.message.clone())
                .with_failure(point)
        }
        (ActionState::Failed, None) => {
            Condition::new(SUCCEEDED, Status::False, "ActionFailed").with_failure(Cause::PhaseFailed.into())
        }
        (ActionState::Running, _) => Condition::new(SUCCEEDED, Status::Unknown, "ActionsRunning"),
        (ActionState::Pending, _) => Condition::new(SUCCEEDED, Status::Unknown, "ActionsPending"),
    };
    let warnings: Vec<_> = status.warnings.iter().map(warning).collect();
    let current = versions_condition(&warnings, &conditions);
    for mut condition in [Some(succeeded), current].into_iter().flatten() {
        condition.last_transition_time = timestamp(now);
        condition.observed_generation = meta::generation(action_set);
        // Without a status subresource every write of the status increments the generation, so that it does not
        // identify the spec.
        if let Some(same) = conditions.iter().find(|it| it.kind == condition.kind) {
            condition.observed_generation = same.observed_generation;
        }
        set_condition(&mut conditions, condition);
    }
    status.conditions = conditions_to_json(&conditions);
}

fn warning(warning: &PhaseWarning) -> VersionWarning {
    let reason = if warning.reason == "FunctionVersionFallback" {
        "FunctionVersionFallback"
    } else {
        "FunctionVersionDeprecated"
    };
    VersionWarning {
        step: warning.phase.clone(),
        function: warning.function.clone(),
        version: warning.version.clone(),
        reason,
        message: warning.message.clone(),
        removed_in: Some(warning.removed_in.clone()).filter(|it| !it.is_empty()),
        replacement: Some(warning.replaced_by.clone()).filter(|it| !it.is_empty()),
    }
}

fn to_i64(index: usize) -> i64 {
    i64::try_from(index).unwrap_or(i64::MAX)
}
