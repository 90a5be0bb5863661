//! HTTPS: HTTP/1.1 and HTTP/2 over TLS 1.2 and 1.3, with optional client certificates.
//!
//! # Guarantees
//! * A client that connects and then does nothing, or little, is disconnected: until there is a request, every step has a time
//!   limit; so has an unauthenticated connection, an idle one, and one whose client does not read its responses.
//! * There are never more than so many connections, and one address or user never has all of them. A new one takes the place of one
//!   that does nothing useful ([`connection_table`]).
//! * At the end, requests that were begun are answered if they can be within a time limit.

mod connection;
mod connection_table;
mod handshakes;
mod in_flight_body;
mod prefixed;

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response};
use hyper::body::Incoming;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tower_service::Service;

pub use connection::Connection;
use connection_table::ConnectionTable;
pub(crate) use connection_table::TrackedConnection;
use handshakes::Handshakes;

use crate::certificates::{self, Certificates, ClientVerifier};

/// What to allow.
#[derive(Debug, Clone)]
pub struct Settings {
    /// For the handshake of TLS, and then for the first bytes of HTTP/2.
    pub handshake: Duration,
    /// For the header of a request of HTTP/1.1. Also how long a connection may be idle between two of them.
    pub header: Duration,
    /// How many bytes a header may have, more or less: HTTP/1.1 manages each read.
    pub header_bytes: u32,
    /// How many connections there may be.
    pub connections: usize,
    /// How many of them one network address may have.
    pub connections_of_peer: usize,
    /// How many of them one user may have who is not an administrator.
    pub connections_of_user: usize,
    /// How long a connection may be open without an authenticated request. Not limited if there is no way to authenticate.
    pub unauthenticated: Option<Duration>,
    /// How long a connection may be open without a request.
    pub idle: Duration,
    /// How long a client may read nothing of any response, while there is one that has an end. It is noticed after once to twice
    /// as long.
    pub stalled: Duration,
    /// How many requests of HTTP/2 one connection may have at a time. A client has all its watches on one.
    pub streams: u32,
    /// How long to wait for answers at the end.
    pub drain: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            handshake: Duration::from_secs(10),
            header: Duration::from_secs(90),
            header_bytes: 128 << 10,
            // Each costs some 20 kB, and an open file, of which many systems give 4,096 or more to those who ask.
            connections: 4_096,
            // Behind a proxy, or on one's own machine, everybody has the same address: that one gets half. Who makes room there is decided
            // in the same way as among all.
            connections_of_peer: 2_048,
            // Clients have all their requests on one connection, or on a few.
            connections_of_user: 1_024,
            // Probes without credentials ask every few seconds, and connect anew if they have to.
            unauthenticated: Some(Duration::from_secs(30)),
            // As kube-apiserver.
            idle: Duration::from_secs(90),
            // A client that lost its network has reconnected by then.
            stalled: Duration::from_mins(1),
            streams: 2_000,
            drain: Duration::from_secs(10),
        }
    }
}

/// Why there is no listener.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot listen on {address}")]
    Listen { address: SocketAddr, source: io::Error },
    #[error("cannot set up TLS")]
    Tls(#[from] certificates::Error),
}

/// A listener that is open: connections wait until it is served.
pub struct Https {
    listener: TcpListener,
    address: SocketAddr,
    handshakes: Handshakes,
    /// None asks for no certificates.
    verifier: Option<ClientVerifier>,
    settings: Arc<Settings>,
}

impl std::fmt::Debug for Https {
    fn fmt(&self, output: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(output, "Https({})", self.address)
    }
}

impl Https {
    pub async fn open(
        address: SocketAddr,
        certificates: &Arc<Certificates>,
        settings: Settings,
    ) -> Result<Self, Error> {
        let (config, verifier) = certificates.server_config()?;
        Self::listen(address, config, Some(verifier), settings).await
    }

    /// A listener with foreign certificates, and with a choice of versions of TLS and HTTP.
    pub async fn with_config(
        address: SocketAddr,
        config: rustls::ServerConfig,
        settings: Settings,
    ) -> Result<Self, Error> {
        Self::listen(address, config, None, settings).await
    }

    async fn listen(
        address: SocketAddr,
        config: rustls::ServerConfig,
        verifier: Option<ClientVerifier>,
        settings: Settings,
    ) -> Result<Self, Error> {
        let failed = |source| Error::Listen { address, source };
        // Who cannot show who they are is not blamed for it.
        let unauthenticated = settings.unauthenticated.filter(|_| verifier.is_some());
        let settings = Settings { unauthenticated, ..settings };
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let handshakes = Handshakes::new(config, settings.connections);
        Ok(Self { listener, address, handshakes, verifier, settings: Arc::new(settings) })
    }

    /// Where it listens. The port is the real one.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Lets a service answer requests until the end is announced, and waits for the last answers.
    ///
    /// Every request carries its [`Connection`] as an extension, in an `Arc`. Says how many connections had to be cut.
    pub async fn serve<S, B>(self, service: S, end: impl Future<Output = ()>) -> usize
    where
        S: Service<Request<Incoming>, Response = Response<B>> + Clone + Send + 'static,
        S::Future: Send + 'static,
        S::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
        B: http_body::Body + Send + 'static,
        B::Data: Send,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let table = ConnectionTable::new(&self.settings);
        let (ending, _) = watch::channel(());
        let mut connections = JoinSet::new();
        let mut end = std::pin::pin!(end);
        loop {
            tokio::select! {
                biased;
                // The end first: under constant connections, a fair choice could keep accepting for some time.
                () = &mut end => break,
                Some(_) = connections.join_next() => {}
                (stream, remote) = accept(&self.listener) => {
                    // Closed at once if there is no room, so that the client knows and tries again.
                    let Some(entry) = table.admit(remote.ip()) else { continue };
                    let accepted = connection::Accepted {
                        stream,
                        remote,
                        handshakes: self.handshakes.clone(),
                        verifier: self.verifier.clone(),
                        settings: Arc::clone(&self.settings),
                        end: ending.subscribe(),
                        entry,
                    };
                    connections.spawn(accepted.serve(service.clone()));
                }
            }
        }
        // No further connection is accepted.
        drop(self.listener);
        let _ = ending.send(());
        let _ = tokio::time::timeout(self.settings.drain, ending.closed()).await;
        while connections.try_join_next().is_some() {}
        let cut = connections.len();
        connections.shutdown().await;
        cut
    }
}

/// The next connection.
async fn accept(listener: &TcpListener) -> (TcpStream, SocketAddr) {
    loop {
        match listener.accept().await {
            Ok(accepted) => return accepted,
            Err(error) if is_about_the_connection(&error) => {}
            Err(error) => {
                // There are too many open files, most likely: it gets better when connections end.
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

fn is_about_the_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}

#[cfg(test)]
mod tests;
