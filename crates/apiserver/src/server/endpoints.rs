//! Paths at which somebody else in this process answers what is posted, to those whom roles let `post` there.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, PoisonError, RwLock};

use bytes::Bytes;
use ferroplane_schema::status::Status;
use http::{Method, Response, StatusCode};

use super::routes::AuthenticatedRequest;
use super::{Server, body};
use crate::auth::identity::Identity;
use crate::request::Verb;
use crate::response::{self, Body};

/// Answers what is posted at a path: who posts, and what. The answer is JSON.
#[derive(Clone)]
pub struct InProcessEndpoint(Arc<dyn Fn(Identity, Bytes) -> Answering + Send + Sync>);

type Answering = Pin<Box<dyn Future<Output = (StatusCode, Bytes)> + Send>>;

impl InProcessEndpoint {
    pub fn new<F>(answer: impl Fn(Identity, Bytes) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = (StatusCode, Bytes)> + Send + 'static,
    {
        Self(Arc::new(move |identity, body| Box::pin(answer(identity, body))))
    }
}

impl fmt::Debug for InProcessEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("InProcessEndpoint")
    }
}

/// All endpoints, by their paths.
#[derive(Debug, Default)]
pub(super) struct Endpoints(RwLock<BTreeMap<&'static str, InProcessEndpoint>>);

impl Endpoints {
    fn find(&self, path: &str) -> Option<InProcessEndpoint> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).get(path).cloned()
    }
}

impl Server {
    /// Has this one answer what is posted at a path.
    pub fn register_endpoint(&self, path: &'static str, endpoint: InProcessEndpoint) {
        let mut endpoints = self.state.endpoints.0.write().unwrap_or_else(PoisonError::into_inner);
        endpoints.insert(path, endpoint);
    }

    /// Whoever answers a request that is about no resource, if somebody else does.
    pub(super) fn endpoint(&self, request: AuthenticatedRequest<'_>) -> Option<InProcessEndpoint> {
        let is_post = request.parts.method == Method::POST;
        self.state.endpoints.find(request.parts.uri.path()).filter(|_| is_post)
    }

    /// Answers with what somebody else says. The caller may post there.
    pub(super) async fn answer_at<B>(
        &self,
        endpoint: InProcessEndpoint,
        identity: &Identity,
        request: AuthenticatedRequest<'_>,
        body: B,
    ) -> Result<Response<Body>, Status>
    where
        B: http_body::Body<Data = Bytes>,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let mut reserved = self.reserve_body(Verb::Create, request)?;
        let text = body::collect(body, reserved.as_mut()).await?;
        let _permit = self.take_turn(request).await?;
        let (code, answer) = (endpoint.0)(identity.clone(), text).await;
        Ok(response::json(code, answer))
    }
}
