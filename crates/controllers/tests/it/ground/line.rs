//! Speaks to a real API server over TLS, for somebody. Connections are used again once they are free.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use ferroplane_apiserver::auth::identity::Identity;
use http::header::{AUTHORIZATION, HOST};
use http::uri::Authority;
use http::{HeaderName, Request, Response};
use hyper::body::Incoming;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use kube::client::Body;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Where the server is, whom to trust there, and whose token we have.
#[derive(Clone)]
pub(super) struct Line {
    authority: Authority,
    connector: TlsConnector,
    token: String,
    idle: Arc<Mutex<Vec<SendRequest<Body>>>>,
    /// For whom we speak: a name, and groups.
    who: Option<(String, Vec<String>)>,
}

impl Line {
    pub(super) fn new(url: &http::Uri, certificate: CertificateDer<'static>, token: String) -> Self {
        let mut roots = RootCertStore::empty();
        roots.add(certificate).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config =
            ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let config = config.with_root_certificates(roots).with_no_client_auth();
        let authority = url.authority().expect("the server has an address").clone();
        let connector = TlsConnector::from(Arc::new(config));
        Self { authority, connector, token, idle: Arc::default(), who: None }
    }

    /// The same, speaking for somebody.
    pub(super) fn speaking_for(&self, who: &Identity) -> Self {
        Self { who: Some((who.name.clone(), who.groups.clone())), ..self.clone() }
    }

    fn introduce(&self, request: &mut Request<Body>) -> Result<(), Failure> {
        let headers = request.headers_mut();
        headers.insert(HOST, self.authority.as_str().parse()?);
        headers.insert(AUTHORIZATION, format!("Bearer {}", self.token).parse()?);
        if let Some((name, groups)) = &self.who {
            headers.insert(HeaderName::from_static("impersonate-user"), name.parse()?);
            for group in groups {
                headers.append(HeaderName::from_static("impersonate-group"), group.parse()?);
            }
        }
        Ok(())
    }

    /// A connection on which nobody is answered any more.
    async fn connection(&self) -> Result<SendRequest<Body>, Failure> {
        let free = {
            let mut idle = self.idle.lock().unwrap();
            idle.retain(|sender| !sender.is_closed());
            idle.iter().position(SendRequest::is_ready).map(|place| idle.swap_remove(place))
        };
        if let Some(sender) = free {
            return Ok(sender);
        }
        let stream = TcpStream::connect(self.authority.as_str()).await?;
        stream.set_nodelay(true)?;
        let name = ServerName::try_from(self.authority.host().to_owned())?;
        let stream = self.connector.connect(name, stream).await?;
        let (sender, connection) = handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        Ok(sender)
    }
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
            let mut sender = line.connection().await?;
            let response = sender.send_request(request).await?;
            // It is free once the answer has been read.
            line.idle.lock().unwrap().push(sender);
            Ok(response)
        })
    }
}
