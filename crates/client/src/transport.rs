//! HTTP to an API server, over TLS: a tower service for `kube::Client`. Connections are used again once they are free.

mod tls;

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use http::header::{AUTHORIZATION, HOST};
use http::uri::{Authority, Scheme};
use http::{HeaderName, HeaderValue, Request, Response, StatusCode, Uri};
use hyper::body::Incoming;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use kube::client::Body;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::{BearerToken, Endpoint};

const IMPERSONATE_USER: HeaderName = HeaderName::from_static("impersonate-user");
const IMPERSONATE_GROUP: HeaderName = HeaderName::from_static("impersonate-group");

/// Why there is no answer.
type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Why an endpoint cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum EndpointError {
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

/// Sends requests to one API server. Clones share connections.
#[derive(Clone)]
pub struct Transport {
    authority: Authority,
    /// What comes before every path.
    prefix: String,
    port: u16,
    name: ServerName<'static>,
    /// None for plain HTTP.
    connector: Option<TlsConnector>,
    token: Option<BearerToken>,
    idle: Arc<Mutex<Vec<SendRequest<Body>>>>,
    /// The user and the groups to impersonate.
    impersonated: Option<Arc<(String, Vec<String>)>>,
}

impl std::fmt::Debug for Transport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Transport").field("authority", &self.authority).finish_non_exhaustive()
    }
}

impl Transport {
    /// Connects when the first request is sent.
    pub fn new(endpoint: Endpoint) -> Result<Self, EndpointError> {
        let uri: Uri = endpoint.server.parse().map_err(EndpointError::Address)?;
        let authority = uri.authority().ok_or(EndpointError::NoHost)?.clone();
        let is_plain = uri.scheme() == Some(&Scheme::HTTP);
        let port = authority.port_u16().unwrap_or(if is_plain { 80 } else { 443 });
        let host = endpoint.server_name.clone().unwrap_or_else(|| bare(authority.host()).to_owned());
        let name = ServerName::try_from(host).map_err(EndpointError::Name)?;
        let connector =
            if is_plain { None } else { Some(TlsConnector::from(Arc::new(tls::client_config(&endpoint)?))) };
        let prefix = uri.path().trim_end_matches('/').to_owned();
        Ok(Self {
            authority,
            prefix,
            port,
            name,
            connector,
            token: endpoint.token,
            idle: Arc::default(),
            impersonated: None,
        })
    }

    /// The same, impersonating a user who is a member of groups.
    #[must_use]
    pub fn impersonating(&self, user: &str, groups: &[String]) -> Self {
        Self { impersonated: Some(Arc::new((user.to_owned(), groups.to_vec()))), ..self.clone() }
    }

    /// Adds address and credentials to a request.
    async fn prepare(&self, request: &mut Request<Body>) -> Result<(), Failure> {
        let path = request.uri().path_and_query().map_or("/", http::uri::PathAndQuery::as_str);
        *request.uri_mut() = format!("{}{path}", self.prefix).parse()?;
        let token = self.token().await?;
        let headers = request.headers_mut();
        headers.insert(HOST, self.authority.as_str().parse()?);
        if let Some(token) = token {
            let mut value = HeaderValue::from_str(&format!("Bearer {token}"))?;
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
        if let Some((name, groups)) = self.impersonated.as_deref() {
            headers.insert(IMPERSONATE_USER, name.parse()?);
            for group in groups {
                headers.append(IMPERSONATE_GROUP, group.parse()?);
            }
        }
        Ok(())
    }

    async fn token(&self) -> Result<Option<String>, Failure> {
        Ok(match &self.token {
            None => None,
            Some(BearerToken::Text(token)) => Some(token.clone()),
            Some(BearerToken::File(file)) => Some(std::fs::read_to_string(file)?.trim().to_owned()),
            Some(BearerToken::Exec(plugin)) => {
                let plugin = plugin.clone();
                tokio::task::spawn_blocking(move || plugin.credential()).await??.token
            }
        })
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

impl tower_service::Service<Request<Body>> for Transport {
    type Response = Response<Incoming>;
    type Error = Failure;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Failure>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        let transport = self.clone();
        Box::pin(async move {
            transport.prepare(&mut request).await?;
            let (sender, response) = transport.send(request).await?;
            if let (StatusCode::UNAUTHORIZED, Some(BearerToken::Exec(plugin))) =
                (response.status(), &transport.token)
            {
                plugin.discard();
            }
            // It is free once the answer has been read.
            transport.idle.lock().unwrap_or_else(PoisonError::into_inner).push(sender);
            Ok(response)
        })
    }
}
