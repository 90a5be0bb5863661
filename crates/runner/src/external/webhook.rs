//! Calls functions that are webhooks: one POST over HTTPS.
//!
//! # Guarantees
//! * The address that is called is the one that was checked: a name is resolved once, and the connection goes to that address.
//! * Addresses of this machine are called only if that is permitted. Link-local addresses and those of cloud metadata services are
//!   never called.
//! * The certificate of the server is verified. There is no way to turn that off, and redirects are not followed.
//! * A call ends within its timeout, and an answer is never larger than [`MAX_ANSWER`].

mod address;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, HOST, USER_AGENT};
use http::{Method, Request, StatusCode, Uri};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::error::CallError;
use crate::exchange::MAX_ANSWER;
use address::{Access, access};

/// How much of a response that is no success is quoted.
const TOLD: usize = 512;

/// A request to a webhook.
pub(super) struct Post<'a> {
    pub(super) url: &'a str,
    /// PEM in base64.
    pub(super) ca_bundle: Option<&'a str>,
    pub(super) body: Bytes,
    pub(super) timeout: Duration,
    pub(super) may_be_local: bool,
}

/// Calls webhooks.
#[derive(Debug, Clone, Default)]
pub(super) struct Client {
    /// What the machine trusts, read once.
    machine: Arc<tokio::sync::OnceCell<Arc<ClientConfig>>>,
}

impl Client {
    /// What the server answers.
    pub(super) async fn post(&self, post: Post<'_>) -> Result<Vec<u8>, CallError> {
        let (target, after) = (post.url.to_owned(), post.timeout);
        let timeout = tokio::time::timeout(after, self.answer(post)).await;
        timeout.map_err(|_| CallError::Timeout { target, after })?
    }

    async fn answer(&self, request: Post<'_>) -> Result<Vec<u8>, CallError> {
        let Post { url, ca_bundle, body, timeout, may_be_local } = request;
        let target = || url.to_owned();
        let unreachable =
            |reason: String| CallError::Unreachable { target: target(), waited: timeout, reason };
        let tls = |reason: String| CallError::Tls { target: target(), reason };
        let uri: Uri = url.parse().map_err(|error: http::uri::InvalidUri| unreachable(error.to_string()))?;
        let host = uri.host().unwrap_or_default().trim_matches(['[', ']']).to_owned();
        let config = self.config(ca_bundle).await.map_err(tls)?;
        let name = ServerName::try_from(host.clone()).map_err(|error| tls(error.to_string()))?;
        let port = uri.port_u16().unwrap_or(443);
        let addresses = resolve(&host, port, may_be_local).await.map_err(unreachable)?;
        let stream = connect(&addresses).await.map_err(|error| unreachable(error.to_string()))?;
        let connected = TlsConnector::from(config).connect(name, stream).await;
        let stream = connected.map_err(|error| tls(error.to_string()))?;
        exchange(stream, &uri, body, url).await
    }

    async fn config(&self, ca_bundle: Option<&str>) -> Result<Arc<ClientConfig>, String> {
        if let Some(bundle) = ca_bundle {
            let pem = BASE64_STANDARD.decode(bundle).map_err(|_| "caBundle is not base64".to_owned())?;
            let certificates = CertificateDer::pem_slice_iter(&pem).collect::<Result<Vec<_>, _>>();
            let certificates = certificates.map_err(|error| format!("caBundle is not PEM: {error}"))?;
            return config(certificates);
        }
        let read = || async {
            // It reads a few hundred files.
            let load = || rustls_native_certs::load_native_certs().certs;
            let certificates = tokio::task::spawn_blocking(load).await.map_err(|error| error.to_string())?;
            config(certificates)
        };
        self.machine.get_or_try_init(read).await.cloned()
    }
}

fn config(certificates: Vec<CertificateDer<'static>>) -> Result<Arc<ClientConfig>, String> {
    let mut roots = RootCertStore::empty();
    let (added, _) = roots.add_parsable_certificates(certificates);
    if added == 0 {
        return Err("there is no certificate authority to trust: name one with caBundle".to_owned());
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    Ok(Arc::new(builder.with_root_certificates(roots).with_no_client_auth()))
}

/// The addresses of a host that may be called.
async fn resolve(host: &str, port: u16, may_be_local: bool) -> Result<Vec<SocketAddr>, String> {
    let found = tokio::net::lookup_host((host, port)).await.map_err(|error| error.to_string())?;
    let found: Vec<_> = found.collect();
    // All of them, not only those that would be called: a name that has such an address is up to something.
    let with = |wanted: Access| found.iter().map(SocketAddr::ip).find(|address| access(*address) == wanted);
    if let Some(address) = with(Access::Never) {
        return Err(format!(
            "`{host}` has the address {address}, which is link-local or that of a cloud metadata service: webhooks cannot be \
             there, and no AccessGrant allows it"
        ));
    }
    if let Some(address) = with(Access::Granted).filter(|_| !may_be_local) {
        return Err(format!(
            "`{host}` has the address {address}, which is on this machine, and no AccessGrant allows to call it: one with \
             `call: [{{hosts: [\"{host}\"]}}]` would"
        ));
    }
    if found.is_empty() { Err(format!("`{host}` has no address")) } else { Ok(found) }
}

async fn connect(addresses: &[SocketAddr]) -> std::io::Result<TcpStream> {
    let mut last = std::io::Error::from(std::io::ErrorKind::AddrNotAvailable);
    for address in addresses {
        match TcpStream::connect(address).await {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

async fn exchange(
    stream: TlsStream<TcpStream>,
    uri: &Uri,
    body: Bytes,
    url: &str,
) -> Result<Vec<u8>, CallError> {
    let lost = |error: hyper::Error| CallError::Lost { target: url.to_owned(), reason: error.to_string() };
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(lost)?;
    // Ends with the sender: the connection is not kept.
    let connection = AbortOnDrop(tokio::spawn(connection));
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    let request = Request::builder()
        .method(Method::POST)
        .uri(path)
        .header(HOST, uri.authority().map_or("", |authority| authority.as_str()))
        .header(CONTENT_TYPE, "application/json")
        .header(ACCEPT, "application/json, application/yaml")
        .header(USER_AGENT, concat!("ferroplane/", env!("CARGO_PKG_VERSION")))
        .body(Full::new(body));
    let invalid = |error: http::Error| CallError::Lost { target: url.to_owned(), reason: error.to_string() };
    let response = sender.send_request(request.map_err(invalid)?).await.map_err(lost)?;
    let status = response.status();
    let too_large = || CallError::ResponseTooLarge { target: url.to_owned(), limit: MAX_ANSWER };
    let answer = Limited::new(response.into_body(), MAX_ANSWER).collect().await;
    drop(connection);
    let answer = answer.map_err(|error| match error.downcast::<hyper::Error>() {
        Ok(error) => lost(*error),
        Err(_) => too_large(),
    })?;
    let answer = answer.to_bytes();
    if status == StatusCode::OK { Ok(answer.to_vec()) } else { Err(refused(url, status, &answer)) }
}

fn refused(url: &str, status: StatusCode, answer: &[u8]) -> CallError {
    let said = String::from_utf8_lossy(&answer[..answer.len().min(TOLD)]);
    let said = said.lines().next().unwrap_or_default().trim().to_owned();
    let hint = if status.is_redirection() { " (redirects are not followed)" } else { "" };
    let separator = if said.is_empty() { "" } else { ": " };
    CallError::Refused { target: url.to_owned(), reason: format!("{status}{hint}{separator}{said}") }
}

struct AbortOnDrop<T>(tokio::task::JoinHandle<T>);

impl<T> Drop for AbortOnDrop<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}
