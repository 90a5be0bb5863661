//! Opens connections to an API server, through a proxy if there is one, and agrees on a version of HTTP.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use http::Uri;
use http::uri::Scheme;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use kube::client::Body;
use rustix::net::sockopt;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio_rustls::TlsConnector;

use super::{BoxError, EndpointError, Proxy, tls};
use crate::{ClientCertificate, Endpoint};

/// How many requests share a connection at most.
// Also if a server allows more: one connection that breaks should not take hundreds of watches with it.
const MAX_STREAMS: usize = 100;
/// How much of a response may be sent before it is read.
const STREAM_WINDOW: u32 = 1 << 20;
/// The same for all answers of a connection: more than they can use, so that a watch that is not read holds up no other.
const CONNECTION_WINDOW: u32 = 128 << 20;
/// How often to look whether a server has sent its settings.
const SETTINGS_INTERVAL: Duration = Duration::from_millis(1);
/// How long a connection is silent before it is checked, as in client-go.
const PING_INTERVAL: Duration = Duration::from_secs(30);
const PING_TIMEOUT: Duration = Duration::from_secs(15);
/// The same for TCP, which serves HTTP/1.1 and what connections become.
const PROBE_INTERVAL: Duration = Duration::from_secs(15);
const PROBES: u32 = 3;
/// How long a connection may take to be opened, as in client-go. Operating systems try for minutes.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);

/// Something to read from and write to.
pub(super) trait Stream: AsyncRead + AsyncWrite + Send + Unpin + 'static {}
impl<S: AsyncRead + AsyncWrite + Send + Unpin + 'static> Stream for S {}

/// Opens connections to one API server.
pub(super) struct Connector {
    host: String,
    port: u16,
    server_name: ServerName<'static>,
    /// None for plain HTTP.
    tls: Option<TlsConnector>,
    /// The same for connections that become something else, which HTTP/2 does not let them.
    tls_http1: Option<TlsConnector>,
    proxy: Option<Proxy>,
}

/// A new connection.
pub(super) enum Connection {
    Http1(http1::SendRequest<Body>),
    Http2 {
        sender: http2::SendRequest<Body>,
        /// How many requests the server answers at the same time, as it said last.
        limit: Arc<AtomicUsize>,
    },
}

impl Connector {
    pub(super) fn new(
        endpoint: &Endpoint,
        identity: Option<&ClientCertificate>,
    ) -> Result<Self, EndpointError> {
        let server: Uri = endpoint.server.parse().map_err(EndpointError::Address)?;
        let proxy = Proxy::find(endpoint, &server)?;
        let host = bare(server.host().ok_or(EndpointError::NoHost)?).to_owned();
        let is_plain = server.scheme() == Some(&Scheme::HTTP);
        let name = endpoint.server_name.clone().unwrap_or_else(|| host.clone());
        let (tls, tls_http1) = if is_plain {
            (None, None)
        } else {
            let config = tls::client_config(endpoint, identity)?;
            let mut http1 = config.clone();
            http1.alpn_protocols = vec![b"http/1.1".to_vec()];
            (Some(Arc::new(config).into()), Some(Arc::new(http1).into()))
        };
        Ok(Self {
            host,
            port: server.port_u16().unwrap_or(if is_plain { 80 } else { 443 }),
            server_name: ServerName::try_from(name).map_err(EndpointError::Name)?,
            tls,
            tls_http1,
            proxy,
        })
    }

    /// A connection for one request, which may become something else.
    pub(super) async fn connect_for_upgrade(&self) -> Result<http1::SendRequest<Body>, BoxError> {
        self.in_time(self.open_for_upgrade()).await
    }

    pub(super) async fn connect(&self) -> Result<Connection, BoxError> {
        self.in_time(self.open()).await
    }

    async fn in_time<T>(&self, opening: impl Future<Output = Result<T, BoxError>>) -> Result<T, BoxError> {
        let opened = tokio::time::timeout(CONNECT_TIMEOUT, opening).await;
        opened.unwrap_or_else(|_| {
            let (host, port, seconds) = (&self.host, self.port, CONNECT_TIMEOUT.as_secs());
            Err(format!("cannot open a connection to {host}:{port} within {seconds}s").into())
        })
    }

    async fn open_for_upgrade(&self) -> Result<http1::SendRequest<Body>, BoxError> {
        let stream = self.dial().await?;
        let stream: Box<dyn Stream> = match &self.tls_http1 {
            None => stream,
            Some(tls) => Box::new(tls.connect(self.server_name.clone(), stream).await?),
        };
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection.with_upgrades());
        Ok(sender)
    }

    async fn dial(&self) -> Result<Box<dyn Stream>, BoxError> {
        Ok(match &self.proxy {
            None => Box::new(dial(&self.host, self.port).await?),
            Some(proxy) => proxy.connect(&self.host, self.port).await?,
        })
    }

    async fn open(&self) -> Result<Connection, BoxError> {
        let stream = self.dial().await?;
        // HTTP/2 without TLS needs prior knowledge that no kubeconfig gives.
        let Some(tls) = &self.tls else { return http1(stream).await };
        let stream = tls.connect(self.server_name.clone(), stream).await?;
        let is_http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
        if is_http2 { http2(stream).await } else { http1(stream).await }
    }
}

pub(super) async fn dial(host: &str, port: u16) -> std::io::Result<TcpStream> {
    let stream = TcpStream::connect((host, port)).await?;
    stream.set_nodelay(true)?;
    // A system that cannot do that can do everything else.
    let _ = probe_when_silent(&stream);
    Ok(stream)
}

/// Has the operating system find out whether the other side is still there. Without it, a read of a connection whose other side is
/// gone without a word lasts for ever.
fn probe_when_silent(stream: &TcpStream) -> rustix::io::Result<()> {
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, PING_INTERVAL)?;
    sockopt::set_tcp_keepintvl(stream, PROBE_INTERVAL)?;
    sockopt::set_tcp_keepcnt(stream, PROBES)
}

async fn http1(stream: impl Stream) -> Result<Connection, BoxError> {
    let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    Ok(Connection::Http1(sender))
}

async fn http2(stream: impl Stream) -> Result<Connection, BoxError> {
    let (sender, mut connection) = http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .keep_alive_interval(PING_INTERVAL)
        .keep_alive_timeout(PING_TIMEOUT)
        .keep_alive_while_idle(true)
        // None until the server has said how many it allows.
        .initial_max_send_streams(0)
        .handshake(TokioIo::new(stream))
        .await?;
    let limit = Arc::new(AtomicUsize::new(0));
    let (told, (known, settings)) = (limit.clone(), oneshot::channel());
    // There is no wake-up when the settings come, so poll for them.
    let mut unknown = Some((known, tokio::time::interval(SETTINGS_INTERVAL)));
    tokio::spawn(std::future::poll_fn(move |context| {
        let ended = std::pin::Pin::new(&mut connection).poll(context);
        let allowed = connection.current_max_send_streams().min(MAX_STREAMS);
        // At every poll, because a server may change its settings at any time.
        told.store(allowed, Ordering::Relaxed);
        if let Some((known, _)) = unknown.take_if(|_| allowed > 0) {
            let _ = known.send(());
        }
        if let Some((_, interval)) = &mut unknown {
            while interval.poll_tick(context).is_ready() {}
        }
        ended
    }));
    // Requests that were sent before could be more than the server allows, and wait for watches that do not end.
    settings.await.map_err(|_| "the connection ended before the server sent its settings")?;
    Ok(Connection::Http2 { sender, limit })
}

/// Addresses of IPv6 stand in brackets.
pub(super) fn bare(host: &str) -> &str {
    host.trim_start_matches('[').trim_end_matches(']')
}
