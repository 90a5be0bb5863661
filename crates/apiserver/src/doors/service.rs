//! A server as a service: for programs in this process, who are known, and for strangers, who are not.

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
pub struct Door {
    server: Server,
    /// Who comes in, if that is known.
    caller: Option<Identity>,
}

/// On a request: it comes from this process, so that what is answered need not be copied.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Nearby;

impl Door {
    /// For someone in this process.
    pub fn inside(server: Server, caller: Identity) -> Self {
        Self { server, caller: Some(caller) }
    }

    /// For strangers, who have to say who they are.
    pub fn outside(server: Server) -> Self {
        Self { server, caller: None }
    }
}

impl<B> Service<Request<B>> for Door
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
            let Some(caller) = caller else { return Ok(server.answer_stranger(request).await) };
            request.extensions_mut().insert(caller);
            request.extensions_mut().insert(Nearby);
            Ok(server.answer(request).await)
        })
    }
}
