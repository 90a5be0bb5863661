//! The ActionSets that an operation has applied: it ends when they have ended, and takes their result.
//!
//! # Invariants
//! * An operation whose ActionSets run is running, so that limits of history keep both and `Forbid` waits for both. Only a deadline ends it
//!   before them, and then they are cancelled.
//! * A failed ActionSet fails its operation. The pipeline is not tried again: phases have changed something already.
//! * The mark that an operation waits is in its status. A process that ends meanwhile loses nothing.

use std::time::Duration;

use ferroplane_api::{ActionState, Cause, Condition, FailurePoint, Object, Status, keys, meta};
use serde_json::Value;

use super::{
    AttemptFailure, Concluded, Exhaustion, INVOKE, OperationStatus, SUCCEEDED, SYNCED, conditions,
    conditions_in, failures, references_in, retry_limit, time_left,
};
use crate::action::status_of;
use crate::outcome::{Event, EventKind};
use crate::plan::Reference;

/// The reason of the condition `Succeeded` while ActionSets run.
const WAITS: &str = "ActionSetsRunning";
/// The reason of events about operations that begin to wait.
const WAIT: &str = "WaitForActionSets";
/// The reason of events and of the condition about operations whose ActionSet failed.
const FAILED: &str = "ActionSetFailed";
/// How many ActionSets a message names.
const MOST_NAMED: usize = 3;

/// An ActionSet that an operation has applied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AppliedActionSet {
    pub namespace: String,
    pub name: String,
}

impl From<Reference> for AppliedActionSet {
    fn from(reference: Reference) -> Self {
        Self { namespace: reference.namespace.unwrap_or_default(), name: reference.name }
    }
}

impl std::fmt::Display for AppliedActionSet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "`{}/{}`", self.namespace, self.name)
    }
}

/// What became of an ActionSet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ActionSetResult {
    Running,
    Complete,
    /// Why.
    Failed(String),
    /// It was deleted before its result was read.
    Gone,
}

/// What follows from the results of all ActionSets of an operation.
#[derive(Debug, Clone, PartialEq)]
pub struct Awaited {
    /// The ActionSets to cancel: the operation has reached its deadline.
    pub cancel: Vec<AppliedActionSet>,
    /// The status to write. `retry_in` is the time that is left before the deadline.
    pub concluded: Concluded,
}

/// The ActionSets that an operation has applied, as its status lists them.
pub fn applied_action_sets(operation: &Object) -> Vec<AppliedActionSet> {
    operation.get("status").and_then(Value::as_object).map(action_sets_in).unwrap_or_default()
}

/// Whether an object is an ActionSet.
pub fn is_action_set(object: &Object) -> bool {
    meta::group(meta::api_version(object)) == keys::KANISTER && meta::kind(object) == "ActionSet"
}

/// The ActionSets that the status of an operation lists and that are not among these references: earlier attempts have recorded them.
pub fn other_action_sets(operation: &Object, references: &[Reference]) -> Vec<Reference> {
    let status = operation.get("status").and_then(Value::as_object);
    let mut recorded = status.map(action_set_references).unwrap_or_default();
    recorded.retain(|it| !references.contains(it));
    recorded
}

fn action_sets_in(status: &Object) -> Vec<AppliedActionSet> {
    action_set_references(status).into_iter().map(AppliedActionSet::from).collect()
}

fn action_set_references(status: &Object) -> Vec<Reference> {
    let references = references_in(status);
    let references = references.iter().filter_map(Value::as_object);
    let text =
        |reference: &Object, field: &str| reference.get(field).and_then(Value::as_str).map(str::to_owned);
    references
        .filter(|reference| is_action_set(reference))
        .map(|it| Reference {
            api_version: text(it, "apiVersion").unwrap_or_default(),
            kind: text(it, "kind").unwrap_or_default(),
            name: text(it, "name").unwrap_or_default(),
            namespace: text(it, "namespace"),
        })
        .collect()
}

/// The result of an ActionSet of an operation. One of the same name that another owner has created since is not its own.
pub fn action_set_result(operation: &Object, found: Option<&Object>) -> ActionSetResult {
    let is_own = |found: &&Object| meta::controller_uid(found) == Some(meta::uid(operation));
    let Some(found) = found.filter(is_own) else { return ActionSetResult::Gone };
    let status = status_of(found);
    match status.state {
        ActionState::Pending | ActionState::Running => ActionSetResult::Running,
        ActionState::Complete => ActionSetResult::Complete,
        ActionState::Failed => ActionSetResult::Failed(status.error.message),
    }
}

/// Whether the pipeline of an operation has ended, and its ActionSets have not.
pub(super) fn is_waiting(operation: &Object) -> bool {
    let mut conditions = conditions(operation).into_iter();
    conditions.any(|it| it.kind == SUCCEEDED && it.status == Status::Unknown && it.reason == WAITS)
}

/// What an operation whose pipeline has ended does, given the results of its ActionSets.
pub fn await_action_sets(
    operation: &Object,
    results: &[(AppliedActionSet, ActionSetResult)],
    now: &str,
) -> Awaited {
    let mut status = OperationStatus::of(operation, now);
    let of = |wanted: fn(&ActionSetResult) -> bool| results.iter().filter(move |(_, it)| wanted(it));
    let running: Vec<_> =
        of(|it| *it == ActionSetResult::Running).map(|(action_set, _)| action_set.clone()).collect();
    let left = time_left(operation, now);
    if !running.is_empty() && left != Some(Duration::ZERO) {
        status.wait_for(&running);
        let concluded = Concluded { retry_in: left, ..status.concluded(Vec::new()) };
        return Awaited { cancel: Vec::new(), concluded };
    }
    let failed = of(|it| matches!(it, ActionSetResult::Failed(_) | ActionSetResult::Gone)).next();
    let event = match (failed, status.pipeline_failure()) {
        _ if !running.is_empty() => Some(status.give_up(Exhaustion::at(operation, now), None)),
        (_, Some(failure)) => Some(status.give_up(Exhaustion::at(operation, now), Some(&failure))),
        (Some((action_set, result)), None) => Some(status.fail_with(action_set, result)),
        (None, None) => {
            status.complete(Condition::new(SUCCEEDED, Status::True, "PipelineSuccess"));
            None
        }
    };
    Awaited { cancel: running, concluded: status.concluded(event.into_iter().collect()) }
}

impl Exhaustion {
    /// Why an operation that is not tried again is not.
    pub(super) fn at(operation: &Object, now: &str) -> Self {
        let exhaustion = Self::of(operation, failures(operation), now);
        exhaustion.unwrap_or_else(|| Self::failures(retry_limit(operation)))
    }
}

impl OperationStatus<'_> {
    /// Wait for the ActionSets that were applied. Returns the event to record, or None if there are none.
    pub(super) fn begin_to_wait(&mut self) -> Option<Event> {
        let action_sets = action_sets_in(&self.object);
        if action_sets.is_empty() {
            return None;
        }
        Some(Event::new(EventKind::Normal, WAIT, self.wait_for(&action_sets)))
    }

    /// The same, for an operation whose pipeline has failed for good: it fails after its ActionSets have ended.
    pub(super) fn begin_to_wait_failed(&mut self, last: Option<&AttemptFailure>) -> Option<Event> {
        let event = self.begin_to_wait()?;
        let failed = |failure: &AttemptFailure| {
            let synced = Condition::new(SYNCED, Status::False, "ReconcileError");
            synced.with_message(failure.message.clone()).with_failure(failure.point.clone())
        };
        match last {
            Some(failure) => self.set(failed(failure)),
            // What was said of the last attempt still holds.
            None if self.pipeline_failure().is_some() => {}
            None => {
                let message = "the pipeline has not run to its end";
                let point = FailurePoint::new(Cause::OperationAttemptsExhausted);
                self.set(failed(&AttemptFailure { reason: INVOKE, message: message.to_owned(), point }));
            }
        }
        Some(event)
    }

    fn wait_for(&mut self, action_sets: &[AppliedActionSet]) -> String {
        let message = format!("Waiting for {}", named(action_sets));
        self.set(Condition::new(SUCCEEDED, Status::Unknown, WAITS).with_message(&message));
        message
    }

    /// Why the pipeline failed for good. None if it succeeded.
    fn pipeline_failure(&self) -> Option<AttemptFailure> {
        let conditions = self.object.get("conditions").map(conditions_in).unwrap_or_default();
        let synced = conditions.into_iter().find(|it| it.kind == SYNCED && it.status == Status::False)?;
        let cause = synced.code.parse().unwrap_or(Cause::OperationAttemptsExhausted);
        let point = FailurePoint::new(cause).in_step(&synced.step).of_resource(&synced.resource);
        Some(AttemptFailure { reason: INVOKE, message: synced.message, point })
    }

    fn fail_with(&mut self, action_set: &AppliedActionSet, result: &ActionSetResult) -> Event {
        let message = match result {
            ActionSetResult::Failed(message) => format!("ActionSet {action_set} failed: {message}"),
            _ => format!("ActionSet {action_set} was deleted before its result was read"),
        };
        let point = FailurePoint::new(Cause::ActionSetFailed);
        let failed = Condition::new(SUCCEEDED, Status::False, FAILED).with_message(&message);
        self.complete(failed.with_failure(point.clone()));
        Event::failure(FAILED, message, point)
    }
}

fn named(action_sets: &[AppliedActionSet]) -> String {
    let names: Vec<_> = action_sets.iter().take(MOST_NAMED).map(ToString::to_string).collect();
    let names = names.join(", ");
    match action_sets.len() {
        1 => format!("ActionSet {names}"),
        count if count <= MOST_NAMED => format!("ActionSets {names}"),
        count => format!("{count} ActionSets: {names} and others"),
    }
}

#[cfg(test)]
mod tests;
