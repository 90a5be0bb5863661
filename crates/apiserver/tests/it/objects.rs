//! Objects are made, read, changed and deleted.

use serde_json::{Value, json};

use crate::cluster::Cluster;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn map(name: &str, value: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"key": value}})
}

#[tokio::test]
async fn object_is_made_read_changed_and_deleted() {
    let cluster = Cluster::new().await;
    let created = cluster.post(MAPS, &map("a", "1")).await;
    let uid = created.is(201)["metadata"]["uid"].as_str().unwrap().to_owned();
    let path = format!("{MAPS}/a");
    let read = cluster.get(&path).await;
    assert_eq!(read.is(200)["data"]["key"], "1");
    let mut changed = read.body.clone();
    changed["data"]["key"] = json!("2");
    assert_eq!(cluster.put(&path, &changed).await.is(200)["data"]["key"], "2");
    assert_eq!(cluster.put(&path, &changed).await.is(409)["reason"], "Conflict");
    let deleted = cluster.delete(&path).await;
    assert_eq!(deleted.is(200)["details"], json!({"name": "a", "kind": "configmaps", "uid": uid}));
    assert_eq!(cluster.get(&path).await.is(404)["reason"], "NotFound");
}

#[tokio::test]
async fn object_needs_its_namespace() {
    let cluster = Cluster::new().await;
    let answer = cluster.post("/api/v1/namespaces/nowhere/configmaps", &map("a", "1")).await;
    assert_eq!(answer.is(404)["message"], "namespaces \"nowhere\" not found");
}

#[tokio::test]
async fn name_is_taken_once() {
    let cluster = Cluster::new().await;
    cluster.post(MAPS, &map("a", "1")).await.is(201);
    let answer = cluster.post(MAPS, &map("a", "2")).await;
    assert_eq!(answer.is(409)["message"], "configmaps \"a\" already exists");
}

#[tokio::test]
async fn dry_run_stores_nothing() {
    let cluster = Cluster::new().await;
    cluster.post(&format!("{MAPS}?dryRun=All"), &map("a", "1")).await.is(201);
    cluster.get(&format!("{MAPS}/a")).await.is(404);
}

#[tokio::test]
async fn list_is_continued_as_of_its_beginning() {
    let cluster = Cluster::new().await;
    for name in ["a", "b", "c"] {
        cluster.post(MAPS, &map(name, "1")).await.is(201);
    }
    let first = cluster.get(&format!("{MAPS}?limit=2")).await;
    assert_eq!(first.is(200)["items"].as_array().unwrap().len(), 2);
    assert_eq!(first.body["metadata"]["remainingItemCount"], 1);
    cluster.delete(&format!("{MAPS}/c")).await.is(200);
    let token = first.body["metadata"]["continue"].as_str().unwrap();
    let second = cluster.get(&format!("{MAPS}?limit=2&continue={token}")).await;
    assert_eq!(second.is(200)["items"][0]["metadata"]["name"], "c");
    assert_eq!(second.body["metadata"]["resourceVersion"], first.body["metadata"]["resourceVersion"]);
    assert_eq!(cluster.get(MAPS).await.is(200)["items"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn write_that_changes_nothing_keeps_the_version() {
    let cluster = Cluster::new().await;
    let created = cluster.post(MAPS, &map("a", "1")).await;
    let patched = cluster.merge(&format!("{MAPS}/a"), &json!({"data": {"key": "1"}})).await;
    assert_eq!(patched.is(200)["metadata"], created.body["metadata"]);
}

#[tokio::test]
async fn strategic_patch_merges_lists_by_their_keys() {
    let cluster = Cluster::new().await;
    let container = |name: &str| json!({"name": name, "image": "nginx"});
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"},
        "spec": {
            "selector": {"matchLabels": {"a": "b"}},
            "template": {
                "metadata": {"labels": {"a": "b"}},
                "spec": {"containers": [container("one"), container("two")]},
            },
        },
    });
    let path = "/apis/apps/v1/namespaces/default/deployments";
    let created = cluster.post(path, &deployment).await;
    assert_eq!(created.is(201)["spec"]["replicas"], 1);
    assert_eq!(created.body["metadata"]["generation"], 1);
    let change = json!({"spec": {"template": {"spec": {"containers": [{"name": "two", "image": "redis"}]}}}});
    let patched =
        cluster.send("PATCH", &format!("{path}/d"), "application/strategic-merge-patch+json", &change).await;
    let containers = &patched.is(200)["spec"]["template"]["spec"]["containers"];
    assert_eq!(containers.as_array().unwrap().len(), 2);
    assert_eq!(containers[1]["image"], "redis");
    assert_eq!(patched.body["metadata"]["generation"], 2);
}

#[tokio::test]
async fn object_with_a_finalizer_stays_until_it_is_taken_away() {
    let cluster = Cluster::new().await;
    let mut object = map("a", "1");
    object["metadata"]["finalizers"] = json!(["example.org/keep"]);
    cluster.post(MAPS, &object).await.is(201);
    let path = format!("{MAPS}/a");
    let deleted = cluster.delete(&path).await;
    assert!(deleted.is(200)["metadata"]["deletionTimestamp"].is_string());
    cluster.get(&path).await.is(200);
    cluster.merge(&path, &json!({"metadata": {"finalizers": null}})).await.is(200);
    cluster.get(&path).await.is(404);
}

#[tokio::test]
async fn unknown_field_is_a_warning_or_an_error() {
    let cluster = Cluster::new().await;
    let mut object = map("a", "1");
    object["bogus"] = json!(1);
    let answer = cluster.post(MAPS, &object).await;
    answer.is(201);
    assert_eq!(answer.warnings, ["299 - \"unknown field \\\"bogus\\\"\""]);
    object["metadata"]["name"] = json!("b");
    let answer = cluster.post(&format!("{MAPS}?fieldValidation=Strict"), &object).await;
    assert_eq!(
        answer.is(400)["message"],
        "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: strict decoding error: unknown field \"bogus\""
    );
}

#[tokio::test]
async fn what_there_is_can_be_found_out() {
    let cluster = Cluster::new().await;
    assert_eq!(cluster.get("/api").await.is(200)["versions"], json!(["v1"]));
    let resources = cluster.get("/api/v1").await;
    let names: Vec<_> =
        resources.is(200)["resources"].as_array().unwrap().iter().map(|it| it["name"].clone()).collect();
    assert!(names.contains(&json!("configmaps")) && names.contains(&json!("namespaces/finalize")));
    assert_eq!(cluster.get("/apis/nothing").await.code, 404);
    assert_eq!(cluster.get("/healthz").await.is(200), "ok");
    assert_eq!(cluster.get("/version").await.is(200)["major"], "1");
}

#[tokio::test]
async fn table_shows_rows() {
    let cluster = Cluster::new().await;
    cluster.post(MAPS, &map("a", "1")).await.is(201);
    let accept = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";
    let response = cluster.raw("GET", MAPS, &[("accept", accept)], "").await;
    let bytes = http_body_util::BodyExt::collect(response.into_body()).await.unwrap().to_bytes();
    let table: Value = serde_json::from_slice(&bytes).unwrap();
    assert_eq!(table["kind"], "Table");
    assert_eq!(table["rows"][0]["cells"][0], "a");
}

#[tokio::test]
async fn requests_are_counted_by_what_they_ask_for() {
    let cluster = Cluster::new().await;
    cluster.post(MAPS, &map("a", "1")).await.is(201);
    cluster.get(&format!("{MAPS}/b")).await.is(404);
    cluster.get("/api/v1/namespaces/default/made-up").await.is(404);
    let metrics = cluster.get("/metrics").await;
    let text = metrics.is(200).as_str().unwrap();
    let labels = r#"group="",version="v1",resource="configmaps",subresource="""#;
    for line in [
        format!(r#"apiserver_request_total{{verb="POST",{labels},scope="namespace",code="201"}} 1"#),
        format!(r#"apiserver_request_total{{verb="GET",{labels},scope="resource",code="404"}} 1"#),
        format!(r#"apiserver_request_duration_seconds_count{{verb="POST",{labels},scope="namespace"}} 1"#),
        r#"apiserver_storage_objects{resource="namespaces"} 4"#.to_owned(),
    ] {
        assert!(text.lines().any(|it| it == line), "{line}\n{text}");
    }
    assert!(!text.contains("made-up"));
    cluster.as_nobody().get("/metrics").await.is(403);
}
