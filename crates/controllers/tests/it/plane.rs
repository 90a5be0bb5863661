//! A control plane in memory: an API server, and controllers that work on it.

use std::time::Duration;

use ferroplane_apiserver::auth::identity::Identity;
use ferroplane_apiserver::doors::Door;
use ferroplane_apiserver::store::{Options, Store};
use ferroplane_apiserver::{Insider, Server, Settings as ServerSettings};
use ferroplane_controllers::{Cluster, Controllers, PROTECTION_PATH, Settings, install};
use http::{Method, Request};
use kube::client::Body;
use serde_json::{Value, json};

use crate::ledger::Ledger;

/// How long anything may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// A control plane, as a user sees it.
pub(crate) struct Plane {
    client: kube::Client,
    server: Server,
    ledger: Ledger,
    controllers: Option<Controllers>,
}

impl Plane {
    pub(crate) async fn new() -> Self {
        let store = Store::in_memory(Options::default()).unwrap();
        let server = Server::start(store, ServerSettings::default()).await.unwrap();
        let client = kube::Client::new(door(&server, "user"), "default");
        install(&Cluster::new(kube::Client::new(door(&server, "ferroplane"), "default"))).await.unwrap();
        let mut plane = Self { client, server, ledger: Ledger::default(), controllers: None };
        plane.start().await;
        plane
    }

    /// End all controllers, and start others that know nothing of what those did.
    pub(crate) async fn restart(&mut self) {
        self.stop().await;
        self.start().await;
    }

    pub(crate) async fn stop(&mut self) {
        if let Some(controllers) = self.controllers.take() {
            controllers.stop().await;
        }
    }

    pub(crate) async fn start(&mut self) {
        let client = kube::Client::new(self.ledger.over(door(&self.server, "ferroplane")), "default");
        let controllers = Controllers::start(client, Settings::default()).await.unwrap();
        let protection = controllers.protection();
        let insider = {
            let protection = protection.clone();
            Insider::new(move |review| {
                let protection = protection.clone();
                async move { protection.review(review).await }
            })
        };
        self.server.seat("protection.internal", &insider);
        let url = format!("https://protection.internal{PROTECTION_PATH}");
        protection.announce(&json!({"url": url})).await.unwrap();
        self.controllers = Some(controllers);
    }

    /// What controllers have asked to be changed since the last time this was asked, as `METHOD /path`, without events.
    pub(crate) fn writes(&self) -> Vec<String> {
        self.ledger.take()
    }

    /// Send a request. Returns the code and the body of the answer.
    pub(crate) async fn send(&self, method: Method, path: &str, kind: &str, body: &Value) -> (u16, Value) {
        let text = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
        let request = Request::builder().method(method).uri(path).header("content-type", kind);
        let response = self.client.send(request.body(Body::from(text)).unwrap()).await.unwrap();
        let code = response.status().as_u16();
        let bytes = response.into_body().collect_bytes().await.unwrap();
        (code, serde_json::from_slice(&bytes).unwrap_or(Value::Null))
    }

    /// Read an object; null if there is none.
    pub(crate) async fn get(&self, path: &str) -> Value {
        match self.send(Method::GET, path, "application/json", &Value::Null).await {
            (200, object) => object,
            _ => Value::Null,
        }
    }

    /// Apply an object as a user would.
    pub(crate) async fn apply(&self, path: &str, object: &Value) -> Value {
        let path = format!("{path}?fieldManager=user&force=true");
        let (code, answer) = self.send(Method::PATCH, &path, "application/apply-patch+yaml", object).await;
        assert!(code < 300, "{code} {answer}");
        answer
    }

    /// Change some fields of an object as a user would.
    pub(crate) async fn merge(&self, path: &str, patch: &Value) -> Value {
        let (code, answer) = self.send(Method::PATCH, path, "application/merge-patch+json", patch).await;
        assert!(code < 300, "{code} {answer}");
        answer
    }

    pub(crate) async fn delete(&self, path: &str) {
        self.send(Method::DELETE, path, "application/json", &json!(null)).await;
    }

    /// Wait until an object is as it should be (null if it should be gone). Returns it.
    pub(crate) async fn until(&self, path: &str, is_so: impl Fn(&Value) -> bool) -> Value {
        let deadline = tokio::time::Instant::now() + PATIENCE;
        loop {
            let object = self.get(path).await;
            if is_so(&object) {
                return object;
            }
            assert!(tokio::time::Instant::now() < deadline, "never came to be: {path}: {object:#}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

fn door(server: &Server, name: &str) -> Door {
    Door::inside(server.clone(), Identity::authenticated(name, ["system:masters".to_owned()]))
}

/// The status and reason of a condition of an object, as `True/Reason`.
pub(crate) fn condition(object: &Value, kind: &str) -> Option<String> {
    let conditions = object["status"]["conditions"].as_array()?;
    let condition = conditions.iter().find(|condition| condition["type"] == kind)?;
    Some(format!("{}/{}", condition["status"].as_str()?, condition["reason"].as_str()?))
}
