//! The API server as other crates see it: objects of any kind, as bytes or JSON, through a `kube::Client`.
//!
//! It is the same whether the server is in this process or across a network.
//!
//! # Invariants
//! * Every request ends: with an answer, or at its deadline.
//! * What the server refuses is an [`Error::Refused`] with its `Status`. What has no path is an
//!   [`Error::InvalidPath`] and is never sent. Everything else is [`Error::Unreachable`].

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response, StatusCode, header};
use http_body_util::BodyExt as _;
use kube::client::Body;
use serde_json::{Value, json};
use tokio::time::Instant;
use tracing::Instrument as _;

use crate::body_chunks::BodyChunks;
use crate::discovery::Discovery;
use crate::request_cause::{self, RequestCause};
use crate::resource::Parameters;
use crate::{
    Error, InformerEvent, ObjectPath, Page, Query, RequestLabels, Resource, ResourceCatalogue, Subresource,
    Verb, Watch, watch,
};

/// An object as JSON.
pub type JsonObject = serde_json::Map<String, Value>;

/// How long a request may take that is not a watch, unless said otherwise.
const TIMEOUT: Duration = Duration::from_mins(1);
/// No answer to a single request is larger than this.
// Bounds what a broken or hostile server can make us hold in memory.
const LARGEST_ANSWER: usize = 256 << 20;
/// How many objects are listed at a time.
// client-go's page size: API servers and their quotas are tuned for it.
pub(crate) const PAGE_SIZE: u32 = 500;
pub(crate) const JSON: &str = "application/json";
const APPLY: &str = "application/apply-patch+yaml";
const MERGE: &str = "application/merge-patch+json";
/// Owns the fields that are written without server-side apply, unless said otherwise.
const FIELD_MANAGER: &str = "ferroplane";

/// A client of an API server. Clones share what is known of kinds.
#[derive(Clone)]
pub struct ApiClient {
    client: kube::Client,
    discovery: Arc<Discovery>,
    observer: Option<Arc<dyn Observer>>,
    field_manager: &'static str,
    timeout: Duration,
    /// Whether writes are only tried.
    is_dry_run: bool,
}

/// Observes requests and informers, for metrics.
pub trait Observer: Send + Sync {
    /// A request ended, with this status code or without an answer. That of a watch lasts as long as the server wants, so it
    /// has no duration.
    fn request(&self, request: &RequestLabels<'_>, code: Option<u16>, duration: Option<Duration>);

    fn informer(&self, resource: &Resource, event: InformerEvent<'_>);
}

/// How dependents are treated when an object is deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Propagation {
    Foreground,
    Background,
    Orphan,
}

/// The types of patches besides server-side apply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PatchType {
    Strategic,
    Merge,
    Json,
}

impl PatchType {
    fn media_type(self) -> &'static str {
        match self {
            Self::Strategic => "application/strategic-merge-patch+json",
            Self::Merge => MERGE,
            Self::Json => "application/json-patch+json",
        }
    }
}

/// How an object is applied.
#[derive(Debug, Clone, Copy)]
pub struct ApplyOptions<'a> {
    pub field_manager: &'a str,
    /// Whether to take fields over from other managers. Without it, that is a conflict.
    pub is_forced: bool,
    /// Whether unknown fields are refused instead of dropped.
    pub is_strict: bool,
}

impl std::fmt::Debug for ApiClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ApiClient").finish_non_exhaustive()
    }
}

impl ApiClient {
    pub fn new(client: kube::Client) -> Self {
        Self {
            client,
            discovery: Arc::default(),
            observer: None,
            field_manager: FIELD_MANAGER,
            timeout: TIMEOUT,
            is_dry_run: false,
        }
    }

    /// The same, with an observer of its requests and informers.
    #[must_use]
    pub fn with_observer(self, observer: Arc<dyn Observer>) -> Self {
        Self { observer: Some(observer), ..self }
    }

    /// The same server, with the requests of another client's user. What is known of kinds stays shared.
    #[must_use]
    pub fn acting_as(self, user: &Self) -> Self {
        Self { client: user.client.clone(), ..self }
    }

    /// The same, owning the fields that it writes by another name.
    #[must_use]
    pub fn with_field_manager(self, field_manager: &'static str) -> Self {
        Self { field_manager, ..self }
    }

    /// The same, waiting so long for an answer.
    #[must_use]
    pub fn with_timeout(self, timeout: Duration) -> Self {
        Self { timeout, ..self }
    }

    /// The same, for writes that the server checks and answers, and does not store. Deletions are not affected.
    #[must_use]
    pub fn with_dry_run(self) -> Self {
        Self { is_dry_run: true, ..self }
    }

    /// The kind as discovery has it. None if there is no such kind.
    pub async fn resource(&self, api_version: &str, kind: &str) -> Result<Option<Arc<Resource>>, Error> {
        self.discovery.resource(self, api_version, kind).await
    }

    /// The kind that has this plural name, like `deployments`. None if there is no such kind.
    pub async fn resource_of_plural(
        &self,
        api_version: &str,
        plural: &str,
    ) -> Result<Option<Arc<Resource>>, Error> {
        self.discovery.resource_of_plural(self, api_version, plural).await
    }

    /// Kinds were added or removed: what was learned about them may be wrong.
    pub fn forget_resources(&self) {
        self.discovery.forget();
    }

    /// All kinds that the server has now.
    pub async fn catalogue(&self) -> Result<ResourceCatalogue, Error> {
        ResourceCatalogue::read(self).await
    }

    /// One object, as the server sent it. None if there is none.
    pub async fn get(&self, path: ObjectPath<'_>) -> Result<Option<Bytes>, Error> {
        let uri = path.uri(Subresource::None, Parameters::None)?;
        let labels = RequestLabels::object(Verb::Get, path, Subresource::None);
        found(self.send(labels, &uri, None).await)
    }

    /// One object, as JSON.
    pub async fn get_object(&self, path: ObjectPath<'_>) -> Result<Option<JsonObject>, Error> {
        let Some(bytes) = self.get(path).await? else { return Ok(None) };
        serde_json::from_slice(&bytes).map(Some).map_err(Error::invalid_answer)
    }

    /// A page of a list, in one namespace or, if that is empty, in all.
    pub async fn list(&self, resource: &Resource, namespace: &str, query: &Query<'_>) -> Result<Page, Error> {
        // Whole objects even if only metadata is wanted: after a list of metadata alone, a real API server cannot be
        // followed well.
        let request = request(Method::GET, &resource.uri(namespace, Parameters::List(query))?, JSON, None)?;
        let labels = RequestLabels::collection(Verb::List, resource, namespace);
        let chunks = self.run(labels, request, |response| collect_chunks(response.into_body())).await?;
        Page::read(chunks)
    }

    /// Every object of a kind that is selected, page by page.
    pub async fn list_objects(
        &self,
        resource: &Resource,
        namespace: &str,
        query: &Query<'_>,
    ) -> Result<Vec<JsonObject>, Error> {
        let mut objects = Vec::new();
        let mut continuation: Option<String> = None;
        let limit = query.limit.or(Some(PAGE_SIZE));
        loop {
            let page = Query { limit, continuation: continuation.as_deref(), ..*query };
            let page = match self.list(resource, namespace, &page).await {
                // The pages that were read are too old to be continued.
                Err(error) if error.is_gone() && continuation.is_some() => {
                    // Without pages nothing can expire in between. Trying pages again could continue for ever on
                    // a busy cluster.
                    let whole = Query { limit: None, ..*query };
                    return self.list(resource, namespace, &whole).await?.objects(resource);
                }
                page => page?,
            };
            objects.extend(page.objects(resource)?);
            continuation = page.continuation;
            if continuation.is_none() {
                return Ok(objects);
            }
        }
    }

    pub async fn create(
        &self,
        resource: &Resource,
        namespace: &str,
        object: &JsonObject,
    ) -> Result<Bytes, Error> {
        let uri = resource.uri(namespace, self.write_parameters())?;
        let labels = RequestLabels::collection(Verb::Create, resource, namespace);
        self.send(labels, &uri, Some((JSON, to_bytes(object)))).await
    }

    /// Create an object, as a field manager of this name.
    pub async fn create_as(
        &self,
        resource: &Resource,
        namespace: &str,
        field_manager: &str,
        object: &JsonObject,
    ) -> Result<Bytes, Error> {
        let options = ApplyOptions { field_manager, is_forced: false, is_strict: false };
        let uri = resource.uri(namespace, Parameters::Write { options, is_dry_run: self.is_dry_run })?;
        let labels = RequestLabels::collection(Verb::Create, resource, namespace);
        self.send(labels, &uri, Some((JSON, to_bytes(object)))).await
    }

    /// Change an object with a patch of this type, as a field manager of this name.
    pub async fn patch_as(
        &self,
        path: ObjectPath<'_>,
        subresource: Subresource,
        field_manager: &str,
        kind: PatchType,
        changes: &Value,
    ) -> Result<Bytes, Error> {
        let options = ApplyOptions { field_manager, is_forced: false, is_strict: false };
        let uri = path.uri(subresource, Parameters::Write { options, is_dry_run: self.is_dry_run })?;
        let labels = RequestLabels::object(Verb::Patch, path, subresource);
        let body = serde_json::to_vec(changes).unwrap_or_default().into();
        self.send(labels, &uri, Some((kind.media_type(), body))).await
    }

    /// What a container has logged, up to so many bytes.
    pub async fn log(&self, pod: ObjectPath<'_>, container: &str, limit: u64) -> Result<Bytes, Error> {
        let path = pod.uri(Subresource::None, Parameters::None)?;
        self.read_as(&format!("{path}/log?{}", log_query(container, limit)), "*/*").await
    }

    /// Replace an object. The resource version must be that of the one that is there.
    pub async fn replace(
        &self,
        path: ObjectPath<'_>,
        subresource: Subresource,
        object: &JsonObject,
    ) -> Result<Bytes, Error> {
        let uri = path.uri(subresource, self.write_parameters())?;
        let labels = RequestLabels::object(Verb::Update, path, subresource);
        self.send(labels, &uri, Some((JSON, to_bytes(object)))).await
    }

    /// Change some fields of an object, with a JSON merge patch.
    pub async fn merge(
        &self,
        path: ObjectPath<'_>,
        subresource: Subresource,
        changes: &Value,
    ) -> Result<Bytes, Error> {
        let uri = path.uri(subresource, self.write_parameters())?;
        let body = serde_json::to_vec(changes).unwrap_or_default().into();
        let labels = RequestLabels::object(Verb::Patch, path, subresource);
        self.send(labels, &uri, Some((MERGE, body))).await
    }

    /// Server-side apply: take over the fields from other managers.
    pub async fn apply(
        &self,
        path: ObjectPath<'_>,
        subresource: Subresource,
        field_manager: &str,
        object: &JsonObject,
    ) -> Result<Bytes, Error> {
        let options = ApplyOptions { field_manager, is_forced: true, is_strict: false };
        self.apply_with(path, subresource, options, object).await
    }

    /// Server-side apply.
    pub async fn apply_with(
        &self,
        path: ObjectPath<'_>,
        subresource: Subresource,
        options: ApplyOptions<'_>,
        object: &JsonObject,
    ) -> Result<Bytes, Error> {
        let labels = RequestLabels::object(Verb::Apply, path, subresource);
        let uri = path.uri(subresource, Parameters::Write { options, is_dry_run: self.is_dry_run })?;
        self.send(labels, &uri, Some((APPLY, to_bytes(object)))).await
    }

    /// Server-side apply. Returns the warnings of the API server, too.
    pub async fn apply_with_warnings(
        &self,
        path: ObjectPath<'_>,
        options: ApplyOptions<'_>,
        object: &JsonObject,
    ) -> Result<(Bytes, Vec<String>), Error> {
        let labels = RequestLabels::object(Verb::Apply, path, Subresource::None);
        let uri = path.uri(Subresource::None, Parameters::Write { options, is_dry_run: self.is_dry_run })?;
        let request = request(labels.verb.method(), &uri, JSON, Some((APPLY, to_bytes(object))))?;
        let read = |response: Response<Body>| async {
            let warnings = warnings(response.headers());
            Ok((collect(response.into_body()).await?, warnings))
        };
        self.run(labels, request, read).await
    }

    /// Delete an object, if it still has this UID. One that is gone already counts as deleted.
    pub async fn delete(
        &self,
        path: ObjectPath<'_>,
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
            // An object that was created anew under the same name must not be deleted by a decision about the
            // old one.
            options["preconditions"] = json!({"uid": uid});
        }
        let body = serde_json::to_vec(&options).unwrap_or_default().into();
        let uri = path.uri(Subresource::None, Parameters::None)?;
        let labels = RequestLabels::object(Verb::Delete, path, Subresource::None);
        found(self.send(labels, &uri, Some((JSON, body))).await).map(drop)
    }

    /// Delete every object of a kind, in one namespace or, for kinds that have none, at all.
    pub async fn delete_all(&self, resource: &Resource, namespace: &str) -> Result<(), Error> {
        let uri = resource.uri(namespace, Parameters::None)?;
        let labels = RequestLabels::collection(Verb::DeleteCollection, resource, namespace);
        found(self.send(labels, &uri, None).await).map(drop)
    }

    /// Read something that is not an object, such as the schemas of an API group. None if there is no such path.
    pub async fn read(&self, path: &str) -> Result<Option<Bytes>, Error> {
        found(self.read_as(path, JSON).await)
    }

    pub(crate) async fn read_as(&self, path: &str, accept: &str) -> Result<Bytes, Error> {
        let request = request(Method::GET, path, accept, None)?;
        self.run(RequestLabels::other(Verb::Get), request, |response| collect(response.into_body())).await
    }

    /// Create an object that is answered instead of stored, such as a review of access.
    pub async fn review(&self, path: &str, question: &Value) -> Result<Value, Error> {
        let body = serde_json::to_vec(question).unwrap_or_default().into();
        let bytes = self.send(RequestLabels::other(Verb::Create), path, Some((JSON, body))).await?;
        serde_json::from_slice(&bytes).map_err(Error::invalid_answer)
    }

    /// What happens to objects of a kind from now on, for some minutes, in one namespace or, if that is empty, in all.
    pub async fn watch(
        &self,
        resource: &Resource,
        namespace: &str,
        query: &Query<'_>,
    ) -> Result<Watch, Error> {
        let uri = resource.uri(namespace, Parameters::Watch(query))?;
        let seconds = watch::lifetime(&uri);
        let uri = format!("{uri}&timeoutSeconds={seconds}");
        let request = request(Method::GET, &uri, query.accept(), None)?;
        let mut code = None;
        let response = tokio::time::timeout(self.timeout, self.exchange(request, &mut code)).await;
        let labels = RequestLabels::collection(Verb::Watch, resource, namespace);
        self.observe(&labels, code, None);
        let response = response.unwrap_or_else(|_| Err(Error::timeout()))?;
        Ok(Watch::new(response.into_body(), seconds))
    }

    fn write_parameters(&self) -> Parameters<'static> {
        let field_manager = self.field_manager;
        let options = ApplyOptions { field_manager, is_forced: false, is_strict: false };
        Parameters::Write { options, is_dry_run: self.is_dry_run }
    }

    async fn send(
        &self,
        labels: RequestLabels<'_>,
        uri: &str,
        body: Option<(&'static str, Bytes)>,
    ) -> Result<Bytes, Error> {
        let request = request(labels.verb.method(), uri, JSON, body)?;
        self.run(labels, request, |response| collect(response.into_body())).await
    }

    /// Sends a request, and returns the answer whatever it says.
    pub(crate) async fn send_raw(&self, request: Request<Body>) -> Result<http::Response<Body>, Error> {
        self.client.send(request).await.map_err(Error::unreachable)
    }

    /// Sends a request and reads the answer, observed and in time.
    async fn run<T, F>(
        &self,
        labels: RequestLabels<'_>,
        request: Request<Body>,
        read: impl FnOnce(Response<Body>) -> F,
    ) -> Result<T, Error>
    where
        F: Future<Output = Result<T, Error>>,
    {
        let (span, began_at) = (labels.span(), Instant::now());
        let mut code = None;
        // Reading the body is within the deadline, too: a server can stop in the middle of a response as well as before it.
        let exchange = async { read(self.exchange(request, &mut code).await?).await };
        let result = tokio::time::timeout(self.timeout, exchange).instrument(span.clone()).await;
        self.observe(&labels, code, Some(began_at.elapsed()));
        RequestLabels::close(&span, code);
        result.unwrap_or_else(|_| Err(Error::timeout()))
    }

    /// The answer to a request that succeeds. Notes the status code in either case.
    async fn exchange(
        &self,
        request: Request<Body>,
        code: &mut Option<u16>,
    ) -> Result<Response<Body>, Error> {
        let response = self.client.send(request).await.map_err(Error::unreachable);
        *code = match &response {
            Ok(response) => Some(response.status().as_u16()),
            Err(error) => error.code(),
        };
        let response = response?;
        let status: StatusCode = response.status();
        if status.is_success() {
            return Ok(response);
        }
        Err(Error::refused(status, &collect(response.into_body()).await?))
    }

    fn observe(&self, labels: &RequestLabels<'_>, code: Option<u16>, duration: Option<Duration>) {
        if let Some(observer) = &self.observer {
            observer.request(labels, code, duration);
        }
    }

    pub(crate) fn observe_informer(&self, resource: &Resource, event: InformerEvent<'_>) {
        if let Some(observer) = &self.observer {
            observer.informer(resource, event);
        }
    }
}

fn log_query(container: &str, limit: u64) -> String {
    let mut query = form_urlencoded::Serializer::new(String::new());
    query.append_pair("limitBytes", &limit.to_string());
    if !container.is_empty() {
        query.append_pair("container", container);
    }
    query.finish()
}

/// None for what is not there.
fn found<T>(answer: Result<T, Error>) -> Result<Option<T>, Error> {
    match answer {
        Err(error) if error.is_not_found() => Ok(None),
        answer => answer.map(Some),
    }
}

fn request(
    method: Method,
    uri: &str,
    accept: &str,
    body: Option<(&'static str, Bytes)>,
) -> Result<Request<Body>, Error> {
    let is_read = method == Method::GET;
    let mut request = Request::builder().method(method).uri(uri).header(header::ACCEPT, accept);
    if let Some(cause) = RequestCause::current().filter(|_| !is_read) {
        request = request.header(request_cause::HEADER, cause);
    }
    if let Some((kind, _)) = &body {
        request = request.header(header::CONTENT_TYPE, *kind);
    }
    let body = body.map_or_else(Body::empty, |(_, bytes)| bytes.into());
    request.body(body).map_err(|error| Error::Unreachable(error.into()))
}

/// The texts of `Warning` headers, as `299 - "text"`.
fn warnings(headers: &HeaderMap) -> Vec<String> {
    let values = headers.get_all(header::WARNING).into_iter();
    let values = values.filter_map(|value| std::str::from_utf8(value.as_bytes()).ok());
    let quoted = values.filter_map(|value| value.split_once('"')?.1.strip_suffix('"'));
    quoted.map(|text| text.replace("\\\"", "\"").replace("\\\\", "\\")).collect()
}

pub(crate) async fn collect(body: Body) -> Result<Bytes, Error> {
    let limited = http_body_util::Limited::new(body, LARGEST_ANSWER);
    let collected = limited.collect().await.map_err(Error::Unreachable)?;
    Ok(collected.to_bytes())
}

async fn collect_chunks(body: Body) -> Result<BodyChunks, Error> {
    let mut limited = std::pin::pin!(http_body_util::Limited::new(body, LARGEST_ANSWER));
    let mut chunks = BodyChunks::default();
    while let Some(frame) = limited.frame().await {
        if let Ok(data) = frame.map_err(Error::Unreachable)?.into_data() {
            chunks.push(data);
        }
    }
    Ok(chunks)
}

fn to_bytes(object: &JsonObject) -> Bytes {
    serde_json::to_vec(object).unwrap_or_default().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_are_read_as_the_server_quotes_them() {
        let mut headers = HeaderMap::new();
        for value in [r#"299 - "plain""#, r#"299 - "a \"b\" and \\ c: größer""#, "nonsense"] {
            headers.append(header::WARNING, header::HeaderValue::from_bytes(value.as_bytes()).unwrap());
        }
        assert_eq!(warnings(&headers), ["plain", r#"a "b" and \ c: größer"#]);
    }
}
