//! Each test says which statement of acceptance of Crossplane's runtime it is.

use std::collections::BTreeSet;

use ferroplane_api::{Object, PackageKind, meta};
use serde_json::{Value, json};

use super::*;

fn object(value: Value) -> Object {
    let Value::Object(object) = value else { unreachable!() };
    object
}

fn revision(kind: &str, spec: &Value) -> Object {
    object(json!({
        "apiVersion": "pkg.crossplane.io/v1", "kind": format!("{kind}Revision"),
        "metadata": {"name": "it-123456", "uid": "u1", "labels": {"pkg.crossplane.io/package": "it"}},
        "spec": spec,
    }))
}

fn function() -> Object {
    revision("Function", &json!({"tlsServerSecretName": "it-tls-server"}))
}

fn inputs<'a>(revision: &'a Object, config: Option<&'a Object>) -> RuntimeInputs<'a> {
    let kind = PackageKind::of_revision(meta::kind(revision)).unwrap();
    RuntimeInputs {
        kind,
        revision,
        namespace: "system",
        image: "registry.example.org/acme/it:v1",
        config,
        image_pull_secret: None,
        own_pull_secrets: &[],
        awaits_activation: false,
        adapted: None,
        names: RuntimeNames::Package,
    }
}

#[test]
fn service_is_called_as_its_revision_where_several_can_be_active() {
    let revision = function();
    let names = |names: RuntimeNames, config: Option<&Object>| {
        let inputs = RuntimeInputs { names, ..inputs(&revision, config) };
        let RuntimeObjects { service, deployment, service_account } = runtime_objects(&inputs);
        let account = service_account.unwrap();
        [service, deployment, account].map(|object| meta::name(&object).to_owned())
    };
    let template = |name: &str| json!({"metadata": {"name": name}});
    let long = "x".repeat(70);
    let config = configured(&json!({
        "serviceTemplate": template("front"), "deploymentTemplate": template(&long),
        "serviceAccountTemplate": template("account"),
    }));
    for (chosen, by_itself, configured) in [
        (RuntimeNames::Package, "it", "front"),
        (RuntimeNames::Revision, "it-123456", "front"),
        (RuntimeNames::EachRevision, "it-123456", "front-123456"),
    ] {
        assert_eq!(names(chosen, None), [by_itself, "it-123456", "it-123456"]);
        let [service, deployment, account] = names(chosen, Some(&config));
        assert_eq!((&*service, &*account), (configured, "account"));
        let is_own = chosen == RuntimeNames::EachRevision;
        let expected = if is_own { format!("{}-123456", "x".repeat(56)) } else { long.clone() };
        assert_eq!(deployment, expected);
    }
}

fn configured(spec: &Value) -> Object {
    object(json!({"kind": "DeploymentRuntimeConfig", "metadata": {"name": "default"}, "spec": spec}))
}

fn container(objects: &RuntimeObjects) -> &Value {
    &objects.deployment["spec"]["template"]["spec"]["containers"][0]
}

fn names(list: &Value) -> Vec<&str> {
    list.as_array().into_iter().flatten().filter_map(|item| item["name"].as_str()).collect()
}

#[test]
fn function_is_behind_a_headless_service_of_its_name() {
    let revision = function();
    let RuntimeObjects { service, .. } = runtime_objects(&inputs(&revision, None));
    assert_eq!(
        Value::Object(service.clone()),
        json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": {"name": "it", "namespace": "system", "ownerReferences": [{
                "apiVersion": "pkg.crossplane.io/v1", "kind": "FunctionRevision", "name": "it-123456", "uid": "u1",
                "controller": true, "blockOwnerDeletion": true,
            }]},
            "spec": {
                "clusterIP": "None",
                "ports": [{"name": "grpc", "protocol": "TCP", "port": 9443, "targetPort": "grpc", "appProtocol": "tls"}],
                "selector": {"pkg.crossplane.io/revision": "it-123456", "pkg.crossplane.io/function": "it"},
            },
        })
    );
    assert_eq!(function_endpoint(&service), "dns:///it.system:9443");
    assert_eq!(server_names(&service), ["it", "it.system", "it.system.svc"]);
}

#[test]
fn pods_of_a_function_are_those_of_crossplane() {
    let revision = function();
    let objects = runtime_objects(&inputs(&revision, None));
    let label = |key: &str| json!({"fieldRef": {"apiVersion": "v1", "fieldPath": format!("metadata.labels['pkg.crossplane.io/{key}']")}});
    let labels = json!({"pkg.crossplane.io/revision": "it-123456", "pkg.crossplane.io/function": "it"});
    assert_eq!(meta::name(&objects.deployment), "it-123456");
    assert_eq!(
        objects.deployment["spec"],
        json!({
            "replicas": 1, "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {
                "securityContext": {"runAsNonRoot": true, "runAsUser": 2000, "runAsGroup": 2000},
                "serviceAccountName": "it-123456",
                "containers": [{
                    "name": "package-runtime", "image": "registry.example.org/acme/it:v1",
                    "imagePullPolicy": "IfNotPresent",
                    "securityContext": {
                        "runAsUser": 2000, "runAsGroup": 2000, "allowPrivilegeEscalation": false,
                        "privileged": false, "runAsNonRoot": true,
                    },
                    "ports": [{"name": "metrics", "containerPort": 8080, "protocol": "TCP"}, {"name": "grpc", "containerPort": 9443, "protocol": "TCP"}],
                    "env": [
                        {"name": "TLS_SERVER_CERTS_DIR", "value": "/tls/server"},
                        {"name": "FUNCTION_NAME", "valueFrom": label("function")},
                        {"name": "REVISION_NAME", "valueFrom": label("revision")},
                        {"name": "REVISION_UID", "value": "u1"},
                    ],
                    "volumeMounts": [{"name": "tls-server-certs", "readOnly": true, "mountPath": "/tls/server"}],
                }],
                "volumes": [{"name": "tls-server-certs", "secret": {"secretName": "it-tls-server", "items": [
                    {"key": "tls.crt", "path": "tls.crt"}, {"key": "tls.key", "path": "tls.key"},
                    {"key": "ca.crt", "path": "ca.crt"},
                ]}}],
            }},
        })
    );
}

/// The pods of a function whose program is not a server.
fn adapted_pods(entrypoint: &[&str], cmd: &[&str], config: Option<&Object>) -> Value {
    let words = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>();
    let (revision, entrypoint, cmd) = (function(), words(entrypoint), words(cmd));
    let adapted = AdaptedProgram {
        image: "registry.example.org/ferroplane:v1",
        protocol: "KRM",
        entrypoint: &entrypoint,
        cmd: &cmd,
    };
    let own = ["own".to_owned()];
    let inputs =
        RuntimeInputs { adapted: Some(adapted), own_pull_secrets: &own, ..inputs(&revision, config) };
    runtime_objects(&inputs).deployment["spec"]["template"]["spec"].clone()
}

#[test]
fn program_that_is_not_a_server_is_served_by_our_binary_in_its_own_image() {
    let pods = adapted_pods(&["/bin/sh", "-c"], &["echo $(HOME)"], None);
    assert_eq!(
        pods["initContainers"],
        json!([{
            "name": "ferroplane-adapter", "image": "registry.example.org/ferroplane:v1",
            "imagePullPolicy": "IfNotPresent", "args": ["internal", "copy-to", "/ferroplane-adapter"],
            "securityContext": {
                "runAsUser": 2000, "runAsGroup": 2000, "runAsNonRoot": true, "privileged": false,
                "allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true, "capabilities": {"drop": ["ALL"]},
            },
            "volumeMounts": [{"name": "ferroplane-adapter", "mountPath": "/ferroplane-adapter"}],
        }])
    );
    let container = &pods["containers"][0];
    assert_eq!(container["image"], "registry.example.org/acme/it:v1");
    let adapter = ["/ferroplane-adapter/ferroplane", "internal", "adapter", "--protocol", "KRM", "--"];
    assert_eq!(container["command"], json!([&adapter[..], &["/bin/sh", "-c"]].concat()));
    assert_eq!(container["args"], json!(["echo $$(HOME)"]), "Kubernetes does not replace it");
    assert_eq!(
        container["volumeMounts"][1],
        json!({"name": "ferroplane-adapter", "mountPath": "/ferroplane-adapter", "readOnly": true})
    );
    assert_eq!(container["env"][0], json!({"name": "TLS_SERVER_CERTS_DIR", "value": "/tls/server"}));
    assert_eq!(pods["volumes"][1], json!({"name": "ferroplane-adapter", "emptyDir": {}}));
    assert_eq!(names(&pods["imagePullSecrets"]), ["own"], "the adapter comes from the registry of the plane");

    let template = json!({"spec": {
        "initContainers": [
            {"name": "first", "image": "alpine"},
            {"name": "ferroplane-adapter", "resources": {"limits": {"memory": "64Mi"}}, "args": ["forged"]},
        ],
        "containers": [{"name": "package-runtime", "command": ["/other"], "securityContext": {"runAsUser": 7, "privileged": true}}],
    }});
    let config = configured(&json!({"deploymentTemplate": {"spec": {"selector": {}, "template": template}}}));
    let pods = adapted_pods(&["/run"], &["--all"], Some(&config));
    assert_eq!(names(&pods["initContainers"]), ["ferroplane-adapter", "first"]);
    let init_container = &pods["initContainers"][0];
    assert_eq!(init_container["resources"]["limits"]["memory"], "64Mi");
    assert_eq!(init_container["args"][1], "copy-to");
    let context = &init_container["securityContext"];
    assert_eq!((&context["runAsUser"], &context["privileged"]), (&json!(7), &json!(false)));
    assert_eq!(pods["containers"][0]["command"], json!([&adapter[..], &["/other"]].concat()));
    assert_eq!(pods["containers"][0].get("args"), None, "as of any container with a command of its own");
}

#[test]
fn provider_has_two_certificates_a_port_for_webhooks_and_is_scraped() {
    let secrets = json!({"tlsServerSecretName": "it-tls-server", "tlsClientSecretName": "it-tls-client"});
    let revision = revision("Provider", &secrets);
    let objects = runtime_objects(&inputs(&revision, None));
    assert_eq!(objects.service["spec"].get("clusterIP"), None);
    assert_eq!(objects.service["spec"]["ports"][0]["targetPort"], "webhook");
    assert_eq!(
        names(&container(&objects)["env"]),
        [
            "TLS_CLIENT_CERTS_DIR",
            "TLS_SERVER_CERTS_DIR",
            "POD_NAMESPACE",
            "PROVIDER_NAME",
            "REVISION_NAME",
            "REVISION_UID",
            "WEBHOOK_TLS_CERT_DIR",
        ]
    );
    assert_eq!(names(&container(&objects)["ports"]), ["metrics", "webhook"]);
    let pods = &objects.deployment["spec"]["template"];
    assert_eq!(names(&pods["spec"]["volumes"]), ["tls-client-certs", "tls-server-certs"]);
    assert_eq!(
        pods["metadata"]["annotations"],
        json!({"prometheus.io/scrape": "true", "prometheus.io/port": "8080", "prometheus.io/path": "/metrics"})
    );
    let template = json!({"metadata": {"annotations": {"prometheus.io/scrape": "false"}}});
    let config = configured(&json!({"deploymentTemplate": {"spec": {"selector": {}, "template": template}}}));
    let objects = runtime_objects(&inputs(&revision, Some(&config)));
    let annotations = &objects.deployment["spec"]["template"]["metadata"]["annotations"];
    assert_eq!(*annotations, json!({"prometheus.io/scrape": "false"}));
}

#[test]
fn config_names_and_shapes_everything() {
    let config = configured(&json!({
        "serviceAccountTemplate": {"metadata": {"name": "ibelieveicanfly"}},
        "serviceTemplate": {"metadata": {"name": "letscomplicateitfurther", "labels": {"a": "b"}}},
        "deploymentTemplate": {
            "metadata": {"name": "iamfreetochoose", "annotations": {"c": "d"}},
            "spec": {"replicas": 2, "selector": {}, "strategy": Value::Null, "template": {
                "metadata": {"labels": {"some-pod-labels": "cool-label"}, "creationTimestamp": null},
                "spec": {
                    "imagePullSecrets": [{"name": "lost"}],
                    "containers": [
                        {"name": "sidecar", "image": "alpine"},
                        {"name": "package-runtime", "resources": {"limits": {"memory": "2Gi"}},
                            "env": [{"name": "OWN", "value": "1"}, {"name": "REVISION_UID", "value": "forged"}],
                            "ports": [{"name": "grpc", "containerPort": 7777}],
                            "volumeMounts": [{"name": "shared-volume", "mountPath": "/shared"}]},
                    ],
                    "volumes": [{"name": "shared-volume", "emptyDir": {}}],
                },
            }},
        },
    }));
    let revision = function();
    let objects = runtime_objects(&inputs(&revision, Some(&config)));
    assert_eq!(objects.service_account.as_ref().map(meta::name), Some("ibelieveicanfly"));
    assert_eq!(meta::name(&objects.service), "letscomplicateitfurther");
    assert_eq!(function_endpoint(&objects.service), "dns:///letscomplicateitfurther.system:9443");
    assert_eq!(meta::name(&objects.deployment), "iamfreetochoose");
    let spec = &objects.deployment["spec"];
    assert_eq!((&spec["replicas"], spec.get("strategy")), (&json!(2), None));
    let pods = &spec["template"]["spec"];
    assert_eq!(pods["serviceAccountName"], "ibelieveicanfly");
    assert_eq!(names(&pods["containers"]), ["package-runtime", "sidecar"], "the package is the first");
    assert_eq!(names(&pods["volumes"]), ["shared-volume", "tls-server-certs"]);
    assert_eq!(pods.get("imagePullSecrets"), None, "those of the template are replaced");
    let container = container(&objects);
    assert_eq!(
        container["ports"],
        json!([{"name": "grpc", "containerPort": 7777, "protocol": "TCP"}, {"name": "metrics", "containerPort": 8080, "protocol": "TCP"}])
    );
    assert_eq!(names(&container["env"])[0], "OWN", "those of the template come first");
    let forged = container["env"].as_array().unwrap().iter().filter(|it| it["name"] == "REVISION_UID");
    assert_eq!(forged.map(|it| &it["value"]).collect::<Vec<_>>(), ["u1"]);
    assert_eq!(spec["template"]["metadata"]["labels"]["some-pod-labels"], "cool-label");
    assert_eq!(spec["selector"]["matchLabels"]["pkg.crossplane.io/function"], "it");
}

#[test]
fn service_account_of_somebody_else_is_used_and_not_made() {
    let pods = json!({"spec": {"serviceAccountName": "external-sa", "containers": []}});
    let config = configured(&json!({"deploymentTemplate": {"spec": {"selector": {}, "template": pods}}}));
    let revision = function();
    let objects = runtime_objects(&inputs(&revision, Some(&config)));
    assert_eq!(objects.service_account, None);
    assert_eq!(objects.deployment["spec"]["template"]["spec"]["serviceAccountName"], "external-sa");
}

#[test]
fn pull_secrets_of_the_package_the_image_and_the_plane_are_used() {
    let revision = revision(
        "Function",
        &json!({"packagePullSecrets": [{"name": "a"}, {"name": "b"}], "packagePullPolicy": "Always"}),
    );
    let own = ["own".to_owned(), "a".to_owned()];
    let inputs =
        RuntimeInputs { image_pull_secret: Some("b"), own_pull_secrets: &own, ..inputs(&revision, None) };
    let objects = runtime_objects(&inputs);
    assert_eq!(names(&objects.deployment["spec"]["template"]["spec"]["imagePullSecrets"]), ["a", "b"]);
    assert_eq!(container(&objects)["imagePullPolicy"], "Always");
    let account = objects.service_account.unwrap();
    assert_eq!(names(&account["imagePullSecrets"]), ["a", "b", "own"]);
    let live = object(json!({"imagePullSecrets": [{"name": "given-by-the-cluster"}, {"name": "own"}]}));
    let kept = keep_pull_secrets(account, Some(&live));
    assert_eq!(names(&kept["imagePullSecrets"]), ["a", "b", "own", "given-by-the-cluster"]);
}

#[test]
fn provider_that_awaits_activation_has_no_pods_whatever_its_config_says() {
    let config =
        configured(&json!({"deploymentTemplate": {"spec": {"replicas": 3, "selector": {}, "template": {}}}}));
    let revision = revision("Provider", &json!({}));
    let awaiting = RuntimeInputs { awaits_activation: true, ..inputs(&revision, Some(&config)) };
    assert_eq!(runtime_objects(&awaiting).deployment["spec"]["replicas"], 0);
    assert_eq!(runtime_objects(&inputs(&revision, Some(&config))).deployment["spec"]["replicas"], 3);
}

#[test]
fn images_are_named_as_crossplane_names_them() {
    let revision = function();
    let digest = format!("sha256:{}", "a".repeat(64));
    for (image, name) in [
        ("docker.io/acme/it:v1".to_owned(), "index.docker.io/acme/it:v1".to_owned()),
        (
            format!("registry.example.org:5000/acme/it:v1@{digest}"),
            format!("registry.example.org:5000/acme/it@{digest}"),
        ),
    ] {
        let objects = runtime_objects(&RuntimeInputs { image: &image, ..inputs(&revision, None) });
        assert_eq!(container(&objects)["image"], name);
    }
}

#[test]
fn image_of_a_live_deployment_stays_a_tag_only_if_it_is_that_of_the_same_revision() {
    let (revision, by_tag) = (function(), "docker.io/acme/it:v1");
    let by_digest = format!("docker.io/acme/it@sha256:{}", "a".repeat(64));
    let made = |image: &str, config: Option<&Object>| {
        runtime_objects(&RuntimeInputs { image, ..inputs(&revision, config) }).deployment
    };
    let image = |live: Option<&Object>, config: Option<&Object>| {
        let kept = keep_tag(made(&by_digest, config), live, by_tag, &by_digest);
        kept["spec"]["template"]["spec"]["containers"][0]["image"].as_str().unwrap().to_owned()
    };
    let pinned = format!("index.{by_digest}");
    let of_crossplane = made(by_tag, None);
    assert_eq!(image(Some(&of_crossplane), None), "index.docker.io/acme/it:v1");
    assert_eq!(image(None, None), pinned, "a new Deployment");
    assert_eq!(image(Some(&made(&by_digest, None)), None), pinned, "one that runs the digest already");
    assert_eq!(image(Some(&made("docker.io/acme/it:v0", None)), None), pinned, "another tag");
    let mut of_another = of_crossplane.clone();
    of_another["metadata"]["ownerReferences"][0]["uid"] = json!("u0");
    assert_eq!(image(Some(&of_another), None), pinned, "another revision");
    let containers = json!([{"name": "package-runtime", "image": "mine:v1"}]);
    let spec = json!({"selector": {}, "template": {"spec": {"containers": containers}}});
    let config = configured(&json!({"deploymentTemplate": {"spec": spec}}));
    assert_eq!(image(Some(&of_crossplane), Some(&config)), "mine:v1", "the image of a configuration");
}

#[test]
fn deployment_is_healthy_once_it_is_available() {
    let with = |conditions: Value| object(json!({"status": {"conditions": conditions}}));
    let trouble = |conditions: Value| deployment_trouble(PackageKind::Function, &with(conditions));
    let message = |conditions: Value| trouble(conditions).unwrap().message;
    assert_eq!(
        message(json!([{"type": "Progressing", "status": "True"}])),
        "function package deployment has no condition of type \"Available\" yet"
    );
    assert_eq!(
        message(json!([{"type": "Available", "status": "False", "message": "it has no pods"}])),
        "function package deployment is unavailable with message: it has no pods"
    );
    assert_eq!(trouble(json!([{"type": "Available", "status": "True"}])), None);
    assert!(!is_available(&Object::new()));
}

#[test]
fn pods_that_are_not_available_by_the_deadline_of_their_deployment_are_a_failure() {
    let code = |available: &str, progressing: [&str; 2]| {
        let [status, reason] = progressing;
        let deployment = object(json!({"status": {"conditions": [
            {"type": "Available", "status": available},
            {"type": "Progressing", "status": status, "reason": reason},
        ]}}));
        deployment_trouble(PackageKind::Provider, &deployment).map(|condition| condition.code)
    };
    let late = ["False", "ProgressDeadlineExceeded"];
    assert_eq!(code("False", late).as_deref(), Some("PackageNotRun"));
    assert_eq!(code("False", ["True", "ReplicaSetUpdated"]).as_deref(), Some(""));
    assert_eq!(code("False", ["False", "FailedCreate"]).as_deref(), Some(""));
    assert_eq!(code("True", late), None, "the pods of the former version answer");
}

#[test]
fn revision_takes_over_from_its_siblings_and_from_nobody_else() {
    let (package, own) = (object(json!({"metadata": {"uid": "p"}})), function());
    let siblings = BTreeSet::from(["u0".to_owned()]);
    let party = Party { package: &package, revision: &own, siblings: &siblings };
    let wanted = runtime_objects(&inputs(&own, None)).service;
    let owner = |uid: &str, controls: bool| json!({"apiVersion": "v1", "kind": "K", "name": uid, "uid": uid, "controller": controls});
    let live = |owners: &[Value]| {
        object(json!({"kind": "Service", "metadata": {"name": "it", "ownerReferences": owners}}))
    };
    let controls = |object: &Object| -> Vec<(String, bool)> {
        let owners = object["metadata"]["ownerReferences"].as_array().unwrap().iter();
        owners.map(|owner| (owner["uid"].as_str().unwrap().to_owned(), owner["controller"] == true)).collect()
    };
    let taken =
        take_over(wanted.clone(), Some(&live(&[owner("u0", true), owner("user", false)])), party).unwrap();
    assert_eq!(controls(&taken), [("u0".to_owned(), false), ("u1".to_owned(), true)]);
    let again = take_over(wanted.clone(), Some(&taken), party).unwrap();
    assert_eq!(controls(&again), [("u1".to_owned(), true)]);
    let refused = take_over(wanted, Some(&live(&[owner("user", true)])), party).unwrap_err();
    assert!(refused.to_string().contains("is already controlled by K `user`"), "{refused}");
}

#[test]
fn secret_goes_with_its_last_revision_unless_the_package_has_it() {
    let (package, own) = (object(json!({"metadata": {"name": "it", "uid": "p"}})), function());
    let siblings = BTreeSet::from(["u0".to_owned()]);
    let party = Party { package: &package, revision: &own, siblings: &siblings };
    let secret =
        |uid: &str| object(json!({"metadata": {"ownerReferences": [{"uid": uid, "controller": true}]}}));
    let uids = |live: &Object| -> Option<Vec<(Value, Value)>> {
        let owners = secret_owners(live, party).unwrap()?;
        Some(owners.into_iter().map(|owner| (owner["uid"].clone(), owner["controller"].clone())).collect())
    };
    let handed = vec![(json!("u1"), json!(true))];
    assert_eq!(uids(&secret("u0")), Some(handed));
    assert_eq!(uids(&secret("u1")), None);
    assert_eq!(uids(&secret("p")), None);
    assert!(secret_owners(&secret("somebody"), party).is_err());
    assert!(is_owned_by(&secret("u0"), party) && !is_owned_by(&secret("somebody"), party));
}
