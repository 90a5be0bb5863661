//! The transport: versions of HTTP, connections, proxies.

use std::convert::Infallible;
use std::future::pending;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use ferroplane_client::{BearerToken, Endpoint, Impersonation, Kubeconfig, Transport};
use ferroplane_testkit::Pki;
use http::{Request, Response, StatusCode, Version};
use http_body_util::{BodyExt as _, Full};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use kube::client::Body;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tower_service::Service as _;

/// A server that says with which version of HTTP, for whom and with which token it was asked. It does not answer `/hang`, does not know
/// who asks for `/refused`, and says at `/who` with which certificate it is asked.
struct HttpServer {
    address: SocketAddr,
    pki: Pki,
    connections: Arc<AtomicUsize>,
}

impl HttpServer {
    /// One that offers these protocols, and answers so many requests on a connection at the same time.
    async fn start(protocols: &[&str], streams: u32) -> Self {
        Self::start_ignoring(protocols, streams, 0).await
    }

    /// The same, which accepts so many connections and says nothing on them, before all others.
    async fn start_ignoring(protocols: &[&str], streams: u32, ignored: usize) -> Self {
        let pki = Pki::new();
        let acceptor = acceptor(&pki, protocols);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let connections = Arc::new(AtomicUsize::new(0));
        let count = connections.clone();
        tokio::spawn(async move {
            let mut silent = Vec::new();
            while let Ok((stream, _)) = listener.accept().await {
                if count.fetch_add(1, Ordering::Relaxed) < ignored {
                    silent.push(stream);
                    continue;
                }
                let acceptor = acceptor.clone();
                tokio::spawn(async move {
                    let Ok(stream) = acceptor.accept(stream).await else { return };
                    let client = stream.get_ref().1.peer_certificates().map(|chain| mark(&chain[0]));
                    let answer = service_fn(move |request| answer(request, client.clone()));
                    let mut builder = auto::Builder::new(TokioExecutor::new());
                    builder.http2().max_concurrent_streams(streams);
                    let _ = builder.serve_connection(TokioIo::new(stream), answer).await;
                });
            }
        });
        Self { address, pki, connections }
    }

    fn endpoint(&self) -> Endpoint {
        Endpoint {
            server: format!("https://{}/prefix", self.address),
            authorities: Some(self.pki.ca().into_bytes()),
            server_name: Some("localhost".to_owned()),
            token: Some(BearerToken::Text("secret".to_owned())),
            ..Endpoint::default()
        }
    }

    fn transport(&self) -> Transport {
        Transport::new(self.endpoint()).unwrap()
    }

    fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }
}

fn acceptor(pki: &Pki, protocols: &[&str]) -> TlsAcceptor {
    let leaf = pki.issue(&["localhost"]);
    let certificates = vec![CertificateDer::from_pem_slice(leaf.certificate.as_bytes()).unwrap()];
    let key = PrivateKeyDer::from_pem_slice(leaf.key.as_bytes()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(pki.ca().as_bytes()).unwrap()).unwrap();
    let clients = WebPkiClientVerifier::builder_with_provider(roots.into(), provider.clone());
    let mut config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_client_cert_verifier(clients.allow_unauthenticated().build().unwrap())
        .with_single_cert(certificates, key)
        .unwrap();
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.as_bytes().to_vec()).collect();
    TlsAcceptor::from(Arc::new(config))
}

/// Tells a certificate from others: the end of its signature.
fn mark(certificate: &CertificateDer<'_>) -> String {
    format!("{:02x?}", &certificate[certificate.len() - 8..])
}

async fn answer(
    request: Request<hyper::body::Incoming>,
    client: Option<String>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    match request.uri().path().rsplit('/').next() {
        Some("hang") => return pending().await,
        Some("who") => return Ok(Response::new(Full::from(client.unwrap_or_default()))),
        Some("refused") => {
            let refused = Response::builder().status(StatusCode::UNAUTHORIZED);
            return Ok(refused.body(Full::default()).unwrap());
        }
        _ => {}
    }
    let header = |name: &str| request.headers().get(name).map_or("-", |value| value.to_str().unwrap());
    let host = request.uri().authority().map_or_else(|| header("host"), |authority| authority.as_str());
    let (version, path) = (request.version(), request.uri().path());
    let text =
        format!("{version:?} {path} {host} {} {}", header("authorization"), header("impersonate-user"));
    Ok(Response::new(Full::from(text)))
}

async fn get(transport: &Transport, path: &str) -> String {
    send(transport, Request::get(path).body(Body::empty()).unwrap()).await
}

async fn send(transport: &Transport, request: Request<Body>) -> String {
    let response = transport.clone().call(request).await.unwrap();
    String::from_utf8(response.into_body().collect().await.unwrap().to_bytes().to_vec()).unwrap()
}

/// A request that is never answered, until it is dropped.
fn hang(transport: &Transport) -> tokio::task::JoinHandle<()> {
    let mut transport = transport.clone();
    tokio::spawn(async move {
        let _ = transport.call(Request::get("/hang").body(Body::empty()).unwrap()).await;
    })
}

#[tokio::test]
async fn requests_share_an_http2_connection() {
    let server = HttpServer::start(&["h2", "http/1.1"], 100).await;
    let transport = server.transport();
    let gets = (0..20).map(|_| get(&transport, "/api"));
    for answer in futures_util::future::join_all(gets).await {
        assert_eq!(answer, format!("{:?} /prefix/api {} Bearer secret -", Version::HTTP_2, server.address));
    }
    assert_eq!(server.connections(), 1);
}

#[tokio::test]
async fn request_is_sent_while_watches_take_all_streams() {
    let server = HttpServer::start(&["h2"], 2).await;
    let transport = server.transport();
    // From the first answer on it is known how many streams the server allows.
    get(&transport, "/api").await;
    let watches: Vec<_> = (0..5).map(|_| hang(&transport)).collect();
    let opened = async {
        while server.connections() < 3 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), opened).await.expect("watches take three connections");
    let answer = tokio::time::timeout(Duration::from_secs(20), get(&transport, "/api")).await;
    assert!(answer.expect("no watch holds it up").starts_with("HTTP/2.0"));
    // What watches took is free again when they end.
    for watch in &watches {
        watch.abort();
    }
    futures_util::future::join_all(watches).await;
    let before = server.connections();
    get(&transport, "/api").await;
    assert_eq!(server.connections(), before);
}

#[tokio::test]
async fn connection_that_is_never_opened_does_not_hold_up_other_requests() {
    let server = HttpServer::start_ignoring(&["h2"], 100, 1).await;
    let transport = server.transport();
    let unlucky = hang(&transport);
    while server.connections() < 1 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let answer = tokio::time::timeout(Duration::from_secs(20), get(&transport, "/api")).await;
    assert!(answer.expect("it waits for no other").starts_with("HTTP/2.0"));
    assert_eq!(server.connections(), 2);
    unlucky.abort();
}

#[tokio::test]
async fn server_without_http2_is_asked_with_http1() {
    let server = HttpServer::start(&["http/1.1"], 1).await;
    let transport = server.transport().impersonating("user", &[]);
    for _ in 0..3 {
        let answer = get(&transport, "/api").await;
        assert_eq!(answer, format!("HTTP/1.1 /prefix/api {} Bearer secret user", server.address));
    }
    assert_eq!(server.connections(), 1);
    let _watches: Vec<_> = (0..3).map(|_| hang(&transport)).collect();
    assert!(get(&transport, "/api").await.starts_with("HTTP/1.1"));
}

#[tokio::test]
async fn user_of_a_kubeconfig_is_impersonated_by_every_request() {
    let server = HttpServer::start(&["h2", "http/1.1"], 100).await;
    let impersonation = Impersonation { user: "bob".to_owned(), ..Impersonation::default() };
    let endpoint = Endpoint { impersonation: Some(impersonation), ..server.endpoint() };
    let transport = Transport::new(endpoint).unwrap();
    let watch = get(&transport, "/api/v1/pods?watch=true").await;
    assert!(watch.starts_with("HTTP/2.0") && watch.ends_with("Bearer secret bob"), "{watch}");
    // As commands in containers are run.
    let exec = Request::get("/exec").header("connection", "Upgrade").header("upgrade", "websocket");
    let exec = send(&transport, exec.body(Body::empty()).unwrap()).await;
    assert!(exec.starts_with("HTTP/1.1") && exec.ends_with("Bearer secret bob"), "{exec}");
    // Nobody can be impersonated by an impersonated user, so that the last one counts.
    let other = get(&transport.impersonating("eve", &[]), "/api").await;
    assert!(other.ends_with("Bearer secret eve"), "{other}");
}

/// A proxy that notes what it is asked for, and connects to it if the password is right.
struct TestProxy {
    address: SocketAddr,
    requests: Arc<Mutex<Vec<String>>>,
}

impl TestProxy {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let notes = requests.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(forward(stream, notes.clone()));
            }
        });
        Self { address, requests }
    }
}

async fn forward(stream: TcpStream, notes: Arc<Mutex<Vec<String>>>) {
    let mut stream = BufReader::new(stream);
    let (mut head, mut line) = (String::new(), String::new());
    while stream.read_line(&mut line).await.unwrap() > 2 {
        head += &std::mem::take(&mut line);
    }
    let target = head.split(' ').nth(1).unwrap().to_owned();
    notes.lock().unwrap().push(head.lines().next().unwrap().to_owned());
    // user:password
    if !head.to_lowercase().contains("proxy-authorization: basic dxnlcjpwyxnzd29yza==") {
        stream.write_all(b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n").await.unwrap();
        return;
    }
    let mut server = TcpStream::connect(target).await.unwrap();
    stream.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").await.unwrap();
    let _ = tokio::io::copy_bidirectional(&mut stream, &mut server).await;
}

#[tokio::test]
async fn proxy_of_a_kubeconfig_is_used() {
    let server = HttpServer::start(&["h2", "http/1.1"], 100).await;
    let proxy = TestProxy::start().await;
    let url = format!("http://user:password@{}", proxy.address);
    let transport = Transport::new(Endpoint { proxy: Some(url), ..server.endpoint() }).unwrap();
    assert!(get(&transport, "/api").await.starts_with("HTTP/2.0 /prefix/api"));
    assert_eq!(*proxy.requests.lock().unwrap(), [format!("CONNECT {} HTTP/1.1", server.address)]);
}

#[tokio::test]
async fn proxy_that_refuses_is_named() {
    let server = HttpServer::start(&["h2"], 100).await;
    let proxy = TestProxy::start().await;
    let url = format!("http://{}", proxy.address);
    let mut transport = Transport::new(Endpoint { proxy: Some(url), ..server.endpoint() }).unwrap();
    let error = transport.call(Request::get("/api").body(Body::empty()).unwrap()).await.unwrap_err();
    assert_eq!(error.to_string(), "the proxy refuses the connection with status 407");
    assert_eq!(server.connections(), 0);
}

#[tokio::test]
async fn slow_token_file_does_not_hold_up_other_tasks() {
    let server = HttpServer::start(&["h2"], 100).await;
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("token");
    // To read a pipe lasts until a client writes to it.
    assert!(std::process::Command::new("mkfifo").arg(&file).status().unwrap().success());
    let token = Some(BearerToken::File(file.clone()));
    let transport = Transport::new(Endpoint { token, ..server.endpoint() }).unwrap();
    let (sender, receiver) = std::sync::mpsc::channel();
    let writer = std::thread::spawn(move || {
        let moved_on = receiver.recv_timeout(Duration::from_secs(5)).is_ok();
        std::fs::write(file, "piped\n").unwrap();
        moved_on
    });
    let other = async move { sender.send(()).unwrap() };
    let (answer, ()) = tokio::join!(get(&transport, "/api"), other);
    assert!(answer.contains("Bearer piped"), "{answer}");
    assert!(writer.join().unwrap(), "no other task ran while the token was read");
}

/// A kubeconfig whose user logs in with a program that prints these one after the other, and the last one from then on.
fn logging_in(server: &HttpServer, directory: &Path, credentials: &[Value]) -> Endpoint {
    for (index, status) in credentials.iter().enumerate() {
        let credential = json!({"kind": "ExecCredential", "status": status}).to_string();
        std::fs::write(directory.join(format!("{}.json", index + 1)), credential).unwrap();
    }
    let script =
        "echo run >> runs; run=$(wc -l < runs | tr -d ' '); cat $run.json 2>/dev/null || cat LAST.json";
    let script = script.replace("LAST", &credentials.len().to_string());
    let script = format!("cd '{}'; {script}", directory.display());
    let kubeconfig = json!({
        "current-context": "a",
        "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
        "clusters": [{"name": "a", "cluster": {"server": format!("https://{}", server.address)}}],
        "users": [{"name": "a", "user": {"exec": {"command": "sh", "args": ["-c", script]}}}],
    });
    let file = directory.join("kubeconfig");
    std::fs::write(&file, kubeconfig.to_string()).unwrap();
    let Endpoint { identity, token, .. } = Kubeconfig::read(&[file]).unwrap().endpoint(None).unwrap();
    Endpoint { identity, token, ..server.endpoint() }
}

/// A certificate as a credential plugin prints it, and what tells it from others.
fn printed(server: &HttpServer, expires: &str) -> (Value, String) {
    let leaf = server.pki.issue(&["client"]);
    let status = json!({
        "clientCertificateData": leaf.certificate, "clientKeyData": leaf.key, "expirationTimestamp": expires,
    });
    (status, mark(&CertificateDer::from_pem_slice(leaf.certificate.as_bytes()).unwrap()))
}

const LATER: &str = "2999-01-01T00:00:00Z";

#[tokio::test]
async fn certificate_of_a_credential_plugin_is_renewed_when_it_is_refused() {
    let server = HttpServer::start(&["h2"], 100).await;
    let directory = tempfile::tempdir().unwrap();
    let ((first, first_mark), (second, second_mark)) = (printed(&server, LATER), printed(&server, LATER));
    let transport = Transport::new(logging_in(&server, directory.path(), &[first, second])).unwrap();
    for _ in 0..2 {
        assert_eq!(get(&transport, "/who").await, first_mark);
    }
    assert_eq!(server.connections(), 1);
    // What runs on the old connection is not cut off.
    let watch = hang(&transport);
    assert_eq!(get(&transport, "/refused").await, "");
    for _ in 0..2 {
        assert_eq!(get(&transport, "/who").await, second_mark);
    }
    assert_eq!(server.connections(), 2);
    assert!(!watch.is_finished());
    watch.abort();
}

#[tokio::test]
async fn certificate_of_a_credential_plugin_is_renewed_when_it_expires() {
    let server = HttpServer::start(&["h2"], 100).await;
    let directory = tempfile::tempdir().unwrap();
    // Expired by what the plugin says, which is less than the certificate says.
    let (old, (new, new_mark)) = (printed(&server, "2020-01-01T00:00:00Z").0, printed(&server, LATER));
    let transport = Transport::new(logging_in(&server, directory.path(), &[old, new])).unwrap();
    assert_eq!(get(&transport, "/who").await, new_mark);
}
