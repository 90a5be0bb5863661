//! The API server, as controllers see it: objects of any kind, as bytes, through a `kube::Client`.
//!
//! There is one door, and it is the same whether the server is in this process or across a network.
//!
//! # Invariants
//! * Every request ends: with an answer, or at its deadline.
//! * What the server refuses is an [`Error::Refused`] that carries its word; everything else is [`Error::Unreachable`].

mod discovery;
mod errand;
mod path;
mod pieces;
mod refusal;
mod watch;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use ferroplane_api::Object;
use http::{Method, Request, StatusCode, header};
use http_body_util::BodyExt as _;
use kube::client::Body;
use serde_json::{Value, json};
use tokio::time::Instant;
use tracing::Instrument as _;

pub(crate) use discovery::Discovery;
use errand::Errand;
pub(crate) use errand::Verb;
pub use path::Resource;
pub(crate) use path::{Query, Selector};
pub(crate) use pieces::Pieces;
pub use refusal::{Error, Refusal};
pub(crate) use watch::{Watch, WatchEvent};

use crate::metrics::Metrics;

/// How long a request may take that is not a watch.
const PATIENCE: Duration = Duration::from_mins(1);
/// No answer to a single request is larger than this.
const LARGEST_ANSWER: usize = 256 << 20;
const JSON: &str = "application/json";
const APPLY: &str = "application/apply-patch+yaml";
const MERGE: &str = "application/merge-patch+json";
/// Who owns the fields that controllers write without applying them.
pub(crate) const MANAGER: &str = "ferroplane";

/// An API server.
#[derive(Clone)]
pub struct Cluster {
    client: kube::Client,
    discovery: Arc<Discovery>,
    written: Arc<AtomicU64>,
    metrics: Arc<Metrics>,
}

impl std::fmt::Debug for Cluster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cluster").finish_non_exhaustive()
    }
}

/// Which part of an object a request is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    Whole,
    Status,
}

/// How what depends on an object is treated when it is deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Propagation {
    Foreground,
    Background,
    Orphan,
}

/// Where an object is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place<'a> {
    pub(crate) resource: &'a Resource,
    pub(crate) namespace: &'a str,
    pub(crate) name: &'a str,
}

impl Cluster {
    pub fn new(client: kube::Client) -> Self {
        Self { client, discovery: Arc::default(), written: Arc::default(), metrics: Arc::default() }
    }

    /// What is counted of this and of everything that is done with it.
    pub(crate) fn metrics(&self) -> &Arc<Metrics> {
        &self.metrics
    }

    /// How many requests to change something were sent.
    pub fn writes(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }

    /// What objects of this kind are called in paths. None if there is no such kind.
    pub(crate) async fn resource(
        &self,
        api_version: &str,
        kind: &str,
    ) -> Result<Option<Arc<Resource>>, Error> {
        self.discovery.resource(self, api_version, kind).await
    }

    /// Kinds have come or gone: what was learned about them may be wrong.
    pub(crate) fn forget_kinds(&self) {
        self.discovery.forget();
    }

    /// One object, as the server has it. None if there is none.
    pub(crate) async fn get(&self, place: Place<'_>) -> Result<Option<Bytes>, Error> {
        let uri = place.uri(Part::Whole, &Query::default());
        match self.send(Errand::to(Verb::Get, place, Part::Whole), &uri, None).await {
            Err(error) if error.is_not_found() => Ok(None),
            answer => answer.map(Some),
        }
    }

    /// One object, read as JSON.
    pub(crate) async fn get_object(&self, place: Place<'_>) -> Result<Option<Object>, Error> {
        let Some(bytes) = self.get(place).await? else { return Ok(None) };
        serde_json::from_slice(&bytes).map(Some).map_err(Error::garbled)
    }

    /// A page of a list, as the server sent it.
    pub(crate) async fn list(
        &self,
        resource: &Resource,
        namespace: &str,
        query: &Query<'_>,
    ) -> Result<Pieces, Error> {
        // Whole objects even if only heads are wanted: asked for metadata alone, a real API server is not followed well.
        let request = request(Method::GET, &resource.uri(namespace, query), JSON, None)?;
        let errand = Errand::among(Verb::List, resource, namespace);
        self.run(errand, request, collect_pieces).await
    }

    /// Every object of a kind that is selected.
    pub(crate) async fn list_objects(
        &self,
        resource: &Resource,
        namespace: &str,
        labels: &Selector,
    ) -> Result<Vec<Object>, Error> {
        let query = Query { labels: Some(labels), ..Query::default() };
        let pieces = self.list(resource, namespace, &query).await?;
        let mut list: Value = serde_json::from_slice(pieces.text()).map_err(Error::garbled)?;
        let Value::Array(items) = list["items"].take() else { return Ok(Vec::new()) };
        let objects = items.into_iter().filter_map(|item| match item {
            Value::Object(mut object) => {
                resource.name_kind(&mut object);
                Some(object)
            }
            _ => None,
        });
        Ok(objects.collect())
    }

    pub(crate) async fn create(
        &self,
        resource: &Resource,
        namespace: &str,
        object: &Object,
    ) -> Result<Bytes, Error> {
        let query = Query { manager: Some(MANAGER), ..Query::default() };
        let errand = Errand::among(Verb::Create, resource, namespace);
        self.send(errand, &resource.uri(namespace, &query), Some((JSON, to_bytes(object)))).await
    }

    /// Put an object in the place of the one that is there. What it says its version is has to be that of the other.
    pub(crate) async fn replace(
        &self,
        place: Place<'_>,
        part: Part,
        object: &Object,
    ) -> Result<Bytes, Error> {
        let query = Query { manager: Some(MANAGER), ..Query::default() };
        let errand = Errand::to(Verb::Update, place, part);
        self.send(errand, &place.uri(part, &query), Some((JSON, to_bytes(object)))).await
    }

    /// Change some fields of an object.
    pub(crate) async fn merge(&self, place: Place<'_>, part: Part, patch: &Value) -> Result<Bytes, Error> {
        let query = Query { manager: Some(MANAGER), ..Query::default() };
        let body = serde_json::to_vec(patch).unwrap_or_default().into();
        let errand = Errand::to(Verb::Patch, place, part);
        self.send(errand, &place.uri(part, &query), Some((MERGE, body))).await
    }

    /// Say what fields of an object should be, as their owner: server-side apply, whoever else wants otherwise.
    pub(crate) async fn apply(
        &self,
        place: Place<'_>,
        part: Part,
        manager: &str,
        object: &Object,
    ) -> Result<Bytes, Error> {
        let query = Query { manager: Some(manager), force: true, ..Query::default() };
        let errand = Errand::to(Verb::Apply, place, part);
        self.send(errand, &place.uri(part, &query), Some((APPLY, to_bytes(object)))).await
    }

    /// Delete an object, if it still is this one. One that is gone already is as good.
    pub(crate) async fn delete(
        &self,
        place: Place<'_>,
        uid: Option<&str>,
        propagation: Propagation,
    ) -> Result<(), Error> {
        let policy = match propagation {
            Propagation::Foreground => "Foreground",
            Propagation::Background => "Background",
            Propagation::Orphan => "Orphan",
        };
        let mut options = json!({"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": policy});
        if let Some(uid) = uid {
            options["preconditions"] = json!({"uid": uid});
        }
        let body = serde_json::to_vec(&options).unwrap_or_default().into();
        let uri = place.uri(Part::Whole, &Query::default());
        match self.send(Errand::to(Verb::Delete, place, Part::Whole), &uri, Some((JSON, body))).await {
            Err(error) if !error.is_not_found() => Err(error),
            _ => Ok(()),
        }
    }

    /// Delete every object of a kind, in one namespace or, for kinds that have none, at all.
    pub(crate) async fn delete_all(&self, resource: &Resource, namespace: &str) -> Result<(), Error> {
        let uri = resource.uri(namespace, &Query::default());
        match self.send(Errand::among(Verb::DeleteCollection, resource, namespace), &uri, None).await {
            Err(error) if !error.is_not_found() => Err(error),
            _ => Ok(()),
        }
    }

    /// Read something that is no object, such as the schemas of an API group.
    pub(crate) async fn read(&self, path: &str) -> Result<Option<Bytes>, Error> {
        match self.send(Errand::elsewhere(Verb::Get), path, None).await {
            Err(error) if error.is_not_found() => Ok(None),
            answer => answer.map(Some),
        }
    }

    /// Ask a question that is put by creating an object, such as whether something is allowed.
    pub(crate) async fn ask(&self, path: &str, question: &Value) -> Result<Value, Error> {
        let body = serde_json::to_vec(question).unwrap_or_default().into();
        let bytes = self.send(Errand::elsewhere(Verb::Create), path, Some((JSON, body))).await?;
        serde_json::from_slice(&bytes).map_err(Error::garbled)
    }

    /// Everything that happens to objects of a kind from now on.
    pub(crate) async fn watch(
        &self,
        resource: &Resource,
        namespace: &str,
        query: &Query<'_>,
    ) -> Result<Watch, Error> {
        let request = request(Method::GET, &resource.uri(namespace, query), query.accept(), None)?;
        let answer = tokio::time::timeout(PATIENCE, self.client.send(request)).await;
        let response = answer.map_err(|_| Error::timeout()).and_then(|it| it.map_err(Error::unreachable));
        let code = match &response {
            Ok(response) => Some(response.status().as_u16()),
            Err(error) => error.answered(),
        };
        self.metrics.count_request(Verb::Watch, Some(resource), "", code, None);
        let response = response?;
        if response.status() == StatusCode::OK {
            return Ok(Watch::new(response.into_body()));
        }
        let status = response.status();
        Err(Error::refused(status, &collect(response.into_body()).await?))
    }

    async fn send(
        &self,
        errand: Errand<'_>,
        uri: &str,
        body: Option<(&'static str, Bytes)>,
    ) -> Result<Bytes, Error> {
        if errand.verb.is_write() {
            self.written.fetch_add(1, Ordering::Relaxed);
        }
        self.run(errand, request(errand.verb.method(), uri, JSON, body)?, collect).await
    }

    /// Sends a request, takes the answer, and counts both.
    async fn run<T, F>(
        &self,
        errand: Errand<'_>,
        request: Request<Body>,
        take: impl FnOnce(Body) -> F,
    ) -> Result<T, Error>
    where
        F: Future<Output = Result<T, Error>>,
    {
        let (span, began_at) = (errand.span(), Instant::now());
        let mut code = None;
        let exchange = async { take(self.exchange(request, &mut code).await?).await };
        let result = in_time(exchange).instrument(span.clone()).await;
        self.metrics.count_request(
            errand.verb,
            errand.resource,
            errand.subresource,
            code,
            Some(began_at.elapsed()),
        );
        Errand::close(&span, code);
        result
    }

    /// What a request that succeeds is answered.
    async fn exchange(&self, request: Request<Body>, code: &mut Option<u16>) -> Result<Body, Error> {
        let response = self.client.send(request).await.map_err(Error::unreachable);
        *code = match &response {
            Ok(response) => Some(response.status().as_u16()),
            Err(error) => error.answered(),
        };
        let response = response?;
        let status = response.status();
        if status.is_success() {
            return Ok(response.into_body());
        }
        Err(Error::refused(status, &collect(response.into_body()).await?))
    }
}

async fn in_time<T>(exchange: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    tokio::time::timeout(PATIENCE, exchange).await.map_err(|_| Error::timeout())?
}

fn request(
    method: Method,
    uri: &str,
    accept: &str,
    body: Option<(&'static str, Bytes)>,
) -> Result<Request<Body>, Error> {
    let mut request = Request::builder().method(method).uri(uri).header(header::ACCEPT, accept);
    if let Some((kind, _)) = &body {
        request = request.header(header::CONTENT_TYPE, *kind);
    }
    let body = body.map_or_else(Body::empty, |(_, bytes)| bytes.into());
    request.body(body).map_err(|error| Error::Unreachable(error.into()))
}

async fn collect(body: Body) -> Result<Bytes, Error> {
    let limited = http_body_util::Limited::new(body, LARGEST_ANSWER);
    let collected = limited.collect().await.map_err(Error::Unreachable)?;
    Ok(collected.to_bytes())
}

async fn collect_pieces(body: Body) -> Result<Pieces, Error> {
    let mut limited = std::pin::pin!(http_body_util::Limited::new(body, LARGEST_ANSWER));
    let mut pieces = Pieces::default();
    while let Some(frame) = limited.frame().await {
        if let Ok(data) = frame.map_err(Error::Unreachable)?.into_data() {
            pieces.push(data);
        }
    }
    Ok(pieces)
}

fn to_bytes(object: &Object) -> Bytes {
    serde_json::to_vec(object).unwrap_or_default().into()
}
