//! What users learn of the versions that phases call, and that operations call the same ones.

use ferroplane_testkit::plane::{Plane, condition};
use serde_json::{Value, json};

use super::log_records::LogRecords;
use super::{ACTION_SETS, phase, run};

const OPERATIONS: &str = "/apis/ops.crossplane.io/v1alpha1/operations";

/// A phase that calls a version of a function whose version v0.1.0 is deprecated.
fn aged(version: &str) -> Value {
    let mut phase = phase("function-aged", "aged", &json!({}));
    phase["funcVersion"] = version.into();
    phase
}

/// An operation with one step.
async fn operate(plane: &Plane, name: &str, function: &Value) {
    let operation = json!({
        "apiVersion": "ops.crossplane.io/v1alpha1", "kind": "Operation", "metadata": {"name": name},
        "spec": {"mode": "Pipeline", "retryLimit": 1, "pipeline": [{"step": "work", "functionRef": function}]},
    });
    plane.apply(&format!("{OPERATIONS}/{name}"), &operation).await;
}

#[tokio::test]
async fn deprecated_version_of_a_phase_is_reported_once_in_log_event_and_status() {
    let (logged, _collecting) = LogRecords::collect();
    let plane = Plane::new().await;
    let done = run(&plane, &json!({"phases": [aged("v0.1.0")]}), &json!({}), "complete").await;
    let warnings = done["status"]["warnings"].as_array().unwrap();
    let [warning] = warnings.as_slice() else { panic!("{warnings:?}") };
    let text = |field: &str| warning[field].as_str().unwrap_or_default();
    assert_eq!((text("phase"), text("function"), text("version")), ("aged", "function-aged", "v0.1.0"));
    assert_eq!((text("removedIn"), text("replacedBy")), ("0.3.0", "v0.2.0"));

    plane.until_said("s", "Warning/FunctionVersionDeprecated").await;
    for number in 0..10 {
        let labels = json!({"metadata": {"labels": {"reconciled": number.to_string()}}});
        plane.merge(&format!("{ACTION_SETS}/s"), &labels).await;
    }
    plane.quiet().await;
    let events = plane.events("s").await;
    let told = events.iter().filter(|event| event.contains("FunctionVersionDeprecated")).count();
    assert_eq!(told, 1, "{events:#?}");

    let records = logged.containing("a phase calls a deprecated version");
    let [record] = records.as_slice() else { panic!("{records:#?}") };
    assert!(record.starts_with("WARN "), "{record}");
    let fields = [
        "namespace=\"default\"",
        "name=\"s\"",
        "phase=\"aged\"",
        "function=\"function-aged\"",
        "version=\"v0.1.0\"",
        "reason=\"FunctionVersionDeprecated\"",
        "0.3.0",
        "v0.2.0",
    ];
    for field in fields {
        assert!(record.contains(field), "{field}: {record}");
    }
}

#[tokio::test]
async fn operation_that_names_a_version_gets_the_warning_that_a_phase_gets() {
    let plane = Plane::new().await;
    let done = run(&plane, &json!({"phases": [aged("v0.1.0")]}), &json!({}), "complete").await;
    let message = done["status"]["warnings"][0]["message"].as_str().unwrap();
    operate(&plane, "o", &json!({"name": "function-aged", "version": "v0.1.0"})).await;
    plane
        .until(&format!("{OPERATIONS}/o"), |it| {
            condition(it, "Succeeded").as_deref() == Some("True/PipelineSuccess")
        })
        .await;
    plane.until_said("o", "Warning/FunctionVersionDeprecated").await;
    plane.until_said("o", message).await;
}

#[tokio::test]
async fn step_and_phase_that_name_the_same_version_call_the_same_one() {
    let plane = Plane::new().await;
    for version in ["v0.1.0", "v0.2.0"] {
        let (name, expected) = (version.replace('.', "-"), json!({"ran": version}));
        let blueprint = super::blueprint(&name, &json!({"phases": [aged(version)]}));
        plane.apply(&format!("{}/{name}", super::BLUEPRINTS), &blueprint).await;
        let action_set = super::action_set(&name, &json!({"blueprint": name}));
        plane.apply(&format!("{ACTION_SETS}/{name}"), &action_set).await;
        let done = super::until_state(&plane, &name, "complete").await;
        assert_eq!(done["status"]["actions"][0]["phases"][0]["output"], expected);
        operate(&plane, &name, &json!({"name": "function-aged", "version": version})).await;
        let path = format!("{OPERATIONS}/{name}");
        let is_done = |it: &Value| condition(it, "Succeeded").as_deref() == Some("True/PipelineSuccess");
        let done = plane.until(&path, is_done).await;
        assert_eq!(done["status"]["pipeline"][0]["output"], expected);
    }
}

#[tokio::test]
async fn operation_that_calls_a_function_of_phases_fails_with_what_to_do_instead() {
    let plane = Plane::new().await;
    operate(&plane, "o", &json!({"name": "KubeOps", "version": "v0.1.0"})).await;
    let path = format!("{OPERATIONS}/o");
    let failed = plane
        .until(&path, |it| condition(it, "ValidPipeline").as_deref() == Some("False/MissingCapabilities"))
        .await;
    assert!(failed.to_string().contains("have a step return an ActionSet that runs it"), "{failed:#}");
    plane.until(&path, |it| condition(it, "Succeeded").is_some_and(|is| is.starts_with("False/"))).await;
}
