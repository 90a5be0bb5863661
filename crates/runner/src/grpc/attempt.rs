//! One attempt at a call: sends a request, takes the answer, and notes how far it got.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{BufMut as _, Bytes};
use ferroplane_wire::v1::RunFunctionResponse;
use http::uri::PathAndQuery;
use http::{HeaderMap, StatusCode};
use http_body_util::BodyExt as _;
use prost::{DecodeError, Message as _};
use tonic::body::Body;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::transport::{Channel, Error};
use tonic::{Request, Status};
use tower_service::Service;

use super::Metadata;

/// How far an attempt got.
#[derive(Debug, Default)]
pub(super) struct Progress {
    is_sent: AtomicBool,
    has_verdict: AtomicBool,
    /// Of all attempts of a call: whether one of them found a server to send the request to.
    is_any_sent: Arc<AtomicBool>,
}

impl Progress {
    /// The next attempt of a call.
    pub(super) fn next(&self) -> Self {
        Self { is_any_sent: self.is_any_sent.clone(), ..Self::default() }
    }

    /// Sets for all attempts of the call whether one of them found a server to send the request to.
    pub(super) fn any_sent(&self) -> Arc<AtomicBool> {
        self.is_any_sent.clone()
    }

    /// Whether the function may have seen the request. Until then it is safe to try again.
    pub(super) fn is_sent(&self) -> bool {
        self.is_sent.load(Ordering::Relaxed)
    }

    /// Whether it was the peer who said that the call failed, and not our side.
    pub(super) fn has_verdict(&self) -> bool {
        self.has_verdict.load(Ordering::Relaxed)
    }

    fn look_at(&self, headers: &mut HeaderMap) {
        if headers.get("grpc-status").is_some_and(|status| status != "0") {
            self.has_verdict.store(true, Ordering::Relaxed);
        }
        // The details are not used, and tonic panics if they are not base64.
        headers.remove("grpc-status-details-bin");
    }
}

/// What a function answered is no answer.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub(super) struct NotAResponse(DecodeError);

/// An encoded request, and how to call with it.
pub(super) struct Attempt {
    pub(super) method: &'static str,
    pub(super) message: Bytes,
    /// The request to the function.
    pub(super) timeout: Duration,
    pub(super) max_response: usize,
    pub(super) metadata: Option<Metadata>,
    pub(super) progress: Arc<Progress>,
}

impl Attempt {
    /// Call, over a channel that is ready.
    pub(super) async fn make(self, channel: Channel) -> Result<RunFunctionResponse, Status> {
        let progress = self.progress;
        let mut request = Request::new(self.message);
        request.set_timeout(self.timeout);
        if let Some(metadata) = &self.metadata {
            metadata.write(request.metadata_mut().as_mut());
        }
        let response = tonic::client::Grpc::new(Watched { channel, progress: progress.clone() })
            // The size was checked before, with an error that says what to do.
            .max_encoding_message_size(usize::MAX)
            .max_decoding_message_size(self.max_response)
            .unary(request, PathAndQuery::from_static(self.method), Wire { progress })
            .await?;
        Ok(response.into_inner())
    }
}

/// A channel that notes what the peer has to say.
struct Watched {
    channel: Channel,
    progress: Arc<Progress>,
}

impl Service<http::Request<Body>> for Watched {
    type Response = http::Response<Body>;
    type Error = Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.channel.poll_ready(cx)
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let (response, progress) = (self.channel.call(request), self.progress.clone());
        Box::pin(async move {
            let mut response = response.await?;
            if response.status() != StatusCode::OK {
                progress.has_verdict.store(true, Ordering::Relaxed);
            }
            progress.look_at(response.headers_mut());
            Ok(response.map(|body| {
                Body::new(body.map_frame(move |mut frame| {
                    frame.trailers_mut().into_iter().for_each(|trailers| progress.look_at(trailers));
                    frame
                }))
            }))
        })
    }
}

/// Requests that are bytes already to the wire, responses from it.
struct Wire {
    progress: Arc<Progress>,
}

impl Codec for Wire {
    type Encode = Bytes;
    type Decode = RunFunctionResponse;
    type Encoder = Outgoing;
    type Decoder = Incoming;

    fn encoder(&mut self) -> Outgoing {
        Outgoing(self.progress.clone())
    }

    fn decoder(&mut self) -> Incoming {
        Incoming
    }
}

struct Outgoing(Arc<Progress>);

impl Encoder for Outgoing {
    type Item = Bytes;
    type Error = Status;

    /// Is called when there is a connection that takes the request.
    fn encode(&mut self, message: Bytes, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        // Before the bytes are handed over: from here on it is unknown what arrived.
        self.0.is_sent.store(true, Ordering::Relaxed);
        self.0.is_any_sent.store(true, Ordering::Relaxed);
        buffer.reserve(message.len());
        buffer.put(message);
        Ok(())
    }
}

struct Incoming;

impl Decoder for Incoming {
    type Item = RunFunctionResponse;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<RunFunctionResponse>, Status> {
        RunFunctionResponse::decode(buffer).map(Some).map_err(|error| {
            let mut status = Status::internal("not a RunFunctionResponse");
            status.set_source(Arc::new(NotAResponse(error)));
            status
        })
    }
}
