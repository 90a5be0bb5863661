//! HTTP to an API server, over TLS: a tower service for `kube::Client`.
//!
//! Speaks HTTP/2 if the server does, so that hundreds of watches share a few connections, and HTTP/1.1 otherwise.

mod connector;
mod pool;
mod proxy;
mod tls;

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use http::header::{AUTHORIZATION, HOST, UPGRADE};
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{HeaderValue, Request, Response, StatusCode, Uri, Version};
use kube::client::Body;

use crate::exec_plugin::Credential;
use crate::{BearerToken, ClientCertificate, ClientIdentity, Endpoint, ExecPlugin, Impersonation};
use connector::Connector;
use pool::Pool;
pub use pool::TransportBody;
use proxy::Proxy;

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
    endpoint: Arc<Endpoint>,
    impersonation: Option<Arc<Impersonation>>,
    connections: Arc<Mutex<Connections>>,
}

/// The connections that were opened with one client certificate.
struct Connections {
    identity: Option<ClientCertificate>,
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
        // That of a plugin comes with the first request: it may have to be run.
        let identity = match &endpoint.identity {
            Some(ClientIdentity::Certificate(certificate)) => Some(certificate.clone()),
            Some(ClientIdentity::Exec(_)) | None => None,
        };
        let connections = Connections::new(&endpoint, identity)?;
        Ok(Self {
            scheme: uri.scheme().cloned().unwrap_or(Scheme::HTTPS),
            authority,
            prefix: uri.path().trim_end_matches('/').to_owned(),
            impersonation: endpoint.impersonation.clone().map(Arc::new),
            connections: Arc::new(Mutex::new(connections)),
            endpoint: Arc::new(endpoint),
        })
    }

    /// The same, impersonating a user who is a member of groups, instead of the user that the endpoint names.
    #[must_use]
    pub fn impersonating(&self, user: &str, groups: &[String]) -> Self {
        let impersonation =
            Impersonation { user: user.to_owned(), groups: groups.to_vec(), ..Impersonation::default() };
        Self { impersonation: Some(Arc::new(impersonation)), ..self.clone() }
    }

    async fn send(&self, mut request: Request<Body>) -> Result<Response<TransportBody>, BoxError> {
        let path = request.uri().path_and_query().map_or("/", PathAndQuery::as_str);
        *request.uri_mut() = format!("{}{path}", self.prefix).parse()?;
        let credential = self.credential().await?;
        self.add_headers(&mut request, credential.as_deref()).await?;
        let pool = self.pool(credential.as_deref())?;
        let address = |request: &mut Request<Body>, version| self.address(request, version);
        let response = if request.headers().contains_key(UPGRADE) {
            Box::pin(pool.send_upgrade(request, address)).await?
        } else {
            pool.send(request, address).await?
        };
        if let (StatusCode::UNAUTHORIZED, Some(plugin), Some(refused)) =
            (response.status(), self.plugin(), credential)
        {
            let plugin = plugin.clone();
            // Waits for a lock that is held while a program runs.
            tokio::task::spawn_blocking(move || plugin.discard(&refused)).await?;
        }
        Ok(response)
    }

    /// The credential plugin, if one is used.
    fn plugin(&self) -> Option<&Arc<ExecPlugin>> {
        match (&self.endpoint.token, &self.endpoint.identity) {
            (Some(BearerToken::Exec(plugin)), _) | (_, Some(ClientIdentity::Exec(plugin))) => Some(plugin),
            _ => None,
        }
    }

    /// What the credential plugin has printed, if one is used.
    async fn credential(&self) -> Result<Option<Arc<Credential>>, BoxError> {
        let Some(plugin) = self.plugin().cloned() else { return Ok(None) };
        // The lock inside is held while a program runs, which may take seconds.
        Ok(Some(tokio::task::spawn_blocking(move || plugin.credential()).await??))
    }

    /// The connections to use with a credential. A server knows the client of a connection by the certificate that it was opened with,
    /// so a new certificate needs new connections. What runs on the old ones ends in its own time.
    fn pool(&self, credential: Option<&Credential>) -> Result<Arc<Pool>, EndpointError> {
        let mut connections = self.connections.lock().unwrap_or_else(PoisonError::into_inner);
        if let (Some(ClientIdentity::Exec(_)), Some(credential)) = (&self.endpoint.identity, credential)
            && credential.certificate != connections.identity
        {
            *connections = Connections::new(&self.endpoint, credential.certificate.clone())?;
        }
        Ok(connections.pool.clone())
    }

    async fn add_headers(
        &self,
        request: &mut Request<Body>,
        credential: Option<&Credential>,
    ) -> Result<(), BoxError> {
        let token = self.token(credential).await?;
        let headers = request.headers_mut();
        if let Some(token) = &token {
            let mut value = HeaderValue::from_str(&format!("Bearer {token}"))?;
            // Keeps it out of HTTP/2's header table and of debug output.
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
        if let Some(impersonation) = &self.impersonation {
            impersonation.add_to(headers)?;
        }
        Ok(())
    }

    async fn token(&self, credential: Option<&Credential>) -> Result<Option<String>, BoxError> {
        Ok(match &self.endpoint.token {
            None => None,
            Some(BearerToken::Text(token)) => Some(token.clone()),
            // In a pod the file is on a memory file system (a projected volume); that of a kubeconfig may be on a network.
            Some(BearerToken::File(file)) => {
                let file = file.clone();
                let token = tokio::task::spawn_blocking(move || std::fs::read_to_string(file)).await??;
                Some(token.trim().to_owned())
            }
            Some(BearerToken::Exec(_)) => credential.and_then(|credential| credential.token.clone()),
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

impl Connections {
    fn new(endpoint: &Endpoint, identity: Option<ClientCertificate>) -> Result<Self, EndpointError> {
        let pool = Arc::new(Pool::new(Connector::new(endpoint, identity.as_ref())?));
        Ok(Self { identity, pool })
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
