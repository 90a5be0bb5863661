//! What is done to pods and nodes besides creating, changing and deleting them.

use ferroplane_apiserver::Settings;
use ferroplane_apiserver::store::{Options, Store};
use serde_json::{Value, json};

use crate::cluster::Cluster;

const PODS: &str = "/api/v1/namespaces/default/pods";
const BUDGETS: &str = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";
const STRATEGIC: &str = "application/strategic-merge-patch+json";

async fn with_pod(name: &str) -> Cluster {
    let cluster = Cluster::new().await;
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": "web"}},
        "spec": {"containers": [{"name": "main", "image": "nginx"}]},
    });
    cluster.post(PODS, &pod).await.is(201);
    cluster
}

fn eviction(name: &str) -> Value {
    json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": "default"}})
}

/// A budget for all pods of an app, which allows so many disruptions, if somebody has counted.
async fn budget(cluster: &Cluster, status: Option<Value>) {
    let budget = json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "web"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}},
    });
    cluster.post(BUDGETS, &budget).await.is(201);
    if let Some(status) = status {
        cluster.merge(&format!("{BUDGETS}/web/status"), &json!({"status": status})).await.is(200);
    }
}

async fn run(cluster: &Cluster, name: &str) {
    let status = json!({"status": {"phase": "Running"}});
    cluster.merge(&format!("{PODS}/{name}/status"), &status).await.is(200);
}

#[tokio::test]
async fn evicted_pod_is_deleted() {
    let cluster = with_pod("a").await;
    let path = format!("{PODS}/a/eviction");
    cluster.post(&path, &eviction("b")).await.is(400);
    let dry = cluster.post(&format!("{path}?dryRun=All"), &eviction("a")).await;
    assert_eq!(dry.is(201)["status"], "Success");
    cluster.get(&format!("{PODS}/a")).await.is(200);
    assert_eq!(cluster.post(&path, &eviction("a")).await.is(201)["status"], "Success");
    cluster.get(&format!("{PODS}/a")).await.is(404);
    cluster.post(&path, &eviction("a")).await.is(404);
}

#[tokio::test]
async fn pod_is_evicted_as_far_as_its_budget_allows() {
    let cluster = with_pod("a").await;
    run(&cluster, "a").await;
    let none = json!({"observedGeneration": 1, "disruptionsAllowed": 0, "desiredHealthy": 1, "currentHealthy": 1, "expectedPods": 1});
    budget(&cluster, Some(none)).await;
    let path = format!("{PODS}/a/eviction");
    let refused = cluster.post(&path, &eviction("a")).await;
    assert_eq!(
        refused.is(429)["details"]["causes"][0]["message"],
        "The disruption budget web needs 1 healthy pods and has 1 currently"
    );
    let one = json!({"status": {"disruptionsAllowed": 1}});
    cluster.merge(&format!("{BUDGETS}/web/status"), &one).await.is(200);
    cluster.post(&path, &eviction("a")).await.is(201);
    let spent = cluster.get(&format!("{BUDGETS}/web")).await;
    assert_eq!(spent.is(200)["status"]["disruptionsAllowed"], 0);
}

#[tokio::test]
async fn budget_that_nobody_keeps_up_holds_nothing_up() {
    let cluster = with_pod("a").await;
    run(&cluster, "a").await;
    budget(&cluster, None).await;
    cluster.post(&format!("{PODS}/a/eviction"), &eviction("a")).await.is(201);
}

#[tokio::test]
async fn pod_is_bound_to_one_node() {
    let cluster = with_pod("a").await;
    let path = format!("{PODS}/a/binding");
    let binding = |node: &str| json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "a"}, "target": {"kind": "Node", "name": node}});
    cluster.post(&path, &binding("one")).await.is(201);
    let pod = cluster.get(&format!("{PODS}/a")).await;
    assert_eq!(pod.is(200)["spec"]["nodeName"], "one");
    assert_eq!(pod.body["status"]["conditions"][0]["type"], "PodScheduled");
    let refused = cluster.post(&path, &binding("two")).await;
    assert!(
        refused.is(409)["message"].as_str().unwrap().contains(r#"pod a is already assigned to node "one""#)
    );
}

#[tokio::test]
async fn ephemeral_containers_are_added_and_never_changed() {
    let cluster = with_pod("a").await;
    let path = format!("{PODS}/a/ephemeralcontainers");
    let debug = |image: &str| {
        json!({
            "metadata": {"labels": {"app": "other"}},
            "spec": {"ephemeralContainers": [{"name": "debug", "image": image}]},
        })
    };
    let debugged = cluster.send("PATCH", &path, STRATEGIC, &debug("busybox")).await;
    assert_eq!(debugged.is(200)["spec"]["ephemeralContainers"][0]["image"], "busybox");
    assert_eq!(debugged.body["metadata"]["labels"]["app"], "web", "nothing else is changed");
    assert_eq!(cluster.get(&path).await.is(200)["kind"], "Pod");
    let changed = cluster.send("PATCH", &path, STRATEGIC, &debug("alpine")).await;
    assert!(changed.is(422)["message"].as_str().unwrap().contains("may not be changed"), "{}", changed.body);
    let twice = json!({"spec": {"ephemeralContainers": [{"name": "main", "image": "busybox"}]}});
    let twice = cluster.send("PATCH", &path, STRATEGIC, &twice).await;
    assert!(
        twice.is(422)["message"].as_str().unwrap().contains("Duplicate value: \"main\""),
        "{}",
        twice.body
    );
}

#[tokio::test]
async fn node_is_created_with_its_status() {
    let cluster = Cluster::new().await;
    let node = json!({
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"},
        "status": {"capacity": {"memory": "1Gi"}},
    });
    let made = cluster.post("/api/v1/nodes", &node).await;
    assert_eq!(made.is(201)["status"]["capacity"]["memory"], "1Gi");
}

#[tokio::test]
async fn api_server_has_a_service() {
    let cluster = Cluster::new().await;
    let service = cluster.get("/api/v1/namespaces/default/services/kubernetes").await;
    assert_eq!(service.is(200)["spec"]["clusterIP"], "10.96.0.1");
    let other = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "other"},
        "spec": {"clusterIP": "10.96.0.1", "ports": [{"port": 80}]},
    });
    cluster.post("/api/v1/namespaces/default/services", &other).await.is(422);
}

#[tokio::test]
async fn service_of_the_api_server_leads_to_where_it_listens() {
    let store = Store::in_memory(Options::default()).unwrap();
    let listening = async |address: &str| {
        let settings = Settings { address: Some(address.parse().unwrap()), ..Settings::default() };
        let cluster = Cluster::with(store.clone(), settings).await;
        let endpoints = cluster.get("/api/v1/namespaces/default/endpoints/kubernetes").await.is(200).clone();
        let slices = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes";
        (endpoints, cluster.get(slices).await.is(200).clone())
    };
    let (endpoints, slice) = listening("10.0.0.7:6443").await;
    let ports = json!([{"name": "https", "port": 6443, "protocol": "TCP"}]);
    assert_eq!(endpoints["subsets"], json!([{"addresses": [{"ip": "10.0.0.7"}], "ports": ports}]));
    assert_eq!(slice["endpoints"][0]["addresses"], json!(["10.0.0.7"]));
    assert_eq!((&slice["ports"], &slice["addressType"]), (&ports, &json!("IPv4")));
    assert_eq!(slice["metadata"]["labels"]["kubernetes.io/service-name"], "kubernetes");

    // Nothing changed, nothing is written.
    assert_eq!(listening("10.0.0.7:6443").await, (endpoints.clone(), slice));

    // It listens elsewhere now, and other servers than this one are not there any more.
    let (moved, slice) = listening("127.0.0.1:7443").await;
    assert_eq!(moved["metadata"]["uid"], endpoints["metadata"]["uid"]);
    assert_eq!(moved["subsets"][0]["addresses"], json!([{"ip": "127.0.0.1"}]));
    assert_eq!(slice["ports"][0]["port"], 7443);
    let (_, slice) = listening("[fd00::1]:7443").await;
    assert_eq!(
        (&slice["addressType"], &slice["endpoints"][0]["addresses"][0]),
        (&json!("IPv6"), &json!("fd00::1"))
    );
}
