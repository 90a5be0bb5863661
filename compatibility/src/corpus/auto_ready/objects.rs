//! Objects as they are observed, of kinds that are known and of others.

use serde_json::{Value, json};

use crate::dice::Dice;

pub(super) fn observed(dice: &mut Dice) -> Value {
    let make: &fn(&mut Dice) -> Value = dice.pick(&MAKERS);
    let mut object = make(dice);
    if dice.chance(10) {
        object["apiVersion"] =
            json!(dice.pick(&["/v1", "v1", "apps/v1", "apps/v1beta1", "a/b/c", "", "/", "batch/v1"]));
    }
    if dice.chance(15) {
        object["status"]["conditions"] = json!([condition(dice, &["Ready"])]);
    }
    if dice.chance(12) {
        spoil(dice, &mut object);
    }
    object
}

const MAKERS: [fn(&mut Dice) -> Value; 17] = [
    managed,
    managed,
    thing,
    simple,
    claim,
    pod,
    service,
    daemon_set,
    deployment,
    replica_set,
    stateful_set,
    autoscaler,
    cron_job,
    job,
    ingress,
    simple,
    managed,
];

fn managed(dice: &mut Dice) -> Value {
    let count = dice.below(4);
    let conditions: Vec<_> = (0..count).map(|_| condition(dice, &["Ready", "Synced", "Ready", ""])).collect();
    json!({"apiVersion": "example.org/v1", "kind": "Thing", "metadata": {"name": "thing"}, "status": {"conditions": conditions}})
}

fn thing(dice: &mut Dice) -> Value {
    json!({
        "apiVersion": dice.pick(&["example.org/v1", "example.org/v1alpha1"]),
        "kind": dice.pick(&["Thing", "Other"]),
        "metadata": {"name": dice.pick(&["thing", "ab"])},
        "spec": {"replicas": number(dice)},
        "status": {"phase": phase(dice), "ready": dice.chance(50)},
    })
}

fn simple(dice: &mut Dice) -> Value {
    json!({"apiVersion": "v1", "kind": dice.pick(&["ConfigMap", "Secret", "Namespace", "ServiceAccount"]), "status": {}})
}

fn claim(dice: &mut Dice) -> Value {
    json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "status": {"phase": phase(dice)}})
}

fn pod(dice: &mut Dice) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "spec": {"restartPolicy": dice.pick(&[json!("Always"), json!("Never"), json!("Always"), Value::Null])},
        "status": {
            "phase": dice.pick(&["Running", "Running", "Succeeded", "Pending", "Failed", "Unknown"]),
            "conditions": [condition(dice, &["Initialized"]), condition(dice, &["Ready", "Ready", "PodScheduled"])],
        },
    })
}

fn service(dice: &mut Dice) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service",
        "spec": {"type": dice.pick(&[json!("ClusterIP"), json!("LoadBalancer"), json!("LoadBalancer"), json!("NodePort"), json!(5)])},
        "status": {"loadBalancer": balancer(dice)},
    })
}

fn ingress(dice: &mut Dice) -> Value {
    json!({"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "status": {"loadBalancer": balancer(dice)}})
}

fn balancer(dice: &mut Dice) -> Value {
    dice.pick(&[
        json!({}),
        json!({"ingress": []}),
        json!({"ingress": [{"ip": "1.2.3.4"}]}),
        json!({"ingress": null}),
        json!({"ingress": {"a": 1}}),
        json!("x"),
    ])
    .clone()
}

fn daemon_set(dice: &mut Dice) -> Value {
    let wanted = number(dice);
    json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "status": {
        "desiredNumberScheduled": wanted,
        "numberReady": mostly(dice, &wanted),
        "updatedNumberScheduled": mostly(dice, &wanted),
        "numberAvailable": mostly(dice, &wanted),
    }})
}

fn deployment(dice: &mut Dice) -> Value {
    let wanted = number(dice);
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "spec": {"replicas": wanted},
        "status": {
            "updatedReplicas": mostly(dice, &wanted),
            "availableReplicas": mostly(dice, &wanted),
            "conditions": [condition(dice, &["Progressing", "Ready"]), condition(dice, &["Available", "Available", "ReplicaFailure"])],
        },
    })
}

fn replica_set(dice: &mut Dice) -> Value {
    let wanted = number(dice);
    json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet",
        "metadata": {"generation": dice.below(3)},
        "spec": {"replicas": wanted},
        "status": {
            "observedGeneration": 1 + dice.below(2),
            "availableReplicas": mostly(dice, &wanted),
            "conditions": dice.pick(&[json!([]), json!(null), json!([{"type": "ReplicaFailure", "status": "True"}])]),
        },
    })
}

fn stateful_set(dice: &mut Dice) -> Value {
    let wanted = number(dice);
    json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet", "spec": {"replicas": wanted},
        "status": {
            "readyReplicas": mostly(dice, &wanted),
            "currentReplicas": mostly(dice, &wanted),
            "currentRevision": dice.pick(&[json!("web-1"), json!("web-1"), json!("web-2"), json!(null), json!(1)]),
            "updateRevision": dice.pick(&[json!("web-1"), json!("web-1"), json!("web-1"), json!(1)]),
        },
    })
}

fn autoscaler(dice: &mut Dice) -> Value {
    let kinds = [
        "AbleToScale",
        "ScalingActive",
        "ScalingLimited",
        "FailedGetScale",
        "InvalidSelector",
        "FailedUpdateScale",
        "FailedGetResourceMetric",
    ];
    let conditions: Vec<_> = (0..dice.below(4)).map(|_| condition(dice, &kinds)).collect();
    json!({
        "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
        "spec": {"scaleTargetRef": {"kind": "Deployment", "name": "web"}, "maxReplicas": 3},
        "status": {"currentMetrics": null, "desiredReplicas": 1, "conditions": conditions},
    })
}

fn job(dice: &mut Dice) -> Value {
    let conditions: Vec<_> = (0..=dice.below(3))
        .map(|_| condition(dice, &["Complete", "Complete", "Failed", "Suspended", "FailureTarget"]))
        .collect();
    json!({"apiVersion": "batch/v1", "kind": "Job", "status": {"conditions": conditions}})
}

fn cron_job(dice: &mut Dice) -> Value {
    json!({
        "apiVersion": "batch/v1", "kind": "CronJob",
        "spec": {"suspend": dice.pick(&[json!(false), json!(false), json!(true), json!(null)])},
        "status": {
            "lastScheduleTime": time(dice),
            "lastSuccessfulTime": time(dice),
            "active": dice.pick(&[json!([]), json!(null), json!([{"kind": "Job", "name": "a"}]), json!([null]), json!([])]),
        },
    })
}

fn condition(dice: &mut Dice, kinds: &[&str]) -> Value {
    let mut condition = json!({
        "type": dice.pick(kinds),
        "status": dice.pick(&["True", "True", "True", "False", "Unknown"]),
        "reason": "Because", "message": "so it is",
    });
    match dice.below(12) {
        0..6 => condition["lastTransitionTime"] = json!("2024-05-01T10:00:00Z"),
        6 => condition["lastTransitionTime"] = time(dice),
        7 => {
            condition["lastTransitionTime"] =
                json!(dice.pick(&["yesterday", "2024-02-30T00:00:00Z", "", "2024-05-01 10:00:00Z"]));
        }
        8 => condition["observedGeneration"] = json!(3),
        _ => {}
    }
    condition
}

fn time(dice: &mut Dice) -> Value {
    dice.pick(&[
        json!("2024-05-01T10:00:00Z"),
        json!("2024-05-01T10:00:00+02:00"),
        json!("2024-05-01T10:05:00Z"),
        json!("2024-05-01T10:00:00.5Z"),
        json!("2024-05-01T9:00:00,5-24:60"),
        json!("2024-05-01T10:00:00.123456789012Z"),
        json!("0000-01-01T00:00:00Z"),
        Value::Null,
        json!("not a time"),
        json!(1_714_557_600),
    ])
    .clone()
}

fn phase(dice: &mut Dice) -> Value {
    dice.pick(&[json!("Bound"), json!("Bound"), json!("Pending"), json!("Lost"), json!(null), json!(1)])
        .clone()
}

fn number(dice: &mut Dice) -> Value {
    dice.pick(&[
        json!(3),
        json!(3),
        json!(1),
        json!(0),
        json!(null),
        json!(2.5),
        json!("3"),
        json!(3e9),
        json!(-1),
    ])
    .clone()
}

/// This number, or nearly.
fn mostly(dice: &mut Dice, number: &Value) -> Value {
    match dice.below(12) {
        0 => json!(2),
        1 => json!(number.as_f64().unwrap_or(1.0) + 1.0),
        2 => json!(number.as_f64().unwrap_or(1.0) + 0.25),
        3 => Value::Null,
        _ if number.is_null() => json!(1),
        _ => number.clone(),
    }
}

/// Put something of another type where something is expected.
fn spoil(dice: &mut Dice, object: &mut Value) {
    let odd = dice
        .pick(&[json!("x"), json!(1.5), json!([1]), json!({"a": 1}), json!(true), json!(null), json!([null])])
        .clone();
    match dice.below(9) {
        0 => object["status"] = odd,
        1 => object["spec"] = odd,
        2 => object["status"]["conditions"] = odd,
        3 => object["status"]["conditions"] = json!([odd, {"type": "Ready", "status": "True"}]),
        4 => object["status"]["conditions"] = json!([{"type": "Ready", "status": "True", "reason": odd}]),
        5 => {
            object["status"]["conditions"] =
                json!([{"type": "Ready", "status": "True"}, {"type": odd, "status": "True"}]);
        }
        6 => object["status"]["conditions"] = json!([{"type": "Ready", "status": odd}]),
        7 => {
            object["status"]["conditions"] =
                json!([{"type": "Ready", "status": "True", "lastTransitionTime": odd}]);
        }
        _ => object["kind"] = odd,
    }
}

pub(super) fn by_hand() -> Vec<(&'static str, Value)> {
    vec![
        (
            "a managed resource that is ready",
            json!({"apiVersion": "a.b/v1", "kind": "C", "status": {"conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2024-05-01T10:00:00Z", "reason": "Available"}]}}),
        ),
        (
            "a condition with a number for a generation",
            json!({"apiVersion": "a.b/v1", "kind": "C", "status": {"conditions": [{"type": "Ready", "status": "True", "observedGeneration": 1.5}]}}),
        ),
        ("a config map", json!({"apiVersion": "v1", "kind": "ConfigMap"})),
        ("an empty group that is spelled out", json!({"apiVersion": "/v1", "kind": "Secret"})),
        (
            "a deployment that wants one replica by default",
            json!({"apiVersion": "apps/v1", "kind": "Deployment", "status": {"updatedReplicas": 1, "availableReplicas": 1, "conditions": [{"type": "Available", "status": "True"}]}}),
        ),
        (
            "a cron job that has never run",
            json!({"apiVersion": "batch/v1", "kind": "CronJob", "spec": {"schedule": "* * * * *"}}),
        ),
        (
            "a cron job whose last run succeeded",
            json!({"apiVersion": "batch/v1", "kind": "CronJob", "status": {"lastScheduleTime": "2024-05-01T10:00:00Z", "lastSuccessfulTime": "2024-05-01T12:00:00+02:00"}}),
        ),
        (
            "a job that is complete",
            json!({"apiVersion": "batch/v1", "kind": "Job", "status": {"conditions": [{"type": "Complete", "status": "True"}]}}),
        ),
        (
            "a replica set with more than enough",
            json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "spec": {"replicas": 1}, "status": {"availableReplicas": 2}}),
        ),
        ("no object at all", json!(null)),
    ]
}
