//! `WatchOperation`s, from a change to its operation.
#![expect(clippy::similar_names, reason = "it reads better here as it is")]

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use ferroplane_testkit::plane::{Plane, condition};
use ferroplane_wire::v1::{RunFunctionRequest, RunFunctionResponse};
use serde_json::{Value, json};

const OPERATIONS: &str = "/apis/ops.crossplane.io/v1alpha1/operations";
const WATCHES: &str = "/apis/ops.crossplane.io/v1alpha1/watchoperations";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const FUNCTION: &str = "function-operate";
const WATCHED: &str = "ops.crossplane.io/watched-resource";

/// What functions were given, in the order in which they were called.
type Seen = Arc<Mutex<Vec<Value>>>;

/// A plane with a function that notes the watched object which it is given, and answers this.
async fn plane_that_answers(answer: impl Fn(&Value) -> Value + Send + Sync + 'static) -> (Plane, Seen) {
    let seen = Seen::default();
    let notes = seen.clone();
    let function = move |request: &RunFunctionRequest| {
        let given = &request.required_resources[WATCHED].items;
        assert_eq!(given.len(), 1, "a function is given what was changed, even if it is gone");
        let object = Value::Object(given[0].resource.as_ref().unwrap().json().unwrap().clone());
        notes.lock().unwrap().push(object.clone());
        ferroplane_wire::from_json::<RunFunctionResponse>(&answer(&object)).unwrap()
    };
    (Plane::with_function(FUNCTION, function).await, seen)
}

fn watch(watched: &Value, rest: &Value) -> Value {
    let spec = json!({"mode": "Pipeline", "pipeline": [{"step": "work", "functionRef": {"name": FUNCTION}}]});
    let mut watch = json!({
        "apiVersion": "ops.crossplane.io/v1alpha1", "kind": "WatchOperation", "metadata": {"name": "w"},
        "spec": {"watch": {"apiVersion": "v1", "kind": "ConfigMap", "namespace": "default"}, "operationTemplate": {"spec": spec}},
    });
    // Real clusters have a ConfigMap of their own in every namespace.
    if watched.get("kind").is_none() {
        watch["spec"]["watch"]["matchLabels"] = json!({"of": "test"});
    }
    for (part, values) in [("/spec/watch", watched), ("/spec", rest)] {
        for (field, value) in values.as_object().unwrap() {
            watch.pointer_mut(part).unwrap()[field] = value.clone();
        }
    }
    watch
}

/// A watch whose operations are tried again for as long as they fail, so that they run until they are let go.
fn persistent(mut watch: Value) -> Value {
    watch["spec"]["operationTemplate"]["spec"]["retryLimit"] = json!(1_000_000);
    watch
}

async fn apply(plane: &Plane, watch: &Value) {
    plane.apply(&format!("{WATCHES}/w"), watch).await;
}

async fn put(plane: &Plane, name: &str, labels: &Value, data: &Value) {
    let mut labels = labels.clone();
    labels["of"] = json!("test");
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": labels}, "data": data});
    plane.apply(&format!("{MAPS}/{name}"), &map).await;
}

/// Wait until the `WatchOperation` is as it should be.
async fn until(plane: &Plane, is_so: impl Fn(&Value) -> bool) -> Value {
    plane.until(&format!("{WATCHES}/w"), is_so).await
}

/// Wait until functions were called so often.
async fn until_called(plane: &Plane, seen: &Seen, times: usize) {
    plane.until(OPERATIONS, |_| seen.lock().unwrap().len() >= times).await;
}

/// What the function saw, as `name=value`, or `name gone`.
fn told(seen: &Seen) -> Vec<String> {
    let tell = |object: &Value| {
        let name = object["metadata"]["name"].as_str().unwrap();
        if object["metadata"]["deletionTimestamp"].is_string() {
            format!("{name} gone")
        } else {
            format!("{name}={}", object["data"]["v"].as_str().unwrap_or_default())
        }
    };
    let mut told: Vec<_> = seen.lock().unwrap().iter().map(tell).collect();
    told.sort();
    told
}

#[tokio::test]
async fn every_change_has_its_operation_and_deletions_are_seen() {
    let (plane, seen) = plane_that_answers(|_| json!({"output": {"done": true}})).await;
    put(&plane, "a", &json!({"on": "yes"}), &json!({"v": "1"})).await;
    put(&plane, "other", &json!({}), &json!({"v": "1"})).await;
    let limits = json!({"successfulHistoryLimit": 9});
    apply(&plane, &watch(&json!({"matchLabels": {"on": "yes"}}), &limits)).await;
    until_called(&plane, &seen, 1).await;
    put(&plane, "a", &json!({"on": "yes"}), &json!({"v": "2"})).await;
    until_called(&plane, &seen, 2).await;
    put(&plane, "b", &json!({"on": "yes"}), &json!({"v": "1"})).await;
    until_called(&plane, &seen, 3).await;
    plane.delete(&format!("{MAPS}/a")).await;
    until_called(&plane, &seen, 4).await;
    assert_eq!(told(&seen), ["a gone", "a=1", "a=2", "b=1"]);
    let status = until(&plane, |it| {
        it["status"]["watchingResources"] == 1 && it["status"]["runningOperationRefs"].is_null()
    })
    .await;
    assert_eq!(condition(&status, "Watching").as_deref(), Some("True/WatchActive"));
    assert_eq!(condition(&status, "Synced").as_deref(), Some("True/ReconcileSuccess"));
    assert!(status["status"]["lastScheduleTime"].is_string());
    let list = plane.get(OPERATIONS).await;
    let operations = list["items"].as_array().unwrap();
    assert_eq!(operations.len(), 4);
    for operation in operations {
        let metadata = &operation["metadata"];
        assert_eq!(metadata["labels"], json!({"ops.crossplane.io/watchoperation": "w"}));
        assert_eq!(metadata["ownerReferences"][0]["kind"], "WatchOperation");
        assert_eq!(metadata["annotations"]["ops.crossplane.io/watched-resource-namespace"], "default");
        assert!(metadata["name"].as_str().unwrap().starts_with("w-"));
    }
    let is_deletion = |it: &&Value| {
        it["metadata"]["annotations"]["ops.crossplane.io/watched-resource-resourceversion"]
            == "ops.crossplane.io/synthetic-deleted"
    };
    assert_eq!(operations.iter().filter(is_deletion).count(), 1);
}

#[tokio::test]
async fn restart_repeats_nothing_and_notices_what_happened_meanwhile() {
    let (mut plane, seen) = plane_that_answers(|_| json!({})).await;
    for name in ["a", "b", "c"] {
        put(&plane, name, &json!({}), &json!({"v": "1"})).await;
    }
    // Nothing is left of what was done but the mark.
    let forgotten = json!({"successfulHistoryLimit": 0, "failedHistoryLimit": 0});
    apply(&plane, &watch(&json!({}), &forgotten)).await;
    plane.until(OPERATIONS, |list| seen.lock().unwrap().len() >= 3 && list["items"] == json!([])).await;
    plane.quiet().await;
    plane.restart().await;
    until(&plane, |it| condition(it, "Watching").is_some()).await;
    plane.quiet().await;
    assert_eq!(told(&seen).len(), 3, "{:?}", told(&seen));
    plane.stop().await;
    put(&plane, "a", &json!({}), &json!({"v": "2"})).await;
    plane.delete(&format!("{MAPS}/b")).await;
    put(&plane, "d", &json!({}), &json!({"v": "1"})).await;
    plane.start().await;
    until_called(&plane, &seen, 6).await;
    plane.quiet().await;
    assert_eq!(told(&seen), ["a=1", "a=2", "b gone", "b=1", "c=1", "d=1"]);
}

#[tokio::test]
async fn forbidden_change_waits_and_the_latest_is_handled() {
    let is_held = Arc::new(AtomicBool::new(true));
    let holds = is_held.clone();
    let (plane, seen) = plane_that_answers(move |_| {
        if holds.load(Ordering::Relaxed) {
            return json!({"results": [{"severity": "SEVERITY_FATAL", "message": "not yet"}]});
        }
        json!({})
    })
    .await;
    apply(&plane, &watch(&json!({}), &json!({"concurrencyPolicy": "Forbid", "successfulHistoryLimit": 9})))
        .await;
    until(&plane, |it| condition(it, "Watching").as_deref() == Some("True/WatchActive")).await;
    put(&plane, "a", &json!({}), &json!({"v": "1"})).await;
    let running = until(&plane, |it| it["status"]["runningOperationRefs"].is_array()).await;
    until_called(&plane, &seen, 1).await;
    for value in ["2", "3", "4"] {
        put(&plane, "a", &json!({}), &json!({"v": value})).await;
    }
    plane.quiet().await;
    assert_eq!(plane.get(OPERATIONS).await["items"].as_array().unwrap().len(), 1);
    is_held.store(false, Ordering::Relaxed);
    until(&plane, |it| {
        let status = &it["status"];
        status["runningOperationRefs"].is_null() && status["handled"] != running["status"]["handled"]
    })
    .await;
    plane.quiet().await;
    let operations = plane.get(OPERATIONS).await;
    assert_eq!(operations["items"].as_array().unwrap().len(), 2, "a burst is merged");
    assert_eq!(seen.lock().unwrap().last().unwrap()["data"]["v"], "4");
}

#[tokio::test]
async fn selector_that_is_edited_takes_effect_at_once() {
    let (plane, seen) = plane_that_answers(|_| json!({})).await;
    put(&plane, "a", &json!({"team": "a"}), &json!({"v": "1"})).await;
    put(&plane, "b", &json!({"team": "b"}), &json!({"v": "1"})).await;
    apply(&plane, &watch(&json!({"matchLabels": {"team": "a"}}), &json!({}))).await;
    until_called(&plane, &seen, 1).await;
    apply(&plane, &watch(&json!({"matchLabels": {"team": "b"}}), &json!({}))).await;
    until_called(&plane, &seen, 2).await;
    put(&plane, "a", &json!({"team": "a"}), &json!({"v": "2"})).await;
    put(&plane, "b", &json!({"team": "b"}), &json!({"v": "2"})).await;
    until_called(&plane, &seen, 3).await;
    plane.quiet().await;
    assert_eq!(told(&seen), ["a=1", "b=1", "b=2"], "what is not selected any more is not told as gone");
    // What leaves the selector by itself is a change, of an object that is there.
    put(&plane, "b", &json!({"team": "c"}), &json!({"v": "3"})).await;
    until_called(&plane, &seen, 4).await;
    assert_eq!(told(&seen), ["a=1", "b=1", "b=2", "b=3"]);
}

#[tokio::test]
async fn only_fields_that_are_watched_count() {
    let (plane, seen) = plane_that_answers(|_| json!({})).await;
    put(&plane, "a", &json!({}), &json!({"v": "1", "other": "1"})).await;
    apply(&plane, &watch(&json!({"fields": [{"fieldPath": "data.v"}]}), &json!({}))).await;
    until_called(&plane, &seen, 1).await;
    put(&plane, "a", &json!({}), &json!({"v": "1", "other": "2"})).await;
    plane.quiet().await;
    assert_eq!(told(&seen), ["a=1"]);
    put(&plane, "a", &json!({}), &json!({"v": "2", "other": "2"})).await;
    until_called(&plane, &seen, 2).await;
    assert_eq!(told(&seen), ["a=1", "a=2"]);
    apply(&plane, &watch(&json!({"fields": [{"fieldPath": "data..v"}]}), &json!({}))).await;
    let refused = until(&plane, |it| condition(it, "Watching").as_deref() == Some("False/WatchFailed")).await;
    let conditions = refused["status"]["conditions"].as_array().unwrap();
    let watching = conditions.iter().find(|it| it["type"] == "Watching").unwrap();
    assert!(
        watching["message"]
            .as_str()
            .unwrap()
            .starts_with("cannot watch: `data..v` is not the path of a field"),
        "{watching}"
    );
}

#[tokio::test]
async fn operation_that_changes_its_own_trigger_is_stopped() {
    let count = Arc::new(AtomicUsize::new(0));
    let (plane, seen) = plane_that_answers(move |object| {
        let turn = count.fetch_add(1, Ordering::Relaxed).to_string();
        let metadata = json!({"name": object["metadata"]["name"], "namespace": "default"});
        json!({"desired": {"resources": {"m": {"resource": {
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"turn": turn},
        }}}}})
    })
    .await;
    put(&plane, "a", &json!({}), &json!({"v": "1"})).await;
    apply(&plane, &watch(&json!({}), &json!({"successfulHistoryLimit": 2}))).await;
    let stopped =
        until(&plane, |it| condition(it, "Synced").as_deref() == Some("False/ReconcileError")).await;
    let conditions = stopped["status"]["conditions"].as_array().unwrap();
    let synced = conditions.iter().find(|it| it["type"] == "Synced").unwrap();
    assert_eq!(synced["code"], "WatchLoop");
    plane.until_said("w", "Operations keep changing what triggered them: `default/a`").await;
    plane.quiet().await;
    let turns = seen.lock().unwrap().len();
    assert_eq!(turns, 10);
    // It continues when another client changes the object.
    put(&plane, "a", &json!({}), &json!({"v": "2"})).await;
    until_called(&plane, &seen, turns + 1).await;
}

#[tokio::test]
async fn row_of_operations_that_each_create_the_next_object_is_stopped() {
    let (plane, seen) = plane_that_answers(|object| {
        let name = format!("{}-copy", object["metadata"]["name"].as_str().unwrap());
        let metadata = json!({"name": name, "namespace": "default", "labels": {"of": "test"}});
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata});
        json!({"desired": {"resources": {"m": {"resource": map}}}})
    })
    .await;
    put(&plane, "a", &json!({}), &json!({"v": "1"})).await;
    apply(&plane, &watch(&json!({}), &json!({"successfulHistoryLimit": 2}))).await;
    until(&plane, |it| condition(it, "Synced").as_deref() == Some("False/ReconcileError")).await;
    let last = format!("a{}", "-copy".repeat(10));
    plane.until_said("w", &format!("keep changing what triggered them: `default/{last}`")).await;
    plane.quiet().await;
    assert_eq!(seen.lock().unwrap().len(), 10);
    assert_eq!(plane.get(&format!("{MAPS}/{last}-copy")).await, Value::Null);
}

#[tokio::test]
async fn watch_of_operations_is_not_triggered_by_its_own() {
    let (plane, seen) = plane_that_answers(|_| json!({})).await;
    let watched = json!({
        "apiVersion": "ops.crossplane.io/v1alpha1", "kind": "Operation", "namespace": "",
        "fields": [{"fieldPath": "metadata.name"}],
    });
    let watch = watch(&watched, &json!({"successfulHistoryLimit": 9}));
    apply(&plane, &watch).await;
    // It is paused, so that nothing but the watch has to do with it.
    let metadata = json!({"name": "mine", "annotations": {"crossplane.io/paused": "true"}});
    let operation = json!({
        "apiVersion": "ops.crossplane.io/v1alpha1", "kind": "Operation", "metadata": metadata,
        "spec": watch["spec"]["operationTemplate"]["spec"],
    });
    plane.apply(&format!("{OPERATIONS}/mine"), &operation).await;
    until_called(&plane, &seen, 1).await;
    plane.quiet().await;
    assert_eq!(told(&seen), ["mine="]);
    let list = plane.get(OPERATIONS).await;
    assert_eq!(list["items"].as_array().unwrap().len(), 2, "that of the user, and the one about it");
}

#[tokio::test]
async fn operation_that_comes_to_rest_may_change_its_own_trigger() {
    let (plane, seen) = plane_that_answers(|object| {
        let metadata = json!({"name": object["metadata"]["name"], "namespace": "default"});
        json!({"desired": {"resources": {"m": {"resource": {
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"placed": "here"},
        }}}}})
    })
    .await;
    put(&plane, "a", &json!({}), &json!({"v": "1"})).await;
    apply(&plane, &watch(&json!({}), &json!({}))).await;
    until_called(&plane, &seen, 2).await;
    // Changes of one object are merged for a while. What would follow for the first one follows before that of the second one.
    put(&plane, "b", &json!({}), &json!({"v": "1"})).await;
    until_called(&plane, &seen, 4).await;
    plane.quiet().await;
    assert_eq!(
        told(&seen),
        ["a=1", "a=1", "b=1", "b=1"],
        "the second one changes nothing but who manages what"
    );
}

#[tokio::test]
async fn operation_that_labels_the_secret_that_triggered_it_comes_to_rest() {
    const SECRET: &str = "/api/v1/namespaces/default/secrets/s";
    let (mut plane, seen) = plane_that_answers(|object| {
        let labels = json!({"placed": "here"});
        let metadata = json!({"name": object["metadata"]["name"], "namespace": "default", "labels": labels});
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata});
        json!({"desired": {"resources": {"s": {"resource": secret}}}})
    })
    .await;
    let secret = |value: &str| {
        let metadata = json!({"name": "s", "labels": {"of": "test"}});
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": {"v": value}})
    };
    plane.apply(SECRET, &secret("MQ==")).await;
    apply(&plane, &watch(&json!({"kind": "Secret", "matchLabels": {"of": "test"}}), &json!({}))).await;
    until_called(&plane, &seen, 2).await;
    plane.quiet().await;
    assert_eq!(told(&seen), ["s=MQ==", "s=MQ=="], "the second one changes nothing but who manages what");
    plane.apply(SECRET, &secret("Mg==")).await;
    until_called(&plane, &seen, 3).await;
    plane.quiet().await;
    plane.restart().await;
    until(&plane, |it| condition(it, "Watching").is_some()).await;
    plane.quiet().await;
    assert_eq!(told(&seen), ["s=MQ==", "s=MQ==", "s=Mg=="], "a restart repeats nothing");
}

#[tokio::test]
async fn suspended_watch_makes_nothing_and_goes_on_later() {
    let (plane, seen) = plane_that_answers(|_| json!({})).await;
    apply(&plane, &watch(&json!({}), &json!({"suspend": true}))).await;
    until(&plane, |it| condition(it, "Watching").as_deref() == Some("False/WatchPaused")).await;
    put(&plane, "a", &json!({}), &json!({"v": "1"})).await;
    put(&plane, "a", &json!({}), &json!({"v": "2"})).await;
    plane.quiet().await;
    assert!(told(&seen).is_empty());
    plane.merge(&format!("{WATCHES}/w"), &json!({"spec": {"suspend": false}})).await;
    until_called(&plane, &seen, 1).await;
    assert_eq!(told(&seen), ["a=2"]);
}

#[tokio::test]
async fn kind_that_is_not_installed_is_watched_once_it_is() {
    let (plane, seen) = plane_that_answers(|_| json!({})).await;
    let missing = json!({"apiVersion": "example.org/v1", "kind": "Thing", "namespace": ""});
    apply(&plane, &watch(&missing, &json!({}))).await;
    let failed = until(&plane, |it| condition(it, "Watching").as_deref() == Some("False/WatchFailed")).await;
    let conditions = failed["status"]["conditions"].as_array().unwrap();
    let watching = conditions.iter().find(|it| it["type"] == "Watching").unwrap();
    assert_eq!(watching["code"], "WatchNotStarted");
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "things.example.org"},
        "spec": {
            "group": "example.org", "scope": "Cluster", "names": {"kind": "Thing", "plural": "things"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object", "x-kubernetes-preserve-unknown-fields": true,
            }}}],
        },
    });
    plane
        .apply("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/things.example.org", &definition)
        .await;
    until(&plane, |it| condition(it, "Watching").as_deref() == Some("True/WatchActive")).await;
    plane
        .apply(
            "/apis/example.org/v1/things/t",
            &json!({"apiVersion": "example.org/v1", "kind": "Thing", "metadata": {"name": "t"}}),
        )
        .await;
    until_called(&plane, &seen, 1).await;
    assert_eq!(seen.lock().unwrap()[0]["metadata"]["name"], "t");

    // It is removed, with its objects, and installed again.
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/things.example.org";
    plane.delete(path).await;
    until(&plane, |it| condition(it, "Watching").as_deref() == Some("False/WatchFailed")).await;
    plane.until(path, Value::is_null).await;
    plane.apply(path, &definition).await;
    until(&plane, |it| condition(it, "Watching").as_deref() == Some("True/WatchActive")).await;
    plane.until(OPERATIONS, |_| told(&seen).contains(&"t gone".to_owned())).await;
}

#[tokio::test]
async fn finalizer_that_crossplane_left_does_not_keep_a_watch() {
    let (plane, _) = plane_that_answers(|_| json!({})).await;
    let mut held = watch(&json!({}), &json!({}));
    held["metadata"]["finalizers"] = json!(["watchoperation.ops.crossplane.io"]);
    apply(&plane, &held).await;
    until(&plane, |it| condition(it, "Watching").is_some()).await;
    plane.delete(&format!("{WATCHES}/w")).await;
    until(&plane, Value::is_null).await;
}

#[tokio::test]
async fn kind_that_is_watched_cannot_be_changed() {
    let (plane, _) = plane_that_answers(|_| json!({})).await;
    apply(&plane, &watch(&json!({}), &json!({}))).await;
    for change in [json!({"kind": "Secret"}), json!({"apiVersion": "v2"})] {
        let patch = json!({"spec": {"watch": change}});
        let path = format!("{WATCHES}/w");
        let (code, answer) =
            plane.send(http::Method::PATCH, &path, "application/merge-patch+json", &patch).await;
        assert_eq!(code, 422, "{answer}");
    }
}

#[tokio::test]
async fn watch_that_is_paused_makes_nothing() {
    let (plane, seen) = plane_that_answers(|_| json!({})).await;
    let mut paused = watch(&json!({}), &json!({}));
    paused["metadata"]["annotations"] = json!({"crossplane.io/paused": "true"});
    apply(&plane, &paused).await;
    put(&plane, "a", &json!({}), &json!({"v": "1"})).await;
    let it = until(&plane, |it| condition(it, "Watching").as_deref() == Some("False/WatchPaused")).await;
    assert_eq!(condition(&it, "Synced").as_deref(), Some("False/ReconcilePaused"));
    plane.quiet().await;
    assert!(told(&seen).is_empty());
    let resume = json!({"metadata": {"annotations": {"crossplane.io/paused": null}}});
    plane.merge(&format!("{WATCHES}/w"), &resume).await;
    until_called(&plane, &seen, 1).await;
    assert_eq!(told(&seen), ["a=1"]);
}

#[tokio::test]
async fn operation_of_an_earlier_change_is_told_that_its_object_is_gone() {
    let is_held = Arc::new(AtomicBool::new(true));
    let holds = is_held.clone();
    let (plane, seen) = plane_that_answers(move |_| {
        if holds.load(Ordering::Relaxed) {
            return json!({"results": [{"severity": "SEVERITY_FATAL", "message": "not yet"}]});
        }
        json!({})
    })
    .await;
    let rest = json!({"concurrencyPolicy": "Forbid", "successfulHistoryLimit": 9});
    apply(&plane, &persistent(watch(&json!({}), &rest))).await;
    until(&plane, |it| condition(it, "Watching").as_deref() == Some("True/WatchActive")).await;
    put(&plane, "a", &json!({}), &json!({"v": "1"})).await;
    until_called(&plane, &seen, 1).await;
    plane.delete(&format!("{MAPS}/a")).await;
    is_held.store(false, Ordering::Relaxed);
    plane
        .until(OPERATIONS, |list| {
            let items = list["items"].as_array().unwrap();
            items.len() == 2
                && items
                    .iter()
                    .all(|it| condition(it, "Succeeded").as_deref() == Some("True/PipelineSuccess"))
        })
        .await;
    let told = told(&seen);
    assert_eq!(told.iter().filter(|it| *it == "a gone").count(), 2, "the change, and the deletion: {told:?}");
}

#[tokio::test]
async fn change_that_waits_for_longer_than_it_may_is_dropped_and_told() {
    let is_held = Arc::new(AtomicBool::new(true));
    let holds = is_held.clone();
    let (plane, seen) = plane_that_answers(move |_| {
        if holds.load(Ordering::Relaxed) {
            return json!({"results": [{"severity": "SEVERITY_FATAL", "message": "not yet"}]});
        }
        json!({})
    })
    .await;
    let rest = json!({"concurrencyPolicy": "Forbid", "startDeadline": "1s", "successfulHistoryLimit": 9});
    apply(&plane, &persistent(watch(&json!({}), &rest))).await;
    until(&plane, |it| condition(it, "Watching").as_deref() == Some("True/WatchActive")).await;
    put(&plane, "a", &json!({}), &json!({"v": "1"})).await;
    until_called(&plane, &seen, 1).await;
    put(&plane, "b", &json!({}), &json!({"v": "1"})).await;
    plane.until_said("w", "MissedDeadline").await;
    let events = plane.get("/api/v1/events").await;
    let mut events = events["items"].as_array().unwrap().iter();
    let missed = events.find(|it| it["reason"] == "MissedDeadline").unwrap();
    assert!(missed["metadata"]["annotations"].to_string().contains("StartDeadlineMissed"), "{missed:#}");
    is_held.store(false, Ordering::Relaxed);
    until(&plane, |it| it["status"]["runningOperationRefs"].is_null()).await;
    plane.quiet().await;
    assert!(!told(&seen).contains(&"b=1".to_owned()), "{:?}", told(&seen));
    // The next change of it is handled.
    put(&plane, "b", &json!({}), &json!({"v": "2"})).await;
    plane.until(OPERATIONS, |_| told(&seen).contains(&"b=2".to_owned())).await;
}

#[tokio::test]
async fn replacing_deletes_the_operation_that_runs_for_the_same_object_alone() {
    let (plane, seen) = plane_that_answers(|object| {
        if object["data"]["v"] == "1" {
            return json!({"results": [{"severity": "SEVERITY_FATAL", "message": "not yet"}]});
        }
        json!({})
    })
    .await;
    let rest = json!({"concurrencyPolicy": "Replace", "successfulHistoryLimit": 9});
    apply(&plane, &persistent(watch(&json!({}), &rest))).await;
    put(&plane, "a", &json!({}), &json!({"v": "1"})).await;
    put(&plane, "b", &json!({}), &json!({"v": "1"})).await;
    let both =
        until(&plane, |it| it["status"]["runningOperationRefs"].as_array().map(Vec::len) == Some(2)).await;
    until_called(&plane, &seen, 2).await;
    put(&plane, "a", &json!({}), &json!({"v": "2"})).await;
    plane.until(OPERATIONS, |_| told(&seen).contains(&"a=2".to_owned())).await;
    let one =
        until(&plane, |it| it["status"]["runningOperationRefs"].as_array().map(Vec::len) == Some(1)).await;
    let kept = &one["status"]["runningOperationRefs"][0];
    assert!(both["status"]["runningOperationRefs"].as_array().unwrap().contains(kept));
    let running = plane.get(&format!("{OPERATIONS}/{}", kept["name"].as_str().unwrap())).await;
    assert_eq!(running["metadata"]["annotations"]["ops.crossplane.io/watched-resource-name"], "b");
}

#[tokio::test]
async fn operations_of_a_watch_that_is_deleted_go_with_it_and_nothing_is_watched_any_more() {
    let (plane, seen) = plane_that_answers(|_| json!({})).await;
    put(&plane, "a", &json!({}), &json!({"v": "1"})).await;
    apply(&plane, &watch(&json!({}), &json!({}))).await;
    until_called(&plane, &seen, 1).await;
    plane.delete(&format!("{WATCHES}/w")).await;
    plane.until(OPERATIONS, |list| list["items"] == json!([])).await;
    put(&plane, "a", &json!({}), &json!({"v": "2"})).await;
    plane.quiet().await;
    assert_eq!(told(&seen), ["a=1"]);
}

#[tokio::test]
async fn object_that_changed_is_given_under_the_name_of_the_design_too() {
    const DESIGN: &str = "ops.crossplane.io/watched-resource-changed";
    let plane = Plane::with_function(FUNCTION, |request: &RunFunctionRequest| {
        let name = |requirement: &str| {
            let given = request.required_resources.get(requirement)?.items.first()?;
            Some(given.resource.as_ref()?.json().ok()?["metadata"]["name"].clone())
        };
        let response = json!({"output": {"shipped": name(WATCHED), "design": name(DESIGN)}});
        ferroplane_wire::from_json::<RunFunctionResponse>(&response).unwrap()
    })
    .await;
    let mut watch = watch(&json!({}), &json!({}));
    watch["spec"]["operationTemplate"]["spec"]["pipeline"][0]["requirements"] = json!({"requiredResources": [
        {"requirementName": DESIGN, "apiVersion": "v1", "kind": "ConfigMap", "namespace": "default", "name": "placeholder"},
    ]});
    put(&plane, "a", &json!({}), &json!({"v": "1"})).await;
    apply(&plane, &watch).await;
    let is_given = |list: &Value| {
        let mut items = list["items"].as_array().unwrap().iter();
        items.any(|it| it["status"]["pipeline"][0]["output"] == json!({"shipped": "a", "design": "a"}))
    };
    plane.until(OPERATIONS, is_given).await;
}
