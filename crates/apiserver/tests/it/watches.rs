//! Watches show what happens, in order, and nothing else.

use serde_json::json;

use crate::cluster::{Cluster, Lines};
use crate::definitions::{WIDGETS, cluster_with_widgets, widget};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

async fn make(cluster: &Cluster, name: &str, label: &str) {
    let map = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": {"l": label}},
    });
    cluster.post(MAPS, &map).await.is(201);
}

async fn watch(cluster: &Cluster, query: &str) -> Lines {
    Lines::of(cluster.raw("GET", &format!("{MAPS}?watch=true&{query}"), &[], "").await)
}

async fn next(lines: &mut Lines) -> (String, String) {
    let (kind, object) = lines.next().await.unwrap();
    (kind, object["metadata"]["name"].as_str().unwrap_or_default().to_owned())
}

fn event(kind: &str, name: &str) -> (String, String) {
    (kind.to_owned(), name.to_owned())
}

#[tokio::test]
async fn watch_begins_with_what_is_there() {
    let cluster = Cluster::new().await;
    make(&cluster, "a", "x").await;
    let mut lines = watch(&cluster, "").await;
    assert_eq!(next(&mut lines).await, event("ADDED", "a"));
    make(&cluster, "b", "x").await;
    assert_eq!(next(&mut lines).await, event("ADDED", "b"));
    cluster.merge(&format!("{MAPS}/a"), &json!({"data": {"k": "v"}})).await.is(200);
    assert_eq!(next(&mut lines).await, event("MODIFIED", "a"));
    cluster.delete(&format!("{MAPS}/a")).await.is(200);
    assert_eq!(next(&mut lines).await, event("DELETED", "a"));
}

#[tokio::test]
async fn watch_goes_on_from_where_a_list_ended() {
    let cluster = Cluster::new().await;
    make(&cluster, "a", "x").await;
    let list = cluster.get(MAPS).await;
    let version = list.is(200)["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
    make(&cluster, "b", "x").await;
    let mut lines = watch(&cluster, &format!("resourceVersion={version}")).await;
    assert_eq!(next(&mut lines).await, event("ADDED", "b"));
}

#[tokio::test]
async fn what_is_no_longer_selected_is_gone_for_the_watch() {
    let cluster = Cluster::new().await;
    let mut lines = watch(&cluster, "labelSelector=l%3Dx").await;
    make(&cluster, "a", "x").await;
    assert_eq!(next(&mut lines).await, event("ADDED", "a"));
    cluster.merge(&format!("{MAPS}/a"), &json!({"metadata": {"labels": {"l": "y"}}})).await.is(200);
    let (kind, object) = lines.next().await.unwrap();
    assert_eq!((kind.as_str(), &object["metadata"]["labels"]["l"]), ("DELETED", &json!("x")));
    cluster.merge(&format!("{MAPS}/a"), &json!({"metadata": {"labels": {"l": "x"}}})).await.is(200);
    assert_eq!(next(&mut lines).await, event("ADDED", "a"));
}

#[tokio::test]
async fn streamed_list_ends_with_a_bookmark() {
    let cluster = Cluster::new().await;
    make(&cluster, "a", "x").await;
    let query = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    let mut lines = watch(&cluster, query).await;
    assert_eq!(next(&mut lines).await, event("ADDED", "a"));
    let (kind, object) = lines.next().await.unwrap();
    assert_eq!(kind, "BOOKMARK");
    assert_eq!(object["metadata"]["annotations"]["k8s.io/initial-events-end"], "true");
}

#[tokio::test(start_paused = true)]
async fn watch_ends_in_time() {
    let cluster = Cluster::new().await;
    let mut lines = watch(&cluster, "timeoutSeconds=5").await;
    assert!(lines.next().await.is_none());
}

#[tokio::test]
async fn one_object_can_be_watched_by_its_name() {
    let cluster = cluster_with_widgets().await;
    let path = format!("{WIDGETS}?watch=true&fieldSelector=metadata.name%3Db");
    let mut lines = Lines::of(cluster.raw("GET", &path, &[], "").await);
    cluster.post(WIDGETS, &widget("a", &json!({}))).await.is(201);
    cluster.post(WIDGETS, &widget("b", &json!({}))).await.is(201);
    assert_eq!(next(&mut lines).await, event("ADDED", "b"));
}
