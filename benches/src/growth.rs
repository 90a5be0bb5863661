//! How the time of a write grows with the lists in it: close to linear, up to the largest object that is stored.
//!
//! Every row is a whole request to a server in this process, without a disk. Twice as many elements should take about twice as
//! long; a factor near four is a search of a list for every one of its elements.

use std::time::{Duration, Instant};

use bytes::Bytes;
use ferroplane_apiserver::auth::identity::Identity;
use ferroplane_apiserver::store::{Options, Store};
use ferroplane_apiserver::{Server, Settings};
use http::{Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use serde_json::{Map, Value, json};
use tokio::runtime::Runtime;

use crate::measure::pretty;

const SIZES: [usize; 7] = [500, 1_000, 2_000, 4_000, 8_000, 16_000, 32_000];
/// How often each is tried; the best counts.
const TRIES: usize = 5;
const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const LISTS: &str = "/apis/example.org/v1/namespaces/default/lists";
const PODS: &str = "/api/v1/namespaces/default/pods";
const JSON: &str = "application/json";
const APPLY: &str = "application/apply-patch+yaml";
const JSON_PATCH: &str = "application/json-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";

/// A kind of list: what it is called, and the request that sends so many elements of it.
type Case = (&'static str, fn(usize) -> Sent);

/// A request, and another that has to come before it.
struct Sent {
    before: Option<Box<Sent>>,
    method: &'static str,
    path: String,
    content_type: &'static str,
    body: Value,
}

pub(crate) fn run() {
    let cases: [Case; 14] = [
        ("owner references", |count| post_owners((0..count).map(owner))),
        ("owner references, each twice", |count| post_owners((0..count).map(|index| owner(index / 2)))),
        ("owner references, all controllers (refused)", |count| post_owners((0..count).map(controller))),
        ("finalizers", finalizers),
        ("finalizers, changed", changed_finalizers),
        ("managed fields", managed_fields),
        ("list that is a set", |count| {
            post_list("set", (0..count).map(|index| json!(format!("item-{index}"))))
        }),
        ("list that is a map", |count| post_list("map", (0..count).map(item))),
        ("list that is a map, applied again", apply_again),
        ("list without keys", |count| post_list("plain", (0..count).map(item))),
        ("strategic merge of containers", strategic),
        ("list with a rule and a pattern for each element", |count| {
            post_list("ruled", (0..count).map(|index| json!(format!("item-{index}"))))
        }),
        ("JSON patch that adds to the front of a list", |count| json_patch(count, "/plain/0")),
        ("JSON patch that adds to the end of a list", |count| json_patch(count, "/plain/-")),
    ];
    let sizes = SIZES.map(|size| format!(" {size} |")).concat();
    println!("| n elements |{sizes}\n|---|{}", "---|".repeat(SIZES.len()));
    let runtime = Runtime::new().expect("there is a runtime");
    for (what, make) in cases {
        let time = |size| runtime.block_on(best(|| make(size))).map_or("too large".to_owned(), pretty);
        let times = SIZES.map(time);
        println!("| {what} | {} |", times.join(" | "));
    }
}

/// None if there can be no object with so many elements.
async fn best(make: impl Fn() -> Sent) -> Option<Duration> {
    let mut best = Duration::MAX;
    for _ in 0..TRIES {
        let server = server().await;
        let mut sent = make();
        if let Some(before) = sent.before.take()
            && !send(&server, *before).await.code.is_success()
        {
            return None;
        }
        let answered = send(&server, sent).await;
        if answered.code == StatusCode::PAYLOAD_TOO_LARGE {
            return None;
        }
        best = best.min(answered.time);
    }
    Some(best)
}

async fn server() -> Server {
    let store = Store::in_memory(Options::default()).expect("it needs nothing");
    let server = Server::start(store, Settings::default()).await.expect("it starts");
    let text = |rest: Value| {
        let mut list = json!({"type": "array"});
        list.as_object_mut().expect("it is an object").extend(rest.as_object().cloned().unwrap_or_default());
        list
    };
    let keyed = json!({"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}, "value": {"type": "string"}}});
    let lists = json!({
        "set": text(json!({"items": {"type": "string"}, "x-kubernetes-list-type": "set"})),
        "map": text(json!({"items": keyed, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]})),
        "plain": text(json!({"items": keyed})),
        "ruled": text(json!({"maxItems": 32_000, "items": {
            "type": "string", "maxLength": 32, "pattern": "^[a-z]+(-[0-9]+)*$",
            "x-kubernetes-validations": [{"rule": "self.startsWith('item')"}],
        }})),
    });
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "lists.example.org"},
        "spec": {
            "group": "example.org", "scope": "Namespaced", "names": {"plural": "lists", "kind": "List"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object", "properties": lists,
            }}}],
        },
    });
    send(&server, post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition)).await;
    loop {
        let request = request("GET", LISTS, JSON, String::new());
        if server.handle(request).await.status().is_success() {
            return server;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

fn request(method: &str, path: &str, content_type: &str, body: String) -> Request<Full<Bytes>> {
    let request = Request::builder().method(method).uri(path).header("content-type", content_type);
    let mut request = request.body(Full::new(Bytes::from(body))).expect("it is a request");
    request.extensions_mut().insert(Identity::authenticated("bench", ["system:masters".to_owned()]));
    request
}

/// What became of a request, and how long that took.
struct Answered {
    time: Duration,
    code: StatusCode,
}

async fn send(server: &Server, sent: Sent) -> Answered {
    let request = request(sent.method, &sent.path, sent.content_type, sent.body.to_string());
    let began_at = Instant::now();
    let response = server.handle(request).await;
    let code = response.status();
    let _ = response.into_body().collect().await;
    Answered { time: began_at.elapsed(), code }
}

fn post(path: &str, body: Value) -> Sent {
    Sent { before: None, method: "POST", path: path.to_owned(), content_type: JSON, body }
}

fn map(metadata: Value) -> Value {
    let mut map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}});
    if let (Value::Object(all), Value::Object(more)) = (&mut map["metadata"], metadata) {
        all.extend(more);
    }
    map
}

fn owner(index: usize) -> Value {
    json!({"apiVersion": "v1", "kind": "Node", "name": "n", "uid": format!("{index:036}")})
}

fn controller(index: usize) -> Value {
    let mut owner = owner(index);
    owner["controller"] = true.into();
    owner
}

fn post_owners(owners: impl Iterator<Item = Value>) -> Sent {
    post(MAPS, map(json!({"ownerReferences": owners.collect::<Value>()})))
}

fn names(count: usize, prefix: &str) -> Vec<String> {
    (0..count).map(|index| format!("example.org/{prefix}-{index}")).collect()
}

fn finalizers(count: usize) -> Sent {
    post(MAPS, map(json!({"finalizers": names(count, "keep")})))
}

fn changed_finalizers(count: usize) -> Sent {
    let body = list(json!({"finalizers": names(count, "other")}), Map::new());
    let before = post(LISTS, list(json!({"finalizers": names(count, "keep")}), Map::new()));
    let path = format!("{LISTS}/a");
    Sent {
        before: Some(Box::new(before)),
        method: "PATCH",
        path,
        content_type: "application/merge-patch+json",
        body,
    }
}

fn managed_fields(count: usize) -> Sent {
    let entry = |index: usize| {
        json!({
            "manager": format!("m{index}"), "operation": "Apply", "apiVersion": "v1", "time": "2026-01-01T00:00:00Z",
            "fieldsType": "FieldsV1", "fieldsV1": {"f:data": {format!("f:k{index}"): {}}},
        })
    };
    let entries: Vec<_> = (0..count).map(entry).collect();
    post(MAPS, map(json!({"managedFields": entries})))
}

fn list(metadata: Value, fields: Map<String, Value>) -> Value {
    let mut list = map(metadata);
    list["apiVersion"] = "example.org/v1".into();
    list["kind"] = "List".into();
    list.as_object_mut().expect("it is an object").extend(fields);
    list
}

fn item(index: usize) -> Value {
    json!({"name": format!("item-{index}"), "value": "v"})
}

fn post_list(field: &str, items: impl Iterator<Item = Value>) -> Sent {
    let fields = Map::from_iter([(field.to_owned(), items.collect())]);
    post(LISTS, list(json!({}), fields))
}

fn apply_again(count: usize) -> Sent {
    let apply = || {
        let fields = Map::from_iter([("map".to_owned(), (0..count).map(item).collect())]);
        let path = format!("{LISTS}/a?fieldManager=bench");
        Sent { before: None, method: "PATCH", path, content_type: APPLY, body: list(json!({}), fields) }
    };
    Sent { before: Some(Box::new(apply())), ..apply() }
}

fn json_patch(count: usize, path: &str) -> Sent {
    let body = (0..count).map(|index| json!({"op": "add", "path": path, "value": item(index)})).collect();
    let fields = Map::from_iter([("plain".to_owned(), json!([]))]);
    let before = post(LISTS, list(json!({}), fields));
    let path = format!("{LISTS}/a");
    Sent { before: Some(Box::new(before)), method: "PATCH", path, content_type: JSON_PATCH, body }
}

fn strategic(count: usize) -> Sent {
    let containers = |image: &str| -> Value {
        (0..count).map(|index| json!({"name": format!("c{index}"), "image": image})).collect()
    };
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {"containers": containers("one")},
    });
    let body = json!({"spec": {"containers": containers("two")}});
    let path = format!("{PODS}/a");
    Sent { before: Some(Box::new(post(PODS, pod))), method: "PATCH", path, content_type: STRATEGIC, body }
}
