//! What functions of operations are given: objects, schemas, Secrets and what earlier steps said.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use ferroplane_wire::v1::RunFunctionRequest;
use serde_json::{Value, json};

use super::{FUNCTION, MAPS, OPERATIONS, map, operation, plane_that_answers, spec, until_succeeded};

fn settings(name: &str, color: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"color": color}})
}

/// The names of the objects that a function was given, by what it calls them.
fn given(request: &RunFunctionRequest) -> Value {
    let names = request.required_resources.iter().map(|(requirement, found)| {
        let name = |it: &ferroplane_wire::v1::Resource| {
            it.resource.as_ref().unwrap().json().unwrap()["metadata"]["name"].clone()
        };
        (requirement.clone(), found.items.iter().map(name).collect::<Value>())
    });
    Value::Object(names.collect())
}

#[tokio::test]
async fn steps_build_on_each_other_and_each_has_its_output() {
    let plane = plane_that_answers(|request| {
        let mut resources = serde_json::Map::new();
        let before = request.desired.as_ref().map_or(0, |desired| desired.resources().len());
        for name in ["a", "b"].into_iter().take(before + 1) {
            resources.insert(name.to_owned(), map(name, &json!({"k": name})));
        }
        let seen = request.context.as_ref().map(|context| context.json().unwrap().clone()).unwrap_or_default();
        json!({
            "desired": {"resources": resources}, "output": {"total": before + 1, "seen": seen}, "context": {"step": before},
        })
    })
    .await;
    let step = |name: &str| json!({"step": name, "functionRef": {"name": FUNCTION}});
    let spec = json!({"mode": "Pipeline", "pipeline": [step("one"), step("two")]});
    plane.apply(&format!("{OPERATIONS}/o"), &operation("o", &spec)).await;
    let done = until_succeeded(&plane, "o", "True/PipelineSuccess").await;
    let expected = json!([
        {"step": "one", "output": {"total": 1, "seen": {}}}, {"step": "two", "output": {"total": 2, "seen": {"step": 0}}},
    ]);
    assert_eq!(done["status"]["pipeline"], expected);
    let references = done["status"]["appliedResourceRefs"].as_array().unwrap();
    let names: Vec<_> = references.iter().map(|it| it["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["a", "b"]);
    for name in ["a", "b"] {
        assert_eq!(plane.get(&format!("{MAPS}/{name}")).await["data"], json!({"k": name}));
    }
}

#[tokio::test]
async fn what_a_step_requires_is_there_at_the_first_call_even_if_it_does_not_exist() {
    let calls = Arc::new(AtomicUsize::new(0));
    let counter = calls.clone();
    let plane = plane_that_answers(move |request| {
        counter.fetch_add(1, Ordering::Relaxed);
        let schema = request.required_schemas.get("schema").and_then(|it| it.openapi_v3.as_ref());
        let has_schema = schema.is_some_and(|it| it.json().unwrap().contains_key("properties"));
        // It requires what it was given already.
        json!({
            "output": {"given": given(request), "hasSchema": has_schema},
            "requirements": {"resources": {"there": {
                "apiVersion": "v1", "kind": "ConfigMap", "namespace": "default", "matchName": "there",
            }}},
        })
    })
    .await;
    plane.apply(&format!("{MAPS}/there"), &settings("there", "red")).await;
    let required = |name: &str| json!({"requirementName": name, "apiVersion": "v1", "kind": "ConfigMap", "namespace": "default", "name": name});
    let mut spec = spec();
    spec["pipeline"][0]["requirements"] = json!({
        "requiredResources": [required("there"), required("missing")],
        "requiredSchemas": [{"requirementName": "schema", "apiVersion": "ops.crossplane.io/v1alpha1", "kind": "Operation"}],
    });
    plane.apply(&format!("{OPERATIONS}/o"), &operation("o", &spec)).await;
    let done = until_succeeded(&plane, "o", "True/PipelineSuccess").await;
    let expected = json!({"given": {"there": ["there"], "missing": []}, "hasSchema": true});
    assert_eq!(done["status"]["pipeline"][0]["output"], expected);
    assert_eq!(calls.load(Ordering::Relaxed), 1, "it was given what it requires");
}

#[tokio::test]
async fn function_is_given_its_credentials() {
    let plane = plane_that_answers(|request| {
        use ferroplane_wire::v1::credentials::Source;
        let source = request.credentials.get("key").and_then(|it| it.source.as_ref());
        let Some(Source::CredentialData(data)) = source else { return json!({"output": {"keys": null}}) };
        let mut keys: Vec<_> = data.data.keys().cloned().collect();
        keys.sort();
        json!({"output": {"keys": keys}})
    })
    .await;
    let secrets = "/api/v1/namespaces/default/secrets";
    for (name, data) in [("full", json!({"token": "aGk="})), ("empty", json!({}))] {
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "data": data});
        plane.apply(&format!("{secrets}/{name}"), &secret).await;
        let mut spec = spec();
        spec["pipeline"][0]["credentials"] =
            json!([{"name": "key", "source": "Secret", "secretRef": {"namespace": "default", "name": name}}]);
        plane.apply(&format!("{OPERATIONS}/{name}"), &operation(name, &spec)).await;
        let done = until_succeeded(&plane, name, "True/PipelineSuccess").await;
        let keys = if name == "full" { json!(["token"]) } else { json!([]) };
        assert_eq!(done["status"]["pipeline"][0]["output"]["keys"], keys, "{name}");
    }
}

#[tokio::test]
async fn input_can_be_an_object() {
    let plane = plane_that_answers(|request| {
        json!({"output": {"color": request.input.as_ref().unwrap().json().unwrap()["data"]["color"]}})
    })
    .await;
    plane.apply(&format!("{MAPS}/paint"), &settings("paint", "green")).await;
    let mut spec = spec();
    spec["pipeline"][0]["inputRef"] =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "paint", "namespace": "default"});
    plane.apply(&format!("{OPERATIONS}/o"), &operation("o", &spec)).await;
    let done = until_succeeded(&plane, "o", "True/PipelineSuccess").await;
    assert_eq!(done["status"]["pipeline"][0]["output"], json!({"color": "green"}));

    spec["retryLimit"] = 1.into();
    spec["pipeline"][0]["inputRef"]["name"] = "nothing".into();
    plane.apply(&format!("{OPERATIONS}/missing"), &operation("missing", &spec)).await;
    let failed = until_succeeded(&plane, "missing", "False/PipelineError").await;
    let conditions = failed["status"]["conditions"].as_array().unwrap();
    assert!(conditions.iter().any(|it| it["code"] == "StepInputUnavailable"), "{failed}");

    spec["pipeline"][0]["input"] = json!({"color": "red"});
    for (kind, plural) in [
        ("Operation", "operations"),
        ("CronOperation", "cronoperations"),
        ("WatchOperation", "watchoperations"),
    ] {
        let whole = match kind {
            "Operation" => spec.clone(),
            "CronOperation" => json!({"schedule": "@daily", "operationTemplate": {"spec": spec}}),
            _ => json!({"watch": {"apiVersion": "v1", "kind": "Node"}, "operationTemplate": {"spec": spec}}),
        };
        let object = json!({
            "apiVersion": "ops.crossplane.io/v1alpha1", "kind": kind, "metadata": {"name": "both"}, "spec": whole,
        });
        let path = format!("/apis/ops.crossplane.io/v1alpha1/{plural}/both?fieldManager=user");
        let (code, answer) =
            plane.send(http::Method::PATCH, &path, "application/apply-patch+yaml", &object).await;
        assert_eq!(code, 422, "{kind}: {answer}");
        assert!(
            answer["message"].as_str().unwrap().contains("input and inputRef exclude each other"),
            "{answer}"
        );
    }
}
