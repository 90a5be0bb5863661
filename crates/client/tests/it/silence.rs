//! Informers on a server that falls silent, and on one whose data is restored from a backup.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::future::{Ready, ready};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use ferroplane_client::{ApiClient, Informer, InformerScope};
use futures_util::StreamExt as _;
use futures_util::stream;
use http::{Request, Response};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use kube::client::Body;
use serde_json::{Value, json};
use tower_service::Service;

use crate::server::config_maps;

/// A server that answers as it was told, in turn, and whose watches end only if their connections do, which they never do.
#[derive(Clone, Default)]
struct SilentServer(Arc<Mutex<Answers>>);

#[derive(Default)]
struct Answers {
    lists: VecDeque<Value>,
    /// The events with which watches begin. A watch beyond these has none.
    watches: VecDeque<Vec<Value>>,
    asked: Vec<String>,
}

impl SilentServer {
    fn new(lists: impl IntoIterator<Item = Value>, watches: impl IntoIterator<Item = Vec<Value>>) -> Self {
        let (lists, watches) = (lists.into_iter().collect(), watches.into_iter().collect());
        Self(Arc::new(Mutex::new(Answers { lists, watches, asked: Vec::new() })))
    }

    fn informer(&self) -> Arc<Informer> {
        let client = ApiClient::new(kube::Client::new(self.clone(), "default"));
        Informer::start(client, InformerScope::new(config_maps().into()))
    }

    /// The requests that contain this.
    fn asked(&self, part: &str) -> Vec<String> {
        let answers = self.0.lock().unwrap();
        answers.asked.iter().filter(|uri| uri.contains(part)).cloned().collect()
    }
}

impl Service<Request<Body>> for SilentServer {
    type Response = Response<UnsyncBoxBody<Bytes, Infallible>>;
    type Error = Infallible;
    type Future = Ready<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let mut answers = self.0.lock().unwrap();
        let uri = request.uri().to_string();
        let body = if uri.contains("watch=true") {
            let events = answers.watches.pop_front().unwrap_or_default();
            let line = |event: Value| Ok::<_, Infallible>(Frame::data(Bytes::from(format!("{event}\n"))));
            let lines: Vec<_> = events.into_iter().map(line).collect();
            StreamBody::new(stream::iter(lines).chain(stream::pending())).boxed_unsync()
        } else {
            let list = answers.lists.pop_front().expect("it is not asked more often");
            Full::new(Bytes::from(list.to_string())).boxed_unsync()
        };
        answers.asked.push(uri);
        ready(Ok(Response::new(body)))
    }
}

fn map(name: &str, version: u64) -> Value {
    json!({"metadata": {"name": name, "namespace": "n", "resourceVersion": version.to_string()}})
}

fn list(version: u64, items: &[Value]) -> Value {
    json!({"metadata": {"resourceVersion": version.to_string()}, "items": items})
}

/// Waits until the cache has this version of an object, or none. Time passes as fast as nothing happens.
async fn until(informer: &Informer, name: &str, version: Option<u64>) {
    let is_so = || informer.get("n", name).map(|object| object.version) == version;
    let waiting = async {
        while !is_so() {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    };
    tokio::time::timeout(Duration::from_hours(1), waiting).await.expect("it comes to be");
}

#[tokio::test(start_paused = true)]
async fn watch_that_has_fallen_silent_is_begun_again_where_it_was() {
    let applied = json!({"type": "ADDED", "object": map("a", 11)});
    let server = SilentServer::new([list(10, &[]), list(10, &[])], [vec![], vec![applied]]);
    let informer = server.informer();
    until(&informer, "a", Some(11)).await;
    let watches = server.asked("watch=true");
    assert_eq!(watches.len(), 2, "{watches:?}");
    for watch in watches {
        assert!(watch.contains("resourceVersion=10&"), "{watch}");
        let seconds: u64 = watch.rsplit_once("&timeoutSeconds=").unwrap().1.parse().unwrap();
        assert!((300..600).contains(&seconds), "{watch}");
    }
    assert_eq!(server.asked("limit=500").len(), 1, "everything is listed once");
    informer.stop();
}

#[tokio::test(start_paused = true)]
async fn cache_goes_back_with_the_data_of_the_server() {
    let restored = list(50, &[map("kept", 40), map("deleted-before", 45)]);
    let lists = [list(100, &[map("kept", 90), map("created-later", 80)]), list(50, &[]), restored];
    let applied = json!({"type": "MODIFIED", "object": map("deleted-before", 51)});
    // The server lets clients watch from a version that it has not reached, and sends nothing.
    let server = SilentServer::new(lists, [vec![], vec![applied]]);
    let informer = server.informer();
    informer.synced().await;
    assert_eq!(informer.len(), 2);
    until(&informer, "created-later", None).await;
    until(&informer, "kept", Some(40)).await;
    until(&informer, "deleted-before", Some(51)).await;
    assert!(server.asked("watch=true")[1].contains("resourceVersion=50&"));
    informer.stop();
}
