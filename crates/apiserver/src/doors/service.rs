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

/// A server as someone in this process sees it. Clients such as that of `kube` take it as their service.
#[derive(Debug, Clone)]
pub struct Inside {
    server: Server,
    identity: Identity,
}

impl Inside {
    pub fn new(server: Server, identity: Identity) -> Self {
        Self { server, identity }
    }
}

impl<B> Service<Request<B>> for Inside
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
        let server = self.server.clone();
        request.extensions_mut().insert(self.identity.clone());
        Box::pin(async move { Ok(server.answer(request).await) })
    }
}

/// A server as strangers see it, who have to say who they are.
#[derive(Debug, Clone)]
pub struct Outside(Server);

impl Outside {
    pub fn new(server: Server) -> Self {
        Self(server)
    }
}

impl<B> Service<Request<B>> for Outside
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

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let server = self.0.clone();
        Box::pin(async move { Ok(server.answer_stranger(request).await) })
    }
}
