//! Kills the real program while ActionSets run: each continues where it was, and does everything once.
//!
//! `FERROPLANE_KILLS` says how often; the ordinary test is content with a few.

use std::time::{Duration, Instant};

use ferroplane_testkit::{ApiAddress, ApiClient};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::kill::start;

const GROUP: &str = "/apis/cr.kanister.io/v1alpha1/namespaces/default";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const ACTION_SETS: usize = 24;

/// Creates two objects, deletes one of them, and ends with a third.
fn blueprint() -> Value {
    let create = |name: &str, suffix: &str| {
        let map = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": format!("{{{{ .Options.name }}}}-{suffix}")},
        });
        json!({"func": "KubeOps", "name": name, "args": {"operation": "create", "spec": map.to_string()}})
    };
    let reference = json!({"apiVersion": "v1", "resource": "configmaps", "name": "{{ .Options.name }}-a", "namespace": "default"});
    let delete = json!({"func": "KubeOps", "name": "drop", "args": {"operation": "delete", "objectReference": reference}});
    json!({
        "apiVersion": "cr.kanister.io/v1alpha1", "kind": "Blueprint", "metadata": {"name": "b"},
        "actions": {"run": {"phases": [create("one", "a"), create("two", "b"), delete], "deferPhase": create("end", "c")}},
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

#[test]
fn action_sets_go_on_after_kills_and_do_everything_once() {
    let kills: u64 = std::env::var("FERROPLANE_KILLS").ok().and_then(|kills| kills.parse().ok()).unwrap_or(6);
    let home = TempDir::new().unwrap();
    Runtime::new().unwrap().block_on(async {
        let (mut child, mut address) = start(home.path()).await;
        until_defined(&address).await;
        assert!(create(&address, &format!("{GROUP}/blueprints"), &blueprint()).await);
        let mut made = 0;
        for round in 0..kills {
            let until = Instant::now() + Duration::from_millis(20 + (round * 53) % 160);
            while Instant::now() < until && made < ACTION_SETS {
                let name = format!("s{made}");
                let set = json!({
                    "apiVersion": "cr.kanister.io/v1alpha1", "kind": "ActionSet", "metadata": {"name": name},
                    "spec": {"actions": [{"name": "run", "blueprint": "b", "options": {"name": name}}]},
                });
                made += usize::from(create(&address, &format!("{GROUP}/actionsets"), &set).await);
            }
            child.kill();
            (child, address) = start(home.path()).await;
        }
        for index in 0..made {
            let name = format!("s{index}");
            let began = Instant::now();
            loop {
                let (_, set) =
                    send(&address, "GET", &format!("{GROUP}/actionsets/{name}"), &Value::Null).await.unwrap();
                if set["status"]["state"] == "complete" {
                    break;
                }
                assert_ne!(set["status"]["state"], "failed", "{}", set["status"]);
                assert!(began.elapsed() < Duration::from_mins(1), "{set:#}");
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            for (suffix, code) in [("a", 404), ("b", 200), ("c", 200)] {
                let (found, _) =
                    send(&address, "GET", &format!("{MAPS}/{name}-{suffix}"), &Value::Null).await.unwrap();
                assert_eq!(found, code, "{name}-{suffix}");
            }
        }
        assert!(made > 0, "no ActionSet was ever acknowledged");
        child.kill();
    });
}
