//! Handshakes of TLS: most of what a connection costs the server, and what anybody can make it do.
//!
//! # Guarantees
//! * The signature that a handshake needs is never made by the threads that answer requests: however many unauthenticated clients
//!   connect, requests
//!   on connections that are there do not wait for their handshakes.
//! * Only a few are made at a time, in turns among network addresses: an address with a thousand connections does not keep another
//!   address waiting for more than one of them.
//! * A client that says nothing, or stops halfway, takes no turn.

use std::net::IpAddr;
use std::num::NonZero;
use std::sync::Arc;
use std::thread::available_parallelism;

use rustls::ServerConfig;
use rustls::server::Acceptor;
use tokio::net::TcpStream;
use tokio::task::spawn_blocking;
use tokio_rustls::LazyConfigAcceptor;
use tokio_rustls::server::TlsStream;

use crate::flow_control::FairQueue;

/// Makes handshakes.
#[derive(Clone)]
pub(super) struct Handshakes {
    config: Arc<ServerConfig>,
    turns: Arc<FairQueue>,
}

impl Handshakes {
    /// For a listener that has so many connections at most.
    pub(super) fn new(config: ServerConfig, connections: usize) -> Self {
        let cores = available_parallelism().map_or(1, NonZero::get);
        // At most half of the cores: the other half is for those who are in.
        let at_a_time = (cores / 2).max(1);
        Self { config: Arc::new(config), turns: FairQueue::new(at_a_time, at_a_time, connections) }
    }

    /// Waits for what the client says first, for a turn, and for the rest. None if it does not come to an end.
    pub(super) async fn accept(&self, stream: TcpStream, peer: IpAddr) -> Option<TlsStream<TcpStream>> {
        let hello = LazyConfigAcceptor::new(Acceptor::default(), stream).await.ok()?;
        let turn = self.turns.enter(&peer.to_string()).await?;
        let config = Arc::clone(&self.config);
        // The answer is computed here, and only sent afterwards: sending is the client's pace.
        let answered = spawn_blocking(move || {
            let answered = hello.into_stream(config);
            drop(turn);
            answered
        });
        answered.await.ok()?.await.ok()
    }
}
