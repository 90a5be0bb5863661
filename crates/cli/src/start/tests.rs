//! A replica whose clock moves: certificates are renewed while it leads.

use std::net::SocketAddr;
use std::sync::Mutex;

use clap::Parser;
use ferroplane_apiserver::auth::identity::Identity;
use ferroplane_apiserver::listeners::HttpService;
use ferroplane_apiserver::store::Store;
use ferroplane_apiserver::{Server, Settings as ServerSettings};
use ferroplane_client::ApiClient;
use ferroplane_controllers::Fenced;
use ferroplane_recorder::Recorder;
use jiff::SignedDuration;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use serde_json::json;
use tokio::net::TcpStream;

use super::health::Health;
use super::*;

const SECRETS: &str = "/api/v1/namespaces/crossplane-system/secrets";

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    options: Options,
}

async fn api_server() -> HttpService {
    let store = Store::in_memory(ferroplane_apiserver::store::Options::default()).unwrap();
    let server = Server::start(store, ServerSettings::default()).await.unwrap();
    let identity = Identity::authenticated("admin", ["system:masters".to_owned()]);
    HttpService::in_process(server, identity)
}

/// The certificate that a Secret holds at the moment.
async fn certificate(client: &kube::Client, name: &str) -> String {
    let request = http::Request::get(format!("{SECRETS}/{name}")).body(Vec::new()).unwrap();
    let secret: serde_json::Value = client.request(request).await.unwrap();
    secret["data"]["tls.crt"].as_str().unwrap().to_owned()
}

async fn make_namespace(client: &kube::Client) {
    let namespace =
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "crossplane-system"}});
    let request = http::Request::post("/api/v1/namespaces").header("content-type", "application/json");
    let request = request.body(namespace.to_string().into_bytes()).unwrap();
    client.request::<serde_json::Value>(request).await.unwrap();
}

/// The certificate that webhooks are served with, as a client sees it that trusts the authority.
async fn shown(address: SocketAddr, authority: &str) -> CertificateDer<'static> {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(authority.as_bytes()).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = config.unwrap().with_root_certificates(roots).with_no_client_auth();
    let stream = TcpStream::connect(address).await.unwrap();
    let name = ServerName::try_from("crossplane-webhooks.crossplane-system.svc").unwrap();
    let stream = tokio_rustls::TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap();
    stream.get_ref().1.peer_certificates().unwrap()[0].clone()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn certificates_of_webhooks_and_for_functions_are_renewed_while_a_replica_leads() {
    let server = api_server().await;
    let client = kube::Client::new(server.clone(), "default");
    make_namespace(&client).await;
    // It was installed eight months ago. What was signed then still holds, but is to be renewed.
    let now = Timestamp::now();
    let time = Arc::new(Mutex::new(now - SignedDuration::from_hours(250 * 24)));
    let clock = {
        let time = time.clone();
        Clock::new(move || *time.lock().unwrap())
    };
    let term = Term::for_ever();
    let site = Site {
        cluster: ApiClient::new(client.clone()),
        fenced: kube::Client::new(Fenced::new(server, term.clone()), "default"),
        composer: None,
        client: client.clone(),
        term,
        plans: plans::Plans::default(),
        versions: Arc::default(),
        health: Arc::new(Health::default()),
        recorder: Recorder::off(),
        callers: callers::Callers::of(&ferroplane_client::Endpoint::default()),
        metadata: None,
        packages: None,
        functions: Arc::default(),
        server: String::new(),
        clock,
        clock_check: Duration::from_millis(10),
    };
    let line = ["", "--leader-election=false", "--webhook-address=127.0.0.1:0"];
    let configuration = Configuration::new(Line::parse_from(line).options).unwrap();
    let replica = Replica::start(&configuration, &site).await.unwrap();
    let certificates = &replica.certificates;
    let (hooks, authority) =
        (certificates.hooks.clone().unwrap(), certificates.credentials.authority.clone());
    let address = hooks.address();

    let mut interrupts = Interrupts::listen().unwrap();
    let story = async {
        let names = ["crossplane-tls-server", "crossplane-tls-client"];
        let until_leading = async || {
            while !site.health.readiness().1.contains("leads") {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        until_leading().await;
        let old = (certificate(&client, names[0]).await, certificate(&client, names[1]).await);
        let old_shown = shown(address, &authority).await;

        *time.lock().unwrap() = now;
        while certificate(&client, names[0]).await == old.0
            || certificate(&client, names[1]).await == old.1
            || shown(address, &authority).await == old_shown
        {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        until_leading().await;
        // The authority stays what it was, or nobody would trust what it signed.
        shown(address, &authority).await;
    };
    let story = tokio::time::timeout(Duration::from_mins(2), story);
    tokio::select! {
        told = story => told.expect("certificates are renewed in time"),
        Err(error) = hooks.serve() => panic!("{error:#}"),
        ended = replica.lead(&mut interrupts) => panic!("{ended:?}"),
    }
}
