//! Objects as people write them, and mistakes as people make them.

use serde_json::{Value, json};

/// What is put where in a manifest.
type Change = (&'static str, Value);

fn pod() -> Value {
    json!({
        "containers": [{
            "name": "main", "image": "nginx", "ports": [{"name": "http", "containerPort": 80}],
            "env": [{"name": "A", "value": "1"}, {"name": "B", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}],
            "resources": {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "100m"}},
            "livenessProbe": {"httpGet": {"port": "http"}}, "readinessProbe": {"exec": {"command": ["true"]}},
            "volumeMounts": [{"name": "data", "mountPath": "/data"}],
        }],
        "initContainers": [{"name": "first", "image": "busybox:1"}],
        "volumes": [{"name": "data", "emptyDir": {}}],
    })
}

/// Mistakes in a pod.
fn pod_changes() -> Vec<Change> {
    vec![
        ("/containers", json!([])),
        ("/containers/0/name", json!("")),
        ("/containers/0/name", json!("Main")),
        ("/containers/0/name", json!("first")),
        ("/containers/0/image", json!("")),
        ("/containers/0/imagePullPolicy", json!("Sometimes")),
        ("/containers/0/terminationMessagePolicy", json!("Shout")),
        ("/containers/0/ports/0/containerPort", json!(0)),
        ("/containers/0/ports/0/containerPort", json!(70000)),
        ("/containers/0/ports/0/hostPort", json!(-1)),
        ("/containers/0/ports/0/protocol", json!("ICMP")),
        ("/containers/0/ports/0/name", json!("a-name-that-is-far-too-long")),
        ("/containers/0/ports/0/name", json!("80")),
        ("/containers/0/ports/0/name", json!("-a--b")),
        ("/containers/0/env/0/name", json!("")),
        ("/containers/0/env/0/name", json!("a=b")),
        ("/containers/0/env/0/valueFrom", json!({"secretKeyRef": {"name": "s", "key": "k"}})),
        ("/containers/0/env/1/valueFrom", json!({})),
        ("/containers/0/env/1/valueFrom/secretKeyRef/key", json!("")),
        ("/containers/0/env/1/valueFrom/configMapKeyRef", json!({"name": "c", "key": "k"})),
        ("/containers/0/resources/limits/cpu", json!("-1")),
        ("/containers/0/resources/requests/cpu", json!("2")),
        ("/containers/0/livenessProbe", json!({})),
        ("/containers/0/livenessProbe/httpGet/port", json!(0)),
        ("/containers/0/livenessProbe/httpGet/scheme", json!("FTP")),
        ("/containers/0/livenessProbe/successThreshold", json!(2)),
        ("/containers/0/livenessProbe/periodSeconds", json!(-5)),
        ("/containers/0/livenessProbe/tcpSocket", json!({"port": 1})),
        ("/containers/0/readinessProbe/exec/command", json!([])),
        ("/containers/0/readinessProbe/terminationGracePeriodSeconds", json!(3)),
        ("/containers/0/volumeMounts/0/name", json!("other")),
        ("/containers/0/volumeMounts/0/mountPath", json!("")),
        ("/initContainers/0/livenessProbe", json!({"tcpSocket": {"port": 1}})),
        ("/volumes/0/name", json!("")),
        ("/volumes/0/name", json!("A_B")),
        ("/dnsPolicy", json!("Guess")),
        ("/nodeSelector", json!({"a b": "c"})),
        ("/serviceAccountName", json!("A")),
        ("/hostname", json!("a.b")),
        ("/subdomain", json!("-")),
        ("/nodeName", json!("A")),
    ]
}

/// A kind, an object of it, where its pod is if it has one, and mistakes.
struct Manifest {
    kind: (&'static str, &'static str),
    object: Value,
    pod: Option<&'static str>,
    changes: Vec<Change>,
}

fn workload(kind: &'static str) -> Manifest {
    let labels = json!({"app": "web"});
    let object = json!({
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {
            "selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": pod()},
        },
    });
    let mut changes = vec![
        ("/metadata/name", json!("")),
        ("/metadata/name", json!("Web")),
        ("/metadata/name", json!("we.b")),
        ("/metadata/labels", json!({"a b": "c d"})),
        ("/metadata/annotations", json!({"a b": "c d"})),
        ("/spec/selector", json!(null)),
        ("/spec/selector", json!({})),
        ("/spec/selector/matchLabels/app", json!("db")),
        ("/spec/selector/matchLabels/app", json!("a b")),
        ("/spec/selector/matchExpressions", json!([{"key": "app", "operator": "Equals"}])),
        ("/spec/template/metadata/labels", json!({"x": "y"})),
        ("/spec/template/metadata/labels/x", json!("a b")),
        ("/spec/template/metadata/annotations", json!({"a b": ""})),
        ("/spec/template/spec/restartPolicy", json!("Never")),
        ("/spec/template/spec/restartPolicy", json!("Maybe")),
        ("/spec/template/spec/activeDeadlineSeconds", json!(5)),
        ("/spec/minReadySeconds", json!(-1)),
    ];
    if kind != "DaemonSet" {
        changes.push(("/spec/replicas", json!(-1)));
    }
    match kind {
        "Deployment" => changes.extend([
            ("/spec/strategy", json!({"type": "Sideways"})),
            ("/spec/strategy", json!({"type": "Recreate", "rollingUpdate": {"maxSurge": 1}})),
            ("/spec/strategy", json!({"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 0}})),
            ("/spec/strategy", json!({"rollingUpdate": {"maxUnavailable": "120%"}})),
            ("/spec/strategy", json!({"rollingUpdate": {"maxSurge": "many"}})),
            ("/spec/strategy", json!({"rollingUpdate": {"maxSurge": -1}})),
            ("/spec/progressDeadlineSeconds", json!(0)),
            ("/spec/revisionHistoryLimit", json!(-1)),
        ]),
        "StatefulSet" => changes.extend([
            ("/spec/serviceName", json!("A")),
            ("/spec/podManagementPolicy", json!("Chaos")),
            ("/spec/updateStrategy", json!({"type": "Sideways"})),
        ]),
        "DaemonSet" => changes.push(("/spec/updateStrategy", json!({"type": "Sideways"}))),
        _ => {}
    }
    Manifest { kind: ("apps", kind), object, pod: Some("/spec/template/spec"), changes }
}

fn batch() -> Vec<Manifest> {
    let mut spec = pod();
    spec["restartPolicy"] = json!("OnFailure");
    let job = json!({"template": {"spec": spec}});
    vec![
        Manifest {
            kind: ("batch", "Job"),
            object: json!({"metadata": {"name": "once", "namespace": "default"}, "spec": job}),
            pod: Some("/spec/template/spec"),
            changes: vec![
                ("/spec/parallelism", json!(-1)),
                ("/spec/completions", json!(-1)),
                ("/spec/backoffLimit", json!(-1)),
                ("/spec/ttlSecondsAfterFinished", json!(-1)),
                ("/spec/template/spec/restartPolicy", json!("Always")),
                ("/spec/template/spec/restartPolicy", json!("Perhaps")),
            ],
        },
        Manifest {
            kind: ("batch", "CronJob"),
            object: json!({
                "metadata": {"name": "often", "namespace": "default"},
                "spec": {"schedule": "* * * * *", "jobTemplate": {"spec": job}},
            }),
            pod: Some("/spec/jobTemplate/spec/template/spec"),
            changes: vec![
                ("/spec/schedule", json!("")),
                ("/spec/concurrencyPolicy", json!("Perhaps")),
                ("/spec/startingDeadlineSeconds", json!(-1)),
                ("/spec/failedJobsHistoryLimit", json!(-1)),
            ],
        },
    ]
}

fn core() -> Vec<Manifest> {
    let named = |more: Value| {
        let mut object = json!({"metadata": {"name": "a", "namespace": "default"}});
        object.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        object
    };
    let plain = |kind, object, changes| Manifest { kind: ("", kind), object, pod: None, changes };
    vec![
        Manifest {
            pod: Some("/spec"),
            ..plain(
                "Pod",
                named(json!({"spec": pod()})),
                vec![("/spec/restartPolicy", json!("Maybe")), ("/spec/activeDeadlineSeconds", json!(0))],
            )
        },
        plain(
            "ConfigMap",
            named(json!({"data": {"a": "b"}, "binaryData": {"b": "AA=="}})),
            vec![
                ("/metadata/name", json!("A")),
                ("/metadata/namespace", json!("A")),
                ("/data/a b", json!("")),
                ("/data/b", json!("twice")),
                ("/data/..", json!("")),
                ("/data/..x", json!("")),
                ("/binaryData/x y", json!("")),
                ("/data/a", json!("x".repeat(1_100_000))),
            ],
        ),
        plain(
            "Secret",
            named(json!({"data": {"a": "AA=="}})),
            vec![
                ("/data/a b", json!("AA==")),
                ("/type", json!("kubernetes.io/tls")),
                ("/type", json!("kubernetes.io/ssh-auth")),
                ("/type", json!("kubernetes.io/basic-auth")),
                ("/type", json!("kubernetes.io/dockercfg")),
                ("/type", json!("kubernetes.io/dockerconfigjson")),
                ("/type", json!("kubernetes.io/service-account-token")),
            ],
        ),
        plain("ServiceAccount", named(json!({})), vec![("/metadata/name", json!("A"))]),
        plain("Namespace", json!({"metadata": {"name": "a"}}), vec![("/metadata/name", json!("a.b"))]),
        plain(
            "Service",
            named(
                json!({"spec": {"ports": [{"port": 80}], "selector": {"app": "web"}, "clusterIPs": ["10.0.0.1"], "clusterIP": "10.0.0.1"}}),
            ),
            vec![
                ("/metadata/name", json!("A")),
                ("/metadata/name", json!("1a")),
                ("/spec/ports", json!([])),
                ("/spec/ports", json!([{"port": 1}, {"port": 2}])),
                ("/spec/ports", json!([{"port": 1, "name": "a"}, {"port": 1, "name": "a"}])),
                ("/spec/ports/0/port", json!(0)),
                ("/spec/ports/0/port", json!(99999)),
                ("/spec/ports/0/targetPort", json!("No")),
                ("/spec/ports/0/protocol", json!("ICMP")),
                ("/spec/ports/0/name", json!("A_B")),
                ("/spec/selector/a b", json!("c")),
                ("/spec/sessionAffinity", json!("Forever")),
                ("/spec/type", json!("Teapot")),
            ],
        ),
    ]
}

fn access() -> Vec<Manifest> {
    let group = "rbac.authorization.k8s.io";
    let permission = json!({"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]});
    let role = json!({"metadata": {"name": "r", "namespace": "default"}, "rules": [permission]});
    let subjects = json!([{"kind": "User", "name": "u"}, {"kind": "ServiceAccount", "name": "s", "namespace": "default"}]);
    let binding = |kind: &str, namespace: Value| {
        json!({
            "metadata": {"name": "b", "namespace": namespace}, "roleRef": {"kind": kind, "name": "r"}, "subjects": subjects,
        })
    };
    let rules = vec![
        ("/metadata/name", json!("a/b")),
        ("/metadata/name", json!("..")),
        ("/rules/0/verbs", json!([])),
        ("/rules/0/apiGroups", json!([])),
        ("/rules/0/resources", json!([])),
        ("/rules/0/nonResourceURLs", json!(["/x"])),
    ];
    let bindings = vec![
        ("/metadata/name", json!("a%b")),
        ("/roleRef/kind", json!("Duty")),
        ("/roleRef/name", json!("")),
        ("/roleRef/apiGroup", json!("x")),
        ("/subjects/0/name", json!("")),
        ("/subjects/0/kind", json!("Robot")),
        ("/subjects/0/apiGroup", json!("x")),
        ("/subjects/1/name", json!("S")),
        ("/subjects/1/namespace", json!("")),
        ("/subjects/1/apiGroup", json!("x")),
    ];
    let mut cluster_role = role.clone();
    cluster_role["metadata"] = json!({"name": "system:r"});
    let mut cluster_rules = rules.clone();
    cluster_rules.push(("/aggregationRule", json!({})));
    vec![
        Manifest { kind: (group, "Role"), object: role, pod: None, changes: rules },
        Manifest { kind: (group, "ClusterRole"), object: cluster_role, pod: None, changes: cluster_rules },
        Manifest {
            kind: (group, "RoleBinding"),
            object: binding("Role", json!("default")),
            pod: None,
            changes: bindings.clone(),
        },
        Manifest {
            kind: (group, "ClusterRoleBinding"),
            object: binding("ClusterRole", json!(null)),
            pod: None,
            changes: bindings,
        },
        Manifest {
            kind: ("coordination.k8s.io", "Lease"),
            object: json!({"metadata": {"name": "l", "namespace": "default"}, "spec": {"leaseDurationSeconds": 5}}),
            pod: None,
            changes: vec![("/spec/leaseDurationSeconds", json!(0)), ("/spec/leaseTransitions", json!(-1))],
        },
    ]
}

/// Questions about all of them: as they are, with every mistake, and with changes of what may not change.
pub(crate) fn questions() -> Vec<Value> {
    let mut manifests: Vec<_> = ["Deployment", "ReplicaSet", "StatefulSet", "DaemonSet"].map(workload).into();
    manifests.extend(batch().into_iter().chain(core()).chain(access()));
    let mut questions = Vec::new();
    for Manifest { kind: (group, kind), object, pod, changes } in manifests {
        let ask = |object: &Value| json!({"op": "validate", "group": group, "version": "v1", "kind": kind, "text": object.to_string()});
        questions.push(ask(&object));
        questions.extend(updates(kind, &object, ask));
        let below = pod.into_iter().flat_map(|pod| {
            pod_changes().into_iter().map(move |(place, value)| (format!("{pod}{place}"), value))
        });
        let own = changes.into_iter().map(|(place, value)| (place.to_owned(), value));
        for (place, value) in own.chain(below) {
            let mut changed = object.clone();
            put(&mut changed, &place, value);
            questions.push(ask(&changed));
        }
    }
    questions
}

/// What may not change, changed.
fn updates(kind: &str, object: &Value, ask: impl Fn(&Value) -> Value) -> Vec<Value> {
    let change = |old: Change, place: &str, value: Value| {
        let mut before = object.clone();
        put(&mut before, "/metadata/resourceVersion", json!("1"));
        put(&mut before, "/metadata/uid", json!("u"));
        put(&mut before, old.0, old.1);
        let mut after = before.clone();
        put(&mut after, place, value);
        let mut question = ask(&after);
        question["old"] = json!(before.to_string());
        question
    };
    let nothing = || ("/metadata/labels", json!({}));
    match kind {
        "ConfigMap" => vec![
            change(("/immutable", json!(true)), "/data", json!({"a": "c"})),
            change(("/immutable", json!(true)), "/immutable", json!(false)),
            change(("/immutable", json!(true)), "/binaryData", json!({})),
            change(nothing(), "/metadata/name", json!("b")),
            change(nothing(), "/metadata/uid", json!("v")),
            change(nothing(), "/data/x y", json!("")),
        ],
        "Secret" => vec![
            change(("/immutable", json!(true)), "/data", json!({"a": "AAA="})),
            change(nothing(), "/type", json!("example.org/other")),
        ],
        "RoleBinding" | "ClusterRoleBinding" => vec![change(nothing(), "/roleRef/name", json!("other"))],
        "Deployment" | "ReplicaSet" | "DaemonSet" => vec![
            change(
                nothing(),
                "/spec/selector",
                json!({"matchExpressions": [{"key": "app", "operator": "Exists"}]}),
            ),
            change(nothing(), "/spec/template/spec/containers/0/image", json!("")),
        ],
        // A server gives jobs their selectors.
        "Job" => Vec::new(),
        _ => vec![change(nothing(), "/metadata/labels", json!({"a b": ""}))],
    }
}

fn put(object: &mut Value, place: &str, value: Value) {
    let (outer, name) = place.rsplit_once('/').unwrap();
    let mut here = object;
    for step in outer.split('/').skip(1) {
        here = match step.parse::<usize>() {
            Ok(index) => &mut here[index],
            Err(_) => &mut here[step],
        };
    }
    here[name] = value;
}
