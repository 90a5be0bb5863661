//! The body of a response to a client outside: it counts until its last byte has been sent.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::Response;
use http_body::Body as _;

use super::{Body, PIECE};
use crate::flow_control::BodyReservation;

/// A body that is complete, in pieces that keep its memory counted.
#[derive(Debug)]
pub struct CountedBody {
    body: Body,
    /// What is left of a chunk that is larger than a piece.
    rest: Bytes,
    memory: Arc<BodyReservation>,
}

/// A piece of a body.
///
/// A connection may have taken the last piece, and have dropped the body, long before its client reads. A slice keeps all of its
/// chunk alive, so every piece keeps all of the body counted.
struct Piece {
    bytes: Bytes,
    _memory: Arc<BodyReservation>,
}

impl AsRef<[u8]> for Piece {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// Counts the body of a response with what was reserved for it.
pub(crate) fn count(response: Response<Body>, memory: Arc<BodyReservation>) -> Response<Body> {
    response.map(|body| match body {
        // It keeps nothing that was said already.
        Body::Stream(_) => body.holding(memory),
        body => {
            memory.settle(body.bytes());
            Body::Counted(Box::new(CountedBody { body, rest: Bytes::new(), memory }))
        }
    })
}

impl CountedBody {
    pub(super) fn poll_piece(&mut self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        if self.rest.is_empty() {
            let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
            let Some(data) = frame.and_then(Result::ok).and_then(|frame| frame.into_data().ok()) else {
                return Poll::Ready(None);
            };
            self.rest = data;
        }
        // Piece by piece, so that a client that reads slowly is seen to read.
        let bytes = self.rest.split_to(self.rest.len().min(PIECE));
        let piece = Piece { bytes, _memory: Arc::clone(&self.memory) };
        Poll::Ready(Some(Bytes::from_owner(piece)))
    }

    pub(super) fn is_over(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    pub(super) fn left(&self) -> usize {
        self.rest.len() + self.body.bytes()
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt as _;

    use super::*;
    use crate::flow_control::BodyMemory;

    #[tokio::test]
    async fn body_counts_until_its_last_piece_has_been_sent() {
        let memory = BodyMemory::shared();
        let reserved = Arc::new(memory.reserve("bob").unwrap());
        let text: Vec<u8> = (0..3 * PIECE + 7).map(|index| u8::try_from(index % 251).unwrap()).collect();
        let counted = Arc::downgrade(&reserved);
        let mut body = count(Response::new(Body::from(Bytes::from(text.clone()))), reserved).into_body();
        assert_eq!(body.size_hint().exact(), Some(text.len() as u64));
        let mut pieces = Vec::new();
        while let Some(Ok(frame)) = body.frame().await {
            pieces.push(frame.into_data().unwrap());
        }
        assert!(body.is_end_stream() && pieces.iter().all(|piece| piece.len() <= PIECE));
        assert_eq!(pieces.concat(), text);
        drop(body);
        let last = pieces.pop();
        drop(pieces);
        assert!(counted.upgrade().is_some(), "the connection has a piece, which keeps the text");
        drop(last);
        assert!(counted.upgrade().is_none());
    }
}
