//! A plane in this process, with a kind of composite resource, and someone who sees when they become ready.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use ferroplane_functions::Implementation;
use ferroplane_recorder::Recorder;
use ferroplane_runner::grpc;
use ferroplane_testkit::plane::{self as testkit, send as send_as};
use http::{Method, Request};
use http_body_util::BodyExt as _;
use kube::client::Body;
use serde_json::{Value, json};
use tokio::sync::Notify;

const REVISIONS: &str = "/apis/pkg.crossplane.io/v1/functionrevisions";
const SITES: &str = "/apis/bench.ferroplane.io/v1/namespaces/default/sites";

/// What steps call.
#[derive(Debug, Default)]
pub(crate) struct Functions {
    pub(super) patch_and_transform: String,
    pub(super) auto_ready: String,
    /// A template composes the same in place of patches.
    pub(super) template: Option<&'static str>,
    /// How functions are called that are not built in.
    pub(super) calls: grpc::Options,
    /// Where they are: `FunctionRevision`s.
    pub(super) revisions: Vec<Value>,
}

impl Functions {
    pub(crate) fn built_in() -> Self {
        Self {
            patch_and_transform: "function-patch-and-transform".to_owned(),
            auto_ready: "function-auto-ready".to_owned(),
            ..Self::default()
        }
    }

    pub(super) fn templates() -> Self {
        Self { template: Some(TEMPLATE), ..Self::built_in() }
    }

    /// The step that composes.
    fn composing(&self) -> Value {
        let (function, input) = match self.template {
            Some(text) => {
                let inline = json!({"template": text});
                let version = "gotemplating.fn.crossplane.io/v1beta1";
                let input = json!({"apiVersion": version, "kind": "GoTemplate", "source": "Inline", "inline": inline});
                ("function-go-templating", input)
            }
            None => (self.patch_and_transform.as_str(), patches()),
        };
        json!({"step": "settings", "functionRef": {"name": function}, "input": input})
    }
}

/// Three `ConfigMap`s.
const TEMPLATE: &str = r#"{{ range $name := list "one" "two" "three" }}
---
apiVersion: v1
kind: ConfigMap
metadata:
  annotations:
    {{ setResourceNameAnnotation $name }}
data:
  who: {{ $name }}
  color: {{ $.observed.composite.resource.spec.color }}
{{ end }}"#;

/// The same.
fn patches() -> Value {
    let resources = ["one", "two", "three"].map(|name| {
        json!({
            "name": name, "base": {"apiVersion": "v1", "kind": "ConfigMap", "data": {"who": name}},
            "patches": [
                {"type": "FromCompositeFieldPath", "fromFieldPath": "spec.color", "toFieldPath": "data.color"},
            ],
        })
    });
    json!({"apiVersion": "pt.fn.crossplane.io/v1beta1", "kind": "Resources", "resources": resources})
}

/// Someone who makes composite resources.
#[derive(Clone)]
pub(crate) struct User(kube::Client);

pub(crate) struct Plane {
    plane: testkit::Plane,
    ready: Arc<Seen>,
}

/// When composite resources were seen to be ready.
#[derive(Default)]
struct Seen {
    at: Mutex<HashMap<String, Instant>>,
    news: Notify,
}

impl Seen {
    async fn wait_for(&self, count: usize) {
        loop {
            let news = self.news.notified();
            if self.at.lock().expect("no thread panics").len() >= count {
                return;
            }
            news.await;
        }
    }
}

impl Plane {
    pub(super) async fn start(directory: &Path, functions: &Functions) -> Self {
        Self::start_with(directory, functions, Recorder::off()).await
    }

    pub(super) async fn start_with(directory: &Path, functions: &Functions, recorder: Recorder) -> Self {
        Self::open(directory, functions, recorder, &[]).await
    }

    /// One that can call these, too.
    pub(crate) async fn start_calling(
        directory: &Path,
        functions: &Functions,
        more: &[(String, Implementation)],
    ) -> Self {
        Self::open(directory, functions, Recorder::off(), more).await
    }

    async fn open(
        directory: &Path,
        functions: &Functions,
        recorder: Recorder,
        more: &[(String, Implementation)],
    ) -> Self {
        let mut plane = testkit::Plane::open(directory, recorder, more).await;
        plane.calls = functions.calls.clone();
        plane.start_unasked().await;
        Self { plane, ready: Arc::default() }
    }

    pub(crate) async fn stop(self) {
        self.plane.close().await;
    }

    pub(crate) async fn define(&self, functions: &Functions) {
        for revision in &functions.revisions {
            self.post(REVISIONS, revision).await;
            let name = revision["metadata"]["name"].as_str().unwrap_or_default();
            let status = json!({"status": revision["status"]});
            let (code, answer) =
                self.send(Method::PATCH, &format!("{REVISIONS}/{name}/status"), &status).await;
            assert_eq!(code, 200, "{answer}");
        }
        let schema = json!({"type": "object", "properties": {
            "spec": {"type": "object", "properties": {"color": {"type": "string"}}},
        }});
        let definition = json!({
            "apiVersion": "apiextensions.crossplane.io/v2", "kind": "CompositeResourceDefinition",
            "metadata": {"name": "sites.bench.ferroplane.io"},
            "spec": {"group": "bench.ferroplane.io", "names": {"kind": "Site", "plural": "sites"}, "versions": [
                {"name": "v1", "served": true, "referenceable": true, "schema": {"openAPIV3Schema": schema}},
            ]},
        });
        self.post("/apis/apiextensions.crossplane.io/v2/compositeresourcedefinitions", &definition).await;
        let composition = json!({
            "apiVersion": "apiextensions.crossplane.io/v1", "kind": "Composition", "metadata": {"name": "sites"},
            "spec": {
                "compositeTypeRef": {"apiVersion": "bench.ferroplane.io/v1", "kind": "Site"}, "mode": "Pipeline",
                "pipeline": [
                    functions.composing(),
                    {"step": "ready", "functionRef": {"name": functions.auto_ready}},
                ],
            },
        });
        self.post("/apis/apiextensions.crossplane.io/v1/compositions", &composition).await;
        while self.send(Method::GET, SITES, &Value::Null).await.0 != 200 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        self.follow().await;
        // The revision is there, and judged, once the first one is ready.
        self.user().make(&site("first")).await;
        self.ready.wait_for(1).await;
        self.ready.at.lock().expect("no thread panics").clear();
    }

    /// Note when composite resources become ready.
    async fn follow(&self) {
        let request =
            Request::get(format!("{SITES}?watch=true")).body(Body::empty()).expect("it is a request");
        let response = self.plane.client().send(request).await.expect("it is answered");
        let (ready, mut body) = (self.ready.clone(), response.into_body());
        tokio::spawn(async move {
            let mut rest = Vec::new();
            while let Some(Ok(frame)) = body.frame().await {
                let Ok(data) = frame.into_data() else { continue };
                rest.extend_from_slice(&data);
                while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
                    let line: Vec<_> = rest.drain(..=end).collect();
                    note(&ready, &line);
                }
            }
        });
    }

    pub(crate) fn user(&self) -> User {
        User(self.plane.client())
    }

    /// Wait until so many are ready.
    pub(crate) async fn ready(&self, count: usize) {
        self.ready.wait_for(count).await;
    }

    pub(crate) fn ready_since(&self, name: &str) -> Instant {
        self.ready.at.lock().expect("no thread panics")[name]
    }

    /// How much has been written.
    pub(super) async fn revision(&self) -> u64 {
        let (_, list) = self.send(Method::GET, &format!("{SITES}?limit=1"), &Value::Null).await;
        list["metadata"]["resourceVersion"]
            .as_str()
            .and_then(|version| version.parse().ok())
            .unwrap_or_default()
    }

    pub(crate) async fn post(&self, path: &str, object: &Value) {
        self.user().post(path, object).await;
    }

    /// Wait until an object is as it should be.
    pub(crate) async fn until(&self, path: &str, is_so: impl Fn(&Value) -> bool) {
        while !is_so(&self.send(Method::GET, path, &Value::Null).await.1) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    async fn send(&self, method: Method, path: &str, body: &Value) -> (u16, Value) {
        self.user().send(method, path, body).await
    }
}

impl User {
    pub(crate) async fn post(&self, path: &str, object: &Value) {
        let (code, answer) = self.send(Method::POST, path, object).await;
        assert_eq!(code, 201, "{answer}");
    }

    pub(crate) async fn send(&self, method: Method, path: &str, body: &Value) -> (u16, Value) {
        send(&self.0, method, path, body).await
    }

    pub(crate) async fn make(&self, site: &Value) {
        assert_eq!(send(&self.0, Method::POST, SITES, site).await.0, 201);
    }
}

pub(crate) fn site(name: &str) -> Value {
    json!({
        "apiVersion": "bench.ferroplane.io/v1", "kind": "Site", "metadata": {"name": name},
        "spec": {"color": "red"},
    })
}

async fn send(client: &kube::Client, method: Method, path: &str, body: &Value) -> (u16, Value) {
    let kind = if method == Method::PATCH { "application/merge-patch+json" } else { "application/json" };
    send_as(client, method, path, kind, body).await
}

fn note(ready: &Seen, line: &[u8]) {
    let Ok(event) = serde_json::from_slice::<Value>(line) else { return };
    let site = &event["object"];
    let conditions = site["status"]["conditions"].as_array().into_iter().flatten();
    let mut conditions = conditions.filter(|condition| condition["type"] == "Ready");
    if conditions.any(|condition| condition["status"] == "True")
        && let Some(name) = site["metadata"]["name"].as_str()
    {
        ready.at.lock().expect("no thread panics").entry(name.to_owned()).or_insert_with(Instant::now);
        ready.news.notify_waiters();
    }
}
