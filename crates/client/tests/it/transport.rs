//! The transport: versions of HTTP, connections, proxies.

use std::convert::Infallible;
use std::future::pending;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use ferroplane_client::{BearerToken, Endpoint, Transport};
use ferroplane_testkit::Pki;
use http::{Request, Response, Version};
use http_body_util::{BodyExt as _, Full};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use kube::client::Body;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tower_service::Service as _;

/// A server that says with which version of HTTP, for whom and with which token it was asked, and does not answer `/hang`.
struct HttpServer {
    address: SocketAddr,
    authorities: String,
    connections: Arc<AtomicUsize>,
}

impl HttpServer {
    /// One that offers these protocols, and answers so many requests on a connection at the same time.
    async fn start(protocols: &[&str], streams: u32) -> Self {
        let pki = Pki::new();
        let acceptor = acceptor(&pki, protocols);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let connections = Arc::new(AtomicUsize::new(0));
        let count = connections.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                count.fetch_add(1, Ordering::Relaxed);
                let acceptor = acceptor.clone();
                tokio::spawn(async move {
                    let Ok(stream) = acceptor.accept(stream).await else { return };
                    let mut builder = auto::Builder::new(TokioExecutor::new());
                    builder.http2().max_concurrent_streams(streams);
                    let _ = builder.serve_connection(TokioIo::new(stream), service_fn(answer)).await;
                });
            }
        });
        Self { address, authorities: pki.ca(), connections }
    }

    fn endpoint(&self) -> Endpoint {
        Endpoint {
            server: format!("https://{}/prefix", self.address),
            authorities: Some(self.authorities.clone().into_bytes()),
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
    let mut config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(certificates, key)
        .unwrap();
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.as_bytes().to_vec()).collect();
    TlsAcceptor::from(Arc::new(config))
}

async fn answer(request: Request<hyper::body::Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    if request.uri().path().ends_with("/hang") {
        return pending().await;
    }
    let header = |name: &str| request.headers().get(name).map_or("-", |value| value.to_str().unwrap());
    let host = request.uri().authority().map_or_else(|| header("host"), |authority| authority.as_str());
    let (version, path) = (request.version(), request.uri().path());
    let text =
        format!("{version:?} {path} {host} {} {}", header("authorization"), header("impersonate-user"));
    Ok(Response::new(Full::from(text)))
}

async fn get(transport: &Transport, path: &str) -> String {
    let request = Request::get(path).body(Body::empty()).unwrap();
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
