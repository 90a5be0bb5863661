//! Paths that other parts of this process serve, by method and path, to users with a right on the path.
//!
//! # Guarantees
//! * A handler is called only after the verb on the path was authorized: `get` for GET and HEAD, `post` for POST.
//! * An answer that continues for as long as its client wants ends when the server does.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, PoisonError, RwLock};

use bytes::Bytes;
use ferroplane_schema::status::{Resource, Status};
use futures_core::Stream;
use futures_util::StreamExt as _;
use http::header::ALLOW;
use http::request::Parts;
use http::{HeaderValue, Method, Response, StatusCode};

use super::routes::AuthenticatedRequest;
use super::{Server, body, turns};
use crate::auth::identity::Identity;
use crate::negotiate;
use crate::request::{Query, Verb};
use crate::response::{self, Body};

/// Text that comes as things happen.
pub type PageStream = Pin<Box<dyn Stream<Item = Bytes> + Send>>;

/// A request to a handler.
#[derive(Debug)]
pub struct EndpointRequest {
    /// Who asks.
    pub identity: Identity,
    /// What comes after the path of the endpoint, if it answers below its path.
    pub below: String,
    /// Method, path and headers.
    pub parts: Parts,
    /// Empty for GET and HEAD.
    pub body: Bytes,
    query: Query,
}

impl EndpointRequest {
    /// The first value of a parameter, or nothing.
    pub fn parameter(&self, name: &str) -> &str {
        self.query.get(name)
    }
}

/// Answers requests. No answer means that there is nothing at this path.
#[derive(Clone)]
pub struct InProcessEndpoint(Arc<dyn Fn(EndpointRequest) -> Answering + Send + Sync>);

type Answering = Pin<Box<dyn Future<Output = Option<Response<Body>>> + Send>>;

impl InProcessEndpoint {
    /// One that answers with whatever it says.
    pub fn new<F, B>(answer: impl Fn(EndpointRequest) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Response<B>> + Send + 'static,
        B: Into<Bytes>,
    {
        Self(Arc::new(move |request| {
            let answering = answer(request);
            Box::pin(async move { Some(answering.await.map(|body| Body::from(body.into()))) })
        }))
    }

    /// One that tells text as it comes.
    pub fn streaming(
        answer: impl Fn(&EndpointRequest) -> Option<PageStream> + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(move |request| {
            let page = answer(&request).map(|stream| {
                let mut page = response::text(StatusCode::OK, "");
                *page.body_mut() = Body::stream(stream);
                page
            });
            Box::pin(std::future::ready(page))
        }))
    }
}

impl fmt::Debug for InProcessEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("InProcessEndpoint")
    }
}

/// Where an endpoint is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndpointPath {
    /// This path, with or without a slash at its end.
    At(&'static str),
    /// All paths that begin with this one, which ends with a slash, and have more behind it.
    Below(&'static str),
}

impl EndpointPath {
    /// What comes after the path, if it leads here.
    fn rest<'p>(&self, path: &'p str) -> Option<&'p str> {
        match self {
            Self::At(own) => (path.strip_suffix('/').unwrap_or(path) == *own).then_some(""),
            // The path itself is another one: a handler that lists what is below registers it with `At`.
            Self::Below(own) => path.strip_prefix(own).filter(|rest| !rest.is_empty()),
        }
    }
}

/// All endpoints, by their paths and methods.
#[derive(Debug, Default)]
pub(super) struct Endpoints(RwLock<Vec<RegisteredEndpoint>>);

#[derive(Debug, Clone)]
struct RegisteredEndpoint {
    method: Method,
    path: EndpointPath,
    endpoint: InProcessEndpoint,
}

impl RegisteredEndpoint {
    /// HEAD is GET without a body, which HTTP itself leaves out.
    fn answers(&self, method: &Method) -> bool {
        self.method == method || (self.method == Method::GET && method == Method::HEAD)
    }
}

/// The handlers at a path.
pub(super) enum FoundEndpoint {
    Answers {
        endpoint: InProcessEndpoint,
        below: String,
    },
    /// Only these methods are answered.
    OtherMethods(String),
}

impl Endpoints {
    fn find(&self, method: &Method, path: &str) -> Option<FoundEndpoint> {
        let endpoints = self.0.read().unwrap_or_else(PoisonError::into_inner);
        // All methods of a path are needed: with none that fits, the answer is 405 and names them, as HTTP demands.
        let here: Vec<_> = endpoints.iter().filter_map(|it| Some((it, it.path.rest(path)?))).collect();
        if here.is_empty() {
            return None;
        }
        Some(if let Some((it, rest)) = here.iter().find(|(it, _)| it.answers(method)) {
            FoundEndpoint::Answers { endpoint: it.endpoint.clone(), below: (*rest).to_owned() }
        } else {
            let methods: Vec<_> = here.iter().map(|(it, _)| it.method.as_str()).collect();
            FoundEndpoint::OtherMethods(methods.join(", "))
        })
    }
}

impl Server {
    /// Registers the handler of a method at a path. It replaces an existing one.
    pub fn register_endpoint(&self, method: Method, path: EndpointPath, endpoint: InProcessEndpoint) {
        let mut endpoints = self.state.endpoints.0.write().unwrap_or_else(PoisonError::into_inner);
        // Replaced, not refused: controllers that are started again register their pages again.
        endpoints.retain(|it| (&it.method, it.path) != (&method, path));
        endpoints.push(RegisteredEndpoint { method, path, endpoint });
    }

    /// The handler of a request that is about no resource, if there is one.
    pub(super) fn endpoint(&self, request: AuthenticatedRequest<'_>) -> Option<FoundEndpoint> {
        self.state.endpoints.find(&request.parts.method, request.parts.uri.path())
    }

    /// Answers with the response of a handler. The caller is authorized.
    pub(super) async fn answer_at<B>(
        &self,
        found: FoundEndpoint,
        identity: &Identity,
        request: AuthenticatedRequest<'_>,
        body: B,
    ) -> Result<Response<Body>, Status>
    where
        B: http_body::Body<Data = Bytes>,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let (endpoint, below) = match found {
            FoundEndpoint::Answers { endpoint, below } => (endpoint, below),
            FoundEndpoint::OtherMethods(methods) => return Ok(not_allowed(request, &methods)),
        };
        let is_read = [Method::GET, Method::HEAD].contains(&request.parts.method);
        let mut reserved = None;
        let body = if is_read {
            Bytes::new()
        } else {
            // As a create: any verb that changes something reserves the same, and pages have no verbs of their own.
            reserved = self.reserve_body(Verb::Create, request)?;
            body::collect(body, reserved.as_ref()).await?
        };
        // After the body was read: a client that sends slowly must not hold a place among those that run.
        let turn = self.take_turn(request).await?;
        let asked = EndpointRequest {
            identity: identity.clone(),
            below,
            parts: request.parts.clone(),
            body,
            query: request.info.query.clone(),
        };
        let answer = (endpoint.0)(asked).await;
        // The body is with the endpoint until it has answered, so that its memory counts until then.
        drop(reserved);
        let mut response =
            answer.map_or_else(response::page_not_found, |answer| answer.map(|body| self.ending(body)));
        turns::attach(turn, &mut response);
        Ok(response)
    }

    /// An answer may continue for as long as its client wants, and a server must be able to end.
    fn ending(&self, body: Body) -> Body {
        match body {
            // What is there already ends by itself.
            Body::Chunks(_) | Body::List(_) | Body::Counted(_) => body,
            Body::Stream(stream) => {
                let mut stop = self.state.stop.subscribe();
                let ended = async move {
                    let _ = stop.wait_for(|is_stopping| *is_stopping).await;
                };
                Body::stream(stream.take_until(Box::pin(ended)))
            }
        }
    }
}

fn not_allowed(request: AuthenticatedRequest<'_>, methods: &str) -> Response<Body> {
    let status = Status::generic(405, request.parts.method.as_str(), &Resource::default(), "", "");
    let mut response = response::status(&status, negotiate::error_form(&request.parts.headers));
    if let Ok(methods) = HeaderValue::from_str(methods) {
        response.headers_mut().insert(ALLOW, methods);
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoints() -> Endpoints {
        let nobody = || InProcessEndpoint::streaming(|_| None);
        let at = |method, path| RegisteredEndpoint { method, path, endpoint: nobody() };
        Endpoints(RwLock::new(vec![
            at(Method::GET, EndpointPath::At("/versions")),
            at(Method::GET, EndpointPath::Below("/versions/")),
            at(Method::POST, EndpointPath::At("/plans")),
        ]))
    }

    fn found(method: &Method, path: &str) -> String {
        match endpoints().find(method, path) {
            None => "nothing".to_owned(),
            Some(FoundEndpoint::Answers { below, .. }) => format!("answers {below}"),
            Some(FoundEndpoint::OtherMethods(methods)) => format!("only {methods}"),
        }
    }

    #[test]
    fn endpoint_is_found_by_method_and_path() {
        for (method, path, expected) in [
            (Method::GET, "/versions", "answers "),
            (Method::GET, "/versions/", "answers "),
            (Method::HEAD, "/versions", "answers "),
            (Method::GET, "/versions/a/b", "answers a/b"),
            (Method::GET, "/versionsx", "nothing"),
            (Method::POST, "/versions", "only GET"),
            (Method::POST, "/plans", "answers "),
            (Method::GET, "/plans", "only POST"),
            (Method::POST, "/plans/x", "nothing"),
        ] {
            assert_eq!(found(&method, path), expected, "{method} {path}");
        }
    }
}
