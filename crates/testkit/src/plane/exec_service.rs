//! Has a kubelet run commands in pods and read their logs, as an API server has. The one in memory has no such subresources.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use ferroplane_client::{Endpoint, Transport};
use http::{Request, Response, Uri};
use http_body_util::BodyExt as _;
use http_body_util::combinators::UnsyncBoxBody;
use kube::client::Body;
use tower_service::Service;

use crate::Kubelet;

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// An answer of either.
type Answer = UnsyncBoxBody<Bytes, Failure>;

/// A client of an API server, beside which there is a kubelet.
#[derive(Clone)]
pub(super) struct ExecService<S> {
    service: S,
    kubelet: Transport,
}

impl<S> ExecService<S> {
    pub(super) fn new(service: S, kubelet: &Kubelet) -> Self {
        let endpoint = Endpoint {
            server: format!("https://{}", kubelet.address()),
            authorities: Some(kubelet.authority().as_bytes().to_vec()),
            ..Endpoint::default()
        };
        Self { service, kubelet: Transport::new(endpoint).unwrap() }
    }
}

impl<S, B> Service<Request<Body>> for ExecService<S>
where
    S: Service<Request<Body>, Response = Response<B>>,
    S::Error: Into<Failure>,
    S::Future: Send + 'static,
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Failure>,
{
    type Response = Response<Answer>;
    type Error = Failure;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Answer>, Failure>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        self.service.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        let Some(target) = kubelet_target(request.uri()) else {
            let answer = self.service.call(request);
            return Box::pin(async move { Ok(answer.await.map_err(Into::<Failure>::into)?.map(boxed)) });
        };
        *request.uri_mut() = target.parse().unwrap();
        let answer = self.kubelet.call(request);
        Box::pin(async move { Ok(answer.await?.map(boxed)) })
    }
}

fn boxed<B>(body: B) -> Answer
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Failure>,
{
    body.map_err(|error| -> Failure { error.into() }).boxed_unsync()
}

/// Where an API server asks a kubelet for what it was asked for itself, if that is a command in a container or its log.
fn kubelet_target(uri: &Uri) -> Option<String> {
    let rest = uri.path().strip_prefix("/api/v1/namespaces/")?;
    let parts: Vec<_> = rest.split('/').collect();
    let query = uri.query().unwrap_or_default();
    let pairs: Vec<_> = query.split('&').filter_map(|pair| pair.split_once('=')).collect();
    let container = || pairs.iter().find(|(name, _)| *name == "container").map(|(_, container)| *container);
    match parts.as_slice() {
        [namespace, "pods", pod, "exec"] => {
            let container = container()?;
            let words = pairs.iter().filter(|(name, _)| *name == "command");
            let words: Vec<_> = words.map(|(_, word)| format!("command={word}")).collect();
            Some(format!("/exec/{namespace}/{pod}/{container}?{}&error=1&output=1", words.join("&")))
        }
        [namespace, "pods", pod, "log"] => {
            Some(format!("/containerLogs/{namespace}/{pod}/{}?{query}", container()?))
        }
        _ => None,
    }
}
