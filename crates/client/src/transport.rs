//! HTTP to an API server, over TLS: a tower service for `kube::Client`.
//!
//! Speaks HTTP/2 if the server does, so that hundreds of watches share a few connections, and HTTP/1.1 otherwise.

mod connector;
mod pool;
mod proxy;
mod tls;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::header::{AUTHORIZATION, HOST, UPGRADE};
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{HeaderName, HeaderValue, Request, Response, StatusCode, Uri, Version};
use kube::client::Body;

use crate::{BearerToken, Endpoint};
use connector::Connector;
use pool::Pool;
pub use pool::TransportBody;
use proxy::Proxy;

const IMPERSONATE_USER: HeaderName = HeaderName::from_static("impersonate-user");
const IMPERSONATE_GROUP: HeaderName = HeaderName::from_static("impersonate-group");

/// Why there is no answer.
type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Why an endpoint cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum EndpointError {
    #[error("cannot parse the address")]
    Address(#[source] http::uri::InvalidUri),
    #[error("the address has no host")]
    NoHost,
    #[error("the host is not a valid server name")]
    Name(#[source] rustls::pki_types::InvalidDnsNameError),
    // Without its address, which may contain a password.
    #[error("cannot use the proxy: its address does not begin with `http` or `https`")]
    Proxy,
    #[error("cannot read the certificate authority")]
    Authority(#[source] BoxError),
    #[error("cannot read the client's certificate or its key")]
    Identity(#[source] rustls::pki_types::pem::Error),
    #[error("cannot use the client's certificate")]
    Tls(#[source] rustls::Error),
}

/// Sends requests to one API server. Clones share connections.
#[derive(Clone)]
pub struct Transport {
    scheme: Scheme,
    authority: Authority,
    /// What comes before every path.
    prefix: String,
    token: Option<BearerToken>,
    /// The user and the groups to impersonate.
    impersonated: Option<Arc<(String, Vec<String>)>>,
    pool: Arc<Pool>,
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
        let proxy = Proxy::find(&endpoint, &uri)?;
        let connector = Connector::new(&endpoint, &uri, proxy)?;
        Ok(Self {
            scheme: uri.scheme().cloned().unwrap_or(Scheme::HTTPS),
            authority,
            prefix: uri.path().trim_end_matches('/').to_owned(),
            token: endpoint.token,
            impersonated: None,
            pool: Arc::new(Pool::new(connector)),
        })
    }

    /// The same, impersonating a user who is a member of groups.
    #[must_use]
    pub fn impersonating(&self, user: &str, groups: &[String]) -> Self {
        Self { impersonated: Some(Arc::new((user.to_owned(), groups.to_vec()))), ..self.clone() }
    }

    async fn send(&self, mut request: Request<Body>) -> Result<Response<TransportBody>, BoxError> {
        let path = request.uri().path_and_query().map_or("/", PathAndQuery::as_str);
        *request.uri_mut() = format!("{}{path}", self.prefix).parse()?;
        let token = self.add_credentials(&mut request).await?;
        let address = |request: &mut Request<Body>, version| self.address(request, version);
        let response = if request.headers().contains_key(UPGRADE) {
            self.pool.send_upgrade(request, address).await?
        } else {
            self.pool.send(request, address).await?
        };
        if let (StatusCode::UNAUTHORIZED, Some(BearerToken::Exec(plugin))) = (response.status(), &self.token)
        {
            let plugin = plugin.clone();
            // Waits for a lock that is held while a program runs.
            tokio::task::spawn_blocking(move || plugin.discard(token.as_deref())).await?;
        }
        Ok(response)
    }

    /// Returns the token that the request has, if it has one.
    async fn add_credentials(&self, request: &mut Request<Body>) -> Result<Option<String>, BoxError> {
        let token = self.token().await?;
        let headers = request.headers_mut();
        if let Some(token) = &token {
            let mut value = HeaderValue::from_str(&format!("Bearer {token}"))?;
            // Keeps it out of HTTP/2's header table and of debug output.
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
        if let Some((name, groups)) = self.impersonated.as_deref() {
            headers.insert(IMPERSONATE_USER, name.parse()?);
            for group in groups {
                headers.append(IMPERSONATE_GROUP, group.parse()?);
            }
        }
        Ok(token)
    }

    async fn token(&self) -> Result<Option<String>, BoxError> {
        Ok(match &self.token {
            None => None,
            Some(BearerToken::Text(token)) => Some(token.clone()),
            // In a pod the file is on a memory file system (a projected volume); that of a kubeconfig may be on a network.
            Some(BearerToken::File(file)) => {
                let file = file.clone();
                let token = tokio::task::spawn_blocking(move || std::fs::read_to_string(file)).await??;
                Some(token.trim().to_owned())
            }
            Some(BearerToken::Exec(plugin)) => {
                let plugin = plugin.clone();
                // The lock inside is held while a program runs, which may take seconds.
                tokio::task::spawn_blocking(move || plugin.credential()).await??.token
            }
        })
    }

    /// Addresses a request as a version of HTTP wants it.
    fn address(&self, request: &mut Request<Body>, version: Version) -> Result<(), BoxError> {
        let path = request.uri().path_and_query().cloned();
        let uri = Uri::builder().path_and_query(path.unwrap_or_else(|| PathAndQuery::from_static("/")));
        *request.version_mut() = version;
        if version == Version::HTTP_2 {
            // `:authority` takes the place of the header.
            request.headers_mut().remove(HOST);
            *request.uri_mut() = uri.scheme(self.scheme.clone()).authority(self.authority.clone()).build()?;
        } else {
            request.headers_mut().insert(HOST, self.authority.as_str().parse()?);
            *request.uri_mut() = uri.build()?;
        }
        Ok(())
    }
}

impl tower_service::Service<Request<Body>> for Transport {
    type Response = Response<TransportBody>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let transport = self.clone();
        Box::pin(async move { transport.send(request).await })
    }
}
