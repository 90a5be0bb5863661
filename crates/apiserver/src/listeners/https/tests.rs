//! Clients that behave, and clients that do not.

use std::convert::Infallible;
use std::pin::Pin;
use std::process::Stdio;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{HeaderValue, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use jiff::{SignedDuration, Timestamp};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject as _};
use rustls::{ClientConfig, RootCertStore, SupportedProtocolVersion};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::{Semaphore, oneshot};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::*;
use crate::auth::authenticate::{Peer, ServiceAccountTokens, StaticTokens};
use crate::certificates::{Issued, server_names};
use crate::listeners::HttpService;
use crate::response::Body;
use crate::store::{Options, Store};

/// More than a client takes that reads nothing.
const LARGE: usize = 8 << 20;

/// Answers with what it knows of the peer. Waits to be told to on `/slow`, and says a lot on `/large`.
#[derive(Clone)]
struct Mirror {
    started: Arc<Semaphore>,
    go_on: Arc<Semaphore>,
}

impl Default for Mirror {
    fn default() -> Self {
        Self { started: Arc::new(Semaphore::new(0)), go_on: Arc::new(Semaphore::new(0)) }
    }
}

async fn count(semaphore: &Semaphore, times: u32) {
    semaphore.acquire_many(times).await.unwrap().forget();
}

impl Service<Request<Incoming>> for Mirror {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Incoming>) -> Self::Future {
        let Self { started, go_on } = self.clone();
        Box::pin(async move {
            if request.uri().path() == "/slow" {
                started.add_permits(1);
                count(&go_on, 1).await;
            }
            if request.uri().path() == "/large" {
                let piece = Bytes::from(vec![b'x'; 64 << 10]);
                return Ok(Response::new(Body::Chunks(vec![piece; LARGE >> 16].into())));
            }
            let connection = request.extensions().get::<Arc<Connection>>().unwrap();
            let peer = match &connection.peer {
                Peer::Unknown => "unknown",
                Peer::Verified(_) => "verified",
                Peer::Refused => "refused",
            };
            let text = format!("{:?} {peer}", request.version());
            Ok(Response::new(Body::from(Bytes::from(text))))
        })
    }
}

struct Server {
    address: SocketAddr,
    certificates: Arc<Certificates>,
    mirror: Mirror,
    end: Option<oneshot::Sender<()>>,
    served: tokio::task::JoinHandle<usize>,
}

impl Server {
    async fn start(settings: Settings) -> Self {
        Self::start_at(settings, Timestamp::now()).await
    }

    /// With certificates that were made at some time.
    async fn start_at(settings: Settings, made: Timestamp) -> Self {
        let mirror = Mirror::default();
        Self::serve(settings, made, mirror.clone(), mirror).await
    }

    /// An API server, with an administrator whose token is `secret`.
    async fn start_api() -> Self {
        let store = Store::in_memory(Options::default()).unwrap();
        let api = crate::Server::start(store, crate::Settings::default()).await.unwrap();
        let tokens = StaticTokens::from_csv("secret,ada,1,system:masters\n").unwrap();
        let accounts = ServiceAccountTokens::ephemeral("here", api.bound_object_lookup()).unwrap();
        api.set_authenticators(tokens, Arc::new(accounts));
        let service = HttpService::remote(api);
        Self::serve(Settings::default(), Timestamp::now(), service, Mirror::default()).await
    }

    async fn serve<S>(settings: Settings, made: Timestamp, service: S, mirror: Mirror) -> Self
    where
        S: Service<Request<Incoming>, Response = Response<Body>, Error = Infallible> + Clone + Send + 'static,
        S::Future: Send + 'static,
    {
        let names = server_names("127.0.0.1:0".parse().unwrap());
        let certificates = Arc::new(Certificates::ephemeral(names, made).unwrap());
        let https = Https::open("127.0.0.1:0".parse().unwrap(), &certificates, settings).await.unwrap();
        let address = https.address();
        let (end, ended) = oneshot::channel::<()>();
        let served = tokio::spawn(https.serve(service, async move {
            let _ = ended.await;
        }));
        Self { address, certificates, mirror, end: Some(end), served }
    }

    fn config(
        &self,
        client: Option<&Issued>,
        versions: &[&'static SupportedProtocolVersion],
    ) -> ClientConfig {
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(self.certificates.bundle().as_bytes()) {
            roots.add(certificate.unwrap()).unwrap();
        }
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(provider);
        let builder = builder.with_protocol_versions(versions).unwrap().with_root_certificates(roots);
        match client {
            None => builder.with_no_client_auth(),
            Some(Issued { certificate, key }) => {
                let chain =
                    CertificateDer::pem_slice_iter(certificate.as_bytes()).map(Result::unwrap).collect();
                let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
                builder.with_client_auth_cert(chain, key).unwrap()
            }
        }
    }

    async fn connect_with(&self, config: ClientConfig) -> io::Result<TlsStream<TcpStream>> {
        let stream = TcpStream::connect(self.address).await?;
        let name = ServerName::try_from("localhost").unwrap();
        TlsConnector::from(Arc::new(config)).connect(name, stream).await
    }

    async fn connect(&self, protocol: &str, client: Option<&Issued>) -> TlsStream<TcpStream> {
        let mut config = self.config(client, rustls::ALL_VERSIONS);
        config.alpn_protocols = vec![protocol.as_bytes().to_vec()];
        self.connect_with(config).await.unwrap()
    }

    async fn http1(&self, client: Option<&Issued>) -> conn::http1::SendRequest<Full<Bytes>> {
        let stream = self.connect("http/1.1", client).await;
        let (sender, connection) = conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        sender
    }

    async fn http2(&self) -> conn::http2::SendRequest<Full<Bytes>> {
        let stream = self.connect("h2", None).await;
        let builder = conn::http2::Builder::new(TokioExecutor::new());
        let (sender, connection) = builder.handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        sender
    }

    async fn stop(mut self) -> usize {
        self.end.take().unwrap().send(()).unwrap();
        self.served.await.unwrap()
    }
}

fn get(path: &str) -> Request<Full<Bytes>> {
    Request::get(path).header("host", "localhost").body(Full::default()).unwrap()
}

async fn text(response: Response<Incoming>) -> String {
    assert_eq!(response.status(), StatusCode::OK);
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    String::from_utf8(bytes.into()).unwrap()
}

#[tokio::test]
async fn both_versions_of_http_are_spoken() {
    let server = Server::start(Settings::default()).await;
    let answer = server.http1(None).await.send_request(get("/")).await.unwrap();
    assert_eq!(text(answer).await, "HTTP/1.1 unknown");
    let answer = server.http2().await.send_request(get("https://localhost/")).await.unwrap();
    assert_eq!(text(answer).await, "HTTP/2.0 unknown");
    assert_eq!(server.stop().await, 0);
}

#[tokio::test]
async fn both_versions_of_tls_are_spoken_without_a_protocol_being_agreed() {
    let server = Server::start(Settings::default()).await;
    for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
        let stream = server.connect_with(server.config(None, &[version])).await.unwrap();
        assert_eq!(stream.get_ref().1.protocol_version(), Some(version.version));
        let (mut sender, connection) = conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        assert_eq!(text(sender.send_request(get("/")).await.unwrap()).await, "HTTP/1.1 unknown");
    }
}

#[tokio::test]
async fn certificate_of_a_client_is_told_to_the_service() {
    let server = Server::start(Settings::default()).await;
    let now = Timestamp::now();
    let ours = server.certificates.issue_client("admin", &[], now).unwrap();
    let answer = server.http1(Some(&ours)).await.send_request(get("/")).await.unwrap();
    assert_eq!(text(answer).await, "HTTP/1.1 verified");
    let expired =
        server.certificates.issue_client("admin", &[], now - SignedDuration::from_hours(9_000)).unwrap();
    let stranger = Certificates::ephemeral(Vec::new(), now).unwrap().issue_client("admin", &[], now).unwrap();
    for client in [expired, stranger] {
        let answer = server.http1(Some(&client)).await.send_request(get("/")).await.unwrap();
        assert_eq!(text(answer).await, "HTTP/1.1 refused");
    }
}

#[tokio::test]
async fn renewed_certificate_is_shown_to_who_connects_next_and_open_connections_go_on() {
    let now = Timestamp::now();
    // It was started eight months ago.
    let server = Server::start_at(Settings::default(), now - SignedDuration::from_hours(250 * 24)).await;
    let shown = async || {
        let stream = server.connect_with(server.config(None, rustls::ALL_VERSIONS)).await.unwrap();
        stream.get_ref().1.peer_certificates().unwrap()[0].clone()
    };
    let old = shown().await;
    let mut open = server.http1(None).await;
    assert_eq!(text(open.send_request(get("/")).await.unwrap()).await, "HTTP/1.1 unknown");
    assert_eq!(shown().await, old);
    assert!(server.certificates.renew_if_due(now).unwrap().server);
    assert_ne!(shown().await, old);
    assert_eq!(text(open.send_request(get("/")).await.unwrap()).await, "HTTP/1.1 unknown");
}

#[tokio::test]
async fn client_without_the_key_of_its_certificate_is_cut_off() {
    let server = Server::start(Settings::default()).await;
    let now = Timestamp::now();
    let one = server.certificates.issue_client("admin", &[], now).unwrap();
    let other = server.certificates.issue_client("other", &[], now).unwrap();
    let mixed = Issued { certificate: one.certificate, key: other.key };
    let roots = server.config(None, rustls::ALL_VERSIONS);
    let chain = CertificateDer::pem_slice_iter(mixed.certificate.as_bytes()).map(Result::unwrap).collect();
    let key = PrivateKeyDer::from_pem_slice(mixed.key.as_bytes()).unwrap();
    let signer = rustls::crypto::aws_lc_rs::sign::any_supported_type(&key).unwrap();
    let mut config = roots;
    config.client_auth_cert_resolver =
        Arc::new(rustls::sign::SingleCertAndKey::from(rustls::sign::CertifiedKey::new(chain, signer)));
    // The client believes that all went well until it reads.
    if let Ok(mut stream) = server.connect_with(config).await {
        let _ = stream.write_all(b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n").await;
        assert!(stream.read_u8().await.is_err());
    }
}

#[tokio::test]
async fn handshakes_that_stop_halfway_keep_nobody_waiting() {
    let server = Server::start(Settings::default()).await;
    let config = Arc::new(server.config(None, rustls::ALL_VERSIONS));
    let mut halfway = Vec::new();
    for _ in 0..50 {
        let name = ServerName::try_from("localhost").unwrap();
        let mut client = rustls::ClientConnection::new(Arc::clone(&config), name).unwrap();
        let mut hello = Vec::new();
        client.write_tls(&mut hello).unwrap();
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        stream.write_all(&hello).await.unwrap();
        // The server has answered, so that this one had its turn; nothing more is said.
        stream.read_u8().await.unwrap();
        halfway.push(stream);
    }
    let answer = server.http1(None).await.send_request(get("/")).await.unwrap();
    assert_eq!(text(answer).await, "HTTP/1.1 unknown");
}

#[tokio::test]
async fn one_connection_has_a_thousand_requests_at_a_time() {
    let server = Server::start(Settings::default()).await;
    let sender = server.http2().await;
    let mut requests = JoinSet::new();
    for _ in 0..1_000 {
        let mut sender = sender.clone();
        requests
            .spawn(async move { sender.send_request(get("https://localhost/slow")).await.unwrap().status() });
    }
    count(&server.mirror.started, 1_000).await;
    server.mirror.go_on.add_permits(1_000);
    assert!(requests.join_all().await.iter().all(|status| *status == StatusCode::OK));
}

#[tokio::test]
async fn body_over_the_limit_is_refused_over_http2_and_the_connection_goes_on() {
    let server = Server::start_api().await;
    let mut sender = server.http2().await;
    let post = |body: Vec<u8>| {
        let request = Request::post("https://localhost/api/v1/namespaces/default/configmaps");
        let request =
            request.header("authorization", "Bearer secret").header("content-type", "application/json");
        request.body(Full::from(Bytes::from(body))).unwrap()
    };
    let refused = sender.send_request(post(vec![b' '; 4 << 20])).await.unwrap();
    assert_eq!(refused.status(), StatusCode::PAYLOAD_TOO_LARGE);
    let status = refused.into_body().collect().await.unwrap().to_bytes();
    let status: Value = serde_json::from_slice(&status).unwrap();
    assert_eq!(status["reason"], "RequestEntityTooLarge", "{status}");

    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "small"}});
    let created = sender.send_request(post(map.to_string().into_bytes())).await.unwrap();
    assert_eq!(created.status(), StatusCode::CREATED);
}

#[tokio::test]
async fn requests_that_were_begun_are_answered_at_the_end() {
    for is_http2 in [false, true] {
        let mut server = Server::start(Settings::default()).await;
        let answer = if is_http2 {
            let mut sender = server.http2().await;
            tokio::spawn(async move { sender.send_request(get("https://localhost/slow")).await })
        } else {
            let mut sender = server.http1(None).await;
            tokio::spawn(async move { sender.send_request(get("/slow")).await })
        };
        count(&server.mirror.started, 1).await;
        server.end.take().unwrap().send(()).unwrap();
        while TcpStream::connect(server.address).await.is_ok() {
            tokio::task::yield_now().await;
        }
        server.mirror.go_on.add_permits(1);
        assert_eq!(answer.await.unwrap().unwrap().status(), StatusCode::OK);
        assert_eq!(server.served.await.unwrap(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn requests_that_take_too_long_are_cut_at_the_end() {
    let server = Server::start(Settings::default()).await;
    let mut sender = server.http1(None).await;
    let answer = tokio::spawn(async move { sender.send_request(get("/slow")).await });
    count(&server.mirror.started, 1).await;
    assert_eq!(server.stop().await, 1);
    assert!(answer.await.unwrap().is_err());
}

/// Short limits, and real time: paused time would run ahead of the network.
fn impatient() -> Settings {
    let limit = Duration::from_millis(50);
    Settings { handshake: limit, header: limit, connections: 2, ..Settings::default() }
}

async fn is_cut(mut stream: impl tokio::io::AsyncRead + Unpin) -> bool {
    let mut rest = Vec::new();
    // Whatever comes, the end must come.
    let _ = stream.read_to_end(&mut rest).await;
    true
}

#[tokio::test]
async fn whoever_says_nothing_is_cut_off_and_makes_room() {
    let server = Server::start(impatient()).await;
    let silent = TcpStream::connect(server.address).await.unwrap();
    let mut slow = TcpStream::connect(server.address).await.unwrap();
    slow.write_all(&[0x16, 3, 1]).await.unwrap();
    // Both places are taken, and are free again when both are cut off.
    let next = server.connect("http/1.1", None).await;
    assert!(is_cut(silent).await && is_cut(slow).await);
    assert!(is_cut(next).await);
    let mut slow = server.connect("http/1.1", None).await;
    slow.write_all(b"GET / HTTP/1.1\r\nhost: x\r\nx: ").await.unwrap();
    assert!(is_cut(slow).await);
    let mut slow = server.connect("h2", None).await;
    slow.write_all(b"PRI * HTTP/2.0\r\n").await.unwrap();
    assert!(is_cut(slow).await);
    assert_eq!(server.stop().await, 0);
}

#[tokio::test]
async fn idle_connections_of_strangers_lock_nobody_out() {
    // As many as there may be, of HTTP/2, which answer pings and do nothing else.
    let settings = Settings { connections: 64, connections_of_peer: 48, ..Settings::default() };
    let server = Server::start(settings).await;
    let mut idle = Vec::new();
    for _ in 0..64 {
        idle.push(server.http2().await);
    }
    for _ in 0..8 {
        let mut sender = tokio::time::timeout(Duration::from_secs(10), server.http2()).await.unwrap();
        let answer = sender.send_request(get("https://localhost/")).await.unwrap();
        assert_eq!(answer.status(), StatusCode::OK);
        idle.push(sender);
    }
    tokio::time::timeout(Duration::from_secs(10), async {
        while idle.iter().filter(|sender| !sender.is_closed()).count() > 48 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await
    .expect("one address has no more than its share");
    assert!(!idle.last().unwrap().is_closed());
}

#[tokio::test]
async fn connection_without_anybody_behind_it_is_closed() {
    let limit = Duration::from_millis(300);
    let server = Server::start(Settings { unauthenticated: Some(limit), ..Settings::default() }).await;
    // A client that asks something without saying who they are is answered, and parts.
    let mut stranger = server.http2().await;
    assert_eq!(
        text(stranger.send_request(get("https://localhost/")).await.unwrap()).await,
        "HTTP/2.0 unknown"
    );
    let mut idle = server.connect("http/1.1", None).await;
    let mut asking = server.http2().await;
    let slow = tokio::spawn(async move { asking.send_request(get("https://localhost/slow")).await });
    count(&server.mirror.started, 1).await;
    tokio::time::timeout(Duration::from_secs(20), async {
        while !stranger.is_closed() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let _ = idle.read_to_end(&mut Vec::new()).await;
    })
    .await
    .expect("nobody stays without a name");
    assert!(!slow.is_finished(), "what was asked is answered first");
    server.mirror.go_on.add_permits(1);
    assert_eq!(slow.await.unwrap().unwrap().status(), StatusCode::OK);
}

#[tokio::test]
async fn connection_on_which_nothing_happens_is_closed() {
    let idle = Duration::from_millis(300);
    let server = Server::start(Settings { unauthenticated: None, idle, ..Settings::default() }).await;
    let (silent, mut asking) = (server.http2().await, server.http2().await);
    let slow = tokio::spawn(async move { asking.send_request(get("https://localhost/slow")).await });
    count(&server.mirror.started, 1).await;
    tokio::time::timeout(Duration::from_secs(20), async {
        while !silent.is_closed() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await
    .expect("an idle connection ends");
    tokio::time::sleep(idle).await;
    assert!(!slow.is_finished(), "a connection that waits for an answer is not idle");
    server.mirror.go_on.add_permits(1);
    assert_eq!(slow.await.unwrap().unwrap().status(), StatusCode::OK);
}

#[tokio::test]
async fn unread_response_ends_a_connection_on_which_nothing_else_is_read() {
    let stalled = Duration::from_millis(100);
    let server = Server::start(Settings { unauthenticated: None, stalled, ..Settings::default() }).await;
    let mut sender = server.http2().await;
    let unread = sender.send_request(get("https://localhost/large")).await.unwrap();
    assert_eq!(unread.status(), StatusCode::OK);
    let began = tokio::time::Instant::now();
    while began.elapsed() < 10 * stalled {
        let answer = sender.send_request(get("https://localhost/")).await.unwrap();
        assert_eq!(text(answer).await, "HTTP/2.0 unknown", "others go on");
    }
    tokio::time::timeout(Duration::from_secs(20), async {
        while sender.send_request(get("https://localhost/")).await.is_ok() {
            tokio::time::sleep(5 * stalled).await;
        }
    })
    .await
    .expect("a client that reads nothing has to go");
    drop(unread);
}

#[tokio::test]
async fn header_that_is_too_long_is_refused() {
    let server = Server::start(Settings::default()).await;
    let with_long_header = |uri| {
        let mut request = get(uri);
        request.headers_mut().insert("authorization", HeaderValue::from_bytes(&vec![b'x'; 1 << 20]).unwrap());
        request
    };
    let first = server.http1(None).await.send_request(with_long_header("/")).await;
    let second = server.http2().await.send_request(with_long_header("https://localhost/")).await;
    for answer in [first, second] {
        // A client that is still sending may see no more than the end of the connection.
        let status = answer.map_or(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, |answer| answer.status());
        assert_eq!(status, StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE);
    }
    assert_eq!(server.stop().await, 0);
}

#[tokio::test]
async fn garbage_ends_the_connection_only() {
    let server = Server::start(Settings::default()).await;
    let mut raw = TcpStream::connect(server.address).await.unwrap();
    raw.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
    assert!(is_cut(raw).await);
    let mut stream = server.connect("h2", None).await;
    stream.write_all(&[0xff; 64]).await.unwrap();
    assert!(is_cut(stream).await);
    let answer = server.http1(None).await.send_request(get("/")).await.unwrap();
    assert_eq!(answer.status(), StatusCode::OK);
}

/// A client that we did not write: which versions of TLS does OpenSSL get?
#[tokio::test]
async fn openssl_gets_new_versions_of_tls_only() {
    let server = Server::start(Settings::default()).await;
    for (option, is_spoken) in [("-tls1_3", true), ("-tls1_2", true), ("-tls1_1", false)] {
        let mut command = tokio::process::Command::new("openssl");
        command.args(["s_client", option, "-alpn", "h2", "-servername", "localhost", "-connect"]);
        command.arg(server.address.to_string()).stdin(Stdio::null());
        // Nothing to compare with where there is no OpenSSL.
        let Ok(output) = command.output().await else { return };
        let text = String::from_utf8_lossy(&output.stdout);
        assert_eq!(text.contains("ALPN protocol: h2"), is_spoken, "{option}: {text}");
    }
}
