//! Requests end at their deadline, also if they work instead of waiting, and leave nothing behind then.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use ferroplane_apiserver::auth::identity::Identity;
use ferroplane_apiserver::store::{Options, Store};
use ferroplane_apiserver::{Server, Settings};
use http::Request;
use http_body_util::{BodyExt as _, Full};
use serde_json::{Value, json};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const JSON: &str = "application/json";
const APPLY: &str = "application/apply-patch+yaml";
const JSON_PATCH: &str = "application/json-patch+json";
/// What is sent below takes far longer, on any machine.
const SOON: &str = "timeout=1ms";

struct Client(Server);

impl Client {
    async fn new() -> Self {
        Self(Server::start(Store::in_memory(Options::default()).unwrap(), Settings::default()).await.unwrap())
    }

    async fn send(&self, method: &str, uri: &str, content: &str, body: &Value) -> (u16, Value) {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let request = Request::builder().method(method).uri(uri).header("Content-Type", content);
        let mut request = request.body(Full::new(Bytes::from(body))).unwrap();
        request.extensions_mut().insert(Identity::authenticated("ada", ["system:masters".to_owned()]));
        let answer = self.0.handle(request).await;
        let code = answer.status().as_u16();
        let bytes = answer.into_body().collect().await.unwrap().to_bytes();
        (code, serde_json::from_slice(&bytes).unwrap_or(Value::Null))
    }

    async fn get(&self, uri: &str) -> (u16, Value) {
        self.send("GET", uri, JSON, &Value::Null).await
    }
}

/// An object near the largest that is stored.
fn large(name: &str) -> Value {
    with_owners(name, 8_000)
}

fn with_owners(name: &str, count: usize) -> Value {
    let owner = |index| json!({"apiVersion": "v1", "kind": "Pod", "name": "a", "uid": format!("u-{index}")});
    let owners: Vec<_> = (0..count).map(owner).collect();
    let metadata = json!({"name": name, "ownerReferences": owners});
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"a": "1"}})
}

/// A large object without owners: the garbage collector may not take it away while a test reads it.
fn without_owners(name: &str) -> Value {
    let data: serde_json::Map<_, _> = (0..30_000).map(|index| (format!("key-{index}"), json!("1"))).collect();
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data})
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn write_that_is_cut_off_leaves_nothing_behind() {
    let client = Client::new().await;
    let (code, status) = client.send("POST", &format!("{MAPS}?{SOON}"), JSON, &large("new")).await;
    assert_eq!((code, &status["reason"]), (504, &json!("Timeout")));
    let applied = format!("{MAPS}/new?fieldManager=me&{SOON}");
    assert_eq!(client.send("PATCH", &applied, APPLY, &large("new")).await.0, 504);
    assert_eq!(client.get(&format!("{MAPS}/new")).await.0, 404);

    // The same request is fine if there is time for it.
    assert_eq!(client.send("POST", MAPS, JSON, &large("new")).await.0, 201);
}

#[tokio::test]
async fn change_that_is_cut_off_changes_nothing() {
    let client = Client::new().await;
    let path = format!("{MAPS}/one");
    let (code, created) = client.send("POST", MAPS, JSON, &without_owners("one")).await;
    assert_eq!(code, 201);
    let mut changed = without_owners("one");
    changed["data"]["key-0"] = "2".into();
    assert_eq!(client.send("PUT", &format!("{path}?{SOON}"), JSON, &changed).await.0, 504);
    let operations: Vec<_> = (0..5_000)
        .map(|index| json!({"op": "add", "path": format!("/data/k{index}"), "value": "v"}))
        .collect();
    let patched = client.send("PATCH", &format!("{path}?{SOON}"), JSON_PATCH, &json!(operations)).await;
    assert_eq!(patched.0, 504);
    assert_eq!(client.get(&path).await, (200, created));
}

/// How long a probe may take while others are busy. Kubelets wait for one second.
const PROBED: Duration = Duration::from_secs(1);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn probes_are_answered_while_large_objects_are_written() {
    let client = Arc::new(Client::new().await);
    let write = |index| {
        let client = client.clone();
        let map = with_owners(&format!("owned-{index}"), 6_000);
        tokio::spawn(async move { client.send("POST", MAPS, JSON, &map).await.0 })
    };
    let writes: Vec<_> = (0..6).map(write).collect();
    let mut slowest = Duration::ZERO;
    loop {
        let began = Instant::now();
        assert_eq!(client.get("/readyz").await.0, 200);
        slowest = slowest.max(began.elapsed());
        if writes.iter().all(tokio::task::JoinHandle::is_finished) {
            break;
        }
        tokio::task::yield_now().await;
    }
    for write in writes {
        assert_eq!(write.await.unwrap(), 201);
    }
    assert!(slowest < PROBED, "a probe took {slowest:?}");
}
