//! Paths at which somebody else in the process answers.

use bytes::Bytes;
use ferroplane_apiserver::{EndpointPath, EndpointRequest, InProcessEndpoint};
use futures_util::{StreamExt as _, stream};
use http::{Method, Response};
use http_body_util::BodyExt as _;
use serde_json::json;

use crate::cluster::Cluster;

/// Answers with who asks, what is below its path, a parameter and the body.
fn echo() -> InProcessEndpoint {
    InProcessEndpoint::new(|request: EndpointRequest| async move {
        let body = String::from_utf8_lossy(&request.body).into_owned();
        let parameter = request.parameter("p").to_owned();
        Response::new(json!([request.identity.name, request.below, parameter, body]).to_string())
    })
}

async fn cluster() -> Cluster {
    let cluster = Cluster::new().await;
    let server = cluster.server();
    server.register_endpoint(Method::GET, EndpointPath::At("/echo"), echo());
    server.register_endpoint(Method::GET, EndpointPath::Below("/echo/"), echo());
    server.register_endpoint(Method::POST, EndpointPath::At("/echo"), echo());
    cluster
}

#[tokio::test]
async fn endpoints_answer_by_method_and_path() {
    let cluster = cluster().await;
    let get = |path: &'static str| {
        let cluster = cluster.clone();
        async move { cluster.get(path).await.is(200).clone() }
    };
    assert_eq!(get("/echo?p=1").await, json!(["admin", "", "1", ""]));
    assert_eq!(get("/echo/a/b").await, json!(["admin", "a/b", "", ""]));
    assert_eq!(cluster.post("/echo", &json!({"x": 1})).await.is(200)[3], "{\"x\":1}");
    cluster.post("/echo/a", &json!({})).await.is(405);
    let refused = cluster.raw("DELETE", "/echo", &[], "").await;
    assert_eq!((refused.status().as_u16(), refused.headers()["allow"].to_str().unwrap()), (405, "GET, POST"));
    cluster.get("/echoes").await.is(404);
}

#[tokio::test]
async fn only_those_are_answered_whom_roles_let_ask() {
    let cluster = cluster().await;
    let (stranger, nobody) = (cluster.as_user("stranger"), cluster.as_nobody());
    stranger.get("/echo").await.is(403);
    nobody.get("/echo").await.is(403);
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "reader"},
        "rules": [{"nonResourceURLs": ["/echo", "/echo/*"], "verbs": ["get"]}],
    });
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "reader"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "reader"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "stranger"}],
    });
    cluster.post("/apis/rbac.authorization.k8s.io/v1/clusterroles", &role).await.is(201);
    cluster.post("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", &binding).await.is(201);
    assert_eq!(stranger.get("/echo/a").await.is(200)[0], "stranger");
    // Who may read may not therefore post.
    stranger.post("/echo", &json!({})).await.is(403);
}

#[tokio::test]
async fn endpoint_that_goes_on_ends_with_the_server() {
    let cluster = Cluster::new().await;
    let endless = InProcessEndpoint::streaming(|request: &EndpointRequest| {
        let lines = stream::iter([Bytes::from_static(b"first\n")]).chain(stream::pending());
        (request.below == "there").then(|| lines.boxed())
    });
    cluster.server().register_endpoint(Method::GET, EndpointPath::Below("/lines/"), endless);
    cluster.get("/lines/elsewhere").await.is(404);
    let mut body = cluster.raw("GET", "/lines/there", &[], "").await.into_body();
    let first = body.frame().await.unwrap().unwrap().into_data().unwrap();
    assert_eq!(first, "first\n");
    cluster.server().stop();
    assert!(body.frame().await.is_none_or(|frame| frame.is_err()), "it still goes on");
}
