//! What the chart renders.

use std::fs;
use std::process::Command;

use serde_json::{Value, json};

use super::{OPEN, chart, find, objects, path, template, template_with};
use crate::peers::{heavy_peer, peer};
use crate::plane::Plane;
use crate::sandbox::Ran;

/// Values that turn on everything that Kubernetes itself knows.
const EVERYTHING: &[&str] = &[
    "--set=replicas=3,metrics.enabled=true,operations.enabled=true,functionCache.enabled=true,packages.enabled=true,debug=true,hostNetwork=true",
    "--set=rbac.separateComposer=true,rbac.crossplaneDefaults=true,rbac.aggregateToKubernetesRoles=true,image.tag=v9,priorityClassName=high",
    "--set=customLabels.team=platform,customAnnotations.note=hi,podAnnotations.pod=yes,extraEnvVars.RUST_LOG=warn",
    "--set=args={--lease-duration=30s},imagePullSecrets={mine},serviceAccount.customAnnotations.role=x",
    r#"--set-json=config={"leaseDuration":"20s"}"#,
    r#"--set-json=rbac.composedResources=[{"apiGroups":["apps"],"resources":["deployments"],"verbs":["get"]}]"#,
    r#"--set-json=networkPolicy.metricsFrom=[{"namespaceSelector":{"matchLabels":{"name":"monitoring"}}}]"#,
    r#"--set-json=networkPolicy.extraEgress=[{"ports":[{"port":4317}]}]"#,
    r#"--set-json=extraObjects=["{apiVersion: v1, kind: ConfigMap, metadata: {name: {{ .Release.Name }}-more}}"]"#,
    r#"--set-json=extraVolumes=[{"name":"v","emptyDir":{}}]"#,
    r#"--set-json=extraVolumeMounts=[{"name":"v","mountPath":"/v"}]"#,
];

fn rendered(flags: &[&str]) -> Option<Vec<Value>> {
    Some(objects(&template(flags)?.ok()))
}

#[test]
fn helm_has_nothing_to_say_against_the_chart() {
    let Some(helm) = heavy_peer("helm") else { return };
    Ran::from(Command::new(helm).args(["lint", "--strict", OPEN, &chart()]).output().unwrap()).ok();
}

#[test]
fn operations_are_off_and_bring_their_rights_when_they_are_on() {
    let role = |object: &Value| object["metadata"]["name"] == "ferroplane:operations";
    let Some(off) = rendered(&[]) else { return };
    assert!(!off.iter().any(role));
    assert!(!find(&off, "Deployment", "ferroplane").to_string().contains("--enable-operations"));
    let Some(on) = rendered(&["--set=operations.enabled=true"]) else { return };
    assert_eq!(on.iter().filter(|object| role(object)).count(), 2);
    assert!(find(&on, "Deployment", "ferroplane").to_string().contains("--enable-operations"));
}

/// The user that writes composed resources applies them: the control plane itself, or a composer.
#[test]
fn operations_may_apply_action_sets_where_both_are_on() {
    let name = "ferroplane:operation-action-sets";
    let both = "--set=operations.enabled=true,blueprints.enabled=true";
    for one in ["--set=operations.enabled=true", "--set=blueprints.enabled=true"] {
        let Some(objects) = rendered(&[one]) else { return };
        assert!(!objects.iter().any(|object| object["metadata"]["name"] == name), "{one}");
    }
    for (flags, subjects) in [
        (&[both][..], &["ferroplane"][..]),
        (&[both, "--set=rbac.separateComposer=true"], &["ferroplane", "ferroplane-composer"]),
    ] {
        let Some(objects) = rendered(flags) else { return };
        let role = find(&objects, "ClusterRole", name);
        assert_eq!(role["metadata"]["labels"]["rbac.crossplane.io/aggregate-to-crossplane"], "true");
        let rules = json!([
            {"apiGroups": ["cr.kanister.io"], "resources": ["actionsets"], "verbs": ["get", "create", "patch"]},
            {"apiGroups": ["ops.crossplane.io"], "resources": ["operations/finalizers"], "verbs": ["update"]},
        ]);
        assert_eq!(role["rules"], rules);
        let all = find(&objects, "ClusterRoleBinding", "ferroplane")["subjects"].as_array().unwrap();
        let all: Vec<_> = all.iter().map(|it| it["name"].as_str().unwrap()).collect();
        assert_eq!(all, subjects);
        // The control plane waits for them, and cancels them at the deadline of their operation.
        let waits = find(&objects, "ClusterRole", "ferroplane:blueprints")["rules"][0]["verbs"].to_string();
        assert!(["get", "list", "watch", "patch"].iter().all(|verb| waits.contains(verb)), "{waits}");
    }
}

/// On the API server of `up`, which aggregates roles and decides by them as any other does.
#[test]
fn users_of_the_chart_have_the_rights_that_operations_with_action_sets_take() {
    let flags = "--set=operations.enabled=true,blueprints.enabled=true,rbac.separateComposer=true";
    let (Some(_), Some(rendered)) = (peer("kubectl"), rendered(&[flags])) else { return };
    let is_right =
        |object: &Value| ["ClusterRole", "ClusterRoleBinding"].iter().any(|kind| object["kind"] == *kind);
    let rights: Vec<_> = rendered.into_iter().filter(is_right).collect();
    let plane = Plane::new();
    // Roles with this label are aggregated into that of the chart, too.
    plane.says("kubectl delete clusterrole system:ferroplane:composed-resources");
    plane.told(
        "kubectl apply -f -",
        &json!({"apiVersion": "v1", "kind": "List", "items": rights}).to_string(),
    );
    let account = "--as=system:serviceaccount:ferroplane-system:ferroplane";
    let may = |user: &str, what: &str| format!("kubectl auth can-i {what} {account}{user} || true");
    let [action_sets, finalizers] =
        ["actionsets.cr.kanister.io", "operations.ops.crossplane.io --subresource=finalizers"];
    // Roles are aggregated a moment later.
    plane.until_said(&may("-composer", &format!("create {action_sets}")), |said| said.trim() == "yes");
    for (user, verbs, object) in [
        ("-composer", &["get", "patch"][..], action_sets),
        ("-composer", &["update"], finalizers),
        ("", &["get", "list", "watch", "patch"], action_sets),
    ] {
        for verb in verbs {
            // kubectl warns that an object is in no namespace.
            let said = plane.says(&may(user, &format!("{verb} {object}")));
            assert!(said.trim().ends_with("yes"), "{user} {verb} {object}: {said}");
        }
    }
    assert_eq!(plane.says(&may("-composer", &format!("delete {action_sets}"))).trim(), "no");
}

#[test]
fn webhooks_are_the_only_open_port_and_open_to_those_who_are_named() {
    let metrics = "--set=metrics.enabled=true";
    let prometheus = r#"--set-json=networkPolicy.metricsFrom=[{"podSelector":{}}]"#;
    for (flags, ports) in [
        (&[][..], json!([9443])),
        (&[metrics], json!([9443])),
        (&[metrics, prometheus], json!([9443, 8080])),
        (&["--set=webhooks.enabled=false"], json!([])),
    ] {
        let Some(objects) = rendered(flags) else { return };
        let policy = find(&objects, "NetworkPolicy", "ferroplane");
        let ingress = policy["spec"]["ingress"].as_array().unwrap();
        let open: Vec<_> = ingress.iter().map(|rule| rule["ports"][0]["port"].clone()).collect();
        assert_eq!(Value::Array(open), ports, "{flags:?}");
        assert!(policy["spec"]["policyTypes"].to_string().contains("Ingress"));
    }
    let callers = |flags: &[&str]| -> Option<Value> {
        let objects = rendered(flags)?;
        Some(find(&objects, "NetworkPolicy", "ferroplane")["spec"]["ingress"][0]["from"].clone())
    };
    let Some(anybody) = callers(&[]) else { return };
    assert_eq!(anybody, Value::Null);
    let pods = r#"--set-json=networkPolicy.podCIDRs=["10.244.0.0/16","fd00::/48"]"#;
    let others = json!([
        {"ipBlock": {"cidr": "0.0.0.0/0", "except": ["10.244.0.0/16"]}},
        {"ipBlock": {"cidr": "::/0", "except": ["fd00::/48"]}},
    ]);
    assert_eq!(callers(&[pods]), Some(others));
    let server = r#"--set-json=networkPolicy.webhooksFrom=[{"ipBlock":{"cidr":"192.0.2.7/32"}}]"#;
    assert_eq!(callers(&[server, pods]), Some(json!([{"ipBlock": {"cidr": "192.0.2.7/32"}}])));
}

/// The chart knows neither which addresses pods have, nor API servers.
#[test]
fn who_may_call_webhooks_has_to_be_said() {
    let Some(ran) = template_with(&[]) else { return };
    let said = ran.fails_with(1);
    for value in ["networkPolicy.webhooksFrom", "networkPolicy.webhooksFromAnywhere=true", "docs/install.md"]
    {
        assert!(said.contains(value), "{said}");
    }
    let server = r#"--set-json=networkPolicy.webhooksFrom=[{"ipBlock":{"cidr":"192.0.2.7/32"}}]"#;
    let pods = r#"--set-json=networkPolicy.podCIDRs=["10.244.0.0/16"]"#;
    let (no_policy, no_webhooks) = ("--set=networkPolicy.enabled=false", "--set=webhooks.enabled=false");
    for flag in [server, pods, OPEN, no_policy, no_webhooks] {
        template_with(&[flag]).unwrap().ok();
    }
}

#[test]
fn composer_has_what_is_gathered_and_none_of_the_rights_of_the_control_plane() {
    let Some(objects) = rendered(&["--set=rbac.separateComposer=true"]) else { return };
    let subjects = |name: &str| find(&objects, "ClusterRoleBinding", name)["subjects"].to_string();
    assert!(subjects("ferroplane").contains("ferroplane-composer"));
    assert!(!subjects("ferroplane:system").contains("ferroplane-composer"));
    assert!(
        !find(&objects, "RoleBinding", "ferroplane")["subjects"].to_string().contains("ferroplane-composer")
    );
    let deployment = find(&objects, "Deployment", "ferroplane")["spec"].to_string();
    assert!(deployment.contains("--compose-as=system:serviceaccount:ferroplane-system:ferroplane-composer"));
    let Some(objects) = rendered(&[]) else { return };
    assert!(!objects.iter().any(|object| object.to_string().contains("composer")));
}

#[test]
fn pods_may_do_nothing_that_they_need_not() {
    for flags in [&[][..], EVERYTHING] {
        let Some(objects) = rendered(flags) else { return };
        for pod in [
            &find(&objects, "Deployment", "ferroplane")["spec"]["template"]["spec"],
            &find(&objects, "Pod", "ferroplane-test")["spec"],
        ] {
            assert_eq!(pod["securityContext"]["runAsNonRoot"], true);
            assert_eq!(pod["securityContext"]["seccompProfile"]["type"], "RuntimeDefault");
            for container in pod["containers"].as_array().unwrap() {
                let allowed = json!({
                    "allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true, "capabilities": {"drop": ["ALL"]},
                });
                assert_eq!(container["securityContext"], allowed);
            }
        }
    }
}

#[test]
fn one_replica_can_be_drained_and_two_not_at_once() {
    let Some(one) = rendered(&[]) else { return };
    assert!(one.iter().all(|object| object["kind"] != "PodDisruptionBudget"));
    let two = rendered(&["--set=replicas=2"]).unwrap();
    assert_eq!(find(&two, "PodDisruptionBudget", "ferroplane")["spec"]["maxUnavailable"], 1);
}

#[test]
fn rights_are_never_more_than_was_asked_for() {
    let Some(objects) = rendered(&[]) else { return };
    let roles =
        objects.iter().filter(|object| ["ClusterRole", "Role"].contains(&object["kind"].as_str().unwrap()));
    let given: Vec<_> = roles.flat_map(|role| role["rules"].as_array().into_iter().flatten()).collect();
    assert!(given.len() > 10);
    assert!(!json!(given).to_string().contains('*'), "{given:#?}");
    // What others gather must not come with what only this service account should have.
    let label = "rbac.crossplane.io/aggregate-to-crossplane";
    let gathered = |objects: &[Value]| {
        let labelled = objects.iter().filter(|object| object["metadata"]["labels"][label] == "true");
        labelled.map(|role| role["metadata"]["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(gathered(&objects), Vec::<String>::new());
    let everything = rendered(EVERYTHING).unwrap();
    assert_eq!(gathered(&everything), ["ferroplane:composed-resources", "ferroplane:crossplane-defaults"]);

    let admin = rendered(&["--set=rbac.clusterAdmin=true"]).unwrap();
    let bound: Vec<_> = admin.iter().filter_map(|object| object["roleRef"]["name"].as_str()).collect();
    assert_eq!(bound, ["cluster-admin"]);
    let none = rendered(&["--set=rbac.create=false"]).unwrap();
    assert!(none.iter().all(|object| object["roleRef"].is_null()));
    let own = rendered(&["--set=rbac.clusterWideSecrets=false"]).unwrap();
    assert!(!find(&own, "ClusterRole", "ferroplane:system").to_string().contains("secrets"));
}

#[test]
fn rights_egress_and_volume_for_packages_come_with_their_switch() {
    let marks = [
        "--enable-packages",
        "ferroplane:packages",
        "package-cache",
        "clusterrolebindings",
        "deploymentruntime",
    ];
    let Some(off) = rendered(&[]) else { return };
    let text = json!(off).to_string();
    assert!(marks[..4].iter().all(|mark| !text.contains(mark)), "{text}");
    let on = rendered(&["--set=packages.enabled=true"]).unwrap();
    let text = json!(on).to_string();
    assert!(marks.iter().all(|mark| text.contains(mark)), "{text}");
    let egress = |objects: &[Value]| {
        find(objects, "NetworkPolicy", "ferroplane")["spec"]["egress"].as_array().unwrap().len()
    };
    assert_eq!(egress(&on), egress(&off) + 1);
    let protecting = rendered(&["--set=packages.enabled=true,packages.protectProviders=true"]).unwrap();
    for mark in ["--enable-provider-deletion-protection", "protection.crossplane.io"] {
        let count = |objects: &[Value]| json!(objects).to_string().matches(mark).count();
        assert_eq!(count(&protecting), count(&on) + 1, "{mark}");
    }
    let without_roles = rendered(&["--set=packages.enabled=true,rbac.manageRoles=false"]).unwrap();
    assert!(!text.contains("--function-adapter-image"), "{text}");
    assert!(!json!(without_roles).to_string().contains("bind\""), "who writes no roles binds none");
}

#[test]
fn pods_of_programs_that_are_not_servers_get_the_adapter_from_the_image_of_the_plane() {
    let digest = format!("sha256:{}", "a".repeat(64));
    let image = format!("--set=image.repository=registry.example.org/own,image.digest={digest}");
    let flags = [image.as_str(), "--set=packages.enabled=true,packages.functionAdapter=true"];
    let Some(objects) = rendered(&flags) else { return };
    let container = &find(&objects, "Deployment", "ferroplane")["spec"]["template"]["spec"]["containers"][0];
    let wanted = format!("--function-adapter-image={}", container["image"].as_str().unwrap());
    assert!(wanted.ends_with(&digest) && container["args"].as_array().unwrap().contains(&json!(wanted)));
    // Without packages there is nothing to adapt.
    let off = rendered(&["--set=packages.functionAdapter=true"]).unwrap();
    assert!(!json!(off).to_string().contains("--function-adapter-image"));
}

#[test]
fn nothing_of_the_release_is_what_must_stay() {
    let Some(objects) = rendered(EVERYTHING) else { return };
    for object in objects {
        let kind = object["kind"].as_str().unwrap();
        assert!(!["CustomResourceDefinition", "Secret", "Namespace", "Lease"].contains(&kind), "{object:#}");
    }
}

#[test]
fn labels_and_annotations_that_are_given_more_than_once_appear_once() {
    let flags = [
        "--skip-tests",
        "--set=metrics.enabled=true,metrics.serviceMonitor.enabled=true,rbac.aggregateToKubernetesRoles=true",
        r#"--set-json=customLabels={"team":"all","ferroplane.io/serves":"x","app.kubernetes.io/part-of":"platform","app.kubernetes.io/name":"ferroplane"}"#,
        r#"--set-json=customAnnotations={"note":"all","prometheus.io/scrape":"false"}"#,
        r#"--set-json=podAnnotations={"note":"pods"}"#,
        r#"--set-json=service.customAnnotations={"note":"services"}"#,
        r#"--set-json=serviceAccount.customAnnotations={"note":"account"}"#,
        r#"--set-json=metrics.serviceMonitor.labels={"team":"metrics"}"#,
    ];
    let Some(ran) = template(&flags) else { return };
    // Helm itself takes the last of several without a word. This reader refuses them.
    let objects = objects(&ran.ok());
    let deployment = find(&objects, "Deployment", "ferroplane");
    let pods = &deployment["spec"]["template"]["metadata"];
    for labels in [&deployment["metadata"]["labels"], &pods["labels"]] {
        assert_eq!(labels["app.kubernetes.io/part-of"], "platform");
        assert_eq!(
            (&labels["app.kubernetes.io/name"], &labels["team"]),
            (&json!("ferroplane"), &json!("all"))
        );
    }
    assert_eq!(pods["annotations"]["note"], "pods");
    assert_eq!(pods["annotations"]["prometheus.io/scrape"], "false");
    let metadata = |kind: &str, name: &str| find(&objects, kind, name)["metadata"].clone();
    let service = metadata("Service", "ferroplane-metrics");
    assert_eq!(service["labels"]["ferroplane.io/serves"], "metrics", "a monitor relies on it");
    assert_eq!(service["annotations"]["note"], "services");
    assert_eq!(metadata("ServiceAccount", "ferroplane")["annotations"]["note"], "account");
    assert_eq!(metadata("ServiceMonitor", "ferroplane")["labels"]["team"], "metrics");
}

#[test]
fn values_that_mean_nothing_are_refused() {
    for (flag, complaint) in [
        ("--set=replica=2", "additional properties 'replica' not allowed"),
        ("--set=replicas=two", "at '/replicas': got string, want integer"),
        ("--set=replicas=-1", "at '/replicas'"),
        ("--set=leaderElection=false", "value must be 'Recreate'"),
        ("--set=leaderElection=false,deploymentStrategy=Recreate,replicas=2", "at '/replicas'"),
        ("--set=resources.limits.memory=lots", "'lots' does not match pattern"),
        ("--set=image.digest=latest", "at '/image/digest'"),
        ("--set=webhooks.port=99999", "at '/webhooks/port'"),
        ("--set=rbac.composedResources[0].resources={pods}", "missing property 'verbs'"),
        ("--set=metrics.podMonitor.enabled=true", "a PodMonitor needs metrics.enabled"),
        (
            r#"--set-json=customLabels={"app.kubernetes.io/name":"mine"}"#,
            "the label app.kubernetes.io/name cannot be set",
        ),
        (
            "--set=serviceAccount.create=false",
            "serviceAccount.name is needed if serviceAccount.create is false",
        ),
    ] {
        let Some(ran) = template(&[flag]) else { return };
        let said = ran.fails_with(1);
        assert!(said.contains(complaint), "{flag}: {said}");
    }
}

#[test]
fn every_value_is_explained() {
    let values = fs::read_to_string(path("deploy/chart/ferroplane/values.yaml")).unwrap();
    let schema = fs::read_to_string(path("deploy/chart/ferroplane/values.schema.json")).unwrap();
    let schema: Value = serde_json::from_str(&schema).unwrap();
    let present: Value = serde_saphyr::from_str(&values).unwrap();
    compare("", &present, &schema);
}

/// The schema knows each value, and there is a value, so that there is a comment, for all that the schema knows.
fn compare(place: &str, values: &Value, schema: &Value) {
    let (Some(values), Some(known)) = (values.as_object(), schema["properties"].as_object()) else { return };
    for (name, value) in values {
        assert!(known.contains_key(name), "the schema does not know {place}{name}");
        compare(&format!("{place}{name}."), value, &known[name]);
    }
    for name in known.keys().filter(|name| !["global", "claims"].contains(&name.as_str())) {
        assert!(values.contains_key(name), "{place}{name} is not explained");
    }
}

#[test]
fn manifests_are_what_the_chart_renders() {
    let Some(rendered) = rendered(&["--skip-tests"]) else { return };
    let manifests = fs::read_to_string(path("deploy/manifests/ferroplane.yaml")).unwrap();
    assert!(!manifests.contains("helm"), "nothing says that Helm looks after it");
    let mut manifests = objects(&manifests);
    assert_eq!(manifests.remove(0)["kind"], "Namespace");
    let without_marks = |mut object: Value| {
        for pointer in ["/metadata/labels", "/spec/template/metadata/labels"] {
            if let Some(labels) = object.pointer_mut(pointer).and_then(Value::as_object_mut) {
                labels.retain(|name, _| name != "helm.sh/chart" && name != "app.kubernetes.io/managed-by");
            }
        }
        object
    };
    let rendered: Vec<_> = rendered.into_iter().map(without_marks).collect();
    assert_eq!(manifests, rendered, "run `cargo xtask codegen`");
}

/// The root file system is read-only.
#[test]
fn compiled_code_is_kept_on_a_volume() {
    let manifests = fs::read_to_string(path("deploy/manifests/ferroplane.yaml")).unwrap();
    let mut deployments = vec![find(&objects(&manifests), "Deployment", "ferroplane").clone()];
    let everything = rendered(EVERYTHING);
    deployments.extend(everything.map(|objects| find(&objects, "Deployment", "ferroplane").clone()));
    for deployment in deployments {
        let pod = &deployment["spec"]["template"]["spec"];
        let container = &pod["containers"][0];
        let one = |list: &Value, key: &str, value: &Value| {
            list.as_array().unwrap().iter().find(|it| it[key] == *value).unwrap().clone()
        };
        let cache = one(&container["env"], "name", &json!("FERROPLANE_CODE_CACHE"));
        // The volume itself belongs to root, and the directory of code has to be ours.
        let (volume, _) = cache["value"].as_str().unwrap().rsplit_once('/').unwrap();
        let mount = one(&container["volumeMounts"], "mountPath", &json!(volume));
        // It would bring images of steps to this volume, which may take up more than its limit.
        let variables = container["env"].as_array().unwrap();
        assert!(variables.iter().all(|variable| variable["name"] != "XDG_CACHE_HOME"));
        assert!(one(&pod["volumes"], "name", &mount["name"])["emptyDir"].is_object());
    }
}

#[test]
fn api_server_takes_everything_that_is_rendered() {
    let (Some(_), Some(plain), Some(full)) = (peer("kubectl"), template(&[]), template(EVERYTHING)) else {
        return;
    };
    let plane = Plane::new();
    plane.says("kubectl create namespace ferroplane-system");
    for rendered in [plain.ok(), full.ok()] {
        plane.told("kubectl apply --dry-run=server --validate=strict -f -", &rendered);
    }
    let manifests = path("deploy/manifests/ferroplane.yaml");
    plane.says(&format!("kubectl apply --server-side -f {manifests}"));
    let again = plane.says(&format!("kubectl diff -f {manifests}"));
    assert_eq!(again, "", "what is applied twice is the same");
}
