//! Operations whose steps return ActionSets: an operation ends when its ActionSets have ended, and takes their result.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use ferroplane_testkit::plane::{Plane, condition};
use serde_json::{Value, json};

use super::{
    ACTION_SETS, BLUEPRINTS, MAPS, blueprint, config_map, create, phase, set_gate, until_state, wait,
};

const FUNCTION: &str = "function-backup";
const OPERATIONS: &str = "/apis/ops.crossplane.io/v1alpha1/operations";
const CRON: &str = "/apis/ops.crossplane.io/v1alpha1/cronoperations/nightly";
const WAITS: &str = "Unknown/ActionSetsRunning";

/// A plane with a function that returns an ActionSet with this metadata, how often it was called, and a Blueprint of these phases.
async fn plane_that_backs_up(metadata: Value, action: &Value) -> (Plane, Arc<AtomicUsize>) {
    let calls = Arc::new(AtomicUsize::new(0));
    let counter = calls.clone();
    let answer = move |_: &ferroplane_wire::v1::RunFunctionRequest| {
        counter.fetch_add(1, Ordering::Relaxed);
        let action_set = json!({
            "apiVersion": "cr.kanister.io/v1alpha1", "kind": "ActionSet", "metadata": metadata,
            "spec": {"actions": [{"name": "backup", "blueprint": "b"}]},
        });
        ferroplane_wire::from_json(&json!({"desired": {"resources": {"it": {"resource": action_set}}}}))
            .unwrap()
    };
    let plane = Plane::with_function(FUNCTION, answer).await;
    set_gate(&plane, "no").await;
    plane.apply(&format!("{BLUEPRINTS}/b"), &blueprint("b", action)).await;
    (plane, calls)
}

fn generated() -> Value {
    json!({"generateName": "nightly-", "namespace": "default"})
}

/// An action that waits until the gate is open.
fn gated() -> Value {
    json!({"phases": [wait("gate", "1h")]})
}

/// An action that fails.
fn failing() -> Value {
    json!({"phases": [phase("KubeOps", "drop", &json!({"operation": "patch", "spec": config_map("x")}))]})
}

fn spec() -> Value {
    json!({"mode": "Pipeline", "pipeline": [{"step": "back-up", "functionRef": {"name": FUNCTION}}]})
}

async fn operate(plane: &Plane, name: &str, spec: &Value) {
    let operation = json!({
        "apiVersion": "ops.crossplane.io/v1alpha1", "kind": "Operation", "metadata": {"name": name}, "spec": spec,
    });
    plane.apply(&format!("{OPERATIONS}/{name}"), &operation).await;
}

async fn schedule(plane: &Plane, rest: Value) {
    let mut spec = json!({"schedule": "@every 1s", "operationTemplate": {"spec": spec()}});
    spec.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
    let cron = json!({
        "apiVersion": "ops.crossplane.io/v1alpha1", "kind": "CronOperation", "metadata": {"name": "nightly"}, "spec": spec,
    });
    plane.apply(CRON, &cron).await;
}

/// The operation, once its condition `Succeeded` is like this.
async fn until_succeeded(plane: &Plane, name: &str, wanted: &str) -> Value {
    let path = format!("{OPERATIONS}/{name}");
    plane.until(&path, |it| condition(it, "Succeeded").as_deref() == Some(wanted)).await
}

fn succeeded(operation: &Value) -> &Value {
    let mut conditions = operation["status"]["conditions"].as_array().unwrap().iter();
    conditions.find(|it| it["type"] == "Succeeded").unwrap()
}

async fn names(plane: &Plane, path: &str) -> BTreeSet<String> {
    let list = plane.get(path).await;
    let items = list["items"].as_array().unwrap().iter();
    items.map(|it| it["metadata"]["name"].as_str().unwrap().to_owned()).collect()
}

/// The name of the ActionSet of an operation.
fn action_set_of(operation: &Value) -> String {
    operation["status"]["appliedResourceRefs"][0]["name"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn schedule_that_forbids_overlaps_waits_for_the_action_set_of_its_operation() {
    let (plane, calls) = plane_that_backs_up(generated(), &gated()).await;
    schedule(&plane, json!({"concurrencyPolicy": "Forbid", "successfulHistoryLimit": 1})).await;
    let cron = plane.until(CRON, |it| it["status"]["runningOperationRefs"].is_array()).await;
    let first = cron["status"]["runningOperationRefs"][0]["name"].as_str().unwrap().to_owned();
    let waiting = until_succeeded(&plane, &first, WAITS).await;
    let action_set = action_set_of(&waiting);
    assert_eq!(succeeded(&waiting)["message"], format!("Waiting for ActionSet `default/{action_set}`"));
    // Several times come and go meanwhile.
    tokio::time::sleep(Duration::from_millis(2500)).await;
    assert_eq!(names(&plane, OPERATIONS).await, BTreeSet::from([first.clone()]));
    assert_eq!(plane.get(CRON).await["status"]["lastSuccessfulTime"], Value::Null);
    assert_eq!(calls.load(Ordering::Relaxed), 1, "its pipeline does not run again");
    set_gate(&plane, "yes").await;
    plane.until(CRON, |it| it["status"]["lastSuccessfulTime"].is_string()).await;
    // The next one follows, and takes the place of the first in the history. What it has applied goes with it.
    plane.until(&format!("{OPERATIONS}/{first}"), Value::is_null).await;
    plane.until(&format!("{ACTION_SETS}/{action_set}"), Value::is_null).await;
}

#[tokio::test]
async fn limits_of_history_delete_no_action_set_that_runs() {
    let (plane, _) = plane_that_backs_up(generated(), &gated()).await;
    schedule(&plane, json!({"successfulHistoryLimit": 0, "failedHistoryLimit": 0})).await;
    plane.until(ACTION_SETS, |list| list["items"].as_array().unwrap().len() >= 3).await;
    plane.merge(CRON, &json!({"spec": {"suspend": true}})).await;
    plane.until(CRON, |it| condition(it, "Scheduling").as_deref() == Some("False/SchedulePaused")).await;
    plane.quiet().await;
    let (running, operations) = (names(&plane, ACTION_SETS).await, names(&plane, OPERATIONS).await);
    assert!(running.len() >= 3 && running.len() == operations.len(), "{running:?} {operations:?}");
    for name in &running {
        assert_eq!(plane.get(&format!("{ACTION_SETS}/{name}")).await["status"]["state"], "running");
    }
    set_gate(&plane, "yes").await;
    plane.until(OPERATIONS, |list| list["items"] == json!([])).await;
    plane.until(ACTION_SETS, |list| list["items"] == json!([])).await;
    assert!(plane.get(CRON).await["status"]["lastSuccessfulTime"].is_string());
}

#[tokio::test]
async fn operation_fails_with_its_action_set_and_is_not_tried_again() {
    let (plane, calls) = plane_that_backs_up(generated(), &failing()).await;
    schedule(&plane, json!({"concurrencyPolicy": "Forbid", "failedHistoryLimit": 1})).await;
    let has_failed = |list: &Value| {
        let mut items = list["items"].as_array().unwrap().iter();
        items.any(|it| condition(it, "Succeeded").as_deref() == Some("False/ActionSetFailed"))
    };
    let list = plane.until(OPERATIONS, has_failed).await;
    plane.merge(CRON, &json!({"spec": {"suspend": true}})).await;
    let failed = &list["items"].as_array().unwrap()[0];
    let name = failed["metadata"]["name"].as_str().unwrap();
    assert_eq!(succeeded(failed)["code"], "ActionSetFailed");
    let action_set = plane.get(&format!("{ACTION_SETS}/{}", action_set_of(failed))).await;
    let said = succeeded(failed)["message"].as_str().unwrap();
    let reason = action_set["status"]["error"]["message"].as_str().unwrap();
    assert_eq!(said, format!("ActionSet `default/{}` failed: {reason}", action_set_of(failed)));
    assert_eq!(failed["status"].get("failures"), None);
    plane.until_said(name, "Warning/ActionSetFailed").await;
    assert_eq!(plane.get(CRON).await["status"]["lastSuccessfulTime"], Value::Null);
    plane.quiet().await;
    // Failed ones fall under the limit for those that failed: one is kept, with its ActionSet.
    plane.until(OPERATIONS, |list| list["items"].as_array().unwrap().len() == 1).await;
    plane.until(ACTION_SETS, |list| list["items"].as_array().unwrap().len() == 1).await;
    // One call for each operation that there was.
    assert!(calls.load(Ordering::Relaxed) <= 3, "{}", calls.load(Ordering::Relaxed));
}

#[tokio::test]
async fn operation_that_is_deleted_takes_its_action_set_along_which_runs_its_deferred_phase() {
    let action = json!({"phases": [wait("gate", "1h")], "deferPhase": create("last", "deferred")});
    let (plane, _) = plane_that_backs_up(generated(), &action).await;
    operate(&plane, "o", &spec()).await;
    let action_set = action_set_of(&until_succeeded(&plane, "o", WAITS).await);
    until_state(&plane, &action_set, "running").await;
    plane.delete(&format!("{OPERATIONS}/o")).await;
    plane.until(&format!("{ACTION_SETS}/{action_set}"), Value::is_null).await;
    assert_eq!(plane.get(&format!("{MAPS}/deferred")).await["data"]["k"], "v");
}

#[tokio::test]
async fn operation_fails_when_a_user_deletes_its_action_set() {
    let (plane, calls) = plane_that_backs_up(generated(), &gated()).await;
    operate(&plane, "o", &spec()).await;
    let action_set = action_set_of(&until_succeeded(&plane, "o", WAITS).await);
    plane.delete(&format!("{ACTION_SETS}/{action_set}")).await;
    let failed = until_succeeded(&plane, "o", "False/ActionSetFailed").await;
    let message = format!("ActionSet `default/{action_set}` was deleted before its result was read");
    assert_eq!(succeeded(&failed)["message"], message);
    plane.quiet().await;
    assert_eq!(plane.get(&format!("{ACTION_SETS}/{action_set}")).await, Value::Null, "it is not made again");
    assert_eq!(calls.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn operation_waits_across_restarts_without_running_its_pipeline_again() {
    let (mut plane, calls) = plane_that_backs_up(generated(), &gated()).await;
    operate(&plane, "o", &spec()).await;
    until_succeeded(&plane, "o", WAITS).await;
    plane.restart().await;
    plane.quiet().await;
    assert_eq!(condition(&plane.get(&format!("{OPERATIONS}/o")).await, "Succeeded").as_deref(), Some(WAITS));
    set_gate(&plane, "yes").await;
    let done = until_succeeded(&plane, "o", "True/PipelineSuccess").await;
    until_state(&plane, &action_set_of(&done), "complete").await;
    assert_eq!(calls.load(Ordering::Relaxed), 1);
    // What has ended costs nothing.
    plane.quiet().await;
    assert_eq!(plane.quiet().await, [""; 0]);
}

#[tokio::test]
async fn action_set_that_another_operation_owns_is_not_taken_over() {
    let fixed = json!({"name": "fixed", "namespace": "default"});
    let (plane, _) = plane_that_backs_up(fixed, &gated()).await;
    operate(&plane, "first", &spec()).await;
    until_succeeded(&plane, "first", WAITS).await;
    let mut once = spec();
    once["retryLimit"] = 1.into();
    operate(&plane, "second", &once).await;
    let failed = until_succeeded(&plane, "second", "False/PipelineError").await;
    let message = succeeded(&failed)["message"].as_str().unwrap();
    let words = "ActionSet `default/fixed` exists already, and Operation `first` owns it; with `metadata.generateName` each operation \
                 has its own";
    assert!(message.ends_with(words), "{message}");
    let owners = plane.get(&format!("{ACTION_SETS}/fixed")).await["metadata"]["ownerReferences"].clone();
    assert_eq!(owners.as_array().unwrap().len(), 1, "{owners}");
    set_gate(&plane, "yes").await;
    until_succeeded(&plane, "first", "True/PipelineSuccess").await;
}

#[tokio::test]
async fn deadline_of_an_operation_cancels_its_action_set() {
    let (plane, _) = plane_that_backs_up(generated(), &gated()).await;
    let mut limited = spec();
    limited["activeDeadlineSeconds"] = 2.into();
    operate(&plane, "o", &limited).await;
    let action_set = action_set_of(&until_succeeded(&plane, "o", WAITS).await);
    let failed = until_succeeded(&plane, "o", "False/PipelineError").await;
    assert_eq!(succeeded(&failed)["message"], "active deadline of 2s exceeded");
    let cancelled = until_state(&plane, &action_set, "failed").await;
    assert_eq!(cancelled["status"]["errors"][0]["code"], "ActionCancelled");
}

#[tokio::test]
async fn operation_that_is_paused_while_it_waits_takes_the_result_when_it_is_resumed() {
    let (plane, _) = plane_that_backs_up(generated(), &gated()).await;
    operate(&plane, "o", &spec()).await;
    let action_set = action_set_of(&until_succeeded(&plane, "o", WAITS).await);
    let path = format!("{OPERATIONS}/o");
    plane.merge(&path, &json!({"metadata": {"annotations": {"crossplane.io/paused": "true"}}})).await;
    set_gate(&plane, "yes").await;
    until_state(&plane, &action_set, "complete").await;
    plane.quiet().await;
    assert_eq!(condition(&plane.get(&path).await, "Succeeded").as_deref(), Some(WAITS));
    plane.merge(&path, &json!({"metadata": {"annotations": {"crossplane.io/paused": null}}})).await;
    until_succeeded(&plane, "o", "True/PipelineSuccess").await;
}
