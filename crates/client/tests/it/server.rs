//! An API server in memory that notes what is asked of it, and whose watches can be ended.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use bytes::Bytes;
use ferroplane_apiserver::auth::identity::Identity;
use ferroplane_apiserver::listeners::HttpService;
use ferroplane_apiserver::store::{Options, Store};
use ferroplane_apiserver::{Server, Settings};
use ferroplane_client::{ApiClient, JsonObject, Resource};
use http::{Request, Response, StatusCode};
use http_body::Frame;
use http_body_util::{BodyExt as _, Full};
use kube::client::Body;
use serde_json::{Value, json};
use tokio::sync::Notify;
use tower_service::Service;

type Failure = Box<dyn std::error::Error + Send + Sync>;

#[derive(Clone)]
pub(crate) struct TestServer {
    service: HttpService,
    notes: Arc<Notes>,
}

#[derive(Default)]
struct Notes {
    uris: Mutex<Vec<String>>,
    /// The status with which the next watch is refused.
    refusal: Mutex<Option<StatusCode>>,
    /// The status with which the next list is refused.
    list_refusal: Mutex<Option<StatusCode>>,
    /// A client that is notified that kinds have changed whenever it asks for something.
    forgetful: Mutex<Option<ApiClient>>,
    watches_end: Arc<Notify>,
}

impl TestServer {
    pub(crate) async fn start() -> Self {
        let store = Store::in_memory(Options::default()).unwrap();
        let server = Server::start(store, Settings::default()).await.unwrap();
        let admin = Identity::authenticated("admin", ["system:masters".to_owned()]);
        Self { service: HttpService::in_process(server, admin), notes: Arc::default() }
    }

    pub(crate) fn client(&self) -> ApiClient {
        ApiClient::new(kube::Client::new(self.clone(), "default"))
    }

    /// The paths and queries that contain this, in the order in which they were asked for.
    pub(crate) fn requests(&self, part: &str) -> Vec<String> {
        let uris = self.notes.uris.lock().unwrap();
        uris.iter().filter(|uri| uri.contains(part)).cloned().collect()
    }

    /// End all watches, as a server does from time to time.
    pub(crate) fn end_watches(&self) {
        self.notes.watches_end.notify_waiters();
    }

    /// Tell a client with every request of anybody that kinds have changed.
    pub(crate) fn make_forgetful(&self, client: &ApiClient) {
        *self.notes.forgetful.lock().unwrap() = Some(client.clone());
    }

    /// Refuse the next watch.
    pub(crate) fn refuse_next_watch(&self, code: StatusCode) {
        *self.notes.refusal.lock().unwrap() = Some(code);
    }

    /// Refuse the next list.
    pub(crate) fn refuse_next_list(&self, code: StatusCode) {
        *self.notes.list_refusal.lock().unwrap() = Some(code);
    }

    pub(crate) async fn create_namespaces(&self, names: &[&str]) {
        for name in names {
            let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
            let namespaces = resource("Namespace", "namespaces", false);
            self.client().create(&namespaces, "", &object(namespace)).await.unwrap();
        }
    }

    pub(crate) async fn create_config_map(&self, namespace: &str, name: &str) {
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
        self.client().create(&config_maps(), namespace, &object(map)).await.unwrap();
    }
}

pub(crate) fn config_maps() -> Resource {
    resource("ConfigMap", "configmaps", true)
}

fn resource(kind: &str, plural: &str, is_namespaced: bool) -> Resource {
    Resource { api_version: "v1".to_owned(), kind: kind.to_owned(), plural: plural.to_owned(), is_namespaced }
}

fn object(value: Value) -> JsonObject {
    let Value::Object(object) = value else { unreachable!("it is an object") };
    object
}

impl Service<Request<Body>> for TestServer {
    type Response = Response<Answer>;
    type Error = Failure;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Failure>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let uri = request.uri().to_string();
        self.notes.uris.lock().unwrap().push(uri.clone());
        if let Some(client) = &*self.notes.forgetful.lock().unwrap() {
            client.forget_resources();
        }
        let is_watch = uri.contains("watch=true");
        let refusal = if is_watch { &self.notes.refusal } else { &self.notes.list_refusal };
        let refused = refusal.lock().unwrap().take();
        if let Some(code) = refused {
            let body = Answer { body: Box::pin(Full::default().map_err(Into::into)), end: None };
            let response = Response::builder().status(code).body(body);
            return Box::pin(async move { Ok(response?) });
        }
        let end = is_watch.then(|| Box::pin(self.notes.watches_end.clone().notified_owned()) as Pin<Box<_>>);
        let answer = self.service.call(request);
        Box::pin(async move {
            let body =
                |body: ferroplane_apiserver::Body| Answer { body: Box::pin(body.map_err(Into::into)), end };
            Ok(answer.await?.map(body))
        })
    }
}

/// An answer that may be ended.
pub(crate) struct Answer {
    body: Pin<Box<dyn http_body::Body<Data = Bytes, Error = Failure> + Send>>,
    end: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

impl http_body::Body for Answer {
    type Data = Bytes;
    type Error = Failure;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Failure>>> {
        if let Some(end) = &mut self.end
            && end.as_mut().poll(context).is_ready()
        {
            return Poll::Ready(None);
        }
        self.body.as_mut().poll_frame(context)
    }
}
