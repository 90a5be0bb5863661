//! The attempts of an operation: when its pipeline runs, and its status.
//!
//! # Invariants
//! * An operation that has succeeded or failed is never run again, even if its spec changes.
//! * The number of failures never decreases. The number in the status is the number of failed attempts. Attempts that ended with their
//!   process are counted beside them.
//! * No function, however much it returns, makes the status larger than an API server stores.
//! * Nothing is applied before its reference is in the status, so that a process that ends loses no reference.

mod action_sets;

use std::time::Duration;

use ferroplane_api::{Cause, Condition, FailurePoint, Object, Status, keys, meta, set_condition};
use serde_json::{Value, json};

use crate::failure::{Failure, chain};
use crate::outcome::{Event, StepOutput};
use crate::plan::Reference;
use crate::settle::{conditions_in, conditions_to_json};
use crate::status_size::{STATUS_LIMIT, json_size, shortened};
use crate::wording::{active_deadline, failure_limit};

use super::limits::{
    active_deadline_of, failures, interruptions, retry_limit, started_at, time_left, too_many_interruptions,
};
use action_sets::is_waiting;

pub use action_sets::{
    ActionSetResult, AppliedActionSet, Awaited, action_set_result, applied_action_sets, await_action_sets,
    is_action_set, other_action_sets,
};

const SHORTEST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_mins(1);

const SUCCEEDED: &str = "Succeeded";
const SYNCED: &str = "Synced";
const RUNNING: &str = "PipelineRunning";
/// The reason of the condition `Succeeded` after an attempt that is followed by another one. It is the mark that the attempt has ended: the
/// process that ends afterwards interrupts nothing.
const PENDING: &str = "PipelinePending";
const REFERENCES: &str = "appliedResourceRefs";

/// The reason of events about functions that cannot be called, or that fail.
const INVOKE: &str = "FunctionInvocation";
/// The reason of events about resources that cannot be applied.
const APPLY: &str = "InvalidResource";
/// The reason of events about pipelines that cannot run.
const PIPELINE: &str = "InvalidPipeline";
/// The reason of events about objects and schemas that a step requires and that cannot be read.
const REQUIRE: &str = "BootstrapRequirements";
/// The reason of events about operations that have failed too often.
const MAX_FAILURES: &str = "MaxFailures";
/// The reason of events about operations that missed their deadline.
const OVERDUE: &str = "DeadlineExceeded";
/// The reason of events about operations whose result cannot be stored.
const TOO_LARGE: &str = "ResultTooLarge";

/// What a reconcile of an operation has to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Begin {
    /// Nothing: it has ended, or is being deleted.
    Ended,
    /// Nothing, until the annotation is removed.
    Paused,
    /// Wait for the ActionSets that it has applied: its pipeline has ended.
    Await,
    /// Mark it as failed: it has reached its retry limit or its deadline.
    GiveUp,
    /// Run its pipeline.
    Run,
}

/// What a reconcile of an operation has to do at this time.
pub fn begin(operation: &Object, now: &str) -> Begin {
    if meta::is_being_deleted(operation) || is_complete(operation) {
        Begin::Ended
    } else if meta::annotation(operation, keys::PAUSED) == "true" {
        Begin::Paused
    } else if is_waiting(operation) {
        Begin::Await
    } else if Exhaustion::of(operation, failures(operation), now).is_some() {
        Begin::GiveUp
    } else {
        Begin::Run
    }
}

/// The state of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// Its pipeline has not run to its end, or its ActionSets have not ended. An operation without a status counts, too.
    Running,
    Succeeded,
    Failed,
}

/// The state of an operation.
pub fn standing(operation: &Object) -> Standing {
    standing_by(&conditions(operation))
}

fn standing_by(conditions: &[Condition]) -> Standing {
    match conditions.iter().find(|condition| condition.kind == SUCCEEDED) {
        Some(condition) if condition.status == Status::True => Standing::Succeeded,
        Some(condition) if condition.status == Status::False => Standing::Failed,
        _ => Standing::Running,
    }
}

/// When an operation succeeded, in RFC 3339. None if it has not.
pub fn succeeded_at(operation: &Object) -> Option<String> {
    let succeeded = conditions(operation)
        .into_iter()
        .find(|condition| condition.kind == SUCCEEDED && condition.status == Status::True)?;
    Some(succeeded.last_transition_time)
}

fn is_complete(operation: &Object) -> bool {
    standing(operation) != Standing::Running
}

fn conditions(operation: &Object) -> Vec<Condition> {
    operation.get("status").and_then(|status| status.get("conditions")).map(conditions_in).unwrap_or_default()
}

fn is_overdue(operation: &Object, now: &str) -> bool {
    time_left(operation, now).is_some_and(|left| left.is_zero())
}

/// The status of an operation whose pipeline is about to run. It is written before the first function is called: if the write fails,
/// another writer has changed the operation, and may have run it.
pub fn started(operation: &Object, now: &str) -> Object {
    let mut status = OperationStatus::of(operation, now);
    status.set(Condition::new(SUCCEEDED, Status::Unknown, RUNNING));
    // Only the deadline needs the time of the first attempt.
    if active_deadline_of(operation).is_some() && started_at(operation).is_none() {
        status.object.insert("startTime".to_owned(), now.into());
    }
    status.object
}

/// The same, for an operation that another process has begun to run, and that ended meanwhile.
pub fn restarted(operation: &Object, now: &str) -> Object {
    let mut status = started(operation, now);
    status.insert("interruptions".to_owned(), (interruptions(operation) + 1).into());
    status
}

/// Whether an attempt of an operation has begun and has not ended. It runs, or was interrupted.
pub fn has_begun(operation: &Object) -> bool {
    let mut conditions = conditions(operation).into_iter();
    conditions.any(|it| it.kind == SUCCEEDED && it.status == Status::Unknown && it.reason == RUNNING)
}

/// Why an attempt failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttemptFailure {
    /// One word, for the event.
    pub reason: &'static str,
    pub message: String,
    pub point: FailurePoint,
}

impl AttemptFailure {
    /// The pipeline of this operation failed.
    pub fn of_pipeline(failure: &Failure, operation: &Object) -> Self {
        let reason = match failure {
            Failure::Inapplicable { .. } => APPLY,
            Failure::Requirement { step, requirement, .. } if declares(operation, step, requirement) => {
                REQUIRE
            }
            _ => INVOKE,
        };
        Self { reason, message: chain(failure), point: failure.point() }
    }

    /// The pipeline cannot be run as it is.
    pub fn invalid_pipeline(message: impl Into<String>, point: FailurePoint) -> Self {
        Self { reason: PIPELINE, message: message.into(), point }
    }

    /// The API server refused a resource.
    pub fn not_applied(message: impl Into<String>, step: &str, resource: &str) -> Self {
        let point = FailurePoint::new(Cause::DesiredResourceNotApplied).in_step(step).of_resource(resource);
        Self { reason: APPLY, message: message.into(), point }
    }

    /// The references to the resources that are about to be applied cannot be recorded.
    pub fn not_recorded() -> Self {
        let message = "cannot record in the status which objects are about to be applied".to_owned();
        Self { reason: APPLY, message, point: Cause::ApiServerUnreachable.into() }
    }

    /// The attempt timed out.
    pub fn timeout(message: impl Into<String>) -> Self {
        Self { reason: INVOKE, message: message.into(), point: Cause::OperationTimeout.into() }
    }

    /// The attempt panicked. It counts, or it would be repeated for ever.
    pub fn panic() -> Self {
        let message = "the attempt panicked; the log of the control plane says where".to_owned();
        Self { reason: INVOKE, message, point: Cause::OperationPanicked.into() }
    }
}

/// Whether the step itself declares the requirement, and not its function.
fn declares(operation: &Object, step: &str, requirement: &str) -> bool {
    let steps = operation.get("spec").and_then(|spec| spec.get("pipeline")?.as_array());
    let requirements = steps.into_iter().flatten().filter(|it| it["step"] == step).flat_map(|it| {
        let kinds = ["requiredResources", "requiredSchemas"];
        kinds.into_iter().filter_map(|kind| it["requirements"][kind].as_array()).flatten()
    });
    requirements.into_iter().any(|it| it["requirementName"] == requirement)
}

/// How an attempt ended.
#[derive(Debug, Clone)]
pub enum AttemptEnding {
    Succeeded,
    Failed(AttemptFailure),
    /// There was no attempt: the operation has reached its retry limit or its deadline.
    GaveUp,
    /// A user paused or deleted the operation meanwhile. That is no failure.
    BrokenOff,
    /// The API server does not store the result, because it is too large.
    TooLarge,
}

/// The result of an attempt, as far as it went.
#[derive(Debug, Clone)]
pub struct Attempt {
    pub ending: AttemptEnding,
    /// Whether the pipeline can run. None if that was not checked.
    pub validity: Option<Condition>,
    /// The outputs of steps.
    pub outputs: Vec<StepOutput>,
    /// The references that the status has without proof that the resource was applied. Those that are not among the applied ones are
    /// removed again.
    pub recorded: Vec<Reference>,
    /// The applied resources, and those that may have been applied.
    pub applied: Vec<Reference>,
}

impl Attempt {
    /// An attempt that ended before it had any result.
    pub fn new(ending: AttemptEnding) -> Self {
        Self { ending, validity: None, outputs: Vec::new(), recorded: Vec::new(), applied: Vec::new() }
    }
}

/// The status of an operation that is about to apply these resources. It is written before the first of them is: otherwise a process that
/// ends in between would leave resources that no status names, unless the next attempt wants the same.
pub fn applying(operation: &Object, references: &[Reference]) -> Object {
    let mut status = OperationStatus::of(operation, "");
    status.add_references(references);
    status.object
}

/// Those of these references that are not in the status of an operation.
pub fn unrecorded(operation: &Object, references: &[Reference]) -> Vec<Reference> {
    let status = operation.get("status").and_then(Value::as_object);
    let recorded = status.map(references_in).unwrap_or_default();
    references.iter().filter(|reference| !recorded.contains(&to_json(reference))).cloned().collect()
}

/// Check that the status has room for the results of an attempt. This is done before the attempt applies anything: an attempt that cannot
/// be recorded would be repeated for ever.
pub fn check_results(
    operation: &Object,
    outputs: &[StepOutput],
    applied: &[Reference],
) -> Result<(), AttemptFailure> {
    let mut status = OperationStatus::of(operation, "");
    status.add_outputs(outputs);
    status.add_references(applied);
    let size = json_size(&status.object);
    if size <= STATUS_LIMIT {
        return Ok(());
    }
    let message = format!(
        "the outputs of the steps and the references to {} applied objects make the status {size} bytes large, and it may have \
         {STATUS_LIMIT}",
        applied.len()
    );
    let point = FailurePoint::new(Cause::FunctionResponseTooLarge);
    // The largest one, which usually is the culprit.
    let largest = outputs.iter().max_by_key(|it| it.output.json().map_or(0, json_size));
    let point = largest.map_or(point.clone(), |it| point.in_step(&it.step));
    Err(AttemptFailure { reason: TOO_LARGE, message, point })
}

/// The status of an operation to write, and the events to record.
#[derive(Debug, Clone, PartialEq)]
pub struct Concluded {
    pub status: Object,
    pub events: Vec<Event>,
    /// When to try again. None if it has ended, or waits for its ActionSets.
    pub retry_in: Option<Duration>,
    /// What the status says.
    pub standing: Standing,
}

/// Conclude an attempt. Its results are kept even if it failed.
pub fn conclude(operation: &Object, attempt: Attempt, now: &str) -> Concluded {
    let Attempt { ending, validity, outputs, recorded, applied } = attempt;
    let mut status = OperationStatus::of(operation, now);
    status.add_outputs(&outputs);
    status.remove_references(&recorded);
    status.add_references(&applied);
    if let Some(validity) = validity {
        status.set(validity);
    }
    let (mut events, mut retry_in) = (Vec::new(), None);
    match ending {
        AttemptEnding::Succeeded => {
            status.complete(Condition::new(SUCCEEDED, Status::True, "PipelineSuccess"));
            events.extend(status.begin_to_wait());
        }
        // Unless another process has concluded it meanwhile.
        AttemptEnding::BrokenOff if has_begun(operation) => {
            status.set(Condition::new(SUCCEEDED, Status::Unknown, PENDING));
        }
        AttemptEnding::BrokenOff => {}
        AttemptEnding::TooLarge => events.push(status.give_up_results()),
        AttemptEnding::GaveUp => {
            let waits = status.begin_to_wait_failed(None);
            events.push(waits.unwrap_or_else(|| status.give_up(Exhaustion::at(operation, now), None)));
        }
        AttemptEnding::Failed(failure) => {
            let failures = failures(operation) + 1;
            status.object.insert("failures".to_owned(), failures.into());
            events.push(Event::failure(failure.reason, &failure.message, failure.point.clone()));
            // Crossplane gives up only when it would try again.
            if let Some(exhaustion) = Exhaustion::of(operation, failures, now) {
                let waits = status.begin_to_wait_failed(Some(&failure));
                events.push(waits.unwrap_or_else(|| status.give_up(exhaustion, Some(&failure))));
            } else {
                status.set(Condition::new(SUCCEEDED, Status::Unknown, PENDING));
                let synced = Condition::new(SYNCED, Status::False, "ReconcileError");
                status.set(synced.with_message(failure.message).with_failure(failure.point));
                let left = time_left(operation, now).unwrap_or(Duration::MAX);
                retry_in = Some(pause_after(failures).min(left));
            }
        }
    }
    Concluded { retry_in, ..status.concluded(events) }
}

/// Whether the result of an attempt is in the status of an operation already, given the operation as it was during the attempt. Then it
/// must not be concluded again: its failure would count twice.
pub fn is_concluded(during: &Object, operation: &Object) -> bool {
    is_complete(operation) || is_waiting(operation) || failures(operation) > failures(during)
}

/// Why an operation is not tried again.
#[derive(Debug)]
struct Exhaustion {
    reason: &'static str,
    message: String,
    point: FailurePoint,
}

impl Exhaustion {
    /// None if it may be tried again, after so many failures.
    fn of(operation: &Object, failures: u64, now: &str) -> Option<Self> {
        let limit = retry_limit(operation);
        if failures >= limit {
            return Some(Self::failures(limit));
        }
        if let Some(count) = too_many_interruptions(operation, failures) {
            let point = FailurePoint::new(Cause::OperationAttemptsExhausted);
            let message = format!("the control plane ended during {count} attempts");
            return Some(Self { reason: MAX_FAILURES, message, point });
        }
        let deadline = active_deadline_of(operation).filter(|_| is_overdue(operation, now))?;
        let point = FailurePoint::new(Cause::OperationTimeout);
        Some(Self { reason: OVERDUE, message: active_deadline(deadline), point })
    }

    fn failures(limit: u64) -> Self {
        let point = FailurePoint::new(Cause::OperationAttemptsExhausted);
        Self { reason: MAX_FAILURES, message: failure_limit(limit), point }
    }
}

/// The pause after so many failures: it doubles each time.
fn pause_after(failures: u64) -> Duration {
    let doublings = u32::try_from(failures.saturating_sub(1)).unwrap_or(u32::MAX);
    let factor = 1_u32.checked_shl(doublings).unwrap_or(u32::MAX);
    SHORTEST_PAUSE.saturating_mul(factor).min(LONGEST_PAUSE)
}

/// A status that is being written.
struct OperationStatus<'a> {
    object: Object,
    generation: i64,
    now: &'a str,
}

impl<'a> OperationStatus<'a> {
    fn of(operation: &Object, now: &'a str) -> Self {
        let object = operation.get("status").and_then(Value::as_object).cloned().unwrap_or_default();
        Self { object, generation: meta::generation(operation), now }
    }

    fn set(&mut self, mut condition: Condition) {
        condition.observed_generation = self.generation;
        // Functions write messages of any length.
        condition.message = shortened(condition.message);
        self.now.clone_into(&mut condition.last_transition_time);
        let mut conditions = self.object.get("conditions").map(conditions_in).unwrap_or_default();
        set_condition(&mut conditions, condition);
        self.object.insert("conditions".to_owned(), Value::Array(conditions_to_json(&conditions)));
    }

    fn concluded(self, events: Vec<Event>) -> Concluded {
        let conditions = self.object.get("conditions").map(conditions_in).unwrap_or_default();
        Concluded { standing: standing_by(&conditions), status: self.object, events, retry_in: None }
    }

    fn complete(&mut self, succeeded: Condition) {
        self.set(Condition::new(SYNCED, Status::True, "ReconcileSuccess"));
        self.set(succeeded);
    }

    /// Mark the operation as failed. Returns the event to record.
    fn give_up(&mut self, exhaustion: Exhaustion, last: Option<&AttemptFailure>) -> Event {
        let Exhaustion { reason, message, point } = exhaustion;
        let event = Event::failure(reason, &message, point.clone());
        let (message, point) = match last {
            Some(failure) => (format!("{message}: {}", failure.message), failure.point.clone()),
            None => (message, point),
        };
        let failed = Condition::new(SUCCEEDED, Status::False, "PipelineError").with_message(message);
        self.complete(failed.with_failure(point));
        event
    }

    /// Mark the operation as failed, without the results that took too much room. Returns the event to record.
    fn give_up_results(&mut self) -> Event {
        let message = "the API server does not store the result, because it is too large: the outputs of the steps and the references to \
                       applied objects are left out, and the operation is not tried again";
        for results in ["pipeline", REFERENCES] {
            self.object.remove(results);
        }
        let point = FailurePoint::new(Cause::FunctionResponseTooLarge);
        let failed = Condition::new(SUCCEEDED, Status::False, "PipelineError").with_message(message);
        self.complete(failed.with_failure(point.clone()));
        Event::failure(TOO_LARGE, message, point)
    }

    /// Add the outputs of steps, in place of those of earlier attempts.
    fn add_outputs(&mut self, outputs: &[StepOutput]) {
        if outputs.is_empty() {
            return;
        }
        let mut pipeline = self.object.get("pipeline").and_then(Value::as_array).cloned().unwrap_or_default();
        for StepOutput { step, output } in outputs {
            let Ok(output) = output.json() else { continue };
            let entry = json!({"step": step, "output": output});
            match pipeline.iter_mut().find(|entry| entry["step"] == **step) {
                Some(present) => *present = entry,
                None => pipeline.push(entry),
            }
        }
        self.object.insert("pipeline".to_owned(), Value::Array(pipeline));
    }

    fn add_references(&mut self, applied: &[Reference]) {
        if applied.is_empty() {
            return;
        }
        let mut references = references_in(&self.object);
        references.extend(applied.iter().map(to_json));
        // Crossplane sorts by this concatenation.
        references.sort_by_cached_key(|reference| {
            let text = |field: &str| reference[field].as_str().unwrap_or_default().to_owned();
            [text("apiVersion"), text("kind"), text("namespace"), text("name")].concat()
        });
        // An attempt that is repeated applies the same objects again.
        references.dedup();
        self.object.insert(REFERENCES.to_owned(), Value::Array(references));
    }

    fn remove_references(&mut self, unproven: &[Reference]) {
        if unproven.is_empty() {
            return;
        }
        let unproven: Vec<_> = unproven.iter().map(to_json).collect();
        let mut references = references_in(&self.object);
        references.retain(|reference| !unproven.contains(reference));
        if references.is_empty() {
            self.object.remove(REFERENCES);
        } else {
            self.object.insert(REFERENCES.to_owned(), Value::Array(references));
        }
    }
}

fn references_in(status: &Object) -> Vec<Value> {
    status.get(REFERENCES).and_then(Value::as_array).cloned().unwrap_or_default()
}

fn to_json(reference: &Reference) -> Value {
    let Reference { api_version, kind, name, namespace } = reference;
    let mut json = json!({"apiVersion": api_version, "kind": kind, "name": name});
    if let Some(namespace) = namespace {
        json["namespace"] = namespace.as_str().into();
    }
    json
}

#[cfg(test)]
mod tests;
