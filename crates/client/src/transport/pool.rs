//! The connections to an API server, shared by all requests.
//!
//! # Invariants
//! * A request waits for no other: when all connections are busy, another one is opened. Watches last for minutes, so a
//!   request behind as many as the server allows on a connection would never be sent.
//! * A connection that does not come to be holds up the next one for [`HEAD_START`] only.
//! * A request is sent again only if it is known not to have been sent.

use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, Version};
use http_body::{Frame, SizeHint};
use hyper::body::Incoming;
use hyper::client::conn::{TrySendError, http1, http2};
use kube::client::Body;

use super::BoxError;
use super::connector::{Connection, Connector};

/// How long a connection may take to be opened before the next one is tried beside it.
const HEAD_START: Duration = Duration::from_secs(1);

/// The connections to one API server.
pub(super) struct Pool {
    connector: Connector,
    idle: Mutex<Connections>,
    /// Held while a connection is opened that many requests may share, so that they do not open one each. Not for longer than
    /// [`HEAD_START`]: one address of several may not answer, and a network may have come back meanwhile.
    opening: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct Connections {
    http1: Vec<http1::SendRequest<Body>>,
    http2: Vec<Shared>,
    /// Whether the server turned out to speak HTTP/1.1 only.
    is_http1_only: bool,
}

/// An HTTP/2 connection.
#[derive(Clone)]
struct Shared {
    sender: http2::SendRequest<Body>,
    limit: Arc<AtomicUsize>,
    /// How many requests are answered on it.
    streams: Arc<AtomicUsize>,
}

/// A connection on which one request may be sent.
enum Sender {
    Http1(http1::SendRequest<Body>),
    Http2(http2::SendRequest<Body>, StreamGuard),
}

/// Counts a request for as long as it is answered.
#[derive(Debug)]
struct StreamGuard(Arc<AtomicUsize>);

impl StreamGuard {
    fn new(streams: &Arc<AtomicUsize>) -> Self {
        streams.fetch_add(1, Ordering::Relaxed);
        Self(streams.clone())
    }
}

impl Drop for StreamGuard {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Pool {
    pub(super) fn new(connector: Connector) -> Self {
        Self { connector, idle: Mutex::default(), opening: tokio::sync::Mutex::default() }
    }

    /// Sends a request, addressed as the version of HTTP of the connection wants it.
    pub(super) async fn send(
        &self,
        mut request: Request<Body>,
        address: impl Fn(&mut Request<Body>, Version) -> Result<(), BoxError>,
    ) -> Result<Response<TransportBody>, BoxError> {
        loop {
            let (sender, is_new) = match self.free() {
                Some(sender) => (sender, false),
                None => self.open().await?,
            };
            address(&mut request, sender.version())?;
            match self.send_on(sender, request).await {
                Ok(response) => return Ok(response),
                Err(mut error) => match error.take_message() {
                    // The server closed a connection that was free.
                    // A new connection that fails is a real failure; only one that lay idle may have been
                    // closed meanwhile.
                    Some(unsent) if !is_new => request = unsent,
                    _ => return Err(error.into_error().into()),
                },
            }
        }
    }

    /// Sends a request on a connection of its own, which becomes something else if the server agrees.
    pub(super) async fn send_upgrade(
        &self,
        mut request: Request<Body>,
        address: impl Fn(&mut Request<Body>, Version) -> Result<(), BoxError>,
    ) -> Result<Response<TransportBody>, BoxError> {
        let mut sender = self.connector.connect_for_upgrade().await?;
        address(&mut request, Version::HTTP_11)?;
        let response = sender.send_request(request).await?;
        Ok(response.map(|body| TransportBody { body, _stream: None }))
    }

    async fn send_on(
        &self,
        sender: Sender,
        request: Request<Body>,
    ) -> Result<Response<TransportBody>, TrySendError<Request<Body>>> {
        match sender {
            Sender::Http1(mut sender) => {
                let response = sender.try_send_request(request).await?;
                // It is ready for another request once the answer has been read.
                self.connections().http1.push(sender);
                Ok(response.map(|body| TransportBody { body, _stream: None }))
            }
            Sender::Http2(mut sender, stream) => {
                let response = sender.try_send_request(request).await?;
                Ok(response.map(|body| TransportBody { body, _stream: Some(stream) }))
            }
        }
    }

    /// A connection that can take a request now.
    fn free(&self) -> Option<Sender> {
        self.connections().free()
    }

    /// A new connection, or one that another task opened meanwhile. Says which.
    async fn open(&self) -> Result<(Sender, bool), BoxError> {
        let is_http1_only = self.connections().is_http1_only;
        // HTTP/1.1 connections are not shared, so that waiting for one another would only serialize.
        let turn = if is_http1_only { None } else { Some(self.opening.lock().await) };
        // Again after waiting: the task that held the lock may have opened the connection that we need.
        if let Some(sender) = self.free() {
            return Ok((sender, false));
        }
        // In a box, because it is large, rarely needed, and would be part of every request.
        let mut connecting = Box::pin(self.connector.connect());
        let connection = if let Ok(connection) = tokio::time::timeout(HEAD_START, &mut connecting).await {
            connection?
        } else {
            drop(turn);
            connecting.await?
        };
        Ok((self.connections().add(connection), true))
    }

    fn connections(&self) -> std::sync::MutexGuard<'_, Connections> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Connections {
    fn free(&mut self) -> Option<Sender> {
        self.http2.retain(|shared| !shared.sender.is_closed());
        if let Some(shared) = self.http2.iter().find(|shared| shared.has_room()) {
            return Some(shared.sender());
        }
        self.http1.retain(|sender| !sender.is_closed());
        let ready = self.http1.iter().position(http1::SendRequest::is_ready)?;
        Some(Sender::Http1(self.http1.swap_remove(ready)))
    }

    fn add(&mut self, connection: Connection) -> Sender {
        match connection {
            Connection::Http1(sender) => {
                self.is_http1_only = true;
                Sender::Http1(sender)
            }
            Connection::Http2 { sender, limit } => {
                self.is_http1_only = false;
                let shared = Shared { sender, limit, streams: Arc::default() };
                let sender = shared.sender();
                self.http2.push(shared);
                sender
            }
        }
    }
}

impl Shared {
    fn has_room(&self) -> bool {
        self.sender.is_ready() && self.streams.load(Ordering::Relaxed) < self.limit.load(Ordering::Relaxed)
    }

    fn sender(&self) -> Sender {
        // Counted under the lock of the pool, so that two requests cannot take the last place.
        Sender::Http2(self.sender.clone(), StreamGuard::new(&self.streams))
    }
}

impl Sender {
    fn version(&self) -> Version {
        match self {
            Self::Http1(_) => Version::HTTP_11,
            Self::Http2(..) => Version::HTTP_2,
        }
    }
}

/// The body of an answer.
#[derive(Debug)]
pub struct TransportBody {
    body: Incoming,
    /// Until the answer has been read, its connection has one place less.
    _stream: Option<StreamGuard>,
}

impl http_body::Body for TransportBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
