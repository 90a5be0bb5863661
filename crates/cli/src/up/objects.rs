//! Objects of any kind on an API server, through a `kube::Client`.

use anyhow::Context as _;
use ferroplane_api::{Object, meta};
use futures_util::StreamExt as _;
use http::{Method, Request};
use kube::core::{Status, WatchEvent};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;
use serde_json::{Value, json};

const JSON: &str = "application/json";
const APPLY: &str = "application/apply-patch+yaml";
const NOT_IN_PATHS: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b':');
const MERGE: &str = "application/merge-patch+json";

/// The objects of an API server.
#[derive(Clone)]
pub(super) struct Objects {
    client: kube::Client,
}

/// What the paths of a kind are made of.
#[derive(Debug, Clone)]
pub(super) struct Kind {
    /// Where its version is served.
    root: String,
    plural: String,
    is_namespaced: bool,
}

/// Whether to apply what somebody else wants otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Force {
    No,
    Yes,
}

/// Why something cannot be done.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    /// The API server does not want it.
    #[error("{}", .0.message)]
    Refused(Box<Status>),
    #[error("cannot reach the API server")]
    Unreachable(#[source] kube::Error),
}

#[derive(Deserialize)]
struct Resources {
    resources: Vec<ServedResource>,
}

#[derive(Deserialize)]
struct ServedResource {
    name: String,
    kind: String,
    namespaced: bool,
}

#[derive(Deserialize)]
struct List {
    metadata: ListMetadata,
    items: Vec<Object>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ListMetadata {
    resource_version: String,
}

impl std::fmt::Debug for Objects {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Objects").finish_non_exhaustive()
    }
}

impl From<kube::Error> for Error {
    fn from(error: kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => Self::Refused(status),
            error => Self::Unreachable(error),
        }
    }
}

impl Error {
    pub(super) fn is_not_found(&self) -> bool {
        // A path that leads nowhere is answered in words only.
        matches!(self, Self::Refused(status) if status.code == 404)
    }

    /// Somebody else was faster, or it is gone: whoever follows the object will hear of it.
    pub(super) fn is_overtaken(&self) -> bool {
        self.is_not_found() || matches!(self, Self::Refused(status) if status.is_conflict())
    }
}

impl Kind {
    pub(super) fn new(api_version: &str, plural: &str, is_namespaced: bool) -> Self {
        let root = if api_version.contains('/') { "apis" } else { "api" };
        let version: Vec<_> = api_version.split('/').map(encoded).collect();
        Self { root: format!("/{root}/{}", version.join("/")), plural: plural.to_owned(), is_namespaced }
    }

    fn collection(&self, namespace: &str) -> String {
        if self.is_namespaced && !namespace.is_empty() {
            format!("{}/namespaces/{namespace}/{}", self.root, self.plural)
        } else {
            format!("{}/{}", self.root, self.plural)
        }
    }

    fn path(&self, object: &Object) -> String {
        let namespace = match meta::namespace(object) {
            "" => "default",
            namespace => namespace,
        };
        format!("{}/{}", self.collection(&encoded(namespace)), encoded(meta::name(object)))
    }
}

impl Objects {
    pub(super) fn new(client: kube::Client) -> Self {
        Self { client }
    }

    /// How objects of a kind are reached. None if there are none.
    pub(super) async fn kind(&self, api_version: &str, kind: &str) -> Result<Option<Kind>, Error> {
        let root = Kind::new(api_version, "", false).root;
        let served: Resources = match self.send(Method::GET, &root, None).await {
            Err(error) if error.is_not_found() => return Ok(None),
            answer => answer?,
        };
        let is_it = |served: &ServedResource| served.kind == kind && !served.name.contains('/');
        let found = served.resources.into_iter().find(is_it);
        Ok(found.map(|served| Kind { root, plural: served.name, is_namespaced: served.namespaced }))
    }

    /// The object that is where this one would be.
    pub(super) async fn get(&self, kind: &Kind, object: &Object) -> Result<Option<Object>, Error> {
        match self.send(Method::GET, &kind.path(object), None).await {
            Err(error) if error.is_not_found() => Ok(None),
            answer => answer.map(Some),
        }
    }

    /// All objects with these labels, and the version after which a watch tells more.
    pub(super) async fn list(&self, kind: &Kind, labels: &str) -> Result<(Vec<Object>, String), Error> {
        let path = format!("{}?labelSelector={labels}", kind.collection(""));
        let list: List = self.send(Method::GET, &path, None).await?;
        Ok((list.items, list.metadata.resource_version))
    }

    /// What happens to them after a version.
    pub(super) async fn watch(
        &self,
        kind: &Kind,
        labels: &str,
        version: &str,
    ) -> Result<impl futures_util::Stream<Item = Result<WatchEvent<Object>, Error>> + use<>, Error> {
        let path =
            format!("{}?watch=true&labelSelector={labels}&resourceVersion={version}", kind.collection(""));
        let events = self.client.request_events(request(Method::GET, &path, None)?).await?;
        Ok(events.map(|event: Result<_, kube::Error>| event.map_err(Error::from)))
    }

    /// Say what an object should be, as the owner of all that is said.
    pub(super) async fn apply(
        &self,
        kind: &Kind,
        object: &Object,
        manager: &str,
        force: Force,
    ) -> Result<Object, Error> {
        let is_forced = force == Force::Yes;
        let query = format!("fieldManager={manager}&force={is_forced}&fieldValidation=Strict");
        let path = format!("{}?{query}", kind.path(object));
        self.send(Method::PATCH, &path, Some((APPLY, &Value::Object(object.clone())))).await
    }

    /// Delete an object, if it still is this one.
    pub(super) async fn delete(&self, kind: &Kind, object: &Object) -> Result<(), Error> {
        let options = json!({
            "apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background",
            "preconditions": {"uid": meta::uid(object)},
        });
        let answer: Result<Value, _> =
            self.send(Method::DELETE, &kind.path(object), Some((JSON, &options))).await;
        match answer {
            Err(error) if !error.is_not_found() => Err(error),
            _ => Ok(()),
        }
    }

    /// Change the status of an object, if it still is as it was when it was read.
    pub(super) async fn set_status(
        &self,
        kind: &Kind,
        object: &Object,
        status: Object,
        manager: &str,
    ) -> Result<Object, Error> {
        let path = format!("{}/status?fieldManager={manager}", kind.path(object));
        let version = meta::resource_version(object);
        let change = json!({"metadata": {"resourceVersion": version}, "status": status});
        self.send(Method::PATCH, &path, Some((MERGE, &change))).await
    }

    async fn send<T: for<'de> Deserialize<'de>>(
        &self,
        method: Method,
        path: &str,
        body: Option<(&str, &Value)>,
    ) -> Result<T, Error> {
        Ok(self.client.request(request(method, path, body)?).await?)
    }
}

fn request(method: Method, path: &str, body: Option<(&str, &Value)>) -> Result<Request<Vec<u8>>, Error> {
    let mut request = Request::builder().method(method).uri(path);
    if let Some((kind, _)) = body {
        request = request.header(http::header::CONTENT_TYPE, kind);
    }
    let body = body.map(|(_, value)| value.to_string().into_bytes()).unwrap_or_default();
    request.body(body).map_err(|error| kube::Error::HttpError(error).into())
}

/// What people write, as part of a path.
fn encoded(text: &str) -> String {
    utf8_percent_encode(text, NOT_IN_PATHS).to_string()
}

/// The objects of a text of ours.
pub(super) fn read_embedded(text: &str) -> anyhow::Result<Vec<Object>> {
    serde_saphyr::from_multiple(text).context("cannot read what comes with the program")
}
