//! A door to the API server through which only those write who may.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use http::{Method, Request};
use tower_service::Service;

use super::term::Term;

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Lets reads through, and writes as long as a term lasts. A write that is under way when it ends is cut off.
#[derive(Debug, Clone)]
pub struct Fenced<S> {
    service: S,
    term: Term,
}

/// Somebody wanted to write who may not.
#[derive(Debug, thiserror::Error)]
#[error("cannot write: another replica leads, or this one no longer does")]
struct NotLeading;

impl<S> Fenced<S> {
    pub fn new(service: S, term: Term) -> Self {
        Self { service, term }
    }
}

impl<S, B> Service<Request<B>> for Fenced<S>
where
    S: Service<Request<B>>,
    S::Error: Into<Failure>,
    S::Future: Send + 'static,
    S::Response: 'static,
{
    type Response = S::Response;
    type Error = Failure;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Failure>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        self.service.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
        if !is_read && !self.term.holds() {
            return Box::pin(async { Err(NotLeading.into()) });
        }
        let answer = self.service.call(request);
        let term = self.term.clone();
        Box::pin(async move {
            if is_read {
                return answer.await.map_err(Into::into);
            }
            tokio::select! {
                biased;
                answer = answer => answer.map_err(Into::into),
                () = term.ended() => Err(NotLeading.into()),
            }
        })
    }
}
