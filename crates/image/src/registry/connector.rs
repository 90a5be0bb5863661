//! Connections to registries: TCP, and TLS with the house's one implementation.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::Uri;
use http::uri::Scheme;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, InvalidDnsNameError, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::proxy::{Proxies, direct};

/// Why TLS cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error("cannot read the certificate authorities for registries: they are not PEM")]
    Pem(#[source] rustls::pki_types::pem::Error),
    #[error("cannot use a certificate authority for registries")]
    Authority(#[source] rustls::Error),
    #[error("cannot set up TLS for registries")]
    Setup(#[source] rustls::Error),
}

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub(super) enum ConnectError {
    #[error("the address has no host")]
    NoHost,
    #[error("the host is not a valid server name")]
    Name(#[source] InvalidDnsNameError),
    #[error("cannot open a connection")]
    Dial(#[source] io::Error),
    #[error("cannot establish TLS")]
    Handshake(#[source] io::Error),
    #[error("cannot use the proxy: expected an address that begins with http:// or https://")]
    ProxyProtocol,
    #[error("cannot get through the proxy")]
    Proxy(#[source] io::Error),
    #[error("the proxy refuses the connection with status {0}")]
    ProxyRefused(u16),
    #[error("it took longer than {0} seconds")]
    Slow(u64),
}

/// Opens connections.
#[derive(Clone)]
pub(super) struct Connector {
    tls: TlsConnector,
    proxies: Proxies,
    limit: Duration,
}

/// A connection, with or without TLS.
pub(super) struct Link(TokioIo<Box<dyn Stream>>);

pub(super) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

impl Connector {
    pub(super) fn new(authorities: &[u8], proxies: Proxies, limit: Duration) -> Result<Self, TlsError> {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(TlsError::Setup)?
            .with_root_certificates(roots(authorities)?)
            .with_no_client_auth();
        Ok(Self { tls: TlsConnector::from(Arc::new(config)), proxies, limit })
    }

    /// Whether what listens there answers a TLS greeting with something else, as a plain HTTP server does.
    /// Only what is on this machine is asked, to which no proxy leads.
    pub(super) async fn speaks_plainly(&self, host: &str, port: u16) -> Result<bool, ConnectError> {
        match self.within_limit(self.secure(direct(host, port), host)).await {
            Ok(_) => Ok(false),
            Err(ConnectError::Handshake(error)) if is_no_tls(&error) => Ok(true),
            Err(error) => Err(error),
        }
    }

    async fn connect(&self, uri: &Uri) -> Result<Link, ConnectError> {
        let host = uri.host().ok_or(ConnectError::NoHost)?;
        let is_plain = uri.scheme() == Some(&Scheme::HTTP);
        let port = uri.port_u16().unwrap_or(if is_plain { 80 } else { 443 });
        let reached = self.reach(uri, host, port);
        let stream: Box<dyn Stream> = if is_plain {
            self.within_limit(reached).await?
        } else {
            Box::new(self.within_limit(self.secure(reached, host)).await?)
        };
        Ok(Link(TokioIo::new(stream)))
    }

    /// A connection without TLS, through the proxy that leads there.
    async fn reach(&self, uri: &Uri, host: &str, port: u16) -> Result<Box<dyn Stream>, ConnectError> {
        match self.proxies.find(uri) {
            // Most connections need none, and should not have room for one.
            Some(proxy) => Box::pin(proxy.connect(&self.tls, host, port)).await,
            None => direct(host, port).await,
        }
    }

    async fn secure(
        &self,
        reached: impl Future<Output = Result<Box<dyn Stream>, ConnectError>>,
        host: &str,
    ) -> Result<TlsStream<Box<dyn Stream>>, ConnectError> {
        let name = ServerName::try_from(bare(host).to_owned()).map_err(ConnectError::Name)?;
        self.tls.connect(name, reached.await?).await.map_err(ConnectError::Handshake)
    }

    async fn within_limit<T>(
        &self,
        connecting: impl Future<Output = Result<T, ConnectError>>,
    ) -> Result<T, ConnectError> {
        let connected = timeout(self.limit, connecting).await;
        connected.unwrap_or(Err(ConnectError::Slow(self.limit.as_secs())))
    }
}

/// A connection without a proxy.
pub(super) async fn dial(host: &str, port: u16) -> Result<TcpStream, ConnectError> {
    let stream = TcpStream::connect((bare(host), port)).await.map_err(ConnectError::Dial)?;
    stream.set_nodelay(true).map_err(ConnectError::Dial)?;
    Ok(stream)
}

/// Addresses of IPv6 stand in brackets.
pub(super) fn bare(host: &str) -> &str {
    host.trim_start_matches('[').trim_end_matches(']')
}

fn is_no_tls(error: &io::Error) -> bool {
    let cause = error.get_ref().and_then(|cause| cause.downcast_ref::<rustls::Error>());
    matches!(cause, Some(rustls::Error::InvalidMessage(_)))
}

fn roots(authorities: &[u8]) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    // One certificate that rustls cannot read must not make all the others unusable.
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    for certificate in CertificateDer::pem_slice_iter(authorities) {
        roots.add(certificate.map_err(TlsError::Pem)?).map_err(TlsError::Authority)?;
    }
    Ok(roots)
}

impl tower_service::Service<Uri> for Connector {
    type Response = Link;
    type Error = ConnectError;
    type Future = Pin<Box<dyn Future<Output = Result<Link, ConnectError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), ConnectError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let connector = self.clone();
        Box::pin(async move { connector.connect(&uri).await })
    }
}

impl Connection for Link {
    fn connected(&self) -> Connected {
        Connected::new()
    }
}

impl Read for Link {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

impl Write for Link {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}
