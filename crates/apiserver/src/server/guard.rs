//! What every request is protected by: a deadline, which ends waiting and work alike, and a wall around panics.

use std::any::Any;
use std::future::{Future, poll_fn};
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::task::Poll;
use std::time::{Duration, Instant};

use ferroplane_cancellation::{Cancelled, Deadline, within};
use ferroplane_golang::time::duration;
use ferroplane_schema::status::Status;
use futures_util::FutureExt as _;
use http::{Response, StatusCode};

use crate::listeners::Abandoned;
use crate::negotiate::Form;
use crate::request::RequestInfo;
use crate::response::{self, Body};

/// How long a request may take that is not a watch; kube-apiserver's `--request-timeout`.
const LONGEST: Duration = Duration::from_mins(1);

/// How long a request may take: its own timeout (`?timeout=10s`), but not longer than any other. As kube-apiserver, whose
/// words these are; `kubectl --request-timeout` sends it.
pub(super) fn time_limit(info: &RequestInfo) -> Result<Duration, Status> {
    let given = info.query.get("timeout");
    if given.is_empty() || info.is_watch() {
        return Ok(LONGEST);
    }
    let nanoseconds = duration::parse(given).map_err(|why| {
        Status::bad_request(&format!("invalid timeout specified in the request URL - {why}"))
    })?;
    let limit = u64::try_from(nanoseconds).ok().filter(|limit| *limit > 0).map(Duration::from_nanos);
    Ok(limit.unwrap_or(LONGEST).min(LONGEST))
}

/// Waits for an answer, but not longer than allowed, and answers for a handler that panicked: without that, the client would only
/// see its connection break.
///
/// A handler that works instead of waiting is cut off as well, at the deadline or when its client has gone away.
pub(super) async fn guarded(
    handler: impl Future<Output = Response<Body>>,
    form: Form,
    limit: Duration,
    abandoned: Option<&Abandoned>,
) -> Response<Body> {
    let (ends_at, abandoned) = (Instant::now() + limit, abandoned.cloned());
    let is_abandoned = move || abandoned.as_ref().is_some_and(Abandoned::is_true);
    let deadline = Deadline::new(move || is_abandoned() || Instant::now() >= ends_at);
    let mut handler = pin!(handler);
    // The deadline holds while the handler is polled, and for nothing else that runs on this thread in between.
    let handler = poll_fn(|context| match within(&deadline, || handler.as_mut().poll(context)) {
        Ok(polled) => polled.map(Ok),
        Err(Cancelled) => Poll::Ready(Err(Cancelled)),
    });
    match tokio::time::timeout(limit, AssertUnwindSafe(handler).catch_unwind()).await {
        Ok(Ok(Ok(response))) => response,
        Ok(Err(panic)) => {
            tracing::error!(panic = words(&*panic), "a request panicked");
            let words = "This request caused apiserver to panic. Look in the logs for details.\n";
            response::text(StatusCode::INTERNAL_SERVER_ERROR, words)
        }
        Ok(Ok(Err(Cancelled))) | Err(_) => {
            let words = "request did not complete within the allotted timeout";
            response::status(&Status::timeout(words, 0), form)
        }
    }
}

fn words(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("it gave no reason")
}

#[cfg(test)]
mod tests {
    use ferroplane_cancellation::checkpoint;
    use http::{Method, Uri};

    use super::*;

    async fn answer(handler: impl Future<Output = Response<Body>>, limit: Duration) -> StatusCode {
        guarded(handler, Form::Json, limit, None).await.status()
    }

    fn work_for_ever() -> Response<Body> {
        loop {
            checkpoint();
        }
    }

    fn limit_of(uri: &'static str) -> Result<Duration, Status> {
        time_limit(&RequestInfo::parse(&Method::GET, &Uri::from_static(uri)))
    }

    #[tokio::test]
    async fn panic_is_an_answer() {
        assert_eq!(answer(async { panic!("oh no") }, LONGEST).await, StatusCode::INTERNAL_SERVER_ERROR);
    }

    #[tokio::test(start_paused = true)]
    async fn request_ends_after_a_minute() {
        assert_eq!(answer(std::future::pending(), LONGEST).await, StatusCode::GATEWAY_TIMEOUT);
    }

    #[tokio::test]
    async fn request_that_works_for_ever_ends_at_its_deadline() {
        assert_eq!(
            answer(async { work_for_ever() }, Duration::from_millis(1)).await,
            StatusCode::GATEWAY_TIMEOUT
        );
    }

    #[tokio::test]
    async fn request_that_works_for_ever_ends_when_its_client_is_gone() {
        let abandoned = Abandoned::default();
        abandoned.set();
        let answer = guarded(async { work_for_ever() }, Form::Json, LONGEST, Some(&abandoned)).await;
        assert_eq!(answer.status(), StatusCode::GATEWAY_TIMEOUT);
    }

    #[test]
    fn client_may_shorten_its_time_but_not_extend_it() {
        assert_eq!(limit_of("/api/v1/pods?timeout=2s"), Ok(Duration::from_secs(2)));
        assert_eq!(limit_of("/api/v1/pods?timeout=1h"), Ok(LONGEST));
        assert_eq!(limit_of("/api/v1/pods?timeout=0"), Ok(LONGEST));
        assert_eq!(limit_of("/api/v1/pods"), Ok(LONGEST));
        assert_eq!(limit_of("/api/v1/pods?watch=true&timeout=2s"), Ok(LONGEST));
        let refused = limit_of("/api/v1/pods?timeout=soon").unwrap_err();
        assert_eq!(
            (refused.code, refused.message.as_str()),
            (400, r#"invalid timeout specified in the request URL - time: invalid duration "soon""#)
        );
    }
}
