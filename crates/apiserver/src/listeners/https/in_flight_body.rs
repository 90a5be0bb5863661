//! The body of an answer. Its request is in flight until it has been sent: that of a watch, for as long as the watch continues.
//!
//! A body whose size is known has an end, and its client has to come to it. The connection notes when its client takes a piece of any
//! body, be it one with an end or that of a watch.

use std::pin::Pin;
use std::task::{Context, Poll};

use http_body::{Body, Frame, SizeHint};

use super::connection_table::InFlight;

pub(super) struct InFlightBody<B> {
    body: Pin<Box<B>>,
    in_flight: InFlight,
    has_begun: bool,
}

impl<B: Body> InFlightBody<B> {
    pub(super) fn new(body: B, mut in_flight: InFlight) -> Self {
        if body.size_hint().exact().is_some() {
            in_flight.expects_end();
        }
        Self { body: Box::pin(body), in_flight, has_begun: false }
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
        if polled.is_ready() {
            // The next piece is asked for when the client has made room for the one before it, but the first one in any case.
            if self.has_begun {
                self.in_flight.progresses();
            }
            self.has_begun = true;
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
