//! Events, which have two faces and a short life.

use serde_json::{Value, json};

use crate::cluster::Cluster;

const CORE: &str = "/api/v1/namespaces/default/events";
const NEW: &str = "/apis/events.k8s.io/v1/namespaces/default/events";

fn core_event(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Event", "metadata": {"name": name, "namespace": "default"},
        "involvedObject": {"kind": "Pod", "name": "p", "namespace": "default"},
        "reason": "Started", "message": "it started", "type": "Normal", "count": 2,
        "source": {"component": "kubelet"},
        "firstTimestamp": "2026-01-01T00:00:00Z", "lastTimestamp": "2026-01-01T00:00:01Z",
    })
}

fn new_event(name: &str) -> Value {
    json!({
        "apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": name, "namespace": "default"},
        "regarding": {"kind": "Pod", "name": "q", "namespace": "default"},
        "reason": "Started", "note": "it started", "type": "Normal", "action": "Start",
        "eventTime": "2026-01-01T00:00:00.000001Z",
        "reportingController": "example.org/controller", "reportingInstance": "one",
    })
}

#[tokio::test]
async fn event_is_seen_by_both_groups() {
    let cluster = Cluster::new().await;
    cluster.post(CORE, &core_event("a")).await.is(201);
    let seen = cluster.get(&format!("{NEW}/a")).await;
    assert_eq!(seen.is(200)["apiVersion"], "events.k8s.io/v1");
    assert_eq!((&seen.body["regarding"]["name"], &seen.body["note"]), (&json!("p"), &json!("it started")));
    assert_eq!(seen.body["deprecatedSource"]["component"], "kubelet");
    assert_eq!(seen.body["deprecatedCount"], 2);
    assert_eq!(seen.body["deprecatedLastTimestamp"], "2026-01-01T00:00:01Z");
    assert!(seen.body.get("involvedObject").is_none());

    let made = cluster.post(NEW, &new_event("b")).await;
    assert_eq!(made.is(201)["regarding"]["name"], "q");
    let seen = cluster.get(&format!("{CORE}/b")).await;
    assert_eq!(seen.is(200)["apiVersion"], "v1");
    assert_eq!(seen.body["involvedObject"]["name"], "q");
    assert_eq!(seen.body["reportingComponent"], "example.org/controller");
    assert_eq!(seen.body["message"], "it started");
    assert_eq!(cluster.get(NEW).await.is(200)["items"].as_array().unwrap().len(), 2);

    let series = json!({"series": {"count": 2, "lastObservedTime": "2026-01-01T00:00:02.000000Z"}});
    let patched = cluster.merge(&format!("{NEW}/b"), &series).await;
    assert_eq!(patched.is(200)["series"]["count"], 2);
    let refused = cluster.merge(&format!("{NEW}/b"), &json!({"note": "other"})).await;
    assert!(
        refused.is(422)["message"]
            .as_str()
            .unwrap()
            .contains("message: Invalid value: \"other\": field is immutable")
    );
}

#[tokio::test]
async fn events_are_selected_by_what_they_are_about() {
    let cluster = Cluster::new().await;
    cluster.post(CORE, &core_event("a")).await.is(201);
    cluster.post(NEW, &new_event("b")).await.is(201);
    let cases = [
        (CORE, "involvedObject.name=p", vec!["a"]),
        (CORE, "source=kubelet", vec!["a"]),
        (CORE, "source=example.org/controller", vec!["b"]),
        (NEW, "regarding.name=q", vec!["b"]),
        (NEW, "reportingController=example.org/controller,type=Normal", vec!["b"]),
        (NEW, "regarding.kind=Pod", vec!["a", "b"]),
    ];
    for (path, selector, names) in cases {
        let list = cluster.get(&format!("{path}?fieldSelector={selector}")).await;
        let found: Vec<_> = list.is(200)["items"]
            .as_array()
            .unwrap()
            .iter()
            .map(|it| it["metadata"]["name"].clone())
            .collect();
        assert_eq!(found, names, "{selector}");
    }
    cluster.get(&format!("{NEW}?fieldSelector=involvedObject.name=p")).await.is(400);
}

#[tokio::test]
async fn new_event_must_say_all_that_new_events_say() {
    let cluster = Cluster::new().await;
    let mut event = new_event("a");
    event["action"] = json!("");
    event["deprecatedCount"] = json!(1);
    event["type"] = json!("Odd");
    let refused = cluster.post(NEW, &event).await;
    assert_eq!(
        refused.is(422)["message"],
        "Event.events.k8s.io \"a\" is invalid: [action: Required value, type: Invalid value: \"\": has invalid value: \
         Odd, count: Invalid value: \"\": needs to be unset]"
    );
    let mut event = core_event("a");
    event["involvedObject"]["namespace"] = json!("elsewhere");
    let refused = cluster.post(CORE, &event).await;
    assert_eq!(
        refused.is(422)["message"],
        "Event \"a\" is invalid: involvedObject.namespace: Invalid value: \"elsewhere\": does not match event.namespace"
    );
}
