//! Operations that wait for their ActionSets.

use serde_json::json;

use super::super::{Attempt, AttemptEnding, Begin, Standing, begin, conclude, is_concluded, started};
use super::*;
use crate::plan::Reference;

const NOW: &str = "2026-01-01T00:01:00Z";

fn operation(spec: &Value) -> Object {
    let operation = json!({
        "apiVersion": "ops.crossplane.io/v1alpha1", "kind": "Operation",
        "metadata": {"name": "o", "uid": "o-uid", "generation": 1}, "spec": spec,
    });
    operation.as_object().unwrap().clone()
}

fn reference(name: &str) -> Reference {
    Reference {
        api_version: "cr.kanister.io/v1alpha1".to_owned(),
        kind: "ActionSet".to_owned(),
        name: name.to_owned(),
        namespace: Some("n".to_owned()),
    }
}

fn with_status(mut operation: Object, status: Object) -> Object {
    operation.insert("status".to_owned(), status.into());
    operation
}

/// After an attempt that ended like this, and that has applied these ActionSets.
fn after(ending: AttemptEnding, names: &[&str], spec: &Value) -> (Object, Concluded) {
    let begun = operation(spec);
    let status = started(&begun, NOW);
    let begun = with_status(begun, status);
    let applied = names.iter().map(|name| reference(name)).collect();
    let concluded = conclude(&begun, Attempt { applied, ..Attempt::new(ending) }, NOW);
    assert!(is_concluded(&begun, &with_status(begun.clone(), concluded.status.clone())));
    (with_status(begun, concluded.status.clone()), concluded)
}

fn results(operation: &Object, results: &[ActionSetResult]) -> Vec<(AppliedActionSet, ActionSetResult)> {
    applied_action_sets(operation).into_iter().zip(results.iter().cloned()).collect()
}

/// The status, reason and message of the condition `Succeeded`.
fn succeeded(status: &Object) -> (Status, String, String) {
    let mut all = conditions_in(&status["conditions"]).into_iter();
    let it = all.find(|it| it.kind == SUCCEEDED).unwrap();
    (it.status, it.reason, it.message)
}

fn failure() -> AttemptFailure {
    AttemptFailure::not_applied("quota exceeded", "s", "r")
}

#[test]
fn operation_runs_until_its_action_sets_have_ended_and_succeeds_with_them() {
    let (waiting, concluded) = after(AttemptEnding::Succeeded, &["b", "a"], &json!({}));
    assert_eq!((concluded.standing, concluded.retry_in), (Standing::Running, None));
    assert_eq!(concluded.events[0].message, "Waiting for ActionSets `n/a`, `n/b`");
    assert_eq!(begin(&waiting, NOW), Begin::Await, "its pipeline does not run again");
    let awaited = await_action_sets(
        &waiting,
        &results(&waiting, &[ActionSetResult::Complete, ActionSetResult::Running]),
        NOW,
    );
    let (status, reason, message) = succeeded(&awaited.concluded.status);
    assert_eq!((status, reason.as_str()), (Status::Unknown, WAITS));
    assert_eq!(message, "Waiting for ActionSet `n/b`");
    let done = vec![ActionSetResult::Complete; 2];
    let awaited = await_action_sets(&waiting, &results(&waiting, &done), NOW);
    assert_eq!(succeeded(&awaited.concluded.status).1, "PipelineSuccess");
    assert_eq!(awaited.concluded.standing, Standing::Succeeded);
}

#[test]
fn operation_fails_when_its_action_set_failed_or_was_deleted_however_often_it_may_be_tried() {
    let (waiting, _) = after(AttemptEnding::Succeeded, &["a", "b"], &json!({"retryLimit": 9}));
    for (result, words) in [
        (ActionSetResult::Failed("no disk".to_owned()), "ActionSet `n/b` failed: no disk"),
        (ActionSetResult::Gone, "ActionSet `n/b` was deleted before its result was read"),
    ] {
        let both = [ActionSetResult::Running, result.clone()];
        let awaited = await_action_sets(&waiting, &results(&waiting, &both), NOW);
        assert_eq!(awaited.concluded.standing, Standing::Running, "the other one runs");
        let both = [ActionSetResult::Complete, result];
        let Awaited { cancel, concluded } = await_action_sets(&waiting, &results(&waiting, &both), NOW);
        assert_eq!((cancel.len(), concluded.retry_in, concluded.standing), (0, None, Standing::Failed));
        assert_eq!(succeeded(&concluded.status), (Status::False, FAILED.to_owned(), words.to_owned()));
        assert_eq!(concluded.events[0].failure, Some(FailurePoint::new(Cause::ActionSetFailed)));
        assert_eq!(concluded.status.get("failures"), None, "it is no failed attempt");
        assert_eq!(begin(&with_status(waiting.clone(), concluded.status), NOW), Begin::Ended);
    }
}

#[test]
fn deadline_cancels_action_sets_that_run() {
    let (waiting, _) = after(AttemptEnding::Succeeded, &["a", "b"], &json!({"activeDeadlineSeconds": 60}));
    let both = results(&waiting, &[ActionSetResult::Complete, ActionSetResult::Running]);
    let awaited = await_action_sets(&waiting, &both, "2026-01-01T00:01:59Z");
    assert_eq!(awaited.concluded.retry_in, Some(Duration::from_secs(1)));
    let late = "2026-01-01T00:02:00Z";
    assert_eq!(begin(&waiting, late), Begin::Await);
    let Awaited { cancel, concluded } = await_action_sets(&waiting, &both, late);
    assert_eq!(cancel, [AppliedActionSet { namespace: "n".to_owned(), name: "b".to_owned() }]);
    assert_eq!(succeeded(&concluded.status).2, "active deadline of 60s exceeded");
    assert_eq!(concluded.events[0].reason, "DeadlineExceeded");
    // Those that ended in time have a result, even if it is read later.
    let both = results(&waiting, &[ActionSetResult::Complete, ActionSetResult::Complete]);
    assert_eq!(await_action_sets(&waiting, &both, late).concluded.standing, Standing::Succeeded);
}

/// Its first attempt has applied an ActionSet, and then failed.
#[test]
fn operation_whose_pipeline_failed_for_good_fails_after_its_action_sets_have_ended() {
    let ending = AttemptEnding::Failed(failure());
    let (waiting, concluded) = after(ending, &["a"], &json!({"retryLimit": 1}));
    assert_eq!((concluded.standing, concluded.retry_in), (Standing::Running, None));
    let reasons: Vec<_> = concluded.events.iter().map(|event| event.reason.as_str()).collect();
    assert_eq!(reasons, ["InvalidResource", "WaitForActionSets"]);
    let running = results(&waiting, &[ActionSetResult::Running]);
    let awaited = await_action_sets(&waiting, &running, NOW);
    assert_eq!(awaited.concluded.standing, Standing::Running);
    let waiting = with_status(waiting, awaited.concluded.status);
    let done = results(&waiting, &[ActionSetResult::Complete]);
    let concluded = await_action_sets(&waiting, &done, NOW).concluded;
    let expected = "failure limit of 1 reached: quota exceeded".to_owned();
    assert_eq!(succeeded(&concluded.status), (Status::False, "PipelineError".to_owned(), expected));
    assert_eq!(concluded.events[0].reason, "MaxFailures");
}

#[test]
fn operation_that_is_given_up_between_two_attempts_waits_too() {
    let ending = AttemptEnding::Failed(failure());
    let (mut between, concluded) = after(ending, &["a"], &json!({"retryLimit": 5}));
    assert!(concluded.retry_in.is_some(), "it is tried again, and finds its ActionSet");
    between.insert("spec".to_owned(), json!({"retryLimit": 1}));
    assert_eq!(begin(&between, NOW), Begin::GiveUp);
    let concluded = conclude(&between, Attempt::new(AttemptEnding::GaveUp), NOW);
    assert_eq!(concluded.standing, Standing::Running);
    let waiting = with_status(between, concluded.status);
    let failed = results(&waiting, &[ActionSetResult::Failed("no disk".to_owned())]);
    let concluded = await_action_sets(&waiting, &failed, NOW).concluded;
    assert_eq!(succeeded(&concluded.status).2, "failure limit of 1 reached: quota exceeded");
}

#[test]
fn only_an_action_set_that_belongs_to_the_operation_has_a_result_for_it() {
    let operation = operation(&json!({}));
    let action_set = |owner: &str, state: &str| {
        let owner = json!([{"uid": owner, "controller": true}]);
        let error = json!({"message": "no disk"});
        let status = json!({"state": state, "error": error});
        json!({"metadata": {"ownerReferences": owner}, "status": status}).as_object().unwrap().clone()
    };
    let result = |owner, state: &str| action_set_result(&operation, Some(&action_set(owner, state)));
    assert_eq!(result("o-uid", "running"), ActionSetResult::Running);
    assert_eq!(result("o-uid", "complete"), ActionSetResult::Complete);
    assert_eq!(result("o-uid", "failed"), ActionSetResult::Failed("no disk".to_owned()));
    assert_eq!(result("another", "complete"), ActionSetResult::Gone);
    assert_eq!(action_set_result(&operation, None), ActionSetResult::Gone);
    let mut new = action_set("o-uid", "complete");
    new.remove("status");
    assert_eq!(action_set_result(&operation, Some(&new)), ActionSetResult::Running);
}

#[test]
fn message_names_a_few_action_sets() {
    let names = ["a", "b", "c", "d"];
    let (_, concluded) = after(AttemptEnding::Succeeded, &names, &json!({}));
    assert_eq!(concluded.events[0].message, "Waiting for 4 ActionSets: `n/a`, `n/b`, `n/c` and others");
}
