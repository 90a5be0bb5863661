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
use http_body_util::{BodyExt as _, Empty, Full, StreamBody};
use serde_json::{Value, json};
use tokio::task::JoinSet;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
/// What every user may ask.
const REVIEWS: &str = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
/// Longer than anybody who is served waits, and shorter than the patience of the server.
const SOON: Duration = Duration::from_secs(3);
/// How many large maps there are, of a megabyte each: three lists of them are the share of a user, and four are more.
const LARGE: usize = 20;
/// As many of them as are more than a share.
const TOO_LARGE: usize = 70;

async fn start() -> Server {
    let store = Store::in_memory(Options::default()).unwrap();
    let server = Server::start(store, Settings::default()).await.unwrap();
    let tokens = "root,ada,1,system:masters\nplain,bob,2\nother,eve,3\n\
                  first,system:serviceaccount:red:first,4\nsecond,system:serviceaccount:red:second,5\n";
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

/// A server with large maps, which everybody may read.
async fn start_with_large_maps(count: usize) -> Server {
    let server = start().await;
    let bindings = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
    let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": {"name": "everybody"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "system:authenticated"}]});
    assert_eq!(send(&server, "root", bindings, binding.to_string()).await, 201);
    for number in 0..count {
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": format!("large-{number}")},
            "data": {"a": "x".repeat(1_000_000)}});
        assert_eq!(send(&server, "root", MAPS, map.to_string()).await, 201);
    }
    server
}

/// Asks for all maps, and reads nothing of the answer.
async fn list(server: &Server, token: &str, encoding: &str) -> Response<Body> {
    get(server, token, MAPS, encoding).await
}

/// Reads nothing of the answer.
async fn get(server: &Server, token: &str, path: &str, encoding: &str) -> Response<Body> {
    let request = Request::get(path).header("Authorization", format!("Bearer {token}"));
    let request = request.header("Accept-Encoding", encoding).body(Empty::<Bytes>::new()).unwrap();
    server.handle_remote(request).await
}

/// Asks for all maps until that is refused, and returns the answers before that.
async fn list_until_refused(server: &Server, token: &str) -> Vec<Response<Body>> {
    let mut unread = Vec::new();
    while unread.len() < 10 {
        let answer = list(server, token, "identity").await;
        if answer.status() == 429 {
            assert!(answer.headers().contains_key("Retry-After"));
            break;
        }
        assert_eq!(answer.status(), 200);
        unread.push(answer);
    }
    unread
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

#[tokio::test]
async fn answers_that_one_user_does_not_read_have_a_share_of_the_memory() {
    let server = start_with_large_maps(LARGE).await;
    let mut unread = list_until_refused(&server, "plain").await;
    assert_eq!(unread.len(), 3, "the share is used up");
    assert_eq!(review(&server, "plain").await, 201, "there is room for something small");
    assert_eq!(list(&server, "other", "identity").await.status(), 200);
    assert_eq!(create_map(&server, "one").await, 201);
    // Who reads an answer gets the next one.
    let read = unread.pop().unwrap().into_body().collect().await.unwrap().to_bytes();
    let maps: Value = serde_json::from_slice(&read).unwrap();
    let names = maps["items"].as_array().unwrap().iter().filter(|map| map["data"]["a"].is_string());
    assert_eq!(names.count(), LARGE);
    assert_eq!(list(&server, "plain", "identity").await.status(), 200);
}

#[tokio::test]
async fn unread_list_larger_than_the_share_leaves_room_for_small_requests() {
    let server = start_with_large_maps(TOO_LARGE).await;
    // A client always has something small under way. It does not keep a large list out.
    let mut small = vec![get(&server, "first", "/api/v1/namespaces/default", "identity").await];
    let unread = list(&server, "first", "identity").await;
    assert_eq!(unread.status(), 200);
    for token in ["first", "second"] {
        assert_eq!(review(&server, token).await, 201, "accounts of the namespace write");
        small.push(get(&server, token, "/api/v1/namespaces/default", "identity").await);
    }
    assert!(small.iter().all(|answer| answer.status() == 200));
    assert_eq!(list(&server, "second", "identity").await.status(), 429, "one at a time");
    drop(unread);
    assert_eq!(list(&server, "second", "identity").await.status(), 200);
}

#[tokio::test]
async fn accounts_of_one_namespace_have_one_share_together() {
    let server = start_with_large_maps(LARGE).await;
    let unread = list_until_refused(&server, "first").await;
    assert_eq!(unread.len(), 3);
    assert_eq!(list(&server, "second", "identity").await.status(), 429);
    assert_eq!(list(&server, "other", "identity").await.status(), 200);
}

#[tokio::test]
async fn compressed_answer_counts_as_it_is_sent() {
    let server = start_with_large_maps(LARGE).await;
    let mut unread = Vec::new();
    for _ in 0..5 {
        let answer = list(&server, "plain", "gzip").await;
        assert_eq!(answer.status(), 200);
        assert_eq!(answer.headers()["content-encoding"], "gzip");
        unread.push(answer);
    }
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
