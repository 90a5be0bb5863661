//! Notes what controllers ask an API server to change.

use std::mem;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use http::{Method, Request};
use tower_service::Service;

/// What was asked for, shared by all clones.
#[derive(Debug, Clone, Default)]
pub struct WriteLog(Arc<Mutex<Vec<String>>>);

impl WriteLog {
    /// A service whose requests are logged.
    pub fn over<S>(&self, service: S) -> Logged<S> {
        Logged { service, log: self.clone() }
    }

    pub fn take(&self) -> Vec<String> {
        mem::take(&mut *self.0.lock().unwrap())
    }
}

#[derive(Clone)]
pub struct Logged<S> {
    service: S,
    log: WriteLog,
}

impl<B, S: Service<Request<B>>> Service<Request<B>> for Logged<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.service.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let path = request.uri().path();
        if request.method() != Method::GET && !path.contains("/events") {
            self.log.0.lock().unwrap().push(format!("{} {path}", request.method()));
        }
        self.service.call(request)
    }
}
