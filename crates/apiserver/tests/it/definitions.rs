//! Definitions become resources.

use serde_json::{Value, json};

use crate::cluster::{Answer, Cluster, Lines};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
pub(crate) const WIDGETS: &str = "/apis/example.org/v1/namespaces/default/widgets";

pub(crate) fn definition() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.org"},
        "spec": {
            "group": "example.org",
            "names": {"plural": "widgets", "kind": "Widget", "shortNames": ["wd"]},
            "scope": "Namespaced",
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"}},
                "schema": {"openAPIV3Schema": {
                    "type": "object",
                    "properties": {
                        "spec": {
                            "type": "object",
                            "properties": {
                                "size": {"type": "integer", "default": 1},
                                "color": {"type": "string", "enum": ["red", "blue"]},
                            },
                            "x-kubernetes-validations": [{"rule": "self.size < 10", "message": "too many"}],
                        },
                        "status": {"type": "object", "properties": {"size": {"type": "integer"}}},
                    },
                }},
            }],
        },
    })
}

pub(crate) fn widget(name: &str, spec: &Value) -> Value {
    json!({"apiVersion": "example.org/v1", "kind": "Widget", "metadata": {"name": name}, "spec": spec})
}

fn is_established(answer: &Answer) -> bool {
    let conditions = answer.body["status"]["conditions"].as_array().into_iter().flatten();
    conditions.into_iter().any(|it| it["type"] == "Established" && it["status"] == "True")
}

/// A cluster in which widgets can be made.
pub(crate) async fn cluster_with_widgets() -> Cluster {
    let cluster = Cluster::new().await;
    cluster.post(DEFINITIONS, &definition()).await.is(201);
    cluster.until(&format!("{DEFINITIONS}/widgets.example.org"), is_established).await;
    cluster
}

#[tokio::test]
async fn what_is_established_is_served() {
    let cluster = cluster_with_widgets().await;
    let created = cluster.post(WIDGETS, &widget("w", &json!({"color": "red"}))).await;
    assert_eq!(created.is(201)["spec"], json!({"color": "red", "size": 1}));
    assert_eq!(
        cluster.get("/apis/example.org/v1").await.is(200)["resources"][0]["shortNames"],
        json!(["wd"])
    );
    let index = cluster.get("/openapi/v3").await;
    let url = index.is(200)["paths"]["apis/example.org/v1"]["serverRelativeURL"].as_str().unwrap().to_owned();
    let document = cluster.get(&url).await;
    assert!(document.is(200)["components"]["schemas"]["org.example.v1.Widget"].is_object());
}

#[tokio::test]
async fn schema_and_rules_are_kept() {
    let cluster = cluster_with_widgets().await;
    let answer = cluster.post(WIDGETS, &widget("w", &json!({"color": "green"}))).await;
    assert_eq!(answer.is(422)["details"]["causes"][0]["field"], "spec.color");
    let answer = cluster.post(WIDGETS, &widget("w", &json!({"size": 11}))).await;
    assert!(answer.is(422)["message"].as_str().unwrap().contains("too many"));
}

#[tokio::test]
async fn definition_that_makes_no_sense_is_refused() {
    let cluster = Cluster::new().await;
    let mut wrong = definition();
    wrong["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["x-kubernetes-validations"]
        [0]["rule"] = json!("self.nothing > 1");
    let answer = cluster.post(DEFINITIONS, &wrong).await;
    assert!(answer.is(422)["message"].as_str().unwrap().contains("compilation failed"), "{}", answer.body);
}

#[tokio::test]
async fn names_are_given_once() {
    let cluster = cluster_with_widgets().await;
    let mut other = definition();
    other["metadata"]["name"] = json!("gadgets.example.org");
    other["spec"]["names"] = json!({"plural": "gadgets", "kind": "Widget"});
    cluster.post(DEFINITIONS, &other).await.is(201);
    let answer = cluster
        .until(&format!("{DEFINITIONS}/gadgets.example.org"), |it| !it.body["status"]["conditions"].is_null())
        .await;
    assert_eq!(answer.body["status"]["conditions"][0]["reason"], "ListKindConflict");
    assert!(!is_established(&answer));
    cluster.get("/apis/example.org/v1/gadgets").await.is(404);
}

#[tokio::test]
async fn definition_that_comes_again_at_once_gets_its_names_again() {
    let cluster = cluster_with_widgets().await;
    let path = format!("{DEFINITIONS}/widgets.example.org");
    for _ in 0..20 {
        cluster.delete(&path).await;
        while cluster.post(DEFINITIONS, &definition()).await.code == 409 {
            tokio::task::yield_now().await;
        }
        cluster.until(&path, is_established).await;
    }
}

#[tokio::test]
async fn definition_takes_its_objects_with_it() {
    let cluster = cluster_with_widgets().await;
    let mut object = widget("w", &json!({}));
    object["metadata"]["finalizers"] = json!(["example.org/keep"]);
    cluster.post(WIDGETS, &object).await.is(201);
    let path = format!("{DEFINITIONS}/widgets.example.org");
    cluster.delete(&path).await.is(200);
    cluster.until(&format!("{WIDGETS}/w"), |it| !it.body["metadata"]["deletionTimestamp"].is_null()).await;
    assert_eq!(cluster.post(WIDGETS, &widget("v", &json!({}))).await.code, 403);
    cluster.merge(&format!("{WIDGETS}/w"), &json!({"metadata": {"finalizers": null}})).await.is(200);
    cluster.until(&path, |it| it.code == 404).await;
    cluster.until("/apis/example.org/v1", |it| it.code == 404).await;
}

#[tokio::test]
async fn object_is_scaled_by_its_scale() {
    let cluster = cluster_with_widgets().await;
    cluster.post(WIDGETS, &widget("w", &json!({}))).await.is(201);
    let path = format!("{WIDGETS}/w/scale");
    assert_eq!(cluster.get(&path).await.is(200)["spec"], json!({"replicas": 1}));
    let scaled = cluster.merge(&path, &json!({"spec": {"replicas": 3}})).await;
    assert_eq!(scaled.is(200)["spec"], json!({"replicas": 3}));
    let object = cluster.get(&format!("{WIDGETS}/w")).await;
    assert_eq!(object.is(200)["spec"]["size"], 3);
    assert_eq!(object.body["metadata"]["generation"], 2);
    let entries = object.body["metadata"]["managedFields"].as_array().unwrap();
    assert!(entries.iter().any(|entry| entry["subresource"] == "scale"), "{entries:?}");
    assert_eq!(cluster.merge(&path, &json!({"spec": {"replicas": 11}})).await.code, 422);
}

#[tokio::test]
async fn several_managers_apply_to_one_object() {
    let cluster = cluster_with_widgets().await;
    let path = format!("{WIDGETS}/w");
    cluster.apply(&path, "one", &widget("w", &json!({"size": 2}))).await.is(201);
    cluster.apply(&path, "two", &widget("w", &json!({"color": "red"}))).await.is(200);
    let refused = cluster.apply(&path, "two", &widget("w", &json!({"color": "red", "size": 3}))).await;
    assert_eq!(refused.is(409)["details"]["causes"][0]["field"], ".spec.size");
    let kept = cluster.apply(&path, "one", &widget("w", &json!({}))).await;
    assert_eq!(kept.is(200)["spec"], json!({"color": "red", "size": 1}));
}

/// A watch of widgets, which has told of the one that is there.
async fn watch_of_widgets(cluster: &Cluster) -> Lines {
    cluster.post(WIDGETS, &widget("w", &json!({}))).await.is(201);
    let mut lines = Lines::of(cluster.raw("GET", &format!("{WIDGETS}?watch=true"), &[], "").await);
    assert_eq!(lines.next().await.unwrap().0, "ADDED");
    lines
}

#[tokio::test]
async fn watch_ends_with_the_definition_after_all_was_told() {
    let cluster = cluster_with_widgets().await;
    let mut lines = watch_of_widgets(&cluster).await;
    cluster.delete(&format!("{DEFINITIONS}/widgets.example.org")).await.is(200);
    let (kind, object) = lines.next().await.unwrap();
    assert_eq!((kind.as_str(), &object["metadata"]["name"]), ("DELETED", &json!("w")));
    assert!(lines.next().await.is_none());
}

#[tokio::test]
async fn watch_ends_when_its_version_is_no_longer_served() {
    let cluster = cluster_with_widgets().await;
    let mut lines = watch_of_widgets(&cluster).await;
    let path = format!("{DEFINITIONS}/widgets.example.org");
    let mut versions = definition()["spec"]["versions"].clone();
    versions[0]["served"] = json!(false);
    let mut other = versions[0].clone();
    (other["name"], other["served"], other["storage"]) = (json!("v2"), json!(true), json!(false));
    versions.as_array_mut().unwrap().push(other);
    cluster.merge(&path, &json!({"spec": {"versions": versions}})).await.is(200);
    assert!(lines.next().await.is_none());
}

#[tokio::test]
async fn watch_goes_on_when_only_metadata_or_status_of_its_definition_change() {
    let cluster = cluster_with_widgets().await;
    let mut lines = watch_of_widgets(&cluster).await;
    let path = format!("{DEFINITIONS}/widgets.example.org");
    cluster.merge(&path, &json!({"metadata": {"labels": {"a": "b"}}})).await.is(200);
    let told = json!({"status": {"conditions": [{"type": "Told", "status": "True", "reason": "R", "message": "m"}]}});
    cluster.merge(&format!("{path}/status"), &told).await.is(200);
    // What is defined next is taken up after the changes above.
    let mut other = definition();
    other["metadata"]["name"] = json!("gadgets.example.org");
    other["spec"]["names"] = json!({"plural": "gadgets", "kind": "Gadget"});
    cluster.post(DEFINITIONS, &other).await.is(201);
    cluster.until(&format!("{DEFINITIONS}/gadgets.example.org"), is_established).await;
    cluster.merge(&format!("{WIDGETS}/w"), &json!({"spec": {"size": 2}})).await.is(200);
    assert_eq!(lines.next().await.unwrap().0, "MODIFIED");
}

/// Its names are taken by a kind of Kubernetes, so that it is never served.
#[tokio::test]
async fn objects_of_a_built_in_kind_stay_when_a_definition_with_its_names_goes() {
    let cluster = Cluster::new().await;
    let leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
    let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "l"}, "spec": {}});
    cluster.post(leases, &lease).await.is(201);
    let mut taken = definition();
    taken["metadata"] = json!({
        "name": "leases.coordination.k8s.io",
        "annotations": {"api-approved.kubernetes.io": "unapproved, a test"},
    });
    taken["spec"]["group"] = json!("coordination.k8s.io");
    taken["spec"]["names"] = json!({"plural": "leases", "kind": "Lease"});
    cluster.post(DEFINITIONS, &taken).await.is(201);
    let path = format!("{DEFINITIONS}/leases.coordination.k8s.io");
    let is_judged = |answer: &Answer| !answer.body["status"]["conditions"].is_null();
    let judged = cluster.until(&path, is_judged).await;
    assert!(!is_established(&judged), "{}", judged.body);
    cluster.delete(&path).await.is(200);
    cluster.until(&path, |answer| answer.code == 404).await;
    cluster.get(&format!("{leases}/l")).await.is(200);
}

#[tokio::test]
async fn definition_in_the_group_that_stands_for_all_custom_resources_is_refused() {
    let cluster = Cluster::new().await;
    let mut everywhere = definition();
    everywhere["metadata"]["name"] = "widgets.custom-resources.ferroplane.io".into();
    everywhere["spec"]["group"] = "custom-resources.ferroplane.io".into();
    let refused = cluster.post(DEFINITIONS, &everywhere).await;
    assert!(refused.is(403)["message"].as_str().unwrap().contains("stands for all custom resources"));
    let path = format!("{DEFINITIONS}/widgets.custom-resources.ferroplane.io");
    cluster.apply(&path, "admin", &everywhere).await.is(403);
    cluster.get(&path).await.is(404);
}
