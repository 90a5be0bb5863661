//! Namespaces come, go, and take everything with them.

use serde_json::{Value, json};

use crate::cluster::Cluster;

const ROOM: &str = "/api/v1/namespaces/room";
const MAPS: &str = "/api/v1/namespaces/room/configmaps";

fn map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}})
}

async fn with_room() -> Cluster {
    let cluster = Cluster::new().await;
    let room = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "room"}});
    cluster.post("/api/v1/namespaces", &room).await.is(201);
    cluster
}

#[tokio::test]
async fn namespace_takes_everything_with_it() {
    let cluster = with_room().await;
    cluster.post(MAPS, &map("a")).await.is(201);
    let deleted = cluster.delete(ROOM).await;
    assert_eq!(deleted.is(200)["status"]["phase"], "Terminating");
    cluster.until(ROOM, |it| it.code == 404).await;
    cluster.get(&format!("{MAPS}/a")).await.is(404);
}

#[tokio::test]
async fn nothing_is_made_in_a_namespace_that_goes() {
    let cluster = with_room().await;
    let mut kept = map("a");
    kept["metadata"]["finalizers"] = json!(["example.org/keep"]);
    cluster.post(MAPS, &kept).await.is(201);
    cluster.delete(ROOM).await.is(200);
    let answer = cluster.post(MAPS, &map("b")).await;
    assert_eq!(answer.is(403)["details"]["causes"][0]["reason"], "NamespaceTerminating");
}

#[tokio::test]
async fn some_namespaces_stay() {
    let cluster = Cluster::new().await;
    for name in ["default", "kube-public", "kube-system"] {
        let refused = cluster.delete(&format!("/api/v1/namespaces/{name}")).await;
        let words = format!("namespaces \"{name}\" is forbidden: this namespace may not be deleted");
        assert_eq!(refused.is(403)["message"], words.as_str());
    }
}

/// A namespace that is going, and something in it that stays.
async fn with_ruin() -> Cluster {
    let cluster = with_room().await;
    let mut kept = map("a");
    kept["metadata"]["finalizers"] = json!(["example.org/keep"]);
    cluster.post(MAPS, &kept).await.is(201);
    cluster.delete(ROOM).await.is(200);
    cluster
}

#[tokio::test]
async fn namespace_says_what_keeps_it() {
    let cluster = with_ruin().await;
    let condition = |namespace: &Value, kind: &str| {
        let conditions = namespace["status"]["conditions"].as_array().into_iter().flatten();
        conditions.into_iter().find(|condition| condition["type"] == kind).cloned().unwrap_or_default()
    };
    let messages = |namespace: &Value| {
        ["NamespaceContentRemaining", "NamespaceFinalizersRemaining", "NamespaceDeletionContentFailure"]
            .map(|kind| condition(namespace, kind)["message"].as_str().unwrap_or_default().to_owned())
    };
    let expected = [
        "Some resources are remaining: configmaps. has 1 resource instances",
        "Some content in the namespace has finalizers remaining: example.org/keep in 1 resource instances",
        "All content successfully deleted, may be waiting on finalization",
    ];
    cluster.until(ROOM, |answer| messages(&answer.body) == expected).await;
    cluster.merge(&format!("{MAPS}/a"), &json!({"metadata": {"finalizers": null}})).await.is(200);
    cluster.until(ROOM, |answer| answer.code == 404).await;
}

#[tokio::test]
async fn change_to_a_namespace_that_is_going_does_not_end_it() {
    let cluster = with_ruin().await;
    let label = json!({"metadata": {"labels": {"a": "b"}}});
    let changed = cluster.merge(ROOM, &label).await;
    assert_eq!(changed.is(200)["spec"]["finalizers"], json!(["kubernetes"]));
    let status = json!({"status": {"phase": "Terminating"}});
    cluster.merge(&format!("{ROOM}/status"), &status).await.is(200);
    cluster.get(ROOM).await.is(200);
}

#[tokio::test]
async fn namespace_is_let_go_by_its_finalizers_only() {
    let cluster = with_ruin().await;
    let mut namespace = cluster.get(ROOM).await.is(200).clone();
    namespace["metadata"].as_object_mut().unwrap().remove("resourceVersion");
    namespace["spec"]["finalizers"] = json!([]);
    cluster.put(ROOM, &namespace).await.is(200);
    assert_eq!(cluster.get(ROOM).await.is(200)["spec"]["finalizers"], json!(["kubernetes"]));
    cluster.put(&format!("{ROOM}/finalize"), &namespace).await.is(200);
    cluster.get(ROOM).await.is(404);
}
