//! Speaks HTTP to an API server, over TLS. Connections are used again once they are free.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use http::header::{AUTHORIZATION, HOST};
use http::uri::{Authority, Scheme};
use http::{HeaderName, HeaderValue, Request, Response, Uri};
use hyper::body::Incoming;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use kube::client::Body;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::{Token, Way};

const IMPERSONATE_USER: HeaderName = HeaderName::from_static("impersonate-user");
const IMPERSONATE_GROUP: HeaderName = HeaderName::from_static("impersonate-group");

/// Why there is no answer.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// A way that leads nowhere.
#[derive(Debug, thiserror::Error)]
pub enum BadWay {
    #[error("cannot understand the address")]
    Address(#[source] http::uri::InvalidUri),
    #[error("the address has no host")]
    NoHost,
    #[error("the host is no name for a server")]
    Name(#[source] rustls::pki_types::InvalidDnsNameError),
    #[error("cannot read the certificate authority")]
    Authority(#[source] Failure),
    #[error("cannot read the client's certificate or its key")]
    Identity(#[source] rustls::pki_types::pem::Error),
    #[error("cannot use the client's certificate")]
    Tls(#[source] rustls::Error),
}

/// A server to speak to. Clones share connections.
#[derive(Clone)]
pub struct Line {
    authority: Authority,
    /// What comes before every path.
    prefix: String,
    port: u16,
    name: ServerName<'static>,
    /// None speaks without TLS.
    connector: Option<TlsConnector>,
    token: Option<Token>,
    idle: Arc<Mutex<Vec<SendRequest<Body>>>>,
    /// For whom we speak: a name, and groups.
    who: Option<Arc<(String, Vec<String>)>>,
}

impl std::fmt::Debug for Line {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Line").field("authority", &self.authority).finish_non_exhaustive()
    }
}

impl Line {
    /// Connects when the first request is sent.
    pub fn new(way: Way) -> Result<Self, BadWay> {
        let uri: Uri = way.server.parse().map_err(BadWay::Address)?;
        let authority = uri.authority().ok_or(BadWay::NoHost)?.clone();
        let is_plain = uri.scheme() == Some(&Scheme::HTTP);
        let port = authority.port_u16().unwrap_or(if is_plain { 80 } else { 443 });
        let host = way.server_name.clone().unwrap_or_else(|| bare(authority.host()).to_owned());
        let name = ServerName::try_from(host).map_err(BadWay::Name)?;
        let connector = if is_plain { None } else { Some(TlsConnector::from(Arc::new(config(&way)?))) };
        let prefix = uri.path().trim_end_matches('/').to_owned();
        Ok(Self {
            authority,
            prefix,
            port,
            name,
            connector,
            token: way.token,
            idle: Arc::default(),
            who: None,
        })
    }

    /// The same, speaking for somebody else, who is a member of groups.
    #[must_use]
    pub fn speaking_for(&self, name: &str, groups: &[String]) -> Self {
        Self { who: Some(Arc::new((name.to_owned(), groups.to_vec()))), ..self.clone() }
    }

    fn introduce(&self, request: &mut Request<Body>) -> Result<(), Failure> {
        let path = request.uri().path_and_query().map_or("/", http::uri::PathAndQuery::as_str);
        *request.uri_mut() = format!("{}{path}", self.prefix).parse()?;
        let token = match &self.token {
            None => None,
            Some(Token::Text(token)) => Some(token.clone()),
            Some(Token::File(file)) => Some(std::fs::read_to_string(file)?.trim().to_owned()),
        };
        let headers = request.headers_mut();
        headers.insert(HOST, self.authority.as_str().parse()?);
        if let Some(token) = token {
            let mut value = HeaderValue::from_str(&format!("Bearer {token}"))?;
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
        if let Some((name, groups)) = self.who.as_deref() {
            headers.insert(IMPERSONATE_USER, name.parse()?);
            for group in groups {
                headers.append(IMPERSONATE_GROUP, group.parse()?);
            }
        }
        Ok(())
    }

    /// On a connection that is free, or on a new one if the server has closed that meanwhile.
    async fn send(
        &self,
        mut request: Request<Body>,
    ) -> Result<(SendRequest<Body>, Response<Incoming>), Failure> {
        while let Some(mut sender) = self.free() {
            match sender.try_send_request(request).await {
                Ok(response) => return Ok((sender, response)),
                Err(mut error) => match error.take_message() {
                    Some(unsent) => request = unsent,
                    None => return Err(error.into_error().into()),
                },
            }
        }
        let mut sender = self.connect().await?;
        let response = sender.send_request(request).await?;
        Ok((sender, response))
    }

    /// A connection on which nobody is answered any more.
    fn free(&self) -> Option<SendRequest<Body>> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.retain(|sender| !sender.is_closed());
        idle.iter().position(SendRequest::is_ready).map(|place| idle.swap_remove(place))
    }

    async fn connect(&self) -> Result<SendRequest<Body>, Failure> {
        let stream = TcpStream::connect((bare(self.authority.host()), self.port)).await?;
        stream.set_nodelay(true)?;
        match &self.connector {
            Some(connector) => open(connector.connect(self.name.clone(), stream).await?).await,
            None => open(stream).await,
        }
    }
}

async fn open<S>(stream: S) -> Result<SendRequest<Body>, Failure>
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
{
    let (sender, connection) = handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    Ok(sender)
}

/// Addresses of IPv6 stand in brackets.
fn bare(host: &str) -> &str {
    host.trim_start_matches('[').trim_end_matches(']')
}

impl tower_service::Service<Request<Body>> for Line {
    type Response = Response<Incoming>;
    type Error = Failure;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Failure>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        let line = self.clone();
        Box::pin(async move {
            line.introduce(&mut request)?;
            let (sender, response) = line.send(request).await?;
            // It is free once the answer has been read.
            line.idle.lock().unwrap_or_else(PoisonError::into_inner).push(sender);
            Ok(response)
        })
    }
}

fn config(way: &Way) -> Result<ClientConfig, BadWay> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(BadWay::Tls)?;
    let builder = if way.trusts_anybody {
        builder.dangerous().with_custom_certificate_verifier(Arc::new(Anybody(provider)))
    } else {
        builder.with_root_certificates(roots(way.authorities.as_deref())?)
    };
    let Some((certificate, key)) = &way.identity else { return Ok(builder.with_no_client_auth()) };
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(certificate).collect();
    let key = PrivateKeyDer::from_pem_slice(key).map_err(BadWay::Identity)?;
    builder.with_client_auth_cert(certificates.map_err(BadWay::Identity)?, key).map_err(BadWay::Tls)
}

fn roots(authorities: Option<&[u8]>) -> Result<RootCertStore, BadWay> {
    let mut roots = RootCertStore::empty();
    match authorities {
        Some(authorities) => {
            for certificate in CertificateDer::pem_slice_iter(authorities) {
                let certificate = certificate.map_err(|error| BadWay::Authority(error.into()))?;
                roots.add(certificate).map_err(|error| BadWay::Authority(error.into()))?;
            }
        }
        None => {
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
    }
    Ok(roots)
}

/// Believes whoever answers, because the user said so.
#[derive(Debug)]
struct Anybody(Arc<CryptoProvider>);

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls12_signature(
            message,
            certificate,
            signature,
            &self.0.signature_verification_algorithms,
        )
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls13_signature(
            message,
            certificate,
            signature,
            &self.0.signature_verification_algorithms,
        )
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
