//! Webhooks change and refuse what is written, and misbehave.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ferroplane_apiserver::InProcessWebhook;
use http::Response;
use http_body_util::Full;
use serde_json::{Value, json};

use crate::cluster::Cluster;
use crate::definitions::{WIDGETS, cluster_with_widgets, definition, widget};
use crate::hook::Hook;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const GROUP: &str = "/apis/admissionregistration.k8s.io/v1";

fn map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"key": "value"}})
}

/// A webhook for config maps, with whatever else is to be said about it.
fn webhook(name: &str, hook: &Hook, more: &Value) -> Value {
    let mut webhook = json!({
        "name": name,
        "clientConfig": hook.client(),
        "rules": [{"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    });
    for (name, value) in more.as_object().unwrap() {
        webhook[name] = value.clone();
    }
    webhook
}

async fn configure(cluster: &Cluster, kind: &str, name: &str, webhooks: Vec<Value>) {
    let path = format!("{GROUP}/{}s", kind.to_lowercase());
    let configuration = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": kind,
        "metadata": {"name": name}, "webhooks": webhooks,
    });
    cluster.post(&path, &configuration).await.is(201);
}

async fn validating(cluster: &Cluster, hook: &Hook, more: &Value) {
    configure(cluster, "ValidatingWebhookConfiguration", "v", vec![webhook("v.example.org", hook, more)])
        .await;
}

async fn mutating(cluster: &Cluster, hook: &Hook, more: &Value) {
    configure(cluster, "MutatingWebhookConfiguration", "m", vec![webhook("m.example.org", hook, more)]).await;
}

fn patching(patch: &Value) -> Value {
    json!({"allowed": true, "patchType": "JSONPatch", "patch": STANDARD.encode(patch.to_string())})
}

fn message(answer: &Value) -> &str {
    answer["message"].as_str().unwrap()
}

#[tokio::test]
async fn webhook_refuses_in_its_own_words() {
    let cluster = Cluster::new().await;
    let hook = Hook::saying(|request| match request["name"].as_str() {
        Some("quiet") => json!({"allowed": false}),
        Some("teapot") => {
            json!({"allowed": false, "status": {"code": 418, "reason": "Teapot", "message": "no"}})
        }
        _ => json!({"allowed": true, "warnings": ["careful"]}),
    })
    .await;
    validating(&cluster, &hook, &json!({})).await;
    let quiet = cluster.post(MAPS, &map("quiet")).await;
    assert_eq!(
        message(quiet.is(400)),
        r#"admission webhook "v.example.org" denied the request without explanation"#
    );
    let teapot = cluster.post(MAPS, &map("teapot")).await;
    assert_eq!(message(teapot.is(418)), r#"admission webhook "v.example.org" denied the request: no"#);
    assert_eq!(teapot.body["reason"], "Teapot");
    let allowed = cluster.post(MAPS, &map("a")).await;
    allowed.is(201);
    assert_eq!(allowed.warnings, [r#"299 - "careful""#]);
    assert_eq!(hook.connections(), 1);
}

#[tokio::test]
async fn webhook_is_told_all_about_the_request() {
    let cluster = Cluster::new().await;
    let hook = Hook::saying(|_| json!({"allowed": true})).await;
    validating(&cluster, &hook, &json!({})).await;
    cluster
        .post(&format!("{MAPS}?fieldManager=me&dryRun=All&fieldValidation=Strict"), &map("a"))
        .await
        .is(201);
    cluster.post(MAPS, &map("a")).await.is(201);
    cluster.merge(&format!("{MAPS}/a"), &json!({"data": {"key": "other"}})).await.is(200);
    cluster.delete(&format!("{MAPS}/a?propagationPolicy=Background")).await.is(200);
    let [dry, create, update, delete] = hook.requests().try_into().unwrap();
    assert_eq!(dry["dryRun"], true);
    assert_eq!(
        dry["options"],
        json!({
            "kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1", "dryRun": ["All"],
            "fieldManager": "me", "fieldValidation": "Strict",
        })
    );
    assert_eq!(create["kind"], json!({"group": "", "version": "v1", "kind": "ConfigMap"}));
    assert_eq!(create["requestResource"], json!({"group": "", "version": "v1", "resource": "configmaps"}));
    assert_eq!((&create["name"], &create["namespace"]), (&json!("a"), &json!("default")));
    assert_eq!((&create["operation"], &create["oldObject"]), (&json!("CREATE"), &Value::Null));
    assert_eq!(create["userInfo"]["username"], "admin");
    assert_eq!(create["object"]["data"]["key"], "value");
    assert_eq!(
        (&update["operation"], &update["oldObject"]["data"]["key"]),
        (&json!("UPDATE"), &json!("value"))
    );
    assert_eq!(update["object"]["data"]["key"], "other");
    assert_eq!((&delete["operation"], &delete["object"]), (&json!("DELETE"), &Value::Null));
    assert_eq!(delete["oldObject"]["data"]["key"], "other");
    assert_eq!(delete["options"]["propagationPolicy"], "Background");
}

#[tokio::test]
async fn webhook_changes_what_is_written_and_that_is_checked() {
    let cluster = Cluster::new().await;
    let hook = Hook::saying(|request| match request["name"].as_str() {
        Some("bad") => patching(&json!([{"op": "add", "path": "/metadata/labels", "value": {"a": "b c"}}])),
        Some("worse") => patching(&json!([{"op": "add", "path": "/data", "value": "text"}])),
        Some("worst") => patching(&json!([{"op": "remove", "path": "/nothing"}])),
        _ => patching(&json!([{"op": "add", "path": "/data/more", "value": "much"}])),
    })
    .await;
    mutating(&cluster, &hook, &json!({})).await;
    let created = cluster.post(MAPS, &map("a")).await;
    assert_eq!(created.is(201)["data"], json!({"key": "value", "more": "much"}));
    cluster.post(MAPS, &map("bad")).await.is(422);
    cluster.post(MAPS, &map("worse")).await.is(500);
    cluster.post(MAPS, &map("worst")).await.is(500);
    let deleted = cluster.delete(&format!("{MAPS}/a")).await;
    assert_eq!(
        message(deleted.is(500)),
        "Internal error occurred: admission webhook \"m.example.org\" attempted to modify the object, which is not \
         supported for this operation"
    );
}

#[tokio::test]
async fn webhooks_are_asked_in_the_order_of_their_names_and_again_if_need_be() {
    let cluster = Cluster::new().await;
    let first = Hook::saying(|request| {
        let seen = request["object"]["data"].as_object().unwrap().len();
        patching(&json!([{"op": "add", "path": "/data/first", "value": seen.to_string()}]))
    })
    .await;
    let second =
        Hook::saying(|_| patching(&json!([{"op": "add", "path": "/data/second", "value": "here"}]))).await;
    let kind = "MutatingWebhookConfiguration";
    configure(&cluster, kind, "z", vec![webhook("second.example.org", &second, &json!({}))]).await;
    let again = json!({"reinvocationPolicy": "IfNeeded"});
    configure(&cluster, kind, "a", vec![webhook("first.example.org", &first, &again)]).await;
    let created = cluster.post(MAPS, &map("a")).await;
    assert_eq!(created.is(201)["data"], json!({"key": "value", "first": "3", "second": "here"}));
    assert_eq!((first.requests().len(), second.requests().len()), (2, 1));
}

#[tokio::test]
async fn webhook_that_cannot_be_asked_stops_the_request_or_does_not() {
    let hooks = [
        Hook::behaving(|_| None).await,
        Hook::behaving(|_| Some(Response::new(Full::from("garbage")))).await,
        Hook::behaving(|_| Some(Response::new(Full::from(vec![b' '; 9 << 20])))).await,
        Hook::behaving(|_| Some(Response::builder().status(500).body(Full::from("boom")).unwrap())).await,
        Hook::behaving(|_| {
            Some(Response::builder().status(302).header("location", "/").body(Full::default()).unwrap())
        })
        .await,
        Hook::saying(|_| json!({"allowed": true, "uid": "other"})).await,
        Hook::saying(|_| patching(&json!([]))).await,
        Hook::behaving(|_| Some(Response::new(Full::from("{}")))).await,
    ];
    let words = [
        "context deadline exceeded",
        "couldn't get version/kind; json parse error: json: cannot unmarshal string",
        "length limit exceeded",
        r#"an error on the server ("boom") has prevented the request from succeeding"#,
        "the server responded with the status code 302 but did not return more information",
        "received invalid webhook response: expected response.uid=",
        "received invalid webhook response: validating webhook may not return response.patch",
        "received invalid webhook response: webhook response was absent",
    ];
    for (hook, words) in hooks.iter().zip(words) {
        let cluster = Cluster::new().await;
        validating(&cluster, hook, &json!({"timeoutSeconds": 1})).await;
        let refused = cluster.post(MAPS, &map("a")).await;
        let message = message(refused.is(500));
        let start = "Internal error occurred: failed calling webhook \"v.example.org\": ";
        assert!(message.starts_with(start) && message.contains(words), "{message}");
        assert_eq!(hook.requests().len(), 1);
        let cluster = Cluster::new().await;
        validating(&cluster, hook, &json!({"timeoutSeconds": 1, "failurePolicy": "Ignore"})).await;
        cluster.post(MAPS, &map("a")).await.is(201);
    }
}

#[tokio::test]
async fn webhook_that_is_not_there_or_not_who_it_says_is_not_asked() {
    let hook = Hook::saying(|_| json!({"allowed": true})).await;
    let stranger = Hook::saying(|_| json!({"allowed": true})).await;
    let service = |name: &str| json!({"service": {"namespace": "default", "name": name, "port": hook.port}});
    let mut untrusted = hook.client();
    untrusted["caBundle"] = stranger.client()["caBundle"].clone();
    let cases = [
        (json!({"url": "https://127.0.0.1:1/x"}), "dial tcp 127.0.0.1:1: connect: connection refused"),
        (service("nowhere"), "service \"nowhere\" not found"),
        (untrusted, "tls: failed to verify certificate: x509: certificate signed by unknown authority"),
    ];
    for (client, words) in cases {
        let cluster = Cluster::new().await;
        validating(&cluster, &hook, &json!({"clientConfig": client})).await;
        let refused = cluster.post(MAPS, &map("a")).await;
        let message = message(refused.is(500));
        assert!(
            message.contains("failed to call webhook: Post \"https://") && message.contains(words),
            "{message}"
        );
    }
    let cluster = Cluster::new().await;
    let external = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "hook"},
        "spec": {"type": "ExternalName", "externalName": "127.0.0.1"},
    });
    cluster.post("/api/v1/namespaces/default/services", &external).await.is(201);
    let mut client = service("hook");
    client["caBundle"] = hook.client()["caBundle"].clone();
    validating(&cluster, &hook, &json!({"clientConfig": client})).await;
    cluster.post(MAPS, &map("a")).await.is(201);
    assert_eq!(hook.requests().len(), 1);
}

#[tokio::test]
async fn webhook_is_found_by_the_endpoints_of_its_service() {
    let hook = Hook::saying(|_| json!({"allowed": true})).await;
    let cluster = Cluster::new().await;
    let client = json!({
        "service": {"namespace": "default", "name": "hook"}, "caBundle": hook.client()["caBundle"],
    });
    validating(&cluster, &hook, &json!({"clientConfig": client})).await;
    let path = "/api/v1/namespaces/default";
    let service = json!({"metadata": {"name": "hook"}, "spec": {"ports": [{"port": 443, "name": "https"}]}});
    cluster.post(&format!("{path}/services"), &service).await.is(201);
    let refused = cluster.post(MAPS, &map("a")).await;
    assert!(
        message(refused.is(500)).contains("no endpoints available for service \"hook\""),
        "{}",
        refused.body
    );

    let port = json!({"name": "https", "port": hook.port});
    let endpoints = json!({"metadata": {"name": "hook"}, "subsets": [{"addresses": [{"ip": "127.0.0.1"}], "ports": [port]}]});
    cluster.post(&format!("{path}/endpoints"), &endpoints).await.is(201);
    cluster.post(MAPS, &map("a")).await.is(201);
    cluster.delete(&format!("{path}/endpoints/hook")).await.is(200);
    let slice = json!({
        "metadata": {"name": "hook-1", "labels": {"kubernetes.io/service-name": "hook"}}, "addressType": "IPv4",
        "endpoints": [
            {"addresses": ["127.0.0.2"], "conditions": {"ready": false}},
            {"addresses": ["127.0.0.1"], "conditions": {"ready": true}},
        ],
        "ports": [port],
    });
    cluster.post("/apis/discovery.k8s.io/v1/namespaces/default/endpointslices", &slice).await.is(201);
    cluster.post(MAPS, &map("b")).await.is(201);
    assert_eq!(hook.requests().len(), 2);
}

#[tokio::test]
async fn webhook_is_asked_only_about_what_it_wants_to_know() {
    let matching = [
        json!({}),
        json!({"objectSelector": {"matchLabels": {"a": "b"}}}),
        json!({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "default"}}}),
        json!({"matchConditions": [{"name": "x", "expression": "object.data.key == 'value' && oldObject == null"}]}),
        json!({"matchConditions": [{"name": "x", "expression": "request.userInfo.username == 'admin'"}]}),
        json!({"rules": [{"operations": ["CREATE"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"]}]}),
    ];
    let other = [
        json!({"objectSelector": {"matchLabels": {"a": "c"}}}),
        json!({"namespaceSelector": {"matchExpressions": [
            {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["default"]},
        ]}}),
        json!({"matchConditions": [{"name": "x", "expression": "request.operation == 'DELETE'"}]}),
        json!({"rules": [{"operations": ["UPDATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["*/*"]}]}),
        json!({"rules": [
            {"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"], "scope": "Cluster"},
        ]}),
    ];
    let cases = matching.iter().map(|more| (more, 1)).chain(other.iter().map(|more| (more, 0)));
    for (more, times) in cases {
        let cluster = Cluster::new().await;
        let hook = Hook::saying(|_| json!({"allowed": true})).await;
        validating(&cluster, &hook, more).await;
        let mut object = map("a");
        object["metadata"]["labels"] = json!({"a": "b"});
        cluster.post(MAPS, &object).await.is(201);
        assert_eq!(hook.requests().len(), times, "{more}");
    }
}

#[tokio::test]
async fn condition_that_cannot_be_told_follows_the_failure_policy() {
    let hook = Hook::saying(|_| json!({"allowed": true})).await;
    let mut more = json!({"matchConditions": [{"name": "x", "expression": "object.nothing == 1"}]});
    let cluster = Cluster::new().await;
    validating(&cluster, &hook, &more).await;
    let refused = cluster.post(MAPS, &map("a")).await;
    assert_eq!(
        message(refused.is(403)),
        "configmaps \"a\" is forbidden: expression 'object.nothing == 1' resulted in error: no such key: nothing"
    );
    more["failurePolicy"] = json!("Ignore");
    let cluster = Cluster::new().await;
    validating(&cluster, &hook, &more).await;
    cluster.post(MAPS, &map("a")).await.is(201);
    assert!(hook.requests().is_empty());
}

#[tokio::test]
async fn webhook_with_side_effects_is_not_asked_what_if() {
    let cluster = Cluster::new().await;
    let hook = Hook::saying(|_| json!({"allowed": true})).await;
    // The first version of the API knew webhooks whose effects were not known.
    let mut old = webhook("v.example.org", &hook, &json!({}));
    old["sideEffects"] = json!("NoneOnDryRun");
    configure(&cluster, "ValidatingWebhookConfiguration", "v", vec![old]).await;
    cluster.post(&format!("{MAPS}?dryRun=All"), &map("a")).await.is(201);
    assert_eq!(hook.requests().len(), 1);
}

#[tokio::test]
async fn webhook_sees_the_version_that_it_asked_for() {
    let cluster = Cluster::new().await;
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    let version = |name: &str, is_stored: bool| json!({"name": name, "served": true, "storage": is_stored, "schema": schema});
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.example.org"},
        "spec": {
            "group": "example.org", "scope": "Namespaced",
            "names": {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"},
            "versions": [version("v1", true), version("v2", false)],
        },
    });
    cluster.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &definition).await.is(201);
    let path = "/apis/example.org/v2/namespaces/default/things";
    cluster.until(path, |answer| answer.code == 200).await;
    let hook = Hook::saying(|_| patching(&json!([{"op": "add", "path": "/more", "value": 1}]))).await;
    let rules = json!([{
        "operations": ["CREATE"], "apiGroups": ["example.org"], "apiVersions": ["v1"], "resources": ["things"],
    }]);
    mutating(&cluster, &hook, &json!({"rules": rules})).await;
    let thing =
        |name: &str| json!({"apiVersion": "example.org/v2", "kind": "Thing", "metadata": {"name": name}});
    let created = cluster.post(path, &thing("a")).await;
    assert_eq!(
        (&created.is(201)["more"], &created.body["apiVersion"]),
        (&json!(1), &json!("example.org/v2"))
    );
    let request = &hook.requests()[0];
    assert_eq!(request["object"]["apiVersion"], "example.org/v1");
    assert_eq!(
        (&request["kind"]["version"], &request["requestKind"]["version"]),
        (&json!("v1"), &json!("v2"))
    );
    cluster.delete(&format!("{GROUP}/mutatingwebhookconfigurations/m")).await.is(200);
    mutating(&cluster, &hook, &json!({"rules": rules, "matchPolicy": "Exact"})).await;
    assert!(cluster.post(path, &thing("b")).await.is(201).get("more").is_none());
}

#[tokio::test]
async fn webhook_that_refuses_everything_can_be_taken_away() {
    let cluster = Cluster::new().await;
    let hook = Hook::saying(|_| json!({"allowed": false})).await;
    let rules =
        json!([{"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"]}]);
    validating(&cluster, &hook, &json!({"rules": rules})).await;
    cluster.post(MAPS, &map("a")).await.is(400);
    cluster.delete(&format!("{GROUP}/validatingwebhookconfigurations/v")).await.is(200);
    cluster.post(MAPS, &map("a")).await.is(201);
}

#[tokio::test]
async fn webhook_keeps_the_garbage_collector_from_deleting() {
    let cluster = Cluster::new().await;
    let owner = cluster.post(MAPS, &map("owner")).await;
    let mut dependent = map("owned");
    dependent["metadata"]["ownerReferences"] = json!([{
        "apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner.is(201)["metadata"]["uid"],
    }]);
    cluster.post(MAPS, &dependent).await.is(201);
    let hook = Hook::saying(
        |request| json!({"allowed": request["name"] != "owned" || request["operation"] != "DELETE"}),
    )
    .await;
    validating(&cluster, &hook, &json!({})).await;
    cluster.delete(&format!("{MAPS}/owner")).await.is(200);
    let is_asked = || {
        hook.requests().iter().any(|request| {
            request["name"] == "owned"
                && request["userInfo"]["username"]
                    == "system:serviceaccount:kube-system:generic-garbage-collector"
        })
    };
    cluster.until(&format!("{MAPS}/owned"), |_| is_asked()).await.is(200);
    cluster.get(&format!("{MAPS}/owned")).await.is(200);
}

#[tokio::test]
async fn scale_is_shown_as_a_scale() {
    let cluster = Cluster::new().await;
    let hook = Hook::saying(|_| json!({"allowed": true})).await;
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"},
        "spec": {
            "selector": {"matchLabels": {"a": "b"}},
            "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
        },
    });
    let path = "/apis/apps/v1/namespaces/default/deployments";
    cluster.post(path, &deployment).await.is(201);
    let rules = json!([{
        "operations": ["UPDATE"], "apiGroups": ["apps"], "apiVersions": ["v1"], "resources": ["deployments/scale"],
    }]);
    validating(&cluster, &hook, &json!({"rules": rules})).await;
    cluster.merge(&format!("{path}/d/scale"), &json!({"spec": {"replicas": 3}})).await.is(200);
    let [request] = hook.requests().try_into().unwrap();
    assert_eq!(request["kind"], json!({"group": "autoscaling", "version": "v1", "kind": "Scale"}));
    assert_eq!(
        (&request["subResource"], &request["object"]["spec"]["replicas"]),
        (&json!("scale"), &json!(3))
    );
}

/// A configuration of a webhook at a host that only this process knows.
async fn configure_inside(cluster: &Cluster, more: &Value) {
    let mut webhook = json!({
        "name": "i.example.org",
        "clientConfig": {"url": "https://somebody.internal/review"},
        "rules": [{"operations": ["DELETE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "timeoutSeconds": 1,
    });
    webhook.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    configure(cluster, "ValidatingWebhookConfiguration", "inside", vec![webhook]).await;
}

#[tokio::test]
async fn webhook_in_this_process_is_asked_without_a_network() {
    let cluster = Cluster::new().await;
    let insider = InProcessWebhook::new(|review| async move {
        let request = &review["request"];
        let is_allowed = request["oldObject"]["data"]["key"] != "value";
        json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": {
            "uid": request["uid"], "allowed": is_allowed, "status": {"code": 409, "reason": "it is needed"},
        }})
    });
    cluster.server().register_webhook("somebody.internal", &insider);
    configure_inside(&cluster, &json!({})).await;
    cluster.post(MAPS, &map("a")).await.is(201);
    let refused = cluster.delete(&format!("{MAPS}/a")).await;
    assert_eq!(
        message(refused.is(409)),
        r#"admission webhook "i.example.org" denied the request: it is needed"#
    );
    cluster.merge(&format!("{MAPS}/a"), &json!({"data": {"key": "other"}})).await.is(200);
    cluster.delete(&format!("{MAPS}/a")).await.is(200);
}

#[tokio::test]
async fn webhook_in_this_process_that_hangs_or_talks_nonsense_costs_no_more_than_any_other() {
    let cluster = Cluster::new().await;
    cluster
        .server()
        .register_webhook("somebody.internal", &InProcessWebhook::new(|_| std::future::pending()));
    configure_inside(&cluster, &json!({})).await;
    cluster.post(MAPS, &map("a")).await.is(201);
    let path = format!("{MAPS}/a");
    let late = cluster.delete(&path).await;
    assert!(message(late.is(500)).ends_with("context deadline exceeded"), "{:?}", late.body);
    cluster
        .server()
        .register_webhook("somebody.internal", &InProcessWebhook::new(|_| async { json!("nonsense") }));
    assert!(message(cluster.delete(&path).await.is(500)).contains("i.example.org"));
}

#[tokio::test]
async fn nothing_is_stored_whose_namespace_or_definition_goes_while_a_webhook_is_asked() {
    let cluster = cluster_with_widgets().await;
    let maps = |namespace: &str| format!("/api/v1/namespaces/{namespace}/configmaps");
    for name in ["gone", "going"] {
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        cluster.post("/api/v1/namespaces", &namespace).await.is(201);
    }
    let mut kept = map("kept");
    kept["metadata"]["finalizers"] = json!(["example.org/keep"]);
    cluster.post(&maps("going"), &kept).await.is(201);

    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let inside = cluster.clone();
    let insider = InProcessWebhook::new(move |review| {
        let cluster = inside.clone();
        async move {
            let request = &review["request"];
            let path = match request["namespace"].as_str() {
                Some("default") => format!("{definitions}/widgets.example.org"),
                namespace => format!("/api/v1/namespaces/{}", namespace.unwrap()),
            };
            cluster.delete(&path).await.is(200);
            if request["namespace"] != "going" {
                cluster.until(&path, |answer| answer.code == 404).await;
            }
            json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": {
                "uid": request["uid"], "allowed": true,
            }})
        }
    });
    cluster.server().register_webhook("somebody.internal", &insider);
    let rules = json!([{
        "operations": ["CREATE"], "apiGroups": ["", "example.org"], "apiVersions": ["v1"],
        "resources": ["configmaps", "widgets"],
    }]);
    configure_inside(&cluster, &json!({"rules": rules, "timeoutSeconds": 10})).await;

    let gone = cluster.post(&maps("gone"), &map("late")).await;
    assert_eq!(message(gone.is(404)), r#"namespaces "gone" not found"#);
    let going = cluster.post(&maps("going"), &map("late")).await;
    assert_eq!(going.is(403)["details"]["causes"][0]["reason"], "NamespaceTerminating");
    let undefined = cluster.post(WIDGETS, &widget("late", &json!({}))).await;
    let words = "create not allowed while custom resource definition is terminating";
    assert!(message(undefined.is(403)).ends_with(words), "{}", undefined.body);

    let left = cluster.get("/api/v1/configmaps").await;
    let mut names = left.is(200)["items"].as_array().unwrap().iter().map(|item| &item["metadata"]["name"]);
    assert!(names.all(|name| name != "late"), "{}", left.body);
    cluster.post(definitions, &definition()).await.is(201);
    let widgets = cluster.until(WIDGETS, |answer| answer.code == 200).await;
    assert_eq!(widgets.body["items"], json!([]));
}
