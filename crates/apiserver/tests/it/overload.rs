//! Clients that take more than their share: nobody else is kept waiting by them.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use ferroplane_apiserver::auth::authenticate::{ServiceAccountTokens, StaticTokens};
use ferroplane_apiserver::store::{Options, Store};
use ferroplane_apiserver::{Body, Server, Settings};
use futures_util::StreamExt as _;
use http::{Request, Response};
use http_body::Frame;
use http_body_util::{Full, StreamBody};
use serde_json::json;
use tokio::task::JoinSet;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
/// What every user may ask.
const REVIEWS: &str = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
/// Longer than anybody who is served waits, and shorter than the patience of the server.
const SOON: Duration = Duration::from_secs(3);

async fn start() -> Server {
    let store = Store::in_memory(Options::default()).unwrap();
    let server = Server::start(store, Settings::default()).await.unwrap();
    let tokens = "root,ada,1,system:masters\nplain,bob,2\nother,eve,3\n";
    let tokens = StaticTokens::from_csv(tokens).unwrap();
    let accounts = ServiceAccountTokens::ephemeral("here", server.bound_object_lookup()).unwrap();
    server.set_authenticators(tokens, Arc::new(accounts));
    server
}

fn post(token: &str, path: &str) -> http::request::Builder {
    let request = Request::post(path).header("Authorization", format!("Bearer {token}"));
    request.header("Content-Type", "application/json")
}

/// Sends the first byte of a body, and then no more.
async fn post_slowly(server: Server, token: &'static str) -> Response<Body> {
    let first = futures_util::stream::iter([Ok::<_, Infallible>(Frame::data(Bytes::from_static(b"{")))]);
    let body = StreamBody::new(first.chain(futures_util::stream::pending()));
    server.handle_remote(post(token, REVIEWS).body(body).unwrap()).await
}

async fn create_map(server: &Server, name: &str) -> u16 {
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}).to_string();
    send(server, "root", MAPS, map).await
}

async fn review(server: &Server, token: &str) -> u16 {
    let question = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
        "spec": {"nonResourceAttributes": {"path": "/", "verb": "get"}}});
    send(server, token, REVIEWS, question.to_string()).await
}

async fn send(server: &Server, token: &str, path: &str, body: String) -> u16 {
    let request = post(token, path).body(Full::new(Bytes::from(body))).unwrap();
    let answer = tokio::time::timeout(SOON, server.handle_remote(request)).await;
    answer.expect("nobody waits for slow clients").status().as_u16()
}

/// Lets requests run until they wait for something.
async fn settle() {
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn slow_bodies_of_one_user_keep_nobody_from_writing() {
    let server = start().await;
    let mut slow = JoinSet::new();
    for _ in 0..450 {
        slow.spawn(post_slowly(server.clone(), "plain"));
    }
    settle().await;
    assert_eq!(create_map(&server, "one").await, 201, "an administrator writes");
    assert_eq!(review(&server, "other").await, 201, "another user writes");
    assert_eq!(review(&server, "plain").await, 201, "so does the user whose bodies are slow");
    assert!(slow.try_join_next().is_none(), "they are still being read");
}

#[tokio::test]
async fn bodies_of_one_user_have_a_share_of_the_memory() {
    let server = start().await;
    let mut slow = JoinSet::new();
    for _ in 0..5_000 {
        slow.spawn(post_slowly(server.clone(), "plain"));
    }
    let refused = slow.join_next().await.unwrap().unwrap();
    assert_eq!(refused.status(), 429);
    assert_eq!(review(&server, "plain").await, 429, "the share is used up");
    assert_eq!(review(&server, "other").await, 201);
    assert_eq!(create_map(&server, "one").await, 201);
}

#[tokio::test(start_paused = true)]
async fn slow_body_is_given_up_after_some_seconds() {
    let server = start().await;
    let began = tokio::time::Instant::now();
    assert_eq!(post_slowly(server.clone(), "plain").await.status(), 408);
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
}

#[tokio::test]
async fn strangers_are_refused_before_they_send_anything() {
    let server = start().await;
    let body = StreamBody::new(futures_util::stream::pending::<Result<Frame<Bytes>, Infallible>>());
    let request = Request::post(MAPS).body(body).unwrap();
    let answer = tokio::time::timeout(SOON, server.handle_remote(request)).await.unwrap();
    assert_eq!(answer.status(), 403);
}
