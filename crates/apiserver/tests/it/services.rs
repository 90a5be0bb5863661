//! Services get addresses and ports, and keep them.

use std::collections::HashSet;

use ferroplane_apiserver::store::{Options, Store};
use futures_util::future::join_all;
use serde_json::{Value, json};

use crate::cluster::Cluster;

const SERVICES: &str = "/api/v1/namespaces/default/services";

fn service(name: &str, spec: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec})
}

fn on_nodes() -> Value {
    json!({"type": "NodePort", "ports": [{"port": 80}]})
}

fn address(service: &Value) -> String {
    service["spec"]["clusterIP"].as_str().unwrap().to_owned()
}

fn port(service: &Value) -> i64 {
    service["spec"]["ports"][0]["nodePort"].as_i64().unwrap()
}

#[tokio::test]
async fn many_services_at_once_get_each_their_own() {
    let cluster = Cluster::new().await;
    let create = |number: usize| {
        let cluster = cluster.clone();
        async move { cluster.post(SERVICES, &service(&format!("s{number}"), &on_nodes())).await }
    };
    let made = join_all((0..200).map(create)).await;
    let addresses: HashSet<_> = made.iter().map(|answer| address(answer.is(201))).collect();
    let ports: HashSet<_> = made.iter().map(|answer| port(&answer.body)).collect();
    assert_eq!((addresses.len(), ports.len()), (200, 200));
    assert!(addresses.iter().all(|address| {
        let octets: Vec<u8> = address.split('.').map(|octet| octet.parse().unwrap()).collect();
        octets[0] == 10 && (96..112).contains(&octets[1])
    }));
    assert!(ports.iter().all(|port| (30000..32768).contains(port)));
}

#[tokio::test]
async fn of_many_who_want_one_port_one_gets_it() {
    let cluster = Cluster::new().await;
    let spec = json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": 30007}]});
    let create = |number: usize| {
        let (cluster, service) = (cluster.clone(), service(&format!("s{number}"), &spec));
        async move { cluster.post(SERVICES, &service).await.code }
    };
    let codes = join_all((0..50).map(create)).await;
    assert_eq!(codes.iter().filter(|code| **code == 201).count(), 1);
    assert_eq!(codes.iter().filter(|code| **code == 422).count(), 49);
}

#[tokio::test]
async fn service_is_not_created_by_its_status() {
    let cluster = Cluster::new().await;
    let taken = json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": 30009}]});
    cluster.post(SERVICES, &service("s", &taken)).await.is(201);
    let mut second = service("t", &taken);
    second["spec"]["clusterIP"] = "10.96.0.1".into();
    cluster.put(&format!("{SERVICES}/t/status"), &second).await.is(404);
    cluster.get(&format!("{SERVICES}/t")).await.is(404);
}

#[tokio::test]
async fn what_was_refused_takes_nothing() {
    let cluster = Cluster::new().await;
    let spec = json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": 30008}]});
    let mut wrong = service("s", &spec);
    wrong["metadata"]["labels"] = json!({"a b": "c"});
    cluster.post(SERVICES, &wrong).await.is(422);
    let pretended = cluster.post(&format!("{SERVICES}?dryRun=All"), &service("s", &spec)).await;
    assert_eq!(port(pretended.is(201)), 30008);
    let made = cluster.post(SERVICES, &service("s", &spec)).await;
    cluster.post(SERVICES, &service("s", &on_nodes())).await.is(409);
    cluster.delete(&format!("{SERVICES}/s")).await.is(200);
    let mut again = spec.clone();
    again["clusterIP"] = address(made.is(201)).into();
    cluster.post(SERVICES, &service("t", &again)).await.is(201);
}

#[tokio::test]
async fn services_keep_what_they_have_across_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::open(directory.path(), Options::default()).unwrap();
    let cluster = Cluster::of(store.clone()).await;
    let made = cluster.post(SERVICES, &service("s", &on_nodes())).await;
    let (address, port) = (address(made.is(201)), port(&made.body));
    drop(cluster);
    store.close().await;

    let store = Store::open(directory.path(), Options::default()).unwrap();
    let cluster = Cluster::of(store.clone()).await;
    let wanted = json!({"clusterIP": address, "ports": [{"port": 80}]});
    let refused = cluster.post(SERVICES, &service("t", &wanted)).await;
    assert_eq!(
        refused.is(422)["details"]["causes"][0]["message"],
        format!(
            "Invalid value: [\"{address}\"]: failed to allocate IP {address}: provided IP is already allocated"
        )
    );
    let wanted = json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": port}]});
    cluster.post(SERVICES, &service("t", &wanted)).await.is(422);
    cluster.delete(&format!("{SERVICES}/s")).await.is(200);
    cluster.post(SERVICES, &service("t", &wanted)).await.is(201);
    store.close().await;
}
