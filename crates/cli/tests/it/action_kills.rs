//! Kills the real program while ActionSets run: each continues where it was, and does everything once.
//!
//! `FERROPLANE_KILLS` says how often; the ordinary test is content with a few.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use ferroplane_testkit::{ApiAddress, ApiClient};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::kill::start;

const GROUP: &str = "/apis/cr.kanister.io/v1alpha1/namespaces/default";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
/// How many ActionSets begin between two kills.
const PER_ROUND: u64 = 4;

/// Creates an object, scales a Deployment, waits, creates another object and deletes it, and ends with a third one. No object has a name that
/// a second attempt would find taken: what is created twice has two objects.
fn blueprint() -> Value {
    let create = |name: &str| {
        let map = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"generateName": format!("{name}-"), "labels": {"set": "{{ .Options.name }}", "phase": name}},
        });
        json!({
            "func": "KubeOps", "funcVersion": "v0.1.0", "name": name,
            "args": {"operation": "create", "spec": map.to_string()},
        })
    };
    let scale =
        json!({"func": "ScaleWorkload", "name": "scale", "args": {"replicas": 3, "waitForReady": false}});
    let gate = json!({"apiVersion": "v1", "resource": "configmaps", "name": "{{ .Options.gate }}", "namespace": "default"});
    let condition = json!({"condition": "{{ eq .data.open \"yes\" }}", "objectReference": gate});
    let wait = json!({
        "func": "WaitV2", "name": "wait", "args": {"timeout": "1h", "conditions": {"anyOf": [condition]}},
    });
    let reference = json!({
        "apiVersion": "v1", "resource": "configmaps", "name": "{{ .Phases.two.Output.name }}", "namespace": "default",
    });
    let delete = json!({"func": "KubeOps", "name": "drop", "args": {"operation": "delete", "objectReference": reference}});
    let phases = [create("one"), scale, wait, create("two"), delete];
    json!({
        "apiVersion": "cr.kanister.io/v1alpha1", "kind": "Blueprint", "metadata": {"name": "b"},
        "actions": {"run": {"kind": "Deployment", "phases": phases, "deferPhase": create("end")}},
    })
}

async fn send(address: &ApiAddress, method: &str, path: &str, body: &Value) -> Option<(u16, Value)> {
    let mut client = ApiClient::connect(address).await.ok()?;
    let text = if body.is_null() { String::new() } else { body.to_string() };
    let answer = client.send(method, path, &text).await.ok()?;
    Some((answer.code, serde_json::from_slice(&answer.body).unwrap_or_default()))
}

/// Send until it was acknowledged, or is there.
async fn create(address: &ApiAddress, path: &str, object: &Value) -> bool {
    let sent = send(address, "POST", path, object).await;
    match sent {
        Some((201 | 409, _)) => true,
        Some((code, answer)) => panic!("{code} {answer}"),
        None => false,
    }
}

/// Kinds are defined after the server has begun to listen.
async fn until_defined(address: &ApiAddress) {
    let began = Instant::now();
    while !matches!(send(address, "GET", &format!("{GROUP}/blueprints"), &Value::Null).await, Some((200, _)))
    {
        assert!(began.elapsed() < Duration::from_mins(1), "there is no kind `Blueprint`");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Begin an ActionSet that waits for this gate, with the Deployment that it scales. Its result is whether both were acknowledged.
async fn begin(address: &ApiAddress, name: &str, gate: &str) -> bool {
    let labels = json!({"app": name});
    let template =
        json!({"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
        "spec": {"replicas": 1, "selector": {"matchLabels": labels}, "template": template},
    });
    let action = json!({
        "name": "run", "blueprint": "b", "options": {"name": name, "gate": gate},
        "object": {"kind": "Deployment", "name": name, "namespace": "default"},
    });
    let set = json!({
        "apiVersion": "cr.kanister.io/v1alpha1", "kind": "ActionSet", "metadata": {"name": name},
        "spec": {"actions": [action]},
    });
    create(address, DEPLOYMENTS, &deployment).await
        && create(address, &format!("{GROUP}/actionsets"), &set).await
}

/// Let the ActionSets go on that wait for this gate.
async fn open(address: &ApiAddress, gate: &str) {
    let map =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": gate}, "data": {"open": "yes"}});
    assert!(create(address, MAPS, &map).await, "{gate}");
}

async fn until_state(address: &ApiAddress, name: &str, state: &str) -> Value {
    let began = Instant::now();
    loop {
        let path = format!("{GROUP}/actionsets/{name}");
        let (_, set) = send(address, "GET", &path, &Value::Null).await.unwrap();
        if set["status"]["state"] == state {
            return set;
        }
        assert_ne!(set["status"]["state"], "failed", "{}", set["status"]);
        assert!(began.elapsed() < Duration::from_mins(1), "{set:#}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// How many ConfigMaps there are of each phase of each ActionSet.
async fn made(address: &ApiAddress) -> BTreeMap<(String, String), u64> {
    let (_, list) = send(address, "GET", MAPS, &Value::Null).await.unwrap();
    let mut made = BTreeMap::new();
    for map in list["items"].as_array().unwrap() {
        let label = |key: &str| map["metadata"]["labels"][key].as_str().unwrap_or_default().to_owned();
        *made.entry((label("set"), label("phase"))).or_default() += 1;
    }
    made
}

#[test]
fn action_sets_go_on_after_kills_and_do_everything_once() {
    let kills: u64 = std::env::var("FERROPLANE_KILLS").ok().and_then(|kills| kills.parse().ok()).unwrap_or(6);
    let home = TempDir::new().unwrap();
    Runtime::new().unwrap().block_on(async {
        let (mut child, mut address) = start(home.path()).await;
        until_defined(&address).await;
        assert!(create(&address, &format!("{GROUP}/blueprints"), &blueprint()).await);
        for round in 0..kills {
            let until = Instant::now() + Duration::from_millis(20 + (round * 53) % 160);
            for index in 0..PER_ROUND {
                let name = format!("s{round}-{index}");
                assert!(begin(&address, &name, &format!("gate-{round}")).await, "{name}");
            }
            // Every other kill finds ActionSets that run: their gate is closed. The others may come before they begin.
            if round % 2 == 1 {
                until_state(&address, &format!("s{round}-0"), "running").await;
            }
            tokio::time::sleep(until.saturating_duration_since(Instant::now())).await;
            child.kill();
            (child, address) = start(home.path()).await;
            // From here on they run their last phases, until the next kill.
            open(&address, &format!("gate-{round}")).await;
        }
        let names: Vec<_> =
            (0..kills * PER_ROUND).map(|it| format!("s{}-{}", it / PER_ROUND, it % PER_ROUND)).collect();
        for name in &names {
            let set = until_state(&address, name, "complete").await;
            let replicas = &set["status"]["actions"][0]["phases"][1]["output"]["originalReplicaCount"];
            assert_eq!(replicas, "1", "{name}: it was scaled twice");
            let path = format!("{DEPLOYMENTS}/{name}");
            let (_, scaled) = send(&address, "GET", &path, &Value::Null).await.unwrap();
            assert_eq!(scaled["spec"]["replicas"], 3, "{name}");
        }
        let made = made(&address).await;
        for name in names {
            let count =
                |phase: &str| made.get(&(name.clone(), phase.to_owned())).copied().unwrap_or_default();
            assert_eq!(["one", "two", "end"].map(count), [1, 0, 1], "{name}");
        }
        child.kill();
    });
}
