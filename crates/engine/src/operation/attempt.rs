//! An operation from its first attempt to its last: when its pipeline runs, and what its status says.
//!
//! # Invariants
//! * An operation that has succeeded or failed is never run again, whatever becomes of its spec.
//! * Failures only ever add up. The number that was written is the number of attempts that failed.

use std::time::Duration;

use ferroplane_api::{Cause, Condition, FailurePoint, Object, Status, keys, meta, set_condition};
use serde_json::{Value, json};

use crate::failure::{Failure, chain};
use crate::outcome::{Event, StepOutput};
use crate::plan::Reference;
use crate::settle::{conditions_in, conditions_to_json};
use crate::wording::failure_limit;

/// How often an operation that does not say so is tried.
const RETRY_LIMIT: u64 = 5;
const SHORTEST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_mins(1);

const SUCCEEDED: &str = "Succeeded";
const SYNCED: &str = "Synced";
const RUNNING: &str = "PipelineRunning";

/// The reason of events about functions that cannot be called, or that fail.
const INVOKE: &str = "FunctionInvocation";
/// The reason of events about what cannot be applied.
const APPLY: &str = "InvalidResource";
/// The reason of events about pipelines that cannot run.
const PIPELINE: &str = "InvalidPipeline";

/// What a reconcile of an operation has to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Begin {
    /// Nothing any more: it is done, or being deleted.
    Ended,
    /// Nothing, until the annotation is removed.
    Paused,
    /// Say that it has failed: it was tried as often as it may be.
    GiveUp,
    /// Run its pipeline.
    Run,
}

/// What a reconcile of an operation has to do.
pub fn begin(operation: &Object) -> Begin {
    if meta::is_being_deleted(operation) || is_complete(operation) {
        Begin::Ended
    } else if meta::annotation(operation, keys::PAUSED) == "true" {
        Begin::Paused
    } else if failures(operation) >= retry_limit(operation) {
        Begin::GiveUp
    } else {
        Begin::Run
    }
}

/// How an operation stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// Its pipeline has not run to its end. An operation that nobody has looked at counts, too.
    Running,
    Succeeded,
    Failed,
}

/// How an operation stands.
pub fn standing(operation: &Object) -> Standing {
    match conditions(operation).iter().find(|condition| condition.kind == SUCCEEDED) {
        Some(condition) if condition.status == Status::True => Standing::Succeeded,
        Some(condition) if condition.status == Status::False => Standing::Failed,
        _ => Standing::Running,
    }
}

/// Since when an operation has succeeded, in RFC 3339. None if it has not.
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

fn failures(operation: &Object) -> u64 {
    operation.get("status").and_then(|status| status.get("failures")?.as_u64()).unwrap_or_default()
}

fn retry_limit(operation: &Object) -> u64 {
    let limit = operation.get("spec").and_then(|spec| spec.get("retryLimit")?.as_i64());
    limit.map_or(RETRY_LIMIT, |limit| u64::try_from(limit).unwrap_or_default())
}

/// The status of an operation whose pipeline is about to run. It is written before the first function is called: whoever cannot
/// write it has an operation before him that somebody else has changed, and may have run.
pub fn started(operation: &Object, now: &str) -> Object {
    let mut status = OperationStatus::of(operation, now);
    status.set(Condition::new(SUCCEEDED, Status::Unknown, RUNNING));
    status.object
}

/// Why an attempt failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttemptFailure {
    /// In one word, for the event.
    pub reason: &'static str,
    pub message: String,
    pub point: FailurePoint,
}

impl AttemptFailure {
    /// The pipeline cannot be run as it is.
    pub fn invalid_pipeline(message: impl Into<String>, point: FailurePoint) -> Self {
        Self { reason: PIPELINE, message: message.into(), point }
    }

    /// The API server refused something that was to be applied.
    pub fn not_applied(message: impl Into<String>, step: &str, resource: &str) -> Self {
        let point = FailurePoint::new(Cause::DesiredResourceNotApplied).in_step(step).of_resource(resource);
        Self { reason: APPLY, message: message.into(), point }
    }

    /// The attempt took longer than it may.
    pub fn timeout(message: impl Into<String>) -> Self {
        Self { reason: INVOKE, message: message.into(), point: Cause::OperationTimeout.into() }
    }
}

impl From<&Failure> for AttemptFailure {
    fn from(failure: &Failure) -> Self {
        let reason = if matches!(failure, Failure::Inapplicable { .. }) { APPLY } else { INVOKE };
        Self { reason, message: chain(failure), point: failure.point() }
    }
}

/// How an attempt ended.
#[derive(Debug, Clone)]
pub enum AttemptEnding {
    Succeeded,
    Failed(AttemptFailure),
    /// There was none: the operation was tried as often as it may be.
    GaveUp,
}

/// What to write to the status of an operation, and what to tell.
#[derive(Debug, Clone, PartialEq)]
pub struct Concluded {
    pub status: Object,
    pub events: Vec<Event>,
    /// When to try again. None if it is done.
    pub retry_in: Option<Duration>,
}

/// Conclude an attempt. `outputs` and `applied` are what came of it even if it failed.
pub fn conclude(
    operation: &Object,
    ending: AttemptEnding,
    outputs: &[StepOutput],
    applied: &[Reference],
    now: &str,
) -> Concluded {
    let mut status = OperationStatus::of(operation, now);
    status.add_outputs(outputs);
    status.add_references(applied);
    let (mut events, mut retry_in) = (Vec::new(), None);
    match ending {
        AttemptEnding::Succeeded => {
            status.complete(Condition::new(SUCCEEDED, Status::True, "PipelineSuccess"));
        }
        AttemptEnding::GaveUp => status.give_up(retry_limit(operation), None),
        AttemptEnding::Failed(failure) => {
            let failures = failures(operation) + 1;
            status.object.insert("failures".to_owned(), failures.into());
            events.push(Event::failure(failure.reason, &failure.message, failure.point.clone()));
            let limit = retry_limit(operation);
            if failures >= limit {
                // Crossplane says so only when it would try again.
                status.give_up(limit, Some(&failure));
            } else {
                status.set(Condition::new(SUCCEEDED, Status::Unknown, RUNNING));
                let synced = Condition::new(SYNCED, Status::False, "ReconcileError");
                status.set(synced.with_message(failure.message).with_failure(failure.point));
                retry_in = Some(pause_after(failures));
            }
        }
    }
    Concluded { status: status.object, events, retry_in }
}

/// How long to wait after so many failures: twice as long each time.
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
        self.now.clone_into(&mut condition.last_transition_time);
        let mut conditions = self.object.get("conditions").map(conditions_in).unwrap_or_default();
        set_condition(&mut conditions, condition);
        self.object.insert("conditions".to_owned(), Value::Array(conditions_to_json(&conditions)));
    }

    fn complete(&mut self, succeeded: Condition) {
        self.set(Condition::new(SYNCED, Status::True, "ReconcileSuccess"));
        self.set(succeeded);
    }

    fn give_up(&mut self, limit: u64, last: Option<&AttemptFailure>) {
        let message = match last {
            Some(failure) => format!("{}: {}", failure_limit(limit), failure.message),
            None => failure_limit(limit),
        };
        let mut point = FailurePoint::new(Cause::OperationAttemptsExhausted);
        if let Some(last) = last {
            point = last.point.clone();
        }
        let failed = Condition::new(SUCCEEDED, Status::False, "PipelineError").with_message(message);
        self.complete(failed.with_failure(point));
    }

    /// The output of a step replaces what it put out in an earlier attempt.
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
        let mut references =
            self.object.get("appliedResourceRefs").and_then(Value::as_array).cloned().unwrap_or_default();
        references.extend(applied.iter().map(to_json));
        // Crossplane sorts by this concatenation.
        references.sort_by_cached_key(|reference| {
            let text = |field: &str| reference[field].as_str().unwrap_or_default().to_owned();
            [text("apiVersion"), text("kind"), text("namespace"), text("name")].concat()
        });
        references.dedup();
        self.object.insert("appliedResourceRefs".to_owned(), Value::Array(references));
    }
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
mod tests {
    use super::*;

    fn operation(spec: &Value, status: &Value) -> Object {
        let operation = json!({"metadata": {"name": "o", "generation": 2}, "spec": spec, "status": status});
        operation.as_object().unwrap().clone()
    }

    fn failed() -> AttemptEnding {
        AttemptEnding::Failed(AttemptFailure::not_applied("no", "s", "r"))
    }

    fn succeeded(status: &Object) -> (Status, String) {
        let condition =
            conditions_in(&status["conditions"]).into_iter().find(|it| it.kind == SUCCEEDED).unwrap();
        (condition.status, condition.reason)
    }

    #[test]
    fn operation_is_run_until_it_is_done_or_has_failed_often_enough() {
        let done =
            |status: &str| json!({"conditions": [{"type": "Succeeded", "status": status, "reason": "x"}]});
        let cases = [
            (json!({}), json!({}), Begin::Run),
            (json!({}), json!({"failures": 4}), Begin::Run),
            (json!({}), json!({"failures": 5}), Begin::GiveUp),
            (json!({"retryLimit": 0}), json!({}), Begin::GiveUp),
            (json!({}), done("Unknown"), Begin::Run),
            (json!({}), done("True"), Begin::Ended),
            (json!({"retryLimit": 99}), done("False"), Begin::Ended),
        ];
        for (spec, status, expected) in cases {
            assert_eq!(begin(&operation(&spec, &status)), expected, "{spec} {status}");
        }
        let mut paused = operation(&json!({}), &json!({}));
        meta::set_annotation(&mut paused, keys::PAUSED, "true");
        assert_eq!(begin(&paused), Begin::Paused);
    }

    #[test]
    fn failures_add_up_until_the_limit_and_pauses_grow() {
        let spec = json!({"retryLimit": 3});
        let mut it = operation(&spec, &json!({}));
        let mut pauses = Vec::new();
        for attempt in 1..=3 {
            assert_eq!(begin(&it), Begin::Run);
            let concluded = conclude(&it, failed(), &[], &[], "t");
            assert_eq!(concluded.status["failures"], attempt);
            assert_eq!(concluded.events.len(), 1);
            pauses.push(concluded.retry_in.map(|pause| pause.as_secs()));
            it.insert("status".to_owned(), Value::Object(concluded.status));
        }
        assert_eq!(pauses, [Some(1), Some(2), None]);
        assert_eq!(begin(&it), Begin::Ended);
        let status = it["status"].as_object().unwrap();
        assert_eq!(succeeded(status), (Status::False, "PipelineError".to_owned()));
        let messages: Vec<_> =
            conditions_in(&status["conditions"]).into_iter().map(|it| it.message).collect();
        assert!(messages.contains(&"failure limit of 3 reached: no".to_owned()), "{messages:?}");
        assert_eq!(pause_after(40), LONGEST_PAUSE);
    }

    #[test]
    fn limit_of_zero_fails_without_an_attempt() {
        let concluded =
            conclude(&operation(&json!({"retryLimit": 0}), &json!({})), AttemptEnding::GaveUp, &[], &[], "t");
        assert_eq!(succeeded(&concluded.status), (Status::False, "PipelineError".to_owned()));
        assert_eq!(concluded.status.get("failures"), None);
    }

    #[test]
    fn outputs_replace_those_of_earlier_attempts_and_references_are_listed_once() {
        let output = |step: &str, count: i64| StepOutput {
            step: step.to_owned(),
            output: json!({"count": count}).as_object().unwrap().clone().try_into().unwrap(),
        };
        let reference = |kind: &str| Reference {
            api_version: "v1".to_owned(),
            kind: kind.to_owned(),
            name: "a".to_owned(),
            namespace: None,
        };
        let it = operation(&json!({}), &json!({"pipeline": [{"step": "b", "output": {"count": 1}}]}));
        let applied = [reference("Secret"), reference("ConfigMap"), reference("Secret")];
        let concluded =
            conclude(&it, AttemptEnding::Succeeded, &[output("a", 3), output("b", 2)], &applied, "t");
        let expected = json!([{"step": "b", "output": {"count": 2}}, {"step": "a", "output": {"count": 3}}]);
        assert_eq!(concluded.status["pipeline"], expected);
        let kinds: Vec<_> = concluded.status["appliedResourceRefs"]
            .as_array()
            .unwrap()
            .iter()
            .map(|it| &it["kind"])
            .collect();
        assert_eq!(kinds, ["ConfigMap", "Secret"]);
        assert_eq!(succeeded(&concluded.status), (Status::True, "PipelineSuccess".to_owned()));
        assert_eq!(concluded.retry_in, None);
    }
}
