//! The body of an answer. Its request is in flight until it has been sent: that of a watch, for as long as the watch continues.
//!
//! A body whose size is known has an end, and its client has to come to it: the connection notes when it last took a piece.

use std::pin::Pin;
use std::task::{Context, Poll};

use http_body::{Body, Frame, SizeHint};

use super::connection_table::InFlight;

pub(super) struct InFlightBody<B> {
    body: Pin<Box<B>>,
    in_flight: InFlight,
    has_end: bool,
}

impl<B: Body> InFlightBody<B> {
    pub(super) fn new(body: B, mut in_flight: InFlight) -> Self {
        let has_end = body.size_hint().exact().is_some();
        if has_end {
            in_flight.continues();
        }
        Self { body: Box::pin(body), in_flight, has_end }
    }
}

impl<B: Body> Body for InFlightBody<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        let polled = self.body.as_mut().poll_frame(context);
        if self.has_end && polled.is_ready() {
            // The next piece is asked for when the client has made room for it.
            self.in_flight.continues();
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
