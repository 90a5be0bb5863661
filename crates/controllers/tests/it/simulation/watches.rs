//! Watches that are late, or end without a word.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream;
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, StreamBody};
use tokio::time::Instant;

use super::faults::Failure;
use super::weather::Weather;

/// How late an event is at worst, and how long a watch lasts.
const LATEST: Duration = Duration::from_secs(40);
const LONGEST: Duration = Duration::from_mins(2);
const EXPIRED: &str = concat!(
    r#"{"type":"ERROR","object":{"apiVersion":"v1","kind":"Status","status":"Failure","#,
    r#""code":410,"reason":"Expired","message":"bad weather"}}"#,
    "\n"
);

struct Flow {
    body: ferroplane_apiserver::Body,
    weather: Arc<Weather>,
    /// How often watches had been ended when this one began.
    cuts: u64,
    ends_at: Instant,
    has_ended: bool,
}

/// A watch as it arrives.
pub(super) fn through(
    body: ferroplane_apiserver::Body,
    weather: Arc<Weather>,
) -> UnsyncBoxBody<Bytes, Failure> {
    let ends_at = Instant::now() + weather.luck.up_to(LONGEST);
    let cuts = weather.cuts();
    let flow = Flow { body, weather, cuts, ends_at, has_ended: false };
    let frames = stream::unfold(flow, |mut flow| async move {
        let frame = flow.next().await?;
        Some((frame, flow))
    });
    StreamBody::new(frames).boxed_unsync()
}

impl Flow {
    async fn next(&mut self) -> Option<Result<Frame<Bytes>, Failure>> {
        if self.has_ended {
            return None;
        }
        let can_end = self.weather.is_stormy();
        let weather = self.weather.clone();
        let cut = weather.cut.notified();
        if weather.cuts() != self.cuts {
            return Some(self.break_off());
        }
        let frame = tokio::select! {
            biased;
            () = cut => return Some(self.break_off()),
            frame = self.body.frame() => frame?,
            () = tokio::time::sleep_until(self.ends_at), if can_end => return self.end(),
        };
        if self.weather.is_stormy() && self.weather.luck.happens(10) {
            // What came is lost.
            return self.end();
        }
        if self.weather.is_stormy() && self.weather.luck.happens(25) {
            tokio::time::sleep(self.weather.luck.up_to(LATEST)).await;
        }
        Some(frame.map_err(Into::into))
    }

    fn break_off(&mut self) -> Result<Frame<Bytes>, Failure> {
        self.has_ended = true;
        Err("the connection was reset".into())
    }

    fn end(&mut self) -> Option<Result<Frame<Bytes>, Failure>> {
        self.has_ended = true;
        match self.weather.luck.below(3) {
            0 => None,
            1 => Some(Err("the connection was reset".into())),
            _ => Some(Ok(Frame::data(Bytes::from_static(EXPIRED.as_bytes())))),
        }
    }
}
