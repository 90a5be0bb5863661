//! Versions that a webhook converts.
//!
//! What is said when something goes wrong is what a real server said to the same webhook.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use http::Response;
use http_body_util::Full;
use serde_json::{Value, json};

use crate::cluster::{Cluster, Lines};
use crate::hook::Hook;

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const V1: &str = "/apis/example.org/v1/namespaces/default/things";
const V2: &str = "/apis/example.org/v2/namespaces/default/things";

/// In the first version there is a size, which is a number; in the second a length, which is a text.
fn convert(request: &Value) -> Value {
    let wanted = &request["desiredAPIVersion"];
    let objects = request["objects"].as_array().unwrap().iter().map(|object| {
        let mut object = object.clone();
        object["apiVersion"] = wanted.clone();
        let Some(Value::Object(spec)) = object.get_mut("spec") else { return object };
        if *wanted == "example.org/v2" {
            if let Some(size) = spec.remove("size") {
                spec.insert("length".to_owned(), size.to_string().into());
            }
        } else if let Some(length) = spec.remove("length") {
            spec.insert("size".to_owned(), length.as_str().unwrap().parse::<i64>().unwrap().into());
        }
        object
    });
    json!({"uid": request["uid"], "result": {"status": "Success"}, "convertedObjects": objects.collect::<Vec<_>>()})
}

fn review(response: &Value) -> Response<Full<Bytes>> {
    let review =
        json!({"kind": "ConversionReview", "apiVersion": "apiextensions.k8s.io/v1", "response": response});
    let response = Response::builder().header("content-type", "application/json");
    response.body(Full::from(review.to_string())).unwrap()
}

fn definition(client: &Value) -> Value {
    let version = |name: &str, is_storage: bool, field: &str, kind: &str| {
        json!({
            "name": name, "served": true, "storage": is_storage,
            "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.count", "statusReplicasPath": ".status.count"}},
            "selectableFields": [{"jsonPath": format!(".spec.{field}")}],
            "additionalPrinterColumns": [{"name": "Measure", "type": kind, "jsonPath": format!(".spec.{field}")}],
            "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                "spec": {"type": "object", "properties": {
                    field: {"type": kind}, "count": {"type": "integer"},
                    "color": {"type": "string", "default": format!("of {name}")},
                }},
                "status": {"type": "object", "properties": {"count": {"type": "integer"}}},
            }}},
        })
    };
    json!({
        "metadata": {"name": "things.example.org"},
        "spec": {
            "group": "example.org", "scope": "Namespaced",
            "names": {"plural": "things", "kind": "Thing"},
            "conversion": {"strategy": "Webhook", "webhook": {
                "conversionReviewVersions": ["v7", "v1"], "clientConfig": client,
            }},
            "versions": [version("v1", true, "size", "integer"), version("v2", false, "length", "string")],
        },
    })
}

/// A cluster in which there are things, and the webhook that converts them in some way.
async fn cluster_with(answer: impl Fn(&Value) -> Value + Send + Sync + 'static) -> (Cluster, Hook) {
    let hook = Hook::behaving(move |request| Some(review(&answer(request)))).await;
    let cluster = Cluster::new().await;
    cluster.post(DEFINITIONS, &definition(&hook.client())).await.is(201);
    cluster.until(V1, |answer| answer.code == 200).await;
    (cluster, hook)
}

async fn cluster_with_things() -> (Cluster, Hook) {
    cluster_with(convert).await
}

fn thing(version: &str, name: &str, spec: &Value) -> Value {
    json!({"apiVersion": format!("example.org/{version}"), "kind": "Thing", "metadata": {"name": name}, "spec": spec})
}

#[tokio::test]
async fn every_version_has_its_own_form() {
    let (cluster, hook) = cluster_with_things().await;
    let made = cluster.post(V1, &thing("v1", "a", &json!({"size": 3}))).await;
    assert_eq!(made.is(201)["spec"], json!({"size": 3, "color": "of v1"}));
    assert!(hook.requests().is_empty());
    let seen = cluster.get(&format!("{V2}/a")).await;
    assert_eq!(seen.is(200)["apiVersion"], "example.org/v2");
    assert_eq!(seen.body["spec"], json!({"length": "3", "color": "of v1"}));
    assert_eq!(seen.body["metadata"]["resourceVersion"], made.body["metadata"]["resourceVersion"]);

    let made = cluster.post(V2, &thing("v2", "b", &json!({"length": "4"}))).await;
    assert_eq!(made.is(201)["spec"], json!({"length": "4", "color": "of v2"}));
    assert_eq!(cluster.get(&format!("{V1}/b")).await.is(200)["spec"], json!({"size": 4, "color": "of v2"}));

    let wrong = cluster.post(V2, &thing("v2", "c", &json!({"length": 4}))).await;
    assert_eq!(wrong.is(422)["details"]["causes"][0]["field"], "spec.length");
    let changed = cluster.merge(&format!("{V2}/a"), &json!({"spec": {"length": "5"}})).await;
    assert_eq!(changed.is(200)["spec"]["length"], "5");
    assert_eq!(cluster.get(&format!("{V1}/a")).await.is(200)["spec"]["size"], 5);
    let status = json!({"status": {"count": 2}});
    assert_eq!(cluster.merge(&format!("{V2}/a/status"), &status).await.is(200)["spec"]["length"], "5");
    let scaled = cluster.merge(&format!("{V2}/a/scale"), &json!({"spec": {"replicas": 7}})).await;
    assert_eq!(scaled.is(200)["spec"]["replicas"], 7);
    assert_eq!(
        cluster.get(&format!("{V1}/a")).await.is(200)["spec"],
        json!({"size": 5, "color": "of v1", "count": 7})
    );
    cluster.delete(&format!("{V2}/a")).await.is(200);
    cluster.get(&format!("{V1}/a")).await.is(404);
}

#[tokio::test]
async fn lists_are_converted_together_and_once() {
    let (cluster, hook) = cluster_with_things().await;
    for number in 0..20 {
        cluster.post(V1, &thing("v1", &format!("t{number:02}"), &json!({"size": number}))).await.is(201);
    }
    for _ in 0..3 {
        let list = cluster.get(V2).await;
        let lengths: Vec<_> =
            list.is(200)["items"].as_array().unwrap().iter().map(|it| &it["spec"]["length"]).collect();
        assert_eq!((lengths.len(), lengths[19]), (20, &json!("19")));
    }
    assert_eq!(hook.requests().len(), 1);
    let table = [("accept", "application/json;as=Table;v=v1;g=meta.k8s.io")];
    let table =
        crate::cluster::Answer::read(cluster.raw("GET", &format!("{V2}?limit=1"), &table, "").await).await;
    assert_eq!(table.is(200)["rows"][0]["cells"], json!(["t00", "0"]));
    let selected = cluster.get(&format!("{V2}?fieldSelector=spec.length%3D7")).await;
    assert_eq!(selected.is(200)["items"][0]["metadata"]["name"], "t07");
    assert_eq!(hook.requests().len(), 1);
}

#[tokio::test]
async fn watches_see_their_version() {
    let (cluster, _hook) = cluster_with_things().await;
    cluster.post(V1, &thing("v1", "a", &json!({"size": 1}))).await.is(201);
    let mut all = Lines::of(cluster.raw("GET", &format!("{V2}?watch=true"), &[], "").await);
    let path = format!("{V2}?watch=true&fieldSelector=spec.length%3D1");
    let mut ones = Lines::of(cluster.raw("GET", &path, &[], "").await);
    cluster.merge(&format!("{V1}/a"), &json!({"spec": {"size": 2}})).await.is(200);
    cluster.delete(&format!("{V1}/a")).await.is(200);
    for (kind, length) in [("ADDED", "1"), ("MODIFIED", "2"), ("DELETED", "2")] {
        let (found, object) = all.next().await.unwrap();
        assert_eq!((found.as_str(), &object["spec"]["length"]), (kind, &json!(length)));
    }
    for kind in ["ADDED", "DELETED"] {
        let (found, object) = ones.next().await.unwrap();
        assert_eq!((found.as_str(), &object["spec"]["length"]), (kind, &json!("1")));
    }
}

#[tokio::test]
async fn owners_are_told_apart_in_their_versions() {
    let (cluster, _hook) = cluster_with_things().await;
    cluster.apply(&format!("{V1}/a"), "one", &thing("v1", "a", &json!({"size": 1}))).await.is(201);
    let refused = cluster.apply(&format!("{V2}/a"), "two", &thing("v2", "a", &json!({"length": "2"}))).await;
    assert_eq!(refused.is(409)["message"], "Apply failed with 1 conflict: conflict with \"one\": .spec.size");
    cluster.apply(&format!("{V2}/a"), "two", &thing("v2", "a", &json!({"length": "1"}))).await.is(200);
    let patched = cluster.merge(&format!("{V2}/a?fieldManager=three"), &json!({"spec": {"count": 1}})).await;
    let entries = patched.is(200)["metadata"]["managedFields"].as_array().unwrap();
    let owned = |manager: &str| {
        entries.iter().find(|entry| entry["manager"] == manager).unwrap()["fieldsV1"]["f:spec"].clone()
    };
    assert_eq!(owned("one"), json!({"f:size": {}}));
    assert_eq!(owned("two"), json!({"f:length": {}}));
    assert_eq!(owned("three"), json!({"f:count": {}}));
    // What one no longer applies, two still does.
    let kept = cluster.apply(&format!("{V1}/a"), "one", &thing("v1", "a", &json!({}))).await;
    assert_eq!(kept.is(200)["spec"]["size"], 1);
    let gone = cluster.apply(&format!("{V2}/a"), "two", &thing("v2", "a", &json!({}))).await;
    assert_eq!(gone.is(200)["spec"].get("length"), None);
}

#[tokio::test]
async fn admission_sees_the_version_that_it_asked_for() {
    let (cluster, _hook) = cluster_with_things().await;
    let admission = Hook::saying(|_| json!({"allowed": true})).await;
    let configuration = json!({
        "metadata": {"name": "sizes"},
        "webhooks": [{
            "name": "sizes.example.org", "clientConfig": admission.client(), "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            "rules": [{"operations": ["*"], "apiGroups": ["example.org"], "apiVersions": ["v1"], "resources": ["things"]}],
            "matchConditions": [{"name": "sized", "expression": "object == null || object.spec.size > 0"}],
        }],
    });
    let path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
    cluster.post(path, &configuration).await.is(201);
    cluster.post(V2, &thing("v2", "a", &json!({"length": "4"}))).await.is(201);
    let asked = admission.requests();
    assert_eq!(asked[0]["object"]["spec"]["size"], 4);
    assert_eq!(asked[0]["requestKind"]["version"], "v2");
    cluster.delete(&format!("{V2}/a")).await.is(200);
    assert_eq!(admission.requests()[1]["oldObject"]["spec"]["size"], 4);
}

/// What a client is told if the webhook's answer is changed before it is sent.
async fn said(change: impl Fn(&mut Value) + Send + Sync + 'static) -> String {
    let (cluster, _hook) = cluster_with(move |request| {
        let mut response = convert(request);
        change(&mut response);
        response
    })
    .await;
    cluster.post(V1, &thing("v1", "a", &json!({"size": 3}))).await.is(201);
    let answer = cluster.get(&format!("{V2}/a")).await;
    assert_eq!(answer.is(500)["reason"], Value::Null);
    assert_eq!(cluster.post(V2, &thing("v2", "b", &json!({"length": "3"}))).await.code, 500);
    assert_eq!(cluster.get(&format!("{V1}/b")).await.code, 404);
    answer.body["message"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn bad_answers_are_refused_in_kubernetes_words() {
    let object = "/convertedObjects/0";
    let put = |path: &str, value: Value| {
        let (path, object) = (path.to_owned(), object.to_owned());
        move |response: &mut Value| {
            let object = response.pointer_mut(&object).unwrap();
            match path.rsplit_once('/') {
                Some((parent, name)) => {
                    object.pointer_mut(&format!("/{parent}")).unwrap()[name] = value.clone();
                }
                None => object[&path] = value.clone(),
            }
        }
    };
    let prefix = "conversion webhook for example.org/v1, Kind=Thing ";
    let cases = [
        (
            said(put("apiVersion", json!("x/v1"))).await,
            "returned invalid object at index 0: invalid groupVersion (expected example.org/v2, received x/v1)",
        ),
        (
            said(put("kind", json!("Other"))).await,
            "returned invalid object at index 0: invalid kind (expected Thing, received Other)",
        ),
        (
            said(put("metadata/name", json!("other"))).await,
            "returned invalid object: must have the same name: a != other",
        ),
        (
            said(put("metadata/labels", json!({"a": 1}))).await,
            "returned invalid metadata: metadata.labels[a] must be a string, but is int64 in converted object",
        ),
        (said(|response| response["convertedObjects"] = json!([])).await, "returned 0 objects, expected 1"),
        (
            said(|response| response["result"] = json!({"status": "Failure", "message": "no way"})).await,
            "failed: no way",
        ),
        (
            said(|response| response["result"] = json!({"status": "Failure"})).await,
            "failed: response.result.status was 'Failure', not 'Success'",
        ),
    ];
    for (found, expected) in cases {
        assert_eq!(found, format!("{prefix}{expected}"));
    }
    let found = said(|response| response["uid"] = json!("zz")).await;
    assert!(found.starts_with(&format!("{prefix}failed: expected response.uid=\"")), "{found}");
}

#[tokio::test]
async fn identity_of_an_object_is_not_for_the_webhook_to_change() {
    let (cluster, _hook) = cluster_with(|request| {
        let mut response = convert(request);
        let metadata = &mut response["convertedObjects"][0]["metadata"];
        metadata["resourceVersion"] = json!("77");
        metadata["finalizers"] = json!(["example.org/never"]);
        metadata["labels"] = json!({"new": "label"});
        response
    })
    .await;
    let made = cluster.post(V1, &thing("v1", "a", &json!({"size": 3}))).await;
    let seen = cluster.get(&format!("{V2}/a")).await;
    assert_eq!(seen.is(200)["metadata"]["labels"], json!({"new": "label"}));
    assert_eq!(seen.body["metadata"]["resourceVersion"], made.body["metadata"]["resourceVersion"]);
    assert_eq!(seen.body["metadata"].get("finalizers"), None);
}

#[tokio::test]
async fn watch_ends_when_something_cannot_be_converted() {
    let is_broken = Arc::new(AtomicBool::new(false));
    let broken = Arc::clone(&is_broken);
    let (cluster, _hook) = cluster_with(move |request| {
        let mut response = convert(request);
        if broken.load(Ordering::SeqCst) {
            response["result"] = json!({"status": "Failure", "message": "no way"});
        }
        response
    })
    .await;
    cluster.post(V1, &thing("v1", "a", &json!({"size": 1}))).await.is(201);
    let mut lines = Lines::of(cluster.raw("GET", &format!("{V2}?watch=true"), &[], "").await);
    assert_eq!(lines.next().await.unwrap().0, "ADDED");
    is_broken.store(true, Ordering::SeqCst);
    cluster.merge(&format!("{V1}/a"), &json!({"spec": {"size": 2}})).await.is(200);
    let (kind, status) = lines.next().await.unwrap();
    assert_eq!((kind.as_str(), &status["code"]), ("ERROR", &json!(500)));
    assert!(lines.next().await.is_none());
    // What cannot be converted can still be deleted.
    cluster.delete(&format!("{V2}/a")).await.is(200);
}

#[tokio::test]
async fn webhook_that_does_not_answer_costs_half_a_minute() {
    let hook = Hook::behaving(|_| None).await;
    let cluster = Cluster::new().await;
    cluster.post(DEFINITIONS, &definition(&hook.client())).await.is(201);
    cluster.until(V1, |answer| answer.code == 200).await;
    cluster.post(V1, &thing("v1", "a", &json!({"size": 1}))).await.is(201);
    tokio::time::pause();
    let answer = cluster.get(&format!("{V2}/a")).await;
    let port = hook.port;
    assert_eq!(
        answer.is(500)["message"],
        format!(
            "conversion webhook for example.org/v1, Kind=Thing failed: Post \
             \"https://127.0.0.1:{port}/ask?timeout=30s\": context deadline exceeded"
        )
    );
}

#[tokio::test]
async fn objects_stored_in_a_former_version_are_converted() {
    let (cluster, _hook) = cluster_with_things().await;
    cluster.post(V1, &thing("v1", "old", &json!({"size": 3}))).await.is(201);
    let mut versions = definition(&json!({}))["spec"]["versions"].clone();
    (versions[0]["storage"], versions[1]["storage"]) = (json!(false), json!(true));
    let path = format!("{DEFINITIONS}/things.example.org");
    cluster.merge(&path, &json!({"spec": {"versions": versions}})).await.is(200);
    cluster.until(&path, |answer| answer.body["status"]["storedVersions"] == json!(["v1", "v2"])).await;
    cluster.until(&format!("{V2}/old"), |answer| answer.body["spec"]["length"] == "3").await;
    let changed = cluster.merge(&format!("{V1}/old"), &json!({"spec": {"size": 4}})).await;
    assert_eq!(changed.is(200)["spec"]["size"], 4);
    assert_eq!(cluster.get(&format!("{V2}/old")).await.is(200)["spec"]["length"], "4");
}
