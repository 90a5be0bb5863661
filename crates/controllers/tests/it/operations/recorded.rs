//! What is recorded of operations, and what users are told while they write them.

use ferroplane_testkit::plane::{Plane, assert_same};
use serde_json::{Value, json};

use super::{MAPS, OPERATIONS, map, operation, plane_that_answers, spec, until_succeeded};

#[tokio::test]
async fn operation_is_recorded_and_its_replay_comes_to_the_same() {
    let plane = plane_that_answers(|request| {
        let given = request.required_resources.get("r").map_or(0, |found| found.items.len());
        json!({
            "desired": {"resources": {"m": map("m", &json!({"given": given.to_string()}))}}, "output": {"given": given},
            "requirements": {"resources": {"r": {
                "apiVersion": "v1", "kind": "ConfigMap", "namespace": "default", "matchName": "r",
            }}},
        })
    })
    .await;
    let required = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "r"}});
    plane.apply(&format!("{MAPS}/r"), &required).await;
    plane.apply(&format!("{OPERATIONS}/o"), &operation("o", &spec())).await;
    until_succeeded(&plane, "o", "True/PipelineSuccess").await;
    plane.quiet().await;
    let archive = plane.recordings();
    let heads = archive.heads().unwrap();
    let head = heads.iter().find(|head| head.kind == "Operation").expect("it is recorded");
    assert!(head.is_operation() && head.is_ready, "{head:?}");
    let recording = archive.get(head.id).unwrap().unwrap().unwrap();
    assert_eq!((recording.takes.len(), recording.takes[0].written), (1, 1));
    assert!(recording.is_written && recording.settlement["conditions"].is_array());
    assert_same(&archive);
}

#[tokio::test]
async fn attempt_that_fails_is_recorded_as_failed() {
    let plane =
        plane_that_answers(|_| json!({"results": [{"severity": "SEVERITY_FATAL", "message": "no"}]})).await;
    let mut spec = spec();
    spec["retryLimit"] = 1.into();
    plane.apply(&format!("{OPERATIONS}/o"), &operation("o", &spec)).await;
    until_succeeded(&plane, "o", "False/PipelineError").await;
    plane.quiet().await;
    let heads = plane.recordings().heads().unwrap();
    let head = heads.iter().find(|head| head.kind == "Operation").unwrap();
    assert_eq!((head.step.as_str(), head.is_ready), ("work", false));
    assert!(head.trouble.contains("returned a fatal result: no"), "{}", head.trouble);
}

#[tokio::test]
async fn steps_of_operations_are_counted_by_version() {
    let plane = Plane::new().await;
    let rule = json!({"rule": "true", "message": "no"});
    let input =
        json!({"apiVersion": "validation.fn.ferroplane.io/v1beta1", "kind": "Validation", "rules": [rule]});
    let step = json!({"step": "check", "functionRef": {"name": "function-cel-validation"}, "input": input});
    plane
        .apply(&format!("{OPERATIONS}/o"), &operation("o", &json!({"mode": "Pipeline", "pipeline": [step]})))
        .await;
    until_succeeded(&plane, "o", "True/PipelineSuccess").await;
    let metrics = plane.metrics();
    let is_counted =
        metrics.lines().any(|line| line.contains("function-cel-validation") && line.contains("version="));
    assert!(is_counted, "{metrics}");
}

#[tokio::test]
async fn operations_that_ended_are_counted_by_result_and_by_what_made_them() {
    let plane = plane_that_answers(|request| {
        let has_input = request.input.is_some();
        let fatal = json!({"results": [{"severity": "SEVERITY_FATAL", "message": "no"}]});
        if has_input { fatal } else { json!({}) }
    })
    .await;
    plane.apply(&format!("{OPERATIONS}/by-hand"), &operation("by-hand", &spec())).await;
    let mut failing = spec();
    failing["retryLimit"] = 2.into();
    failing["pipeline"][0]["input"] = json!({"fails": true});
    let mut scheduled = operation("scheduled", &failing);
    scheduled["metadata"]["labels"] = json!({"ops.crossplane.io/cronoperation": "nightly"});
    plane.apply(&format!("{OPERATIONS}/scheduled"), &scheduled).await;
    until_succeeded(&plane, "by-hand", "True/PipelineSuccess").await;
    until_succeeded(&plane, "scheduled", "False/PipelineError").await;
    plane.quiet().await;
    let metrics = plane.metrics();
    let name = "ferroplane_operations_ended_total";
    let counted: Vec<_> = metrics.lines().filter_map(|line| line.strip_prefix(name)).collect();
    assert!(counted.contains(&r#"{parent="",result="Succeeded"} 1"#), "{counted:?}");
    let scheduled: Vec<_> = counted.iter().filter(|line| line.contains("CronOperation/")).collect();
    // Two attempts are one operation that failed.
    assert_eq!(scheduled, [&r#"{parent="CronOperation/nightly",result="Failed"} 1"#]);
}

#[tokio::test]
async fn version_that_will_go_is_told_when_an_operation_is_applied_and_when_it_runs() {
    let plane = Plane::new().await;
    let step = json!({"step": "aged", "functionRef": {"name": "function-aged", "version": "v0.1.0"}});
    let spec = json!({"mode": "Pipeline", "pipeline": [step]});
    plane.apply(&format!("{OPERATIONS}/o"), &operation("o", &spec)).await;
    until_succeeded(&plane, "o", "True/PipelineSuccess").await;
    plane.until_said("o", "Warning/FunctionVersionDeprecated: Pipeline step \"aged\"").await;
    if plane.is_real() {
        // It does not ask the advisor, which is what warns.
        return;
    }
    for (kind, plural, spec) in all_kinds(&step) {
        let object = json!({
            "apiVersion": "ops.crossplane.io/v1alpha1", "kind": kind, "metadata": {"name": "warned"}, "spec": spec,
        });
        let warnings =
            plane.warnings(&format!("/apis/ops.crossplane.io/v1alpha1/{plural}/warned"), &object).await;
        let words = "function `function-aged` v0.1.0 is deprecated";
        assert!(warnings.iter().any(|it| it.contains(words)), "{kind}: {warnings:?}");
    }
}

/// A step, as it stands in each of the three kinds.
fn all_kinds(step: &Value) -> [(&'static str, &'static str, Value); 3] {
    let spec = json!({"mode": "Pipeline", "pipeline": [step]});
    [
        ("Operation", "operations", spec.clone()),
        (
            "CronOperation",
            "cronoperations",
            json!({"schedule": "@yearly", "suspend": true, "operationTemplate": {"spec": spec}}),
        ),
        (
            "WatchOperation",
            "watchoperations",
            json!({"suspend": true, "watch": {"apiVersion": "v1", "kind": "Node"}, "operationTemplate": {"spec": spec}}),
        ),
    ]
}

#[tokio::test]
async fn whoever_applies_an_operation_is_told_of_mistakes_in_its_steps() {
    let plane = Plane::new().await;
    if plane.is_real() {
        // It does not ask the advisor, which is what warns.
        return;
    }
    let missing = json!({"step": "a", "functionRef": {"name": "function-missing"}});
    let wrong =
        json!({"step": "a", "functionRef": {"name": "function-rolling-upgrade"}, "input": {"batches": 1}});
    for (step, words) in [(missing, "function-missing"), (wrong, "batches")] {
        for (kind, plural, spec) in all_kinds(&step) {
            let object = json!({
                "apiVersion": "ops.crossplane.io/v1alpha1", "kind": kind, "metadata": {"name": "warned"}, "spec": spec,
            });
            let path = format!("/apis/ops.crossplane.io/v1alpha1/{plural}/warned");
            let warnings = plane.warnings(&path, &object).await;
            assert!(warnings.iter().any(|it| it.contains(words)), "{kind}, {words}: {warnings:?}");
            plane.delete(&path).await;
        }
    }
}
