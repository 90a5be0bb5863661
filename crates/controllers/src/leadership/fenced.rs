//! A client of the API server that writes only while this replica leads.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use http::{Method, Request};
use tower_service::Service;

use super::term::Term;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Passes reads, and writes while a term lasts. A write that is running when the term ends is aborted.
#[derive(Debug, Clone)]
pub struct Fenced<S> {
    service: S,
    term: Term,
}

/// A write outside of a term.
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
    S::Error: Into<BoxError>,
    S::Future: Send + 'static,
    S::Response: 'static,
{
    type Response = S::Response;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
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
                // The response first: a write that has succeeded must not be reported as fenced.
                answer = answer => answer.map_err(Into::into),
                () = term.ended() => Err(NotLeading.into()),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use super::*;

    /// Answers after a while, and counts what it has done.
    #[derive(Clone, Default)]
    struct Slow(Arc<AtomicUsize>);

    impl Service<Request<()>> for Slow {
        type Response = ();
        type Error = Infallible;
        type Future = Pin<Box<dyn Future<Output = Result<(), Infallible>> + Send>>;

        fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
            Poll::Ready(Ok(()))
        }

        fn call(&mut self, _: Request<()>) -> Self::Future {
            let done = self.0.clone();
            Box::pin(async move {
                tokio::time::sleep(Duration::from_secs(5)).await;
                done.fetch_add(1, Ordering::Relaxed);
                Ok(())
            })
        }
    }

    fn request(method: Method) -> Request<()> {
        Request::builder().method(method).body(()).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_is_written_before_and_after_a_term() {
        let (slow, term) = (Slow::default(), Term::new());
        let mut service = Fenced::new(slow.clone(), term.clone());
        let write = |service: &mut Fenced<Slow>| service.call(request(Method::PATCH));
        assert!(write(&mut service).await.is_err());
        assert!(service.call(request(Method::GET)).await.is_ok());
        term.extend(tokio::time::Instant::now() + Duration::from_secs(8));
        assert!(write(&mut service).await.is_ok());
        // Three seconds are left, and it takes five.
        assert!(write(&mut service).await.is_err());
        assert!(write(&mut service).await.is_err());
        assert_eq!(slow.0.load(Ordering::Relaxed), 2);
    }
}
