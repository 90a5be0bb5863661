//! Pipelines of operations, from the first request to what is applied.

use std::sync::Arc;

use ferroplane_wire::Struct;
use ferroplane_wire::v1::{RunFunctionRequest, RunFunctionResponse};
use serde_json::{Value, json};

use super::RUN_STEP;
use crate::{Answer, Cause, Inputs, Outcome, Pipeline, Subject, Turn, Want, chain, start};

/// Run a pipeline of as many steps as there are answers. Config maps live in namespaces, everything else does not.
fn run(answers: &[Value]) -> (Outcome, Vec<RunFunctionRequest>) {
    let steps =
        (0..answers.len()).map(|index| json!({"step": format!("s{index}"), "functionRef": {"name": "f"}}));
    let steps = serde_json::from_value::<Vec<_>>(steps.collect()).unwrap();
    let operation = json!({"apiVersion": "ops.crossplane.io/v1alpha1", "kind": "Operation", "metadata": {"name": "o", "uid": "o-uid"}});
    let mut turn = start(Inputs {
        subject: Subject::Operation { object: object(&operation) },
        pipeline: Arc::new(Pipeline::new(&steps).unwrap()),
        remembered: Vec::new(),
        context: None,
        grants: Arc::default(),
    });
    let mut requests = Vec::new();
    loop {
        turn = match turn {
            Turn::Call(call) => {
                let answer = answers[requests.len()].clone();
                requests.push(call.request().clone());
                call.answer(ferroplane_wire::from_json::<RunFunctionResponse>(&answer).unwrap())
            }
            Turn::Fetch(fetch) => {
                let is_namespaced =
                    |want: &Want| matches!(want, Want::Scope { kind, .. } if kind == "ConfigMap");
                let scopes =
                    fetch.wants().iter().map(|want| Answer::Scope { is_namespaced: is_namespaced(want) });
                let scopes = scopes.collect();
                fetch.provide(scopes)
            }
            Turn::Done(outcome) => return (*outcome, requests),
        };
    }
}

fn object(json: &Value) -> Struct {
    Struct::try_from(json.as_object().unwrap().clone()).unwrap()
}

/// An answer that wants one resource, called `map`.
fn wants(resource: &Value) -> Value {
    json!({"desired": {"resources": {"map": {"resource": resource}}}})
}

fn map(metadata: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
}

#[test]
fn functions_observe_nothing_and_find_an_empty_desired_state_and_context() {
    let (_, requests) = run(&[json!({}), json!({})]);
    assert!(requests[0].observed.is_none() && requests[0].desired.is_some());
    assert_eq!(requests[0].context.as_ref().unwrap().json().unwrap().len(), 0);
    assert!(requests[1].desired.is_none(), "the first step said nothing about it");
}

#[test]
fn what_is_wanted_is_applied_as_it_is() {
    let wanted = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m", "namespace": "n"}, "data": {"gone": null}});
    let (outcome, _) = run(&[wants(&wanted)]);
    let plan = outcome.result.unwrap();
    assert_eq!(Value::Object(plan.apply[0].object.clone()), wanted);
    assert_eq!((plan.apply[0].step.as_str(), plan.delete.len()), ("s0", 0));
    assert_eq!(plan.references[0].namespace.as_deref(), Some("n"));
}

#[test]
fn what_cannot_be_applied_as_it_is_fails_the_run() {
    let cases = [
        (map(&json!({"namespace": "n"})), "it has no metadata.name"),
        (map(&json!({"name": "m"})), "kind ConfigMap is namespaced, and metadata.namespace is not set"),
        (map(&json!({"name": "M", "namespace": "n"})), "its name `M` is invalid: use lower-case letters"),
        (json!({"kind": "ConfigMap", "metadata": {"name": "m"}}), "it has no apiVersion"),
    ];
    for (resource, words) in cases {
        let failure = run(&[wants(&resource)]).0.result.unwrap_err();
        let text = chain(&failure);
        let start = format!("desired resource `map` of step `s0` cannot be applied: {words}");
        assert!(text.starts_with(&start), "{text}");
        assert_eq!((failure.cause(), failure.step()), (Cause::DesiredResourceInvalid, Some("s0")));
    }
}

#[test]
fn action_set_is_named_after_its_operation_and_belongs_to_it() {
    let wanted = json!({
        "apiVersion": "cr.kanister.io/v1alpha1", "kind": "ActionSet", "metadata": {"generateName": "backup-", "namespace": "n"},
        "spec": {"actions": []},
    });
    let (outcome, _) = run(&[wants(&wanted)]);
    let plan = outcome.result.unwrap();
    let metadata = &plan.apply[0].object["metadata"];
    let name = metadata["name"].as_str().unwrap();
    assert!(name.starts_with("backup-") && name.len() > "backup-".len(), "{name}");
    assert_eq!(metadata["ownerReferences"][0]["uid"], "o-uid");
    assert_eq!(metadata.get("generateName"), None);
}

#[test]
fn one_object_under_two_names_fails_the_run() {
    let resource = json!({"resource": map(&json!({"name": "m", "namespace": "n"}))});
    let (outcome, _) = run(&[json!({"desired": {"resources": {"a": resource, "b": resource}}})]);
    let text = chain(&outcome.result.unwrap_err());
    assert!(text.ends_with("`a` is the same object, ConfigMap `n/m`"), "{text}");
}

#[test]
fn outputs_are_kept_even_if_a_later_step_fails() {
    let fatal = json!({"results": [{"severity": "SEVERITY_FATAL", "message": "no"}]});
    let said = json!({"output": {"count": 1}, "results": [{"severity": "SEVERITY_NORMAL", "message": "hi", "reason": "Mine"}]});
    let (outcome, _) = run(&[said, fatal]);
    assert!(outcome.result.is_err());
    assert_eq!(outcome.outputs.len(), 1);
    assert_eq!(outcome.outputs[0].output.json().unwrap()["count"], 1);
    let event = &outcome.events[0];
    assert_eq!((event.reason.as_str(), event.detailed().as_str()), (RUN_STEP, "Pipeline step \"s0\": hi"));
}
