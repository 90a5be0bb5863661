//! Webhooks that are called: by a render, by a control plane, and by a user.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use ferroplane_testkit::{Leaf, Pki, TcpServer};
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;

use super::REQUEST;
use crate::logs::{PLATFORM, THING};
use crate::peers::peer;
use crate::plane::Plane;
use crate::sandbox::{Ran, Sandbox};

/// An administrator lets the steps of one namespace call this machine.
const GRANT: &str = "{apiVersion: ferroplane.io/v1alpha1, kind: AccessGrant, metadata: {name: webhooks}, \
    spec: {to: {namespaces: [default]}, call: [{hosts: [localhost]}]}}\n";

/// A webhook on this machine that labels what it is sent, over TLS. Ends when it is dropped.
struct Webhook {
    server: TcpServer,
    authority: Pki,
    requests: Arc<AtomicUsize>,
}

impl Webhook {
    fn start() -> Self {
        let authority = Pki::new();
        let acceptor = acceptor(&authority.issue(&["localhost"]));
        let requests = Arc::new(AtomicUsize::new(0));
        let count = requests.clone();
        let server = TcpServer::start(move |stream, _| serve(stream, acceptor.clone(), count.clone()));
        Self { server, authority, requests }
    }

    fn url(&self) -> String {
        let address = self.server.address();
        let (_, port) = address.rsplit_once(':').unwrap();
        format!("https://localhost:{port}/label")
    }

    /// How many requests came over a connection that the client has verified.
    fn requests(&self) -> usize {
        self.requests.load(Ordering::SeqCst)
    }

    /// A Composition for a kind, whose only function this is.
    fn composition(&self, kind: &str) -> String {
        let (url, authority) = (self.url(), BASE64_STANDARD.encode(self.authority.ca()));
        format!(
            "
apiVersion: apiextensions.crossplane.io/v2alpha1
kind: Composition
metadata:
  name: example
spec:
  compositeTypeRef: {kind}
  resources:
  - name: config
    base: {{apiVersion: v1, kind: ConfigMap, data: {{a: b}}}}
  functions:
  - name: my-webhook
    type: Webhook
    webhook:
      url: {url}
      caBundle: {authority}
      timeout: 20s
"
        )
    }
}

fn acceptor(server: &Leaf) -> TlsAcceptor {
    let certificate = CertificateDer::from_pem_slice(server.certificate.as_bytes()).unwrap();
    let key = PrivateKeyDer::from_pem_slice(server.key.as_bytes()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    TlsAcceptor::from(Arc::new(config))
}

async fn serve(stream: TcpStream, acceptor: TlsAcceptor, requests: Arc<AtomicUsize>) {
    let Ok(stream) = acceptor.accept(stream).await else { return };
    let service = service_fn(|request: Request<Incoming>| {
        requests.fetch_add(1, Ordering::SeqCst);
        async move { Ok::<_, Infallible>(answer(request).await) }
    });
    let _ = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
}

async fn answer(request: Request<Incoming>) -> Response<Full<Bytes>> {
    let refuse = |status: StatusCode| Response::builder().status(status).body(Full::default()).unwrap();
    if request.method() != Method::POST || request.uri().path() != "/label" {
        return refuse(StatusCode::NOT_FOUND);
    }
    let Ok(body) = request.into_body().collect().await else { return refuse(StatusCode::BAD_REQUEST) };
    let Ok(mut list) = serde_json::from_slice::<Value>(&body.to_bytes()) else {
        return refuse(StatusCode::BAD_REQUEST);
    };
    // A ResourceList has items, the first of which is the XR. A RunFunctionRequest has a desired state.
    let items = list.get_mut("items").and_then(Value::as_array_mut).into_iter().flatten();
    items.filter(|item| item["kind"] == "ConfigMap").for_each(label);
    let resources = list.pointer_mut("/desired/resources").and_then(Value::as_object_mut);
    resources.into_iter().flatten().for_each(|(_, wanted)| label(&mut wanted["resource"]));
    Response::new(Full::new(Bytes::from(list.to_string())))
}

fn label(object: &mut Value) {
    object["metadata"]["labels"]["labelled-by"] = "webhook".into();
}

#[test]
fn webhook_of_a_composition_is_called_by_a_render_with_trust_and_a_grant() {
    let webhook = Webhook::start();
    let composition = webhook.composition("{apiVersion: example.org/v1, kind: App}");
    let sandbox = Sandbox::new().with("composition.yaml", &composition).with("grant.yaml", GRANT);
    let documents = sandbox.render_with_commands(&["-e", "grant.yaml"]).documents();
    assert_eq!(documents[1]["metadata"]["labels"]["labelled-by"], "webhook", "{documents:#?}");
    assert_eq!(documents[1]["data"], json!({"a": "b"}), "{documents:#?}");
    assert_eq!(webhook.requests(), 1);

    sandbox.render(&["-e", "grant.yaml"]).fails_with(1);
    sandbox.render_with_commands(&[]).fails_with(1);
    assert_eq!(webhook.requests(), 1, "without trust or without a grant, it is not called");
}

#[test]
fn webhook_of_a_composition_is_called_by_a_control_plane_with_a_grant() {
    let Some(_) = peer("kubectl") else { return };
    let webhook = Webhook::start();
    let definition = PLATFORM.split("---").next().unwrap();
    let composition = webhook.composition("{apiVersion: acme.org/v1, kind: Thing}");
    let plane = Plane::start(TempDir::new().unwrap(), &["--data-dir", "data"]);
    plane.told("kubectl apply -f -", &format!("{definition}---\n{GRANT}---{composition}"));
    plane.says("kubectl wait xrd/things.acme.org --for=condition=Established --timeout=60s");
    plane.told("kubectl apply -f -", THING);
    plane.says("kubectl wait thing/a --for=condition=Ready --timeout=60s");
    let label = "kubectl get configmap -l crossplane.io/composite=a -o jsonpath='{.items[0].metadata.labels.labelled-by}'";
    assert_eq!(plane.says(label), "webhook");

    // The grant is for another namespace.
    let called = webhook.requests();
    plane.says("kubectl create namespace other");
    plane.told("kubectl apply -f -", &THING.replace("namespace: default", "namespace: other"));
    plane.says("kubectl wait thing/a -n other --for=condition=Synced=False --timeout=60s");
    let synced =
        "kubectl get thing/a -n other -o jsonpath='{.status.conditions[?(@.type==\"Synced\")].message}'";
    let said = plane.says(synced);
    assert!(said.contains("`my-webhook`") && said.contains("no AccessGrant allows to call it"), "{said}");
    assert_eq!(webhook.requests(), called);
    plane.stop();
}

#[test]
fn url_is_called_for_a_user_who_trusts_its_authority() {
    let webhook = Webhook::start();
    let sandbox = Sandbox::new().with("request.json", REQUEST).with("ca.pem", &webhook.authority.ca());
    let run = |authority: &str, more: &[&str]| {
        let url = webhook.url();
        let mut command = sandbox.command(&[&["functions", "run", &url, "request.json"], more].concat());
        command.env("SSL_CERT_FILE", sandbox.path(authority)).env_remove("SSL_CERT_DIR");
        Ran::from(command.output().unwrap())
    };
    let grant = ["--grant", "local-addresses"];
    let answer: Value = serde_json::from_str(&run("ca.pem", &grant).ok()).unwrap();
    let wanted = &answer["desired"]["resources"]["a"];
    assert_eq!(wanted["resource"]["metadata"]["labels"], json!({"labelled-by": "webhook"}), "{answer:#}");
    assert_eq!(wanted["ready"], "READY_TRUE", "{answer:#}");
    assert_eq!(webhook.requests(), 1);

    std::fs::write(sandbox.path("stranger.pem"), Pki::new().ca()).unwrap();
    let said = run("stranger.pem", &grant).fails_with(1);
    assert!(said.contains("cannot establish TLS"), "{said}");
    let said = run("ca.pem", &[]).fails_with(1);
    assert!(said.contains("no AccessGrant allows to call it"), "{said}");
    assert_eq!(webhook.requests(), 1);
}
