//! What every request is protected by: a time limit, and a wall around panics.

use std::any::Any;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use ferroplane_schema::status::Status;
use futures_util::FutureExt as _;
use http::{Response, StatusCode};

use crate::negotiate::Form;
use crate::response::{self, Body};

/// How long a request may take that is no watch; kube-apiserver's `--request-timeout`.
const DEADLINE: Duration = Duration::from_mins(1);

/// Waits for an answer, but not for ever, and answers for a handler that panicked: without that, the
/// client would only see its connection break.
pub(super) async fn guarded(handler: impl Future<Output = Response<Body>>, form: Form) -> Response<Body> {
    let answered = tokio::time::timeout(DEADLINE, AssertUnwindSafe(handler).catch_unwind()).await;
    match answered {
        Ok(Ok(response)) => response,
        Ok(Err(panic)) => {
            tracing::error!(panic = words(&*panic), "a request made the server panic");
            let words = "This request caused apiserver to panic. Look in the logs for details.\n";
            response::text(StatusCode::INTERNAL_SERVER_ERROR, words)
        }
        Err(_) => {
            let words = "request did not complete within the allotted timeout";
            response::status(&Status::timeout(words, 0), form)
        }
    }
}

fn words(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("it did not say why")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn panic_is_an_answer() {
        let response = guarded(async { panic!("oh no") }, Form::Json).await;
        assert_eq!(response.status(), StatusCode::INTERNAL_SERVER_ERROR);
    }

    #[tokio::test(start_paused = true)]
    async fn request_ends_after_a_minute() {
        let response = guarded(std::future::pending(), Form::Json).await;
        assert_eq!(response.status(), StatusCode::GATEWAY_TIMEOUT);
    }
}
