//! What is owned goes with its owners, and namespaces take everything with them.

use serde_json::{Value, json};

use crate::cluster::Cluster;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const TEAM: &str = "/api/v1/namespaces/team";
const TEAM_MAPS: &str = "/api/v1/namespaces/team/configmaps";

fn map(name: &str, owners: &[&Value], blocks: bool) -> Value {
    let references: Vec<_> = owners
        .iter()
        .map(|owner| {
            json!({
                "apiVersion": "v1", "kind": "ConfigMap", "name": owner["metadata"]["name"],
                "uid": owner["metadata"]["uid"], "blockOwnerDeletion": blocks,
            })
        })
        .collect();
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "ownerReferences": references},
    })
}

async fn make(cluster: &Cluster, name: &str, owners: &[&Value], blocks: bool) -> Value {
    cluster.post(MAPS, &map(name, owners, blocks)).await.is(201).clone()
}

#[tokio::test]
async fn what_is_owned_goes_with_its_last_owner() {
    let cluster = Cluster::new().await;
    let one = make(&cluster, "one", &[], false).await;
    let two = make(&cluster, "two", &[], false).await;
    make(&cluster, "owned", &[&one, &two], false).await;
    cluster.delete(&format!("{MAPS}/one")).await.is(200);
    let path = format!("{MAPS}/owned");
    cluster.until(&path, |it| it.body["metadata"]["ownerReferences"].as_array().unwrap().len() == 1).await;
    cluster.delete(&format!("{MAPS}/two")).await.is(200);
    cluster.until(&path, |it| it.code == 404).await;
}

#[tokio::test]
async fn chains_of_owners_go_together() {
    let cluster = Cluster::new().await;
    let a = make(&cluster, "a", &[], false).await;
    let b = make(&cluster, "b", &[&a], false).await;
    make(&cluster, "c", &[&b], false).await;
    cluster.delete(&format!("{MAPS}/a")).await.is(200);
    cluster.until(&format!("{MAPS}/c"), |it| it.code == 404).await;
}

#[tokio::test]
async fn object_whose_owner_never_was_goes() {
    let cluster = Cluster::new().await;
    let nobody = json!({"metadata": {"name": "nobody", "uid": "b8e1c3f2-0000-4000-8000-000000000000"}});
    make(&cluster, "orphan", &[&nobody], false).await;
    cluster.until(&format!("{MAPS}/orphan"), |it| it.code == 404).await;
}

#[tokio::test]
async fn object_whose_owner_is_of_an_unknown_kind_stays() {
    let cluster = Cluster::new().await;
    let mut object = map("kept", &[], false);
    object["metadata"]["ownerReferences"] =
        json!([{"apiVersion": "unknown.org/v1", "kind": "Thing", "name": "x", "uid": "u"}]);
    cluster.post(MAPS, &object).await.is(201);
    // Something that goes afterwards shows that the first has been checked.
    let nobody = json!({"metadata": {"name": "nobody", "uid": "v"}});
    make(&cluster, "gone", &[&nobody], false).await;
    cluster.until(&format!("{MAPS}/gone"), |it| it.code == 404).await;
    cluster.get(&format!("{MAPS}/kept")).await.is(200);
}

#[tokio::test]
async fn owner_in_the_foreground_waits_for_what_it_owns() {
    let cluster = Cluster::new().await;
    let owner = make(&cluster, "owner", &[], false).await;
    let mut held = map("owned", &[&owner], true);
    held["metadata"]["finalizers"] = json!(["example.org/keep"]);
    cluster.post(MAPS, &held).await.is(201);
    let deleted = cluster.delete(&format!("{MAPS}/owner?propagationPolicy=Foreground")).await;
    assert_eq!(deleted.is(200)["metadata"]["finalizers"], json!(["foregroundDeletion"]));
    cluster.until(&format!("{MAPS}/owned"), |it| !it.body["metadata"]["deletionTimestamp"].is_null()).await;
    cluster.get(&format!("{MAPS}/owner")).await.is(200);
    cluster.merge(&format!("{MAPS}/owned"), &json!({"metadata": {"finalizers": null}})).await.is(200);
    cluster.until(&format!("{MAPS}/owner"), |it| it.code == 404).await;
}

#[tokio::test]
async fn orphans_forget_their_owner() {
    let cluster = Cluster::new().await;
    let owner = make(&cluster, "owner", &[], false).await;
    make(&cluster, "owned", &[&owner], true).await;
    cluster.delete(&format!("{MAPS}/owner?propagationPolicy=Orphan")).await.is(200);
    cluster.until(&format!("{MAPS}/owner"), |it| it.code == 404).await;
    let left = cluster.get(&format!("{MAPS}/owned")).await;
    assert!(left.is(200)["metadata"].get("ownerReferences").is_none());
}

/// A namespace of its own, which may be deleted.
async fn team() -> Cluster {
    let cluster = Cluster::new().await;
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}});
    cluster.post("/api/v1/namespaces", &namespace).await.is(201);
    cluster
}

#[tokio::test]
async fn namespace_takes_everything_with_it() {
    let cluster = team().await;
    cluster.post(TEAM_MAPS, &map("a", &[], false)).await.is(201);
    let deleted = cluster.delete(TEAM).await;
    assert_eq!(deleted.is(200)["status"]["phase"], "Terminating");
    cluster.until(TEAM, |it| it.code == 404).await;
    cluster.get(&format!("{TEAM_MAPS}/a")).await.is(404);
}

#[tokio::test]
async fn nothing_is_made_in_a_namespace_that_goes() {
    let cluster = team().await;
    let mut kept = map("a", &[], false);
    kept["metadata"]["finalizers"] = json!(["example.org/keep"]);
    cluster.post(TEAM_MAPS, &kept).await.is(201);
    cluster.delete(TEAM).await.is(200);
    let answer = cluster.post(TEAM_MAPS, &map("b", &[], false)).await;
    assert_eq!(answer.is(403)["details"]["causes"][0]["reason"], "NamespaceTerminating");
}

#[tokio::test]
async fn the_namespaces_of_every_cluster_stay() {
    let cluster = Cluster::new().await;
    for name in ["default", "kube-system", "kube-public"] {
        cluster.delete(&format!("/api/v1/namespaces/{name}")).await.is(403);
    }
}
