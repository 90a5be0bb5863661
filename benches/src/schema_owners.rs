//! What the API server does to an object: apply and update with field ownership, in time and memory.

use std::sync::Arc;
use std::time::Duration;

use ferroplane_golang::json::JsonObject;
use ferroplane_ownership::merge::shape::Shapes;
use ferroplane_ownership::{self as ownership, Request, Version, VersionedKind};
use serde_json::{Value, json};

use crate::measure::{HEAD, Measured};

const API_VERSION: &str = "example.org/v1";
const BUDGET: Duration = Duration::from_millis(300);

pub(crate) fn run() {
    println!("{HEAD}");
    let kind = kind();
    for containers in [1, 20, 212] {
        let applied = configuration(containers, "v1.2.3");
        let live = created(&kind, &applied);
        let size = Value::Object(live.clone()).to_string().len();
        let changed = configuration(containers, "v1.2.4");
        let mut smaller = applied.clone();
        smaller["spec"]["template"]["containers"][0]
            .as_object_mut()
            .expect("it is an object")
            .remove("image");
        let row = |what: &str, measured: Measured| measured.print(what, size);

        row(
            "apply, nothing changes",
            Measured::of(BUDGET, || (), |()| plan(&kind, Some(&live), &applied, "me").changes_nothing()),
        );
        let one = |manager: &'static str, configuration: &JsonObject| {
            Measured::of(
                BUDGET,
                || live.clone(),
                |live| {
                    let plan = plan(&kind, Some(&live), configuration, manager);
                    plan.perform(live)
                },
            )
        };
        row("apply, one field changes", one("me", &changed));
        row("apply, one field goes", one("me", &smaller));
        row("apply, another manager joins", one("other", &applied));
        row(
            "apply, the first time",
            Measured::of(BUDGET, || (), |()| plan(&kind, None, &applied, "me").perform(JsonObject::new())),
        );
        row(
            "update, nothing changes",
            Measured::of(BUDGET, || live.clone(), |new| update(&kind, Some(&live), new)),
        );
        let mut edited = live.clone();
        edited["spec"]["template"]["containers"][0]["image"] = "other".into();
        row(
            "update, one field changes",
            Measured::of(BUDGET, || edited.clone(), |new| update(&kind, Some(&live), new)),
        );
        row("create", Measured::of(BUDGET, || applied.clone(), |new| update(&kind, None, new)));
        row("(clone)", Measured::of(BUDGET, || (), |()| live.clone()));
    }
}

fn request(manager: &str) -> Request<'_> {
    Request {
        manager,
        api_version: API_VERSION,
        subresource: "",
        time: "2026-01-01T00:00:01Z",
        reset_fields: None,
        converter: None,
    }
}

fn plan<'a>(
    kind: &'a VersionedKind,
    live: Option<&JsonObject>,
    applied: &'a JsonObject,
    manager: &str,
) -> ownership::Plan<'a> {
    ownership::apply(live, applied, kind, &request(manager), false).expect("no other manager owns it")
}

fn update(kind: &VersionedKind, live: Option<&JsonObject>, new: JsonObject) -> JsonObject {
    ownership::update(live, new, kind, &request("editor")).object
}

fn created(kind: &VersionedKind, applied: &JsonObject) -> JsonObject {
    let mut live = plan(kind, None, applied, "me").perform(JsonObject::new());
    live["metadata"]["uid"] = "75e4a668-035f-4ce8-8c45-f4d3ac850155".into();
    live["metadata"]["resourceVersion"] = "123456".into();
    live["metadata"]["generation"] = 3.into();
    live["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z".into();
    live
}

fn configuration(containers: usize, tag: &str) -> JsonObject {
    let containers = (0..containers).map(|number| {
        json!({
            "name": format!("app-{number}"), "image": format!("registry.example/acme/app:{tag}"),
            "command": ["/bin/app", "--verbose"],
            "ports": [
                {"containerPort": 8080, "name": "http", "protocol": "TCP"},
                {"containerPort": 9090, "name": "metrics", "protocol": "TCP"}
            ],
            "env": [{"name": "LOG_LEVEL", "value": "info"}, {"name": "REGION", "value": "eu-west-1"}],
            "resources": {"limits": {"cpu": "500m", "memory": "256Mi"}, "requests": {"cpu": "100m", "memory": "128Mi"}}
        })
    });
    let object = json!({
        "apiVersion": API_VERSION, "kind": "App",
        "metadata": {
            "name": "app", "namespace": "default", "labels": {"app.kubernetes.io/name": "app"},
            "annotations": {"example.org/description": "about as long as they are in practice"}
        },
        "spec": {
            "replicas": 3, "paused": false,
            "selector": {"matchLabels": {"app": "app"}},
            "template": {"labels": {"app": "app"}, "containers": containers.collect::<Vec<_>>()}
        }
    });
    object.as_object().cloned().expect("it is an object")
}

fn kind() -> VersionedKind {
    let texts = json!({"type": "object", "additionalProperties": {"type": "string"}});
    let keyed = |keys: Value, properties: Value| {
        json!({
            "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": keys,
            "items": {"type": "object", "properties": properties}
        })
    };
    let text = json!({"type": "string"});
    let number = json!({"type": "integer"});
    let containers = json!({
        "name": text, "image": text, "command": {"type": "array", "items": text},
        "ports": keyed(json!(["containerPort", "protocol"]), json!({"containerPort": number, "name": text, "protocol": text})),
        "env": keyed(json!(["name"]), json!({"name": text, "value": text})),
        "resources": {"type": "object", "properties": {"limits": texts, "requests": texts}}
    });
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
        "replicas": number, "paused": {"type": "boolean"},
        "selector": {"type": "object", "x-kubernetes-map-type": "atomic", "properties": {"matchLabels": texts}},
        "template": {"type": "object", "properties": {"labels": texts, "containers": keyed(json!(["name"]), containers)}}
    }}}});
    let shapes = Shapes::of_custom_resource(Some(&schema)).expect("it is structural");
    VersionedKind {
        name: "App".to_owned(),
        versions: vec![Version { api_version: API_VERSION.to_owned(), shapes: Arc::new(shapes) }],
    }
}
