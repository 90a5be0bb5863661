//! A control plane in memory: an API server, and controllers that work on it.

use std::sync::Arc;
use std::time::Duration;

use ferroplane_apiserver::auth::identity::Identity;
use ferroplane_apiserver::doors::Door;
use ferroplane_apiserver::store::{Options, Store};
use ferroplane_apiserver::{Server, Settings as ServerSettings};
use ferroplane_controllers::{BuiltIns, Clock, Cluster, Controllers, Settings, install};
use ferroplane_functions::{Library, Native};
use ferroplane_runner::{Directory, grpc};
use http::{Method, Request};
use kube::client::Body;
use serde_json::{Value, json};

/// How long anything may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// A control plane, as a user sees it.
pub(crate) struct Plane {
    client: kube::Client,
    _controllers: Controllers,
}

impl Plane {
    pub(crate) async fn new() -> Self {
        let store = Store::in_memory(Options::default()).unwrap();
        let server = Server::start(store, ServerSettings::default()).await.unwrap();
        let client = |name: &str| {
            let identity = Identity::authenticated(name, ["system:masters".to_owned()]);
            kube::Client::new(Door::inside(server.clone(), identity), "default")
        };
        install(&Cluster::new(client("ferroplane"))).await.unwrap();
        let controllers = Controllers::start(client("ferroplane"), settings()).await.unwrap();
        Self { client: client("user"), _controllers: controllers }
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

fn settings() -> Settings {
    Settings { clock: Clock::system(), built_ins: built_ins(), calls: grpc::Options::default() }
}

fn built_ins() -> BuiltIns {
    let library = Arc::new(Library::built_in().unwrap());
    BuiltIns {
        catalogue: library.catalogue().clone(),
        directory: Directory::built_in(&library),
        natives: Arc::new(move |package| match library.native(package) {
            Native::Covered { function, version } => Some((function, version)),
            _ => None,
        }),
    }
}

/// The status and reason of a condition of an object, as `True/Reason`.
pub(crate) fn condition(object: &Value, kind: &str) -> Option<String> {
    let conditions = object["status"]["conditions"].as_array()?;
    let condition = conditions.iter().find(|condition| condition["type"] == kind)?;
    Some(format!("{}/{}", condition["status"].as_str()?, condition["reason"].as_str()?))
}
