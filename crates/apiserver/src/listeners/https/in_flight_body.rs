//! The body of an answer. Its request is in flight until it has been sent: that of a watch, for as long as the watch continues.

use std::pin::Pin;
use std::task::{Context, Poll};

use http_body::{Body, Frame, SizeHint};

use super::connection_table::InFlight;

pub(super) struct InFlightBody<B> {
    body: Pin<Box<B>>,
    _in_flight: InFlight,
}

impl<B> InFlightBody<B> {
    pub(super) fn new(body: B, in_flight: InFlight) -> Self {
        Self { body: Box::pin(body), _in_flight: in_flight }
    }
}

impl<B: Body> Body for InFlightBody<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        self.body.as_mut().poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
