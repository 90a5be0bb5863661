//! Connections to one webhook: HTTP/1.1 over TLS, used again and again.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_LENGTH, CONTENT_TYPE, HOST, USER_AGENT};
use http::{Method, Request, Response};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::destination::{self, Route};

/// How many connections are kept that nothing uses at the moment.
const IDLE: usize = 8;
/// The most that a webhook may say. A patch may be about as large as an object, and is encoded twice.
const LONGEST_ANSWER: usize = 8 << 20;

type Sender = SendRequest<Full<Bytes>>;

/// Connections that wait to be used again.
#[derive(Debug, Default)]
pub(super) struct Connections {
    idle: Mutex<Vec<Sender>>,
}

/// Why nothing came back. The texts are those of Go's HTTP client, as Kubernetes tells them.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    #[error(transparent)]
    Destination(#[from] destination::Error),
    #[error(transparent)]
    Request(#[from] http::Error),
    #[error(transparent)]
    Name(#[from] rustls::pki_types::InvalidDnsNameError),
    #[error("dial tcp {address}: connect: connection refused")]
    Refused { address: String },
    #[error("dial tcp: lookup {host}: no such host")]
    NoSuchHost { host: String },
    #[error("dial tcp {address}: {source}")]
    Connect { address: String, source: io::Error },
    #[error("tls: failed to verify certificate: x509: {0}")]
    Untrusted(String),
    #[error(transparent)]
    Tls(io::Error),
    /// The connection ended without an answer, which Go calls the end of a file.
    #[error("EOF")]
    Closed,
    #[error("{}", chain(.0))]
    Http(hyper::Error),
    /// The answer broke off, or was too long.
    #[error(transparent)]
    Body(Box<dyn std::error::Error + Send + Sync>),
    #[error("context deadline exceeded")]
    Deadline,
}

/// What came back.
#[derive(Debug)]
pub(super) struct Reply {
    pub(super) code: u16,
    pub(super) content_type: String,
    pub(super) body: Bytes,
}

impl Connections {
    /// Sends a document and waits for the answer, for as long as the caller does.
    pub(super) async fn post(
        &self,
        route: &Route,
        tls: Arc<ClientConfig>,
        query: &str,
        body: Bytes,
    ) -> Result<Reply, Error> {
        let mut request = request(route, query, body)?;
        // A connection may be closed at the other end at any time. What was not sent on it is sent on another.
        while let Some(mut sender) = self.take() {
            match sender.try_send_request(request).await {
                Ok(response) => return self.read(sender, response).await,
                Err(mut error) => match error.take_message() {
                    Some(unsent) => request = unsent,
                    None => return Err(failed(error.into_error())),
                },
            }
        }
        // On a new connection nothing is tried again: the webhook may have seen the request.
        let mut sender = connect(route, tls).await?;
        let response = sender.send_request(request).await.map_err(failed)?;
        self.read(sender, response).await
    }

    async fn read(&self, sender: Sender, response: Response<Incoming>) -> Result<Reply, Error> {
        let code = response.status().as_u16();
        let header = response.headers().get(CONTENT_TYPE);
        let content_type = header.and_then(|header| header.to_str().ok()).unwrap_or_default().to_owned();
        let collected = Limited::new(response.into_body(), LONGEST_ANSWER).collect().await;
        let body = collected.map_err(Error::Body)?.to_bytes();
        self.keep(sender);
        Ok(Reply { code, content_type, body })
    }

    fn take(&self) -> Option<Sender> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.retain(|sender| !sender.is_closed());
        // One that is not ready has not read the end of the last answer yet; there is little to win by waiting.
        let ready = idle.iter().rposition(SendRequest::is_ready)?;
        Some(idle.swap_remove(ready))
    }

    fn keep(&self, sender: Sender) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < IDLE && !sender.is_closed() {
            idle.push(sender);
        }
    }
}

fn request(route: &Route, query: &str, body: Bytes) -> Result<Request<Full<Bytes>>, http::Error> {
    Request::builder()
        .method(Method::POST)
        .uri(format!("{}?{query}", route.path))
        .header(HOST, &route.authority)
        .header(USER_AGENT, "kube-apiserver-admission")
        .header(ACCEPT, "application/json, */*")
        .header(CONTENT_TYPE, "application/json")
        .header(CONTENT_LENGTH, body.len())
        .body(Full::new(body))
}

async fn connect(route: &Route, tls: Arc<ClientConfig>) -> Result<Sender, Error> {
    let (host, port) = route.address.clone()?.unwrap_or_else(|| (route.host.clone(), route.port));
    let name = ServerName::try_from(route.host.clone())?;
    let stream = TcpStream::connect((host.as_str(), port))
        .await
        .map_err(|error| unreachable(host.clone(), port, error))?;
    let _ = stream.set_nodelay(true);
    let stream =
        TlsConnector::from(tls).connect(name, stream).await.map_err(|error| untrusted(&route.host, error))?;
    let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(failed)?;
    // It ends when no client is left to send anything on it.
    tokio::spawn(async move {
        let _ = connection.await;
    });
    Ok(sender)
}

fn unreachable(host: String, port: u16, source: io::Error) -> Error {
    let address = if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") };
    match source.kind() {
        io::ErrorKind::ConnectionRefused => Error::Refused { address },
        // `io::ErrorKind` has no kind for a name that does not resolve: such an error has no code of the system.
        _ if source.raw_os_error().is_none() => Error::NoSuchHost { host },
        _ => Error::Connect { address, source },
    }
}

/// Kubernetes' words for certificates that are not good enough.
fn untrusted(host: &str, error: io::Error) -> Error {
    let cause = error.get_ref().and_then(|cause| cause.downcast_ref::<rustls::Error>());
    let Some(rustls::Error::InvalidCertificate(reason)) = cause else { return Error::Tls(error) };
    Error::Untrusted(match reason {
        rustls::CertificateError::UnknownIssuer | rustls::CertificateError::BadSignature => {
            "certificate signed by unknown authority".to_owned()
        }
        rustls::CertificateError::NotValidForNameContext { presented, .. } if presented.is_empty() => {
            format!("certificate is not valid for any names, but wanted to match {host}")
        }
        rustls::CertificateError::NotValidForNameContext { presented, .. } => {
            let names = presented.iter().map(|name| plain(name)).collect::<Vec<_>>();
            format!("certificate is valid for {}, not {host}", names.join(", "))
        }
        rustls::CertificateError::Expired | rustls::CertificateError::ExpiredContext { .. } => {
            "certificate has expired or is not yet valid".to_owned()
        }
        other => other.to_string(),
    })
}

/// A name without its type: `DnsName("a")` is `a`.
fn plain(name: &str) -> &str {
    name.split_once('(').map_or(name, |(_, name)| name.trim_end_matches(')').trim_matches('"'))
}

fn failed(error: hyper::Error) -> Error {
    let mut causes = std::iter::successors(std::error::Error::source(&error), |cause| cause.source());
    let is_end = |cause: &(dyn std::error::Error + 'static)| {
        let cause = cause.downcast_ref::<io::Error>();
        cause.is_some_and(|cause| cause.kind() == io::ErrorKind::UnexpectedEof)
    };
    if error.is_incomplete_message() || error.is_closed() || causes.any(is_end) {
        return Error::Closed;
    }
    Error::Http(error)
}

/// What went wrong, with all causes.
fn chain(error: &hyper::Error) -> String {
    let causes = std::iter::successors(std::error::Error::source(error), |cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}
