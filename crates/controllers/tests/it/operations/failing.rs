//! Operations that cannot run, and those that fail.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use ferroplane_testkit::plane::{Plane, condition};
use serde_json::{Value, json};

use super::{FUNCTION, MAPS, OPERATIONS, map, operation, plane_that_answers, spec, until_succeeded};

/// A plane whose function counts its calls, and answers this.
async fn counting(answer: Value) -> (Plane, Arc<AtomicUsize>) {
    let calls = Arc::new(AtomicUsize::new(0));
    let counter = calls.clone();
    let plane = plane_that_answers(move |_| {
        counter.fetch_add(1, Ordering::Relaxed);
        answer.clone()
    })
    .await;
    (plane, calls)
}

fn said(operation: &Value, kind: &str) -> Value {
    let conditions = operation["status"]["conditions"].as_array().unwrap();
    conditions.iter().find(|it| it["type"] == kind).unwrap().clone()
}

#[tokio::test]
async fn function_that_cannot_be_used_for_operations_is_not_called() {
    let plane = Plane::new().await;
    let mut spec = spec();
    spec["pipeline"][0]["functionRef"]["name"] = "function-auto-ready".into();
    plane.apply(&format!("{OPERATIONS}/o"), &operation("o", &spec)).await;
    // It is tried again: a function that was installed just now may say later what it can do.
    let tried =
        plane.until(&format!("{OPERATIONS}/o"), |it| it["status"]["failures"].as_u64() >= Some(1)).await;
    assert_eq!(condition(&tried, "ValidPipeline").as_deref(), Some("False/MissingCapabilities"));
    assert_eq!(condition(&tried, "Synced").as_deref(), Some("False/ReconcileError"));
    let succeeded = condition(&tried, "Succeeded").unwrap();
    assert!(
        ["Unknown/PipelinePending", "Unknown/PipelineRunning"].contains(&succeeded.as_str()),
        "{succeeded}"
    );
    assert_eq!(said(&tried, "ValidPipeline")["code"], "FunctionCapabilityMissing");
    plane.until_said("o", "InvalidPipeline").await;
    plane.until(&format!("{OPERATIONS}/o"), |it| it["status"]["failures"].as_u64() >= Some(2)).await;
}

#[tokio::test]
async fn pipeline_that_can_run_says_so() {
    let (plane, _) = counting(json!({})).await;
    plane.apply(&format!("{OPERATIONS}/o"), &operation("o", &spec())).await;
    let done = until_succeeded(&plane, "o", "True/PipelineSuccess").await;
    assert_eq!(condition(&done, "ValidPipeline").as_deref(), Some("True/ValidPipeline"));
}

#[tokio::test]
async fn operation_that_may_not_fail_at_all_fails_without_a_call() {
    let (plane, calls) = counting(json!({})).await;
    let mut spec = spec();
    spec["retryLimit"] = 0.into();
    plane.apply(&format!("{OPERATIONS}/o"), &operation("o", &spec)).await;
    let failed = until_succeeded(&plane, "o", "False/PipelineError").await;
    assert_eq!(said(&failed, "Succeeded")["message"], "failure limit of 0 reached");
    assert_eq!(condition(&failed, "Synced").as_deref(), Some("True/ReconcileSuccess"));
    assert_eq!(calls.load(Ordering::Relaxed), 0);
    plane.until_said("o", "MaxFailures").await;
}

#[tokio::test]
async fn function_is_not_called_without_its_credentials() {
    let (plane, calls) = counting(json!({})).await;
    let mut spec = spec();
    spec["retryLimit"] = 2.into();
    spec["pipeline"][0]["credentials"] =
        json!([{"name": "key", "source": "Secret", "secretRef": {"namespace": "default", "name": "key"}}]);
    plane.apply(&format!("{OPERATIONS}/o"), &operation("o", &spec)).await;
    let failed = until_succeeded(&plane, "o", "False/PipelineError").await;
    assert_eq!(failed["status"]["failures"], 2);
    assert_eq!(said(&failed, "Succeeded")["code"], "CredentialUnavailable");
    assert_eq!(calls.load(Ordering::Relaxed), 0);
    plane.until_said("o", "FunctionInvocation").await;
}

#[tokio::test]
async fn requirement_that_cannot_be_read_is_told_by_its_own_reason() {
    let (plane, calls) = counting(json!({})).await;
    let mut spec = spec();
    spec["retryLimit"] = 1.into();
    spec["pipeline"][0]["requirements"] = json!({"requiredResources": [
        {"requirementName": "r", "apiVersion": "nowhere.example.org/v1", "kind": "Thing", "name": "t"},
    ]});
    plane.apply(&format!("{OPERATIONS}/o"), &operation("o", &spec)).await;
    until_succeeded(&plane, "o", "False/PipelineError").await;
    assert_eq!(calls.load(Ordering::Relaxed), 0);
    plane.until_said("o", "BootstrapRequirements").await;
}

#[tokio::test]
async fn what_was_applied_before_a_refusal_stays_and_is_told() {
    let answer = json!({"output": {"tried": true}, "desired": {"resources": {
        "a": map("a", &json!({"k": "v"})),
        "b": {"resource": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "b", "namespace": "nowhere"}}},
    }}});
    let (plane, _) = counting(answer).await;
    let mut spec = spec();
    spec["retryLimit"] = 1.into();
    plane.apply(&format!("{OPERATIONS}/o"), &operation("o", &spec)).await;
    let failed = until_succeeded(&plane, "o", "False/PipelineError").await;
    let succeeded = said(&failed, "Succeeded");
    assert_eq!(
        (&succeeded["code"], &succeeded["resource"]),
        (&json!("DesiredResourceNotApplied"), &json!("b"))
    );
    let references = failed["status"]["appliedResourceRefs"].as_array().unwrap();
    let names: Vec<_> = references.iter().map(|reference| &reference["name"]).collect();
    assert_eq!(names, ["a"], "the other one was recorded before it was refused");
    assert_eq!(failed["status"]["pipeline"][0]["output"], json!({"tried": true}));
    assert_eq!(plane.get(&format!("{MAPS}/a")).await["data"], json!({"k": "v"}));
    plane.until_said("o", "InvalidResource").await;
}

#[tokio::test]
async fn results_without_room_in_the_status_fail_an_attempt_before_it_applies_anything() {
    let desired = json!({"resources": {"a": map("a", &json!({"k": "v"}))}});
    let (plane, calls) = counting(json!({"output": {"text": "x".repeat(2 << 20)}, "desired": desired})).await;
    let mut spec = spec();
    spec["retryLimit"] = 2.into();
    plane.apply(&format!("{OPERATIONS}/o"), &operation("o", &spec)).await;
    let failed = until_succeeded(&plane, "o", "False/PipelineError").await;
    let succeeded = said(&failed, "Succeeded");
    assert_eq!(
        (&succeeded["code"], &succeeded["step"]),
        (&json!("FunctionResponseTooLarge"), &json!("work"))
    );
    assert_eq!(calls.load(Ordering::Relaxed), 2);
    assert_eq!(failed["status"].get("pipeline"), None);
    assert_eq!(plane.get(&format!("{MAPS}/a")).await, Value::Null);
    plane.until_said("o", "ResultTooLarge").await;
}

#[tokio::test]
async fn result_that_the_api_server_does_not_store_fails_the_operation_once() {
    // Each of them fits, and both together do not.
    let text = "x".repeat(900 << 10);
    let (plane, calls) = counting(json!({"output": {"text": text}})).await;
    let mut spec = spec();
    spec["pipeline"][0]["input"] = json!({"text": text});
    plane.apply(&format!("{OPERATIONS}/o"), &operation("o", &spec)).await;
    let failed = until_succeeded(&plane, "o", "False/PipelineError").await;
    assert_eq!(said(&failed, "Succeeded")["code"], "FunctionResponseTooLarge");
    assert_eq!(failed["status"].get("pipeline"), None);
    plane.until_said("o", "ResultTooLarge").await;
    plane.quiet().await;
    assert_eq!(calls.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn function_that_asks_for_something_else_each_time_is_given_up_after_six_calls() {
    let calls = Arc::new(AtomicUsize::new(0));
    let counter = calls.clone();
    let plane = plane_that_answers(move |_| {
        let number = counter.fetch_add(1, Ordering::Relaxed);
        json!({"requirements": {"resources": {"r": {
            "apiVersion": "v1", "kind": "ConfigMap", "namespace": "default", "matchName": format!("n{number}"),
        }}}})
    })
    .await;
    let mut spec = spec();
    spec["retryLimit"] = 1.into();
    plane.apply(&format!("{OPERATIONS}/o"), &operation("o", &spec)).await;
    let failed = until_succeeded(&plane, "o", "False/PipelineError").await;
    assert_eq!(said(&failed, "Succeeded")["code"], "FunctionRequirementsUnstable");
    assert_eq!(calls.load(Ordering::Relaxed), 6);
}

#[tokio::test]
async fn results_before_a_fatal_one_are_told_and_outputs_of_earlier_steps_stay() {
    let plane = plane_that_answers(|request| {
        let input = request.input.as_ref().map(|input| input.json().unwrap().clone()).unwrap_or_default();
        if input.contains_key("first") {
            return json!({"output": {"made": 1}});
        }
        json!({"results": [
            {"severity": "SEVERITY_NORMAL", "message": "one"}, {"severity": "SEVERITY_WARNING", "message": "two"},
            {"message": "three"}, {"severity": "SEVERITY_FATAL", "message": "four"},
        ]})
    })
    .await;
    let step =
        |name: &str, input: Value| json!({"step": name, "functionRef": {"name": FUNCTION}, "input": input});
    let spec = json!({
        "mode": "Pipeline", "retryLimit": 1, "pipeline": [step("one", json!({"first": true})), step("two", json!({}))],
    });
    plane.apply(&format!("{OPERATIONS}/o"), &operation("o", &spec)).await;
    let failed = until_succeeded(&plane, "o", "False/PipelineError").await;
    assert_eq!(failed["status"]["pipeline"], json!([{"step": "one", "output": {"made": 1}}]));
    for words in ["one", "two", "three", "four"] {
        plane.until_said("o", words).await;
    }
}
