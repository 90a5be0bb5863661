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
