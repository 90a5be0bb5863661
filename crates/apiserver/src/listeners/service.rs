//! A server as a `tower` service: for programs in this process, whose identity is known, and for remote clients, whose is not.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response};
use tower_service::Service;

use crate::auth::identity::Identity;
use crate::{Body, Server};

/// A server as a client sees it. Clients such as that of `kube` take it as their service.
#[derive(Debug, Clone)]
pub struct HttpService {
    server: Server,
    /// Who sends all requests; nobody if each has to be authenticated.
    caller: Option<Identity>,
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
        Box::pin(async move {
            let Some(caller) = caller else { return Ok(server.handle_remote(request).await) };
            request.extensions_mut().insert(caller);
            request.extensions_mut().insert(InProcess);
            Ok(server.handle(request).await)
        })
    }
}
