//! Operations and schedules, from manifest to what is applied.

mod composed;
mod failing;
mod given;
mod packaged;
mod recorded;
mod scheduled;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use ferroplane_testkit::plane::{Plane, condition};
use ferroplane_wire::v1::{RunFunctionRequest, RunFunctionResponse};
use serde_json::{Value, json};

const OPERATIONS: &str = "/apis/ops.crossplane.io/v1alpha1/operations";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const FUNCTION: &str = "function-operate";

/// A plane with a function that answers this.
async fn plane_that_answers(answer: impl Fn(&RunFunctionRequest) -> Value + Send + Sync + 'static) -> Plane {
    let answer = move |request: &RunFunctionRequest| {
        ferroplane_wire::from_json::<RunFunctionResponse>(&answer(request)).unwrap()
    };
    Plane::with_function(FUNCTION, answer).await
}

fn spec() -> Value {
    json!({"mode": "Pipeline", "pipeline": [{"step": "work", "functionRef": {"name": FUNCTION}}]})
}

fn operation(name: &str, spec: &Value) -> Value {
    json!({"apiVersion": "ops.crossplane.io/v1alpha1", "kind": "Operation", "metadata": {"name": name}, "spec": spec})
}

fn map(name: &str, data: &Value) -> Value {
    json!({"resource": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}, "data": data}})
}

async fn until_succeeded(plane: &Plane, name: &str, wanted: &str) -> Value {
    let path = format!("{OPERATIONS}/{name}");
    plane.until(&path, |it| condition(it, "Succeeded").as_deref() == Some(wanted)).await
}

#[tokio::test]
async fn operation_applies_what_its_functions_want_once_and_says_so() {
    let calls = Arc::new(AtomicUsize::new(0));
    let counter = calls.clone();
    let plane = plane_that_answers(move |request| {
        counter.fetch_add(1, Ordering::Relaxed);
        assert!(request.observed.is_none());
        json!({
            "desired": {"resources": {"b": map("b", &json!({"k": "v"})), "a": map("a", &json!({"k": "v"}))}},
            "output": {"made": 2},
            "results": [{"severity": "SEVERITY_NORMAL", "message": "did it"}],
        })
    })
    .await;
    plane
        .apply(
            &format!("{MAPS}/a"),
            &json!({
                "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "other"},
            }),
        )
        .await;
    plane.apply(&format!("{OPERATIONS}/o"), &operation("o", &spec())).await;
    let done = until_succeeded(&plane, "o", "True/PipelineSuccess").await;
    assert_eq!(condition(&done, "Synced").as_deref(), Some("True/ReconcileSuccess"));
    assert_eq!(done["status"]["pipeline"], json!([{"step": "work", "output": {"made": 2}}]));
    let names: Vec<_> = done["status"]["appliedResourceRefs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["name"].clone())
        .collect();
    assert_eq!(names, ["a", "b"]);
    let map = plane.get(&format!("{MAPS}/a")).await;
    assert_eq!(map["data"], json!({"k": "v"}));
    let manager = format!("ops.crossplane.io/operation/{}", done["metadata"]["uid"].as_str().unwrap());
    let mut managers = map["metadata"]["managedFields"].as_array().unwrap().iter();
    let own = managers.find(|it| it["manager"] == manager.as_str()).expect("every operation has its own");
    assert_eq!(own["operation"], "Apply");
    assert!(map["metadata"].get("ownerReferences").is_none(), "{map}");
    plane.until_said("o", "did it").await;
    // Done is done, whatever becomes of the spec.
    plane.merge(&format!("{OPERATIONS}/o"), &json!({"spec": {"retryLimit": 7}})).await;
    plane.quiet().await;
    assert_eq!(calls.load(Ordering::Relaxed), 1);
    // What was applied stays.
    plane.delete(&format!("{OPERATIONS}/o")).await;
    plane.quiet().await;
    assert_eq!(plane.get(&format!("{MAPS}/b")).await["data"], json!({"k": "v"}));
}

#[tokio::test]
async fn operation_that_is_changed_while_it_runs_does_not_run_again() {
    let calls = Arc::new(AtomicUsize::new(0));
    let counter = calls.clone();
    let plane = plane_that_answers(move |_| {
        counter.fetch_add(1, Ordering::Relaxed);
        // It labels itself, so that its status cannot be written to what was read before.
        let itself = json!({"resource": {
            "apiVersion": "ops.crossplane.io/v1alpha1", "kind": "Operation",
            "metadata": {"name": "o", "labels": {"changed": "yes"}},
        }});
        json!({"desired": {"resources": {"itself": itself}}})
    })
    .await;
    plane.apply(&format!("{OPERATIONS}/o"), &operation("o", &spec())).await;
    let done = until_succeeded(&plane, "o", "True/PipelineSuccess").await;
    assert_eq!(done["metadata"]["labels"]["changed"], "yes");
    assert_eq!(done["status"]["appliedResourceRefs"][0]["name"], "o");
    plane.quiet().await;
    assert_eq!(calls.load(Ordering::Relaxed), 1);
}

/// A kind whose fields cannot be null.
async fn define_brokers(plane: &Plane) {
    let storage = json!({"type": "object", "properties": {"class": {"type": "string"}, "gigabytes": {"type": "integer"}}});
    let spec = json!({"type": "object", "properties": {"size": {"type": "integer"}, "storage": storage}});
    let schema = json!({"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}});
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "brokers.example.org"},
        "spec": {
            "group": "example.org", "scope": "Cluster",
            "names": {"kind": "Broker", "listKind": "BrokerList", "plural": "brokers", "singular": "broker"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}],
        },
    });
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/brokers.example.org";
    plane.apply(path, &definition).await;
    let is_established =
        |it: &Value| condition(it, "Established").is_some_and(|established| established.starts_with("True"));
    plane.until(path, is_established).await;
}

#[tokio::test]
async fn what_a_function_requires_is_read_and_not_watched() {
    let plane = plane_that_answers(|request| {
        let found = request.required_resources.get("brokers").map(|found| found.items.len());
        json!({"output": {"found": found}, "requirements": {"resources": {"brokers": {
            "apiVersion": "example.org/v1", "kind": "Broker", "matchLabels": {"labels": {}},
        }}}})
    })
    .await;
    define_brokers(&plane).await;
    let broker = json!({"apiVersion": "example.org/v1", "kind": "Broker", "metadata": {"name": "b"}});
    plane.apply("/apis/example.org/v1/brokers/b", &broker).await;
    plane.apply(&format!("{OPERATIONS}/o"), &operation("o", &spec())).await;
    let done = until_succeeded(&plane, "o", "True/PipelineSuccess").await;
    assert_eq!(done["status"]["pipeline"][0]["output"], json!({"found": 1}));
    let metrics = plane.metrics();
    let is_about = |metric: &str| {
        let mut lines = metrics.lines().filter(|line| line.starts_with(metric));
        lines.any(|line| line.contains(r#"resource="brokers""#))
    };
    assert!(is_about("rest_client_requests_total{"), "{metrics}");
    assert!(!is_about("ferroplane_watches{") && !is_about("ferroplane_watch_lists_total{"), "{metrics}");
}

#[tokio::test]
async fn field_that_a_function_sets_to_null_is_removed() {
    let plane = plane_that_answers(move |_| {
        let mut wanted = map("settings", &json!({"gone": null, "set": "new"}));
        wanted["resource"]["metadata"]["labels"] = json!({"old": null});
        wanted["resource"]["binaryData"] = json!({"never": null});
        let broker = json!({"resource": {
            "apiVersion": "example.org/v1", "kind": "Broker", "metadata": {"name": "b"},
            "spec": {"size": null, "storage": {"class": null}},
        }});
        json!({"desired": {"resources": {"settings": wanted, "broker": broker}}})
    })
    .await;
    define_brokers(&plane).await;
    let settings = format!("{MAPS}/settings");
    let before = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings", "labels": {"old": "yes", "kept": "yes"}},
        "data": {"gone": "a", "kept": "b"},
    });
    plane.apply(&settings, &before).await;
    let broker = "/apis/example.org/v1/brokers/b";
    let before = json!({
        "apiVersion": "example.org/v1", "kind": "Broker", "metadata": {"name": "b"},
        "spec": {"size": 3, "storage": {"class": "fast", "gigabytes": 5}},
    });
    plane.apply(broker, &before).await;
    plane.apply(&format!("{OPERATIONS}/o"), &operation("o", &spec())).await;
    until_succeeded(&plane, "o", "True/PipelineSuccess").await;
    let settings = plane.get(&settings).await;
    assert_eq!(settings["data"], json!({"kept": "b", "set": "new"}));
    assert_eq!(settings["metadata"]["labels"], json!({"kept": "yes"}));
    assert_eq!(settings.get("binaryData"), None);
    assert_eq!(plane.get(broker).await["spec"], json!({"storage": {"gigabytes": 5}}));
}

#[tokio::test]
async fn operation_that_keeps_failing_is_given_up_after_its_limit() {
    let calls = Arc::new(AtomicUsize::new(0));
    let counter = calls.clone();
    let plane = plane_that_answers(move |_| {
        counter.fetch_add(1, Ordering::Relaxed);
        json!({"results": [{"severity": "SEVERITY_FATAL", "message": "no"}]})
    })
    .await;
    let mut limited = spec();
    limited["retryLimit"] = 2.into();
    plane.apply(&format!("{OPERATIONS}/o"), &operation("o", &limited)).await;
    let failed = until_succeeded(&plane, "o", "False/PipelineError").await;
    assert_eq!(failed["status"]["failures"], 2);
    assert_eq!(condition(&failed, "Synced").as_deref(), Some("True/ReconcileSuccess"));
    plane.quiet().await;
    assert_eq!(calls.load(Ordering::Relaxed), 2);
    let message = failed["status"]["conditions"]
        .as_array()
        .unwrap()
        .iter()
        .find(|it| it["type"] == "Succeeded")
        .unwrap();
    let words = message["message"].as_str().unwrap();
    assert!(words.starts_with("failure limit of 2 reached: ") && words.ends_with("no"), "{words}");
}

#[tokio::test]
async fn operation_that_calls_a_function_which_does_not_exist_says_so() {
    let plane = Plane::new().await;
    let mut spec = spec();
    spec["retryLimit"] = 1.into();
    plane.apply(&format!("{OPERATIONS}/o"), &operation("o", &spec)).await;
    let failed = until_succeeded(&plane, "o", "False/PipelineError").await;
    let conditions = failed["status"]["conditions"].as_array().unwrap();
    let succeeded = conditions.iter().find(|it| it["type"] == "Succeeded").unwrap();
    assert_eq!((&succeeded["code"], &succeeded["step"]), (&json!("FunctionNotFound"), &json!("work")));
}

#[tokio::test]
async fn operation_that_is_paused_waits() {
    let calls = Arc::new(AtomicUsize::new(0));
    let counter = calls.clone();
    let plane = plane_that_answers(move |_| {
        counter.fetch_add(1, Ordering::Relaxed);
        json!({"desired": {}})
    })
    .await;
    let mut paused = operation("o", &spec());
    paused["metadata"]["annotations"] = json!({"crossplane.io/paused": "true"});
    plane.apply(&format!("{OPERATIONS}/o"), &paused).await;
    plane.quiet().await;
    assert_eq!(calls.load(Ordering::Relaxed), 0);
    plane
        .merge(
            &format!("{OPERATIONS}/o"),
            &json!({"metadata": {"annotations": {"crossplane.io/paused": null}}}),
        )
        .await;
    until_succeeded(&plane, "o", "True/PipelineSuccess").await;
}

#[tokio::test]
async fn operation_that_is_paused_while_it_applies_says_what_it_has_applied() {
    const MANY: usize = 400;
    let plane = plane_that_answers(move |_| {
        let itself = json!({"resource": {
            "apiVersion": "ops.crossplane.io/v1alpha1", "kind": "Operation",
            "metadata": {"name": "o", "annotations": {"crossplane.io/paused": "true"}},
        }});
        // They are applied in the order of these names: it pauses itself first, and is notified of that while it applies the others.
        let mut resources = serde_json::Map::from_iter([("a".to_owned(), itself)]);
        for number in 0..MANY {
            let name = format!("m{number:03}");
            resources.insert(name.clone(), map(&name, &json!({"k": "v"})));
        }
        json!({"desired": {"resources": resources}})
    })
    .await;
    plane.apply(&format!("{OPERATIONS}/o"), &operation("o", &spec())).await;
    let path = format!("{OPERATIONS}/o");
    plane.until(&path, |it| it["metadata"]["annotations"]["crossplane.io/paused"] == "true").await;
    plane.quiet().await;
    let paused = plane.get(&path).await;
    assert_eq!(condition(&paused, "Succeeded").as_deref(), Some("Unknown/PipelinePending"));
    assert!(paused["status"]["failures"].is_null(), "nobody failed: {paused}");
    let told = paused["status"]["appliedResourceRefs"].as_array().unwrap().len();
    assert!((1..=MANY).contains(&told), "{told}");
    let list = plane.get(MAPS).await;
    let names = list["items"].as_array().unwrap().iter().map(|it| it["metadata"]["name"].as_str().unwrap());
    let applied =
        names.filter(|name| name.strip_prefix('m').is_some_and(|it| it.parse::<u32>().is_ok())).count();
    // One may have been under way, and nobody knows what became of it. The other one that is told is the operation itself.
    assert!((told - 1..=told).contains(&applied), "{told} told, {applied} applied");
}

#[tokio::test]
async fn function_of_an_operation_is_given_what_it_requires() {
    let plane = plane_that_answers(|request| {
        let Some(found) = request.required_resources.get("settings") else {
            return json!({"requirements": {"resources": {"settings": {
                "apiVersion": "v1", "kind": "ConfigMap", "matchLabels": {"labels": {"role": "settings"}}, "namespace": "default",
            }}}});
        };
        let names: Vec<_> = found
            .items
            .iter()
            .map(|it| it.resource.as_ref().unwrap().json().unwrap()["metadata"]["name"].clone())
            .collect();
        json!({"output": {"found": names}, "requirements": {"resources": {"settings": {
            "apiVersion": "v1", "kind": "ConfigMap", "matchLabels": {"labels": {"role": "settings"}}, "namespace": "default",
        }}}})
    })
    .await;
    for (name, role) in [("b", "settings"), ("a", "settings"), ("c", "other")] {
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": {"role": role}}});
        plane.apply(&format!("{MAPS}/{name}"), &map).await;
    }
    plane.apply(&format!("{OPERATIONS}/o"), &operation("o", &spec())).await;
    let done = until_succeeded(&plane, "o", "True/PipelineSuccess").await;
    assert_eq!(done["status"]["pipeline"][0]["output"]["found"], json!(["a", "b"]));
}
