//! Whatever functions answer, the engine comes to an end, and to the same one twice.
#![no_main]

use std::collections::BTreeMap;
use std::sync::Arc;

use ferroplane_engine::{
    Answer, Cause, CompositeSubject, Inputs, Layout, MAX_CALLS, Observed, Outcome, Pipeline, SettleFacts, Subject, Turn, Want, settle, start,
};
use ferroplane_wire::Struct;
use ferroplane_wire::v1::RunFunctionResponse;
use libfuzzer_sys::fuzz_target;
use prost::Message as _;
use serde_json::{Value, json};

const STEPS: usize = 3;

fuzz_target!(|data: &[u8]| {
    let [flags, answers @ ..] = data else { return };
    let once = converse(*flags, answers);
    let twice = converse(*flags, answers);
    assert_eq!(once.result.as_ref().ok(), twice.result.as_ref().ok());
    assert_eq!(settle(&once, SettleFacts::default()), settle(&twice, SettleFacts::default()));
    if let Ok(plan) = &once.result {
        assert_eq!(plan.apply.len(), plan.references.len());
    }
});

/// The answers of functions are the pieces of `data` between bytes of 0xff.
fn converse(flags: u8, data: &[u8]) -> Outcome {
    let mut xr = json!({
        "apiVersion": "example.org/v1", "kind": "XR",
        "metadata": {"name": "parent", "uid": "uid", "labels": {"crossplane.io/composite": "parent"}}
    });
    if flags & 1 != 0 {
        xr["metadata"]["namespace"] = "team".into();
    }
    let observed = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "old", "ownerReferences": [
            {"apiVersion": "example.org/v1", "kind": "XR", "name": "parent", "uid": "uid", "controller": true}
        ]}
    });
    let steps: Vec<Value> =
        (0..STEPS).map(|step| json!({"step": format!("s{step}"), "functionRef": {"name": "f"}})).collect();
    let steps: Vec<ferroplane_api::Step> = serde_json::from_value(steps.into()).expect("they are steps");
    let mut answers = data.split(|byte| *byte == 0xff);
    let mut calls = 0;
    let mut turn = start(Inputs {
        subject: subject(flags, object(xr), object(observed)),
        pipeline: Arc::new(Pipeline::new(&steps).expect("it is a pipeline")),
        remembered: Vec::new(),
        context: None,
        grants: std::sync::Arc::default(),
    });
    loop {
        turn = match turn {
            Turn::Call(call) => {
                calls += 1;
                assert!(calls <= STEPS * MAX_CALLS as usize, "it asks for ever");
                match RunFunctionResponse::decode(answers.next().unwrap_or_default()) {
                    Ok(response) => call.answer(response),
                    Err(error) => call.fail(Cause::FunctionResponseInvalid, error),
                }
            }
            Turn::Fetch(fetch) => {
                let answers = fetch.wants().iter().map(|want| answer(flags, want)).collect();
                fetch.provide(answers)
            }
            Turn::Done(outcome) => return *outcome,
        }
    }
}

fn subject(flags: u8, object: Struct, observed: Struct) -> Subject {
    if flags & 16 != 0 {
        return Subject::Operation { object };
    }
    let layout = if flags & 2 != 0 { Layout::Legacy } else { Layout::Modern };
    let observed = Observed { object: observed, connection_details: BTreeMap::new() };
    CompositeSubject { observed: [("old".to_owned(), observed)].into(), ..CompositeSubject::new(object, layout) }.into()
}

fn answer(flags: u8, want: &Want) -> Answer {
    match want {
        _ if flags & 4 != 0 => Answer::Failed("no".to_owned()),
        Want::Resources(_) | Want::ClusterResources(_) => Answer::Resources(vec![object(json!({"kind": "Thing"}))]),
        Want::Schema(_) => Answer::Schema(None),
        Want::Secret { .. } => Answer::Secret(None),
        Want::Scope { .. } => Answer::Scope { is_namespaced: flags & 8 == 0 },
    }
}

fn object(value: Value) -> Struct {
    let Value::Object(object) = value else { panic!("not an object: {value}") };
    Struct::try_from(object).expect("it is not deep")
}
