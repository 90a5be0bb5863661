//! What the audit log says of everybody: people, programs in the same process, controllers, and strangers.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use ferroplane_apiserver::audit::{self, AuditLog};
use ferroplane_apiserver::auth::authenticate::{ServiceAccountTokens, StaticTokens};
use ferroplane_apiserver::auth::identity::Identity;
use ferroplane_apiserver::listeners::HttpService;
use ferroplane_apiserver::store::{Options, Store};
use ferroplane_apiserver::{Server, Settings};
use http::Request;
use http_body_util::{BodyExt as _, Full};
use serde_json::{Value, json};
use tempfile::TempDir;
use tower_service::Service as _;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const SECRETS: &str = "/api/v1/namespaces/default/secrets";
const EVERYTHING: &str = "{apiVersion: audit.k8s.io/v1, kind: Policy, rules: [{level: RequestResponse}]}";

struct Audited {
    server: Server,
    directory: TempDir,
}

impl Audited {
    /// A server with the policy that is built in, or with this one.
    async fn start(policy: Option<&str>) -> Self {
        let store = Store::in_memory(Options::default()).unwrap();
        let server = Server::start(store, Settings::default()).await.unwrap();
        let tokens = StaticTokens::from_csv("root,ada,1,system:masters\nplain,bob,2\n").unwrap();
        let accounts = ServiceAccountTokens::ephemeral("here", server.bound_object_lookup()).unwrap();
        server.set_authenticators(tokens, Arc::new(accounts));
        let audited = Self { server, directory: TempDir::new().unwrap() };
        let mut settings = audit::Settings::default();
        if let Some(policy) = policy {
            settings.policy = policy.parse().unwrap();
        }
        audited.server.set_audit_log(AuditLog::open(&audited.path(), &settings).unwrap());
        audited
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join("audit.log")
    }

    async fn send(&self, token: &str, method: &str, uri: &str, body: &Value) -> u16 {
        let request = Request::builder().method(method).uri(uri).header("Content-Type", "application/json");
        let request = request.header("Authorization", format!("Bearer {token}")).header("User-Agent", "test");
        // Nobody from outside says for whom something is done.
        let request = request.header("Ferroplane-Cause", "example.org/App//forged/uid/1");
        self.server.handle_remote(request.body(text(body)).unwrap()).await.status().as_u16()
    }

    /// Sends something as a controller in this process does.
    async fn send_inside(&self, method: &str, uri: &str, body: &Value) -> u16 {
        let identity = Identity::authenticated("system:plane", ["system:masters".to_owned()]);
        let mut service = HttpService::in_process(self.server.clone(), identity);
        let request = Request::builder().method(method).uri(uri).header("Content-Type", "application/json");
        let request = request.header("Ferroplane-Cause", "example.org/App/team-a/shop/u-1/3");
        service.call(request.body(text(body)).unwrap()).await.unwrap().status().as_u16()
    }

    /// The lines that are selected, once there are so many.
    async fn lines(&self, count: usize, is_wanted: impl Fn(&Value) -> bool) -> Vec<Value> {
        let found = async {
            loop {
                let lines = self.written().into_iter().filter(&is_wanted).collect::<Vec<_>>();
                if lines.len() >= count {
                    return lines;
                }
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        let found = tokio::time::timeout(Duration::from_secs(20), found).await;
        found.unwrap_or_else(|_| panic!("there are not {count} such lines: {:#?}", self.written()))
    }

    fn written(&self) -> Vec<Value> {
        let text = fs::read_to_string(self.path()).unwrap_or_default();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    async fn line(&self, verb: &str, uri: &str) -> Value {
        self.lines(1, |line| line["verb"] == verb && line["requestURI"] == uri).await.remove(0)
    }
}

fn text(body: &Value) -> Full<Bytes> {
    Full::new(if body.is_null() { Bytes::new() } else { Bytes::from(body.to_string()) })
}

fn map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": "1"}})
}

#[tokio::test]
async fn writes_of_controllers_are_logged_with_whom_they_were_made_for() {
    let audited = Audited::start(None).await;
    assert_eq!(audited.send_inside("POST", MAPS, &map("composed")).await, 201);
    let line = audited.line("create", MAPS).await;
    assert_eq!(line["user"]["username"], "system:plane");
    assert_eq!(line["objectRef"]["name"], "composed");
    assert!(!line["objectRef"]["uid"].as_str().unwrap().is_empty());
    let expected = json!({
        "authorization.k8s.io/decision": "allow", "authorization.k8s.io/reason": "",
        "audit.ferroplane.io/cause-group": "example.org", "audit.ferroplane.io/cause-kind": "App",
        "audit.ferroplane.io/cause-namespace": "team-a", "audit.ferroplane.io/cause-name": "shop",
        "audit.ferroplane.io/cause-uid": "u-1", "audit.ferroplane.io/cause-generation": "3",
    });
    assert_eq!(line["annotations"], expected);
}

#[tokio::test]
async fn nobody_else_is_believed_about_causes() {
    let audited = Audited::start(None).await;
    // As over HTTP/2, where the server is a part of the address.
    assert_eq!(
        audited.send("root", "POST", &format!("https://localhost:6443{MAPS}"), &map("one")).await,
        201
    );
    let line = audited.line("create", MAPS).await;
    assert!(!line.to_string().contains("forged"), "{line}");
    assert_eq!(line["userAgent"], "test");
}

#[tokio::test]
async fn lines_of_a_person_and_of_the_plane_can_be_joined() {
    let audited = Audited::start(None).await;
    let namespaces = "/api/v1/namespaces/default/replicationcontrollers";
    let controller = json!({"apiVersion": "v1", "kind": "ReplicationController", "metadata": {"name": "web"},
        "spec": {"replicas": 0, "selector": {"a": "b"}, "template": {"metadata": {"labels": {"a": "b"}},
        "spec": {"containers": [{"name": "c", "image": "i"}]}}}});
    assert_eq!(audited.send("root", "POST", namespaces, &controller).await, 201);
    let created = audited.line("create", namespaces).await;
    assert_eq!(created["annotations"]["audit.ferroplane.io/generation"], "1");
    let uri = format!("{namespaces}/web");
    let mut changed = controller;
    changed["spec"]["replicas"] = 1.into();
    assert_eq!(audited.send("root", "PUT", &uri, &changed).await, 200);
    let updated = audited.line("update", &uri).await;
    assert_eq!(updated["annotations"]["audit.ferroplane.io/generation"], "2");
    assert_eq!(updated["objectRef"]["uid"], created["objectRef"]["uid"]);
}

#[tokio::test]
async fn what_the_server_collects_by_itself_is_logged() {
    let audited = Audited::start(None).await;
    audited.send("root", "POST", MAPS, &map("owner")).await;
    let owner = audited.line("create", MAPS).await["objectRef"]["uid"].clone();
    let mut dependent = map("owned");
    dependent["metadata"]["ownerReferences"] =
        json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner}]);
    audited.send("root", "POST", MAPS, &dependent).await;
    audited.send("root", "DELETE", &format!("{MAPS}/owner"), &Value::Null).await;
    let line = audited.line("delete", &format!("{MAPS}/owned")).await;
    assert_eq!(line["user"]["username"], "system:serviceaccount:kube-system:generic-garbage-collector");
}

#[tokio::test]
async fn reads_of_secrets_are_logged_without_their_content() {
    for policy in [None, Some(EVERYTHING)] {
        let audited = Audited::start(policy).await;
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"},
            "stringData": {"password": "hunter2"}});
        assert_eq!(audited.send("root", "POST", SECRETS, &secret).await, 201);
        assert_eq!(audited.send("root", "GET", &format!("{SECRETS}/s"), &Value::Null).await, 200);
        assert_eq!(audited.send("root", "GET", SECRETS, &Value::Null).await, 200);
        for (verb, uri) in [("get", format!("{SECRETS}/s")), ("list", SECRETS.to_owned())] {
            let line = audited.line(verb, &uri).await;
            assert_eq!((&line["level"], &line["user"]["username"]), (&json!("Metadata"), &json!("ada")));
        }
        let text = fs::read_to_string(audited.path()).unwrap();
        assert!(!text.contains("hunter2") && !text.contains("aHVudGVyMg"), "{text}");
    }
}

#[tokio::test]
async fn reads_of_anything_else_are_not_logged_unless_they_are_refused() {
    let audited = Audited::start(None).await;
    assert_eq!(audited.send("root", "GET", MAPS, &Value::Null).await, 200);
    assert_eq!(audited.send("plain", "GET", MAPS, &Value::Null).await, 403);
    assert_eq!(audited.send("plain", "GET", "/metrics", &Value::Null).await, 403);
    assert_eq!(audited.send("wrong", "GET", MAPS, &Value::Null).await, 401);
    let lines = audited.lines(3, |line| line["userAgent"] == "test").await;
    assert_eq!(lines.len(), 3);
    let [forbidden, path, login] = lines.try_into().unwrap();
    assert_eq!((&forbidden["verb"], &forbidden["user"]["username"]), (&json!("list"), &json!("bob")));
    assert_eq!(forbidden["responseStatus"]["code"], 403);
    assert_eq!(forbidden["annotations"]["authorization.k8s.io/decision"], "forbid");
    assert_eq!((&path["verb"], &path["requestURI"]), (&json!("get"), &json!("/metrics")));
    assert_eq!(path["annotations"]["authorization.k8s.io/decision"], "forbid");
    assert_eq!((&login["user"], login.get("annotations")), (&json!({}), None));
    let expected = json!({"metadata": {}, "status": "Failure", "reason": "Unauthorized", "code": 401,
        "message": "Authentication failed, attempted: bearer"});
    assert_eq!(login["responseStatus"], expected);
}

#[tokio::test]
async fn policy_says_which_stages_and_objects_there_are() {
    let audited = Audited::start(Some(EVERYTHING)).await;
    assert_eq!(audited.send("root", "POST", MAPS, &map("one")).await, 201);
    let lines = audited.lines(2, |line| line["requestURI"] == MAPS).await;
    assert_eq!(
        (&lines[0]["stage"], &lines[1]["stage"]),
        (&json!("RequestReceived"), &json!("ResponseComplete"))
    );
    assert_eq!(lines[0]["auditID"], lines[1]["auditID"]);
    assert_eq!((lines[0].get("responseStatus"), lines[0].get("requestObject")), (None, None));
    assert_eq!(lines[1]["requestObject"], map("one"));
    assert_eq!(lines[1]["responseObject"]["metadata"]["uid"], lines[1]["objectRef"]["uid"]);
    assert_eq!(lines[1]["level"], "RequestResponse");

    assert_eq!(audited.send("root", "GET", "/healthz", &Value::Null).await, 200);
    let health = audited.lines(2, |line| line["requestURI"] == "/healthz").await;
    assert_eq!((&health[1]["verb"], health[1].get("objectRef")), (&json!("get"), None));
}

#[tokio::test]
async fn watch_has_a_line_for_its_beginning_and_its_end() {
    let audited = Audited::start(None).await;
    let uri = format!("{SECRETS}?watch=true&timeoutSeconds=1");
    let request =
        Request::get(&uri).header("Authorization", "Bearer root").body(Full::<Bytes>::default()).unwrap();
    let answer = audited.server.handle_remote(request).await;
    let lines = audited.lines(1, |line| line["requestURI"] == uri).await;
    assert_eq!((lines.len(), &lines[0]["stage"]), (1, &json!("ResponseStarted")));
    answer.into_body().collect().await.unwrap();
    let lines = audited.lines(2, |line| line["requestURI"] == uri).await;
    assert_eq!((&lines[1]["stage"], &lines[1]["verb"]), (&json!("ResponseComplete"), &json!("watch")));
    assert_eq!(lines[0]["auditID"], lines[1]["auditID"]);
}
