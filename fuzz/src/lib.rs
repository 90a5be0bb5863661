//! A server in memory for targets that send requests. Nothing they send changes it, so that every input is judged alone.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use ferroplane_apiserver::auth::authenticate::{ServiceAccountTokens, StaticTokens};
use ferroplane_apiserver::auth::identity::Identity;
use ferroplane_apiserver::store::{Options, Store};
use ferroplane_apiserver::{Body, Server, Settings};
use http::{HeaderMap, Method, Request, Response, Uri};
use http_body_util::{BodyExt as _, Full};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

/// How many objects there are in each of two namespaces.
pub const OBJECTS: usize = 7;
pub const NAMESPACES: [&str; 2] = ["a", "b"];

pub struct Cluster {
    runtime: Runtime,
    server: Server,
}

/// An answer. A watch is not waited for.
pub struct Answer {
    pub code: u16,
    pub content_type: String,
    pub body: Vec<u8>,
}

static CLUSTER: LazyLock<Cluster> = LazyLock::new(Cluster::start);

/// Asks the server.
pub fn ask(method: &Method, uri: &Uri, headers: &HeaderMap, body: &[u8]) -> Answer {
    CLUSTER.ask(method, uri, headers, body)
}

impl Cluster {
    fn start() -> Self {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build().expect("there is a runtime");
        let server = runtime.block_on(async {
            let store = Store::in_memory(Options::default()).expect("there is a store");
            let server = Server::start(store, Settings::default()).await.expect("there is a server");
            let accounts = ServiceAccountTokens::ephemeral("https://issuer", server.bound_object_lookup());
            server.set_authenticators(StaticTokens::default(), Arc::new(accounts.expect("there is a key")));
            server
        });
        let cluster = Self { runtime, server };
        cluster.furnish();
        // From here on nothing takes time: a caller that waits for what never comes has waited already.
        cluster.runtime.block_on(async { tokio::time::pause() });
        cluster
    }

    fn furnish(&self) {
        let definition = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "things.example.org"},
            "spec": {
                "group": "example.org", "scope": "Namespaced",
                "names": {"plural": "things", "singular": "thing", "kind": "Thing"},
                "versions": [{
                    "name": "v1", "served": true, "storage": true,
                    "additionalPrinterColumns": [{"name": "Size", "type": "integer", "jsonPath": ".spec.size"}],
                    "subresources": {"status": {}, "scale": {
                        "specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size",
                    }},
                    "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                        "spec": {"type": "object", "properties": {"size": {"type": "integer", "default": 1}}},
                        "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
                    }}},
                }],
            },
        });
        self.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &definition);
        for namespace in NAMESPACES {
            let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
            self.create("/api/v1/namespaces", &object);
            for number in 0..OBJECTS {
                let metadata =
                    json!({"name": format!("n{number}"), "labels": {"odd": (number % 2).to_string()}});
                let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"k": "v"}});
                self.create(&format!("/api/v1/namespaces/{namespace}/configmaps"), &map);
                let thing = json!({"apiVersion": "example.org/v1", "kind": "Thing", "metadata": metadata});
                self.create(&format!("/apis/example.org/v1/namespaces/{namespace}/things"), &thing);
            }
        }
    }

    fn create(&self, path: &str, object: &Value) {
        let headers =
            HeaderMap::from_iter([(http::header::CONTENT_TYPE, "application/json".parse().expect("a type"))]);
        loop {
            let uri = path.parse().expect("a path");
            let answer = self.ask(&Method::POST, &uri, &headers, object.to_string().as_bytes());
            match answer.code {
                201 => return,
                // Definitions are served a moment later.
                404 => self.runtime.block_on(tokio::time::sleep(Duration::from_millis(1))),
                code => panic!("{code}: {}", String::from_utf8_lossy(&answer.body)),
            }
        }
    }

    fn ask(&self, method: &Method, uri: &Uri, headers: &HeaderMap, body: &[u8]) -> Answer {
        let mut request = Request::new(Full::from(body.to_vec()));
        *request.method_mut() = method.clone();
        *request.uri_mut() = uri.clone();
        *request.headers_mut() = headers.clone();
        request.extensions_mut().insert(Identity::authenticated("fuzz", ["system:masters".to_owned()]));
        self.runtime.block_on(async { read(self.server.handle(request).await).await })
    }
}

async fn read(response: Response<Body>) -> Answer {
    let code = response.status().as_u16();
    let content_type = response.headers().get(http::header::CONTENT_TYPE);
    let content_type = content_type.and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned();
    let body = match response.into_body() {
        Body::Stream(_) => Vec::new(),
        body => body.collect().await.map(|collected| collected.to_bytes().to_vec()).unwrap_or_default(),
    };
    Answer { code, content_type, body }
}

/// A path and a query as a request line has them, if it can. What would be written is only tried.
pub fn dry(line: &str) -> Option<Uri> {
    let separator = if line.contains('?') { '&' } else { '?' };
    let uri = format!("{line}{separator}dryRun=All").parse::<Uri>().ok()?;
    (uri.path().starts_with('/') && uri.authority().is_none()).then_some(uri)
}
