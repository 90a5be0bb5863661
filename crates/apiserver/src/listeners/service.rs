//! A server as a `tower` service: for programs in this process, whose identity is known, and for remote clients, whose is not.

use std::convert::Infallible;
use std::future::Future;
use std::panic::resume_unwind;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response};
use tokio::task::AbortHandle;
use tower_service::Service;

use crate::auth::identity::Identity;
use crate::{Body, Server};

/// A server as a client sees it. Clients such as that of `kube` take it as their service.
#[derive(Debug, Clone)]
pub struct HttpService {
    server: Server,
    /// The user of all requests; none if each has to be authenticated.
    caller: Option<Identity>,
}

/// On a request: whether its client has gone away, so that nothing waits for the answer.
#[derive(Debug, Clone, Default)]
pub(crate) struct Abandoned(Arc<AtomicBool>);

impl Abandoned {
    pub(crate) fn is_true(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    pub(crate) fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// On a request: it comes from this process, so that what is answered need not be copied.
#[derive(Debug, Clone, Copy)]
pub(crate) struct InProcess;

impl HttpService {
    /// For a program in this process: every request is this identity's, and neither authenticated nor limited. The audit log has it as
    /// any other.
    pub fn in_process(server: Server, caller: Identity) -> Self {
        Self { server, caller: Some(caller) }
    }

    /// For remote clients: every request is authenticated.
    pub fn remote(server: Server) -> Self {
        Self { server, caller: None }
    }
}

impl<B> Service<Request<B>> for HttpService
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        let Self { server, caller } = self.clone();
        let Some(caller) = caller else {
            let abandoned = Abandoned::default();
            request.extensions_mut().insert(abandoned.clone());
            return Box::pin(apart(abandoned, async move { server.handle_remote(request).await }));
        };
        Box::pin(async move {
            request.extensions_mut().insert(caller);
            request.extensions_mut().insert(InProcess);
            Ok(server.handle(request).await)
        })
    }
}

/// Answers in a task of its own. The listener is free meanwhile to see that the client goes away; then it drops this future, and what
/// the request waits for or works on ends.
async fn apart(
    abandoned: Abandoned,
    answer: impl Future<Output = Response<Body>> + Send + 'static,
) -> Result<Response<Body>, Infallible> {
    let task = tokio::spawn(answer);
    let _abandon = AbandonOnDrop(abandoned, task.abort_handle());
    match task.await.map_err(tokio::task::JoinError::try_into_panic) {
        Ok(response) => Ok(response),
        Err(Ok(panic)) => resume_unwind(panic),
        // The runtime is going down, and the listener with it.
        Err(Err(_)) => std::future::pending().await,
    }
}

struct AbandonOnDrop(Abandoned, AbortHandle);

impl Drop for AbandonOnDrop {
    fn drop(&mut self) {
        self.0.set();
        self.1.abort();
    }
}

#[cfg(test)]
mod tests {
    use ferroplane_cancellation::{Cancelled, Deadline, checkpoint, within};
    use http::StatusCode;
    use tokio::sync::oneshot;

    use super::*;
    use crate::response;

    fn work_for_ever() {
        loop {
            checkpoint();
        }
    }

    // One thread answers requests; if it is not free in the end, this test does not end either.
    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn work_for_a_client_that_goes_away_ends() {
        let abandoned = Abandoned::default();
        let (start, has_started) = oneshot::channel();
        let (end, has_ended) = oneshot::channel();
        let seen = abandoned.clone();
        let answer = apart(abandoned, async move {
            start.send(()).unwrap();
            end.send(within(&Deadline::new(move || seen.is_true()), work_for_ever)).unwrap();
            response::text(StatusCode::OK, "")
        });
        tokio::select! {
            _ = answer => unreachable!("it works for ever"),
            started = has_started => started.unwrap(),
        }
        assert_eq!(has_ended.await, Ok(Err(Cancelled)));
        tokio::spawn(async {}).await.unwrap();
    }
}
