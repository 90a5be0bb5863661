//! One connection, from the handshake to the last answer.

use std::future::Future;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::{Request, Response};
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_rustls::server::TlsStream;
use tower_service::Service;

use super::Settings;
use super::connection_table::{TableEntry, TrackedConnection};
use super::handshakes::Handshakes;
use super::in_flight_body::InFlightBody;
use super::prefixed::Prefixed;
use crate::auth::authenticate::Peer;
use crate::certificates::ClientVerifier;

/// The length of what every connection of HTTP/2 begins with.
const PREFACE: usize = 24;

/// How much may wait to be sent for one request. A slow watcher must not cost more than that.
const SEND_BUFFER: usize = 64 << 10;

/// How often to ask whether the other end is still there, and how long to wait for its answer.
const PING: Duration = Duration::from_secs(30);
const PONG: Duration = Duration::from_secs(20);

/// How long a connection that is to be closed has for what it still wants to say, and for requests that are being answered: as
/// long as a request may take, and a little more.
const FAREWELL: Duration = Duration::from_secs(5);
const LAST_ANSWERS: Duration = Duration::from_secs(70);

/// What requests know of the connection they came by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Connection {
    pub remote: SocketAddr,
    pub peer: Peer,
}

/// A connection that was accepted and has said nothing yet.
pub(super) struct Accepted {
    pub(super) stream: TcpStream,
    pub(super) remote: SocketAddr,
    pub(super) handshakes: Handshakes,
    pub(super) verifier: Option<ClientVerifier>,
    pub(super) settings: Arc<Settings>,
    /// Is notified when the listener ends.
    pub(super) end: watch::Receiver<()>,
    pub(super) entry: TableEntry,
}

impl Accepted {
    /// Serves the connection until it ends or is evicted.
    pub(super) async fn serve<S, B>(self, service: S)
    where
        S: Service<Request<Incoming>, Response = Response<B>> + Clone + Send + 'static,
        S::Future: Send + 'static,
        S::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
        B: http_body::Body + Send + 'static,
        B::Data: Send,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let tracked = Arc::clone(&self.entry.connection);
        tokio::select! {
            () = tracked.evicted() => {}
            () = self.speak(service) => {}
        }
    }

    async fn speak<S, B>(self, service: S)
    where
        S: Service<Request<Incoming>, Response = Response<B>> + Clone + Send + 'static,
        S::Future: Send + 'static,
        S::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
        B: http_body::Body + Send + 'static,
        B::Data: Send,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let Self { stream, remote, handshakes, verifier, settings, mut end, entry } = self;
        // Answers are small and awaited: nothing is gained by collecting them.
        let _ = stream.set_nodelay(true);
        let handshake = handshakes.accept(stream, entry.connection.peer());
        let Ok(Some(stream)) = timeout(settings.handshake, handshake).await else { return };
        let (_, session) = stream.get_ref();
        let is_http2 = session.alpn_protocol() == Some(b"h2");
        let peer = verifier.map_or(Peer::Unknown, |verifier| verifier.identify(session.peer_certificates()));
        let connection = Arc::new(Connection { remote, peer });
        let Some(stream) = begin(stream, is_http2, settings.handshake).await else { return };

        let tracked = Arc::clone(&entry.connection);
        let service = WithConnection { service, connection, tracked: Arc::clone(&tracked) };
        let builder = builder(&settings, is_http2);
        let served = builder.serve_connection(TokioIo::new(stream), TowerToHyperService::new(service));
        let mut served = pin!(served);
        let ended = tokio::select! {
            ended = served.as_mut() => ended,
            // There is no other message than that it is over.
            _ = end.changed() => {
                served.as_mut().graceful_shutdown();
                served.await
            }
            () = tracked.expired(settings.unauthenticated, settings.idle) => {
                served.as_mut().graceful_shutdown();
                finish(served, &tracked).await
            }
            () = tracked.stalled(settings.stalled) => {
                tracing::debug!(%remote, "a client reads no responses");
                served.as_mut().graceful_shutdown();
                finish(served, &tracked).await
            }
        };
        if let Err(error) = ended {
            // The other end went away, or speaks no HTTP.
            tracing::debug!(%remote, error, "a connection ended early");
        }
    }
}

/// Waits for the last answers of a connection that is to be closed, but not for those who do not want to part.
async fn finish<E>(
    served: Pin<&mut impl Future<Output = Result<(), E>>>,
    tracked: &TrackedConnection,
) -> Result<(), E> {
    let patience = if tracked.is_busy() { LAST_ANSWERS } else { FAREWELL };
    timeout(patience, served).await.unwrap_or(Ok(()))
}

/// Waits for the first bytes of HTTP/2, which has no time limit for them. HTTP/1.1 has one of its own.
async fn begin(
    mut stream: TlsStream<TcpStream>,
    is_http2: bool,
    limit: Duration,
) -> Option<Prefixed<TlsStream<TcpStream>>> {
    use tokio::io::AsyncReadExt as _;
    let mut preface = vec![0; if is_http2 { PREFACE } else { 0 }];
    timeout(limit, stream.read_exact(&mut preface)).await.ok()?.ok()?;
    Some(Prefixed::new(preface, stream))
}

fn builder(settings: &Settings, is_http2: bool) -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(settings.header)
        .max_buf_size(settings.header_bytes as usize);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(settings.streams)
        .max_header_list_size(settings.header_bytes)
        .max_send_buf_size(SEND_BUFFER)
        .keep_alive_interval(PING)
        .keep_alive_timeout(PONG);
    if is_http2 { builder.http2_only() } else { builder.http1_only() }
}

/// Tells every request by which connection it came, and counts it until it is answered.
#[derive(Clone)]
struct WithConnection<S> {
    service: S,
    connection: Arc<Connection>,
    tracked: Arc<TrackedConnection>,
}

impl<S, B> Service<Request<Incoming>> for WithConnection<S>
where
    S: Service<Request<Incoming>, Response = Response<B>>,
    S::Future: Send + 'static,
    B: http_body::Body,
{
    type Response = Response<InFlightBody<B>>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, S::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.service.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<Incoming>) -> Self::Future {
        let in_flight = self.tracked.begin();
        request.extensions_mut().insert(Arc::clone(&self.connection));
        request.extensions_mut().insert(Arc::clone(&self.tracked));
        let answering = self.service.call(request);
        Box::pin(async move { Ok(answering.await?.map(|body| InFlightBody::new(body, in_flight))) })
    }
}
