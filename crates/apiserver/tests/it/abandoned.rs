//! Clients that go away before they are answered.

use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use ferroplane_apiserver::audit::{self, AuditLog};
use ferroplane_apiserver::auth::authenticate::{ServiceAccountTokens, StaticTokens};
use ferroplane_apiserver::{Body, Server, Settings};
use futures_util::poll;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::gate::Gate;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// A server whose disk can be stopped, and which records what is done.
struct Slow {
    server: Server,
    gate: Gate,
    directory: TempDir,
}

impl Slow {
    async fn start() -> Self {
        let (gate, directory) = (Gate::default(), TempDir::new().unwrap());
        let server = Server::start(gate.store(), Settings::default()).await.unwrap();
        let tokens = StaticTokens::from_csv("secret,ada,1,system:masters\nplain,bob,2\n").unwrap();
        let accounts = ServiceAccountTokens::ephemeral("here", server.bound_object_lookup()).unwrap();
        server.set_authenticators(tokens, Arc::new(accounts));
        let slow = Self { server, gate, directory };
        slow.server.set_audit_log(AuditLog::open(&slow.log(), &audit::Settings::default()).unwrap());
        slow
    }

    fn log(&self) -> PathBuf {
        self.directory.path().join("audit.log")
    }

    async fn send(&self, token: &str, method: &str, path: &str, body: Value) -> Response<Body> {
        let request =
            Request::builder().method(method).uri(path).header("Authorization", format!("Bearer {token}"));
        let request = request.header("Content-Type", "application/json");
        let body = if body.is_null() { String::new() } else { body.to_string() };
        self.server.handle_remote(request.body(Full::new(Bytes::from(body))).unwrap()).await
    }

    /// Sends something, and goes away when it is about to be written.
    async fn send_and_leave(&self, method: &str, path: &str, body: Value) {
        self.gate.close();
        let mut answer = pin!(self.send("secret", method, path, body));
        // It pauses once before it is begun, for those who have gone away by then.
        for _ in 0..2 {
            assert!(poll!(&mut answer).is_pending());
        }
        self.gate.arrival();
    }

    /// What was recorded about a path, once it is.
    async fn lines(&self, path: &str) -> Vec<Value> {
        loop {
            let text = std::fs::read_to_string(self.log()).unwrap_or_default();
            let lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
            let lines: Vec<_> = lines.filter(|line| line["requestURI"] == path).collect();
            if !lines.is_empty() {
                return lines;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}

async fn body(answer: Response<Body>) -> Value {
    serde_json::from_slice(&answer.into_body().collect().await.unwrap().to_bytes()).unwrap()
}

#[tokio::test]
async fn who_gave_up_a_write_and_reads_instead_sees_how_it_ended() {
    let slow = Slow::start().await;
    let map =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one"}, "data": {"a": "1"}});
    assert_eq!(slow.send("secret", "POST", MAPS, map.clone()).await.status(), 201);
    let path = format!("{MAPS}/one");
    let mut changed = map;
    changed["data"]["a"] = "2".into();
    slow.send_and_leave("PUT", &path, changed).await;

    let mut read = pin!(slow.send("secret", "GET", &path, Value::Null));
    assert!(poll!(&mut read).is_pending(), "there is no telling yet");
    let any = slow.send("secret", "GET", &format!("{path}?resourceVersion=0"), Value::Null).await;
    assert_eq!(body(any).await["data"]["a"], "1", "who takes anything need not wait");
    let other = slow.send("secret", "GET", &format!("{MAPS}/other"), Value::Null).await;
    assert_eq!(other.status(), 404, "other objects are not waited for");
    slow.gate.open();
    let mut found = body(read.await).await;
    assert_eq!(found["data"]["a"], "2");
    // What was read can be changed.
    found["data"]["a"] = "3".into();
    assert_eq!(slow.send("secret", "PUT", &path, found).await.status(), 200);
}

#[tokio::test]
async fn port_of_a_service_that_is_being_stored_is_taken_though_its_client_has_left() {
    let slow = Slow::start().await;
    let services = "/api/v1/namespaces/default/services";
    let service = |name: &str, port: u16| {
        json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
            "spec": {"type": "NodePort", "ports": [{"port": 80, "nodePort": port}]},
        })
    };
    assert_eq!(slow.send("secret", "POST", services, service("other", 30001)).await.status(), 201);
    slow.send_and_leave("POST", services, service("one", 30010)).await;
    let late = slow.send("secret", "POST", services, service("two", 30010));
    let late = tokio::time::timeout(Duration::from_secs(10), late).await.expect("it need not be stored");
    assert_eq!(late.status(), 422);
    let message = body(late).await["message"].as_str().unwrap().to_owned();
    assert!(message.ends_with("provided port is already allocated"), "{message}");
    slow.gate.open();
    let read = slow.send("secret", "GET", &format!("{services}/one"), Value::Null).await;
    assert_eq!(body(read).await["spec"]["ports"][0]["nodePort"], 30010);
}

#[tokio::test]
async fn what_nobody_waits_for_is_not_begun() {
    let slow = Slow::start().await;
    let map = |name| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
    let (kept, never) = (format!("{MAPS}/kept"), format!("{MAPS}/never"));
    slow.send("secret", "POST", MAPS, map("kept")).await;
    for (method, path, body) in [("POST", MAPS, map("never")), ("DELETE", &kept, Value::Null)] {
        let mut answer = Box::pin(slow.send("secret", method, path, body));
        assert!(poll!(&mut answer).is_pending());
    }
    // Comes after everything that was begun.
    assert_eq!(slow.send("secret", "POST", MAPS, map("marker")).await.status(), 201);
    assert_eq!(slow.send("secret", "GET", &never, Value::Null).await.status(), 404);
    assert_eq!(slow.send("secret", "GET", &kept, Value::Null).await.status(), 200);
}

#[tokio::test]
async fn what_nobody_waited_for_is_written_down_all_the_same() {
    let slow = Slow::start().await;
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one"}});
    slow.send_and_leave("POST", MAPS, map).await;
    let line = slow.lines(MAPS).await.remove(0);
    slow.gate.open();
    assert_eq!((&line["user"]["username"], &line["verb"]), (&json!("ada"), &json!("create")));
    assert_eq!(line["annotations"]["authorization.k8s.io/decision"], "allow");
    let words = "the request was abandoned before it was answered; it may have taken effect";
    assert_eq!(line["responseStatus"], json!({"metadata": {}, "status": "Failure", "message": words}));
    let read = slow.send("secret", "GET", &format!("{MAPS}/one"), Value::Null).await;
    assert_eq!(read.status(), 200, "it has happened");
}

#[tokio::test]
async fn log_says_whether_something_was_allowed_and_why_it_failed() {
    let slow = Slow::start().await;
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "Not A Name"}});
    assert_eq!(slow.send("secret", "POST", MAPS, map.clone()).await.status(), 422);
    let invalid = slow.lines(MAPS).await.remove(0);
    assert_eq!(invalid["annotations"]["authorization.k8s.io/decision"], "allow");
    assert_eq!(invalid["responseStatus"]["reason"], "Invalid");
    let message = invalid["responseStatus"]["message"].as_str().unwrap();
    assert!(message.starts_with("ConfigMap \"Not A Name\" is invalid: metadata.name"), "{message}");

    let elsewhere = "/api/v1/namespaces/default/secrets/one";
    assert_eq!(slow.send("plain", "DELETE", elsewhere, Value::Null).await.status(), 403);
    let forbidden = slow.lines(elsewhere).await.remove(0);
    assert_eq!(forbidden["annotations"]["authorization.k8s.io/decision"], "forbid");
    let message = forbidden["responseStatus"]["message"].as_str().unwrap();
    assert!(message.contains("User \"bob\" cannot delete resource \"secrets\""), "{message}");
}
