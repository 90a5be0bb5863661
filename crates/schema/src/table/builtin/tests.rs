//! What the cells of Kubernetes' own kinds show.

use serde_json::{Value, json};

use crate::table::{Include, Instant, Printer};

/// The cells of an object at noon of the first day of 2026, those on demand behind a bar.
fn cells(group: &str, plural: &str, object: &Value) -> String {
    let printer = Printer::of_builtin(group, plural);
    let row = printer.row(object, Include::None, Instant { seconds: 1_767_268_800, nanoseconds: 0 });
    let definitions = printer.definitions();
    let (mut usual, mut on_demand) = (Vec::new(), Vec::new());
    for (definition, cell) in definitions.as_array().unwrap().iter().zip(row["cells"].as_array().unwrap()) {
        let text = cell.as_str().map_or_else(|| cell.to_string(), str::to_owned);
        if definition["priority"] == 0 { usual.push(text) } else { on_demand.push(text) }
    }
    format!("{} | {}", usual.join(" "), on_demand.join(" "))
}

fn named(mut object: Value) -> Value {
    object["metadata"]["name"] = "it".into();
    object["metadata"]["creationTimestamp"] = "2026-01-01T11:59:00Z".into();
    object
}

#[test]
fn an_empty_object_of_any_kind_has_a_cell_for_every_column() {
    for resource in crate::builtin::resources() {
        let printer = Printer::of_builtin(resource.group, resource.plural);
        let row = printer.row(&json!({}), Include::None, Instant { seconds: 0, nanoseconds: 0 });
        let columns = printer.definitions().as_array().unwrap().len();
        assert_eq!(row["cells"].as_array().unwrap().len(), columns, "{}", resource.plural);
    }
}

#[test]
fn replicas_are_counted() {
    let deployment = named(json!({
        "spec": {
            "replicas": 3,
            "selector": {"matchLabels": {"b": "2"}, "matchExpressions": [
                {"key": "a", "operator": "In", "values": ["y", "x"]}, {"key": "c", "operator": "DoesNotExist"}
            ]},
            "template": {"spec": {"containers": [{"name": "one", "image": "i:1"}, {"name": "two", "image": "i:2"}]}},
        },
        "status": {"readyReplicas": 1, "updatedReplicas": 2, "availableReplicas": 1},
    }));
    assert_eq!(
        cells("apps", "deployments", &deployment),
        "it 1/3 2 1 60s | one,two i:1,i:2 a in (x,y),b=2,!c"
    );
    assert_eq!(cells("apps", "statefulsets", &deployment), "it 1/3 60s | one,two i:1,i:2");
    assert_eq!(cells("apps", "replicasets", &deployment), "it 3 0 1 60s | one,two i:1,i:2 a in (x,y),b=2,!c");
}

#[test]
fn services_say_how_they_are_reached() {
    let mut service = named(json!({"spec": {
        "type": "NodePort", "clusterIPs": ["10.0.0.1"], "selector": {"a": "b"},
        "ports": [{"port": 80, "nodePort": 30000, "protocol": "TCP"}, {"port": 53, "protocol": "UDP"}],
    }}));
    assert_eq!(cells("", "services", &service), "it NodePort 10.0.0.1 <none> 80:30000/TCP,53/UDP 60s | a=b");
    service["spec"] = json!({"type": "LoadBalancer"});
    assert_eq!(cells("", "services", &service), "it LoadBalancer <none> <pending> <none> 60s | <none>");
    service["status"] = json!({"loadBalancer": {"ingress": [{"hostname": "b.example"}, {"ip": "1.2.3.4"}]}});
    service["spec"]["externalIPs"] = json!(["5.6.7.8"]);
    assert!(cells("", "services", &service).contains(" 1.2.3.4,b.example,5.6.7.8 "));
}

#[test]
fn pods_say_in_a_word_how_they_are() {
    let pod = |status: Value| {
        named(
            json!({"spec": {"containers": [{"name": "a"}, {"name": "b"}], "initContainers": [{"name": "i"}]},
                     "status": status}),
        )
    };
    let shown = |status: Value| cells("", "pods", &pod(status));
    assert_eq!(shown(json!({"phase": "Pending"})), "it 0/2 Pending 0 60s | <none> <none> <none> <none>");
    let initial =
        json!({"phase": "Pending", "initContainerStatuses": [{"name": "i", "state": {"running": {}}}]});
    assert!(shown(initial).starts_with("it 0/2 Init:0/1 0 60s"));
    let crashing = json!({"phase": "Running", "containerStatuses": [
        {"name": "a", "ready": true, "state": {"running": {}}},
        {"name": "b", "restartCount": 3, "state": {"waiting": {"reason": "CrashLoopBackOff"}},
         "lastState": {"terminated": {"finishedAt": "2026-01-01T11:58:30Z"}}},
    ]});
    assert!(shown(crashing).starts_with("it 1/2 CrashLoopBackOff 3 (90s ago) 60s"));
    let ended = json!({"phase": "Running", "containerStatuses": [
        {"name": "a", "state": {"terminated": {"exitCode": 0, "reason": "Completed"}}},
        {"name": "b", "state": {"terminated": {"exitCode": 2}}},
    ]});
    assert!(shown(ended).starts_with("it 0/2 ExitCode:2 0 60s"));
    let mut going = pod(json!({"phase": "Running"}));
    going["metadata"]["deletionTimestamp"] = "2026-01-01T12:00:00Z".into();
    assert!(cells("", "pods", &going).starts_with("it 0/2 Terminating"));
}

#[test]
fn jobs_say_how_far_they_are() {
    let mut job = named(
        json!({"spec": {"completions": 3}, "status": {"succeeded": 1, "startTime": "2026-01-01T11:55:00Z"}}),
    );
    assert!(cells("batch", "jobs", &job).starts_with("it Running 1/3 5m 60s"));
    job["status"]["completionTime"] = "2026-01-01T11:55:10Z".into();
    job["status"]["conditions"] = json!([{"type": "Complete", "status": "True"}]);
    assert!(cells("batch", "jobs", &job).starts_with("it Complete 1/3 10s 60s"));
    let cron = named(json!({"spec": {"schedule": "@daily", "suspend": false}}));
    assert!(cells("batch", "cronjobs", &cron).starts_with("it @daily <none> False 0 <none> 60s"));
}

#[test]
fn both_forms_of_an_event_look_the_same() {
    let old = named(json!({
        "involvedObject": {"kind": "Pod", "name": "p"}, "type": "Normal", "reason": "Ran", "message": " ran\n",
        "source": {"component": "c", "host": "h"}, "count": 2,
        "firstTimestamp": "2026-01-01T11:00:00Z", "lastTimestamp": "2026-01-01T11:50:00Z",
    }));
    let new = named(json!({
        "regarding": {"kind": "Pod", "name": "p"}, "type": "Normal", "reason": "Ran", "note": " ran\n",
        "deprecatedSource": {"component": "c", "host": "h"}, "deprecatedCount": 2,
        "deprecatedFirstTimestamp": "2026-01-01T11:00:00Z", "deprecatedLastTimestamp": "2026-01-01T11:50:00Z",
    }));
    let expected = "10m Normal Ran pod/p ran |  c, h 60m 2 it";
    assert_eq!(cells("", "events", &old), expected);
    assert_eq!(cells("events.k8s.io", "events", &new), expected);
}
