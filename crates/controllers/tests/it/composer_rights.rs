//! A user who writes Compositions gets no rights that the control plane has for itself.

use ferroplane_apiserver::auth::identity::Identity;
use ferroplane_controllers::{COMPOSER, CONTROLLERS};
use ferroplane_engine::changes::Verdict;
use ferroplane_testkit::plane::{Plane, condition};
use http::Method;
use serde_json::{Value, json};

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
const XRD: &str =
    "/apis/apiextensions.crossplane.io/v1/compositeresourcedefinitions/wides.tenant.example.org";
const COMPOSITIONS: &str = "/apis/apiextensions.crossplane.io/v1/compositions";
const WIDES: &str = "/apis/tenant.example.org/v1/wides";

fn author() -> Identity {
    Identity::authenticated("author", [])
}

/// Somebody who may write definitions, Compositions and their own composite resources, and nothing else. None if the API server is
/// not in this process: on others, the chart says who may do what.
async fn plane_with_author() -> Option<Plane> {
    let plane = Plane::with_roles().await;
    plane.store()?;
    let everything = |group: &str, resources: &[&str]| json!({"apiGroups": [group], "resources": resources, "verbs": ["*"]});
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "author"},
        "rules": [
            everything("apiextensions.crossplane.io", &["compositeresourcedefinitions", "compositions"]),
            everything("tenant.example.org", &["wides"]),
        ],
    });
    plane.apply(&format!("{RBAC}/clusterroles/author"), &role).await;
    bind(&plane, "author", "author").await;
    let definition = json!({
        "apiVersion": "apiextensions.crossplane.io/v2", "kind": "CompositeResourceDefinition",
        "metadata": {"name": "wides.tenant.example.org"},
        "spec": {
            "scope": "Cluster", "group": "tenant.example.org", "names": {"kind": "Wide", "plural": "wides"},
            "versions": [{"name": "v1", "served": true, "referenceable": true, "schema": {"openAPIV3Schema": {"type": "object"}}}],
        },
    });
    let definitions = "/apis/apiextensions.crossplane.io/v2/compositeresourcedefinitions";
    let (code, answer) = plane.send_as(author(), Method::POST, definitions, &definition).await;
    assert_eq!(code, 201, "{answer}");
    plane.until(XRD, |xrd| condition(xrd, "Established").is_some_and(|it| it.starts_with("True"))).await;
    Some(plane)
}

async fn bind(plane: &Plane, user: &str, role: &str) {
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": format!("{user}-{role}")},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
    });
    plane.apply(&format!("{RBAC}/clusterrolebindings/{user}-{role}"), &binding).await;
}

/// Have the author compose an object, with a composite resource of this name.
async fn compose(plane: &Plane, name: &str, object: &Value) {
    let resources = json!({"thing": {"resource": object, "ready": "READY_TRUE"}});
    let input = json!({
        "apiVersion": "dummy.fn.crossplane.io/v1beta1", "kind": "Response", "response": {"desired": {"resources": resources}},
    });
    let step = json!({"step": "compose", "functionRef": {"name": "function-dummy"}, "input": input});
    let composition = json!({
        "apiVersion": "apiextensions.crossplane.io/v1", "kind": "Composition", "metadata": {"name": name},
        "spec": {
            "compositeTypeRef": {"apiVersion": "tenant.example.org/v1", "kind": "Wide"},
            "mode": "Pipeline", "pipeline": [step],
        },
    });
    let (code, answer) = plane.send_as(author(), Method::POST, COMPOSITIONS, &composition).await;
    assert_eq!(code, 201, "{answer}");
    let composite = json!({
        "apiVersion": "tenant.example.org/v1", "kind": "Wide", "metadata": {"name": name},
        "spec": {"crossplane": {"compositionRef": {"name": name}}},
    });
    let (code, answer) = plane.send_as(author(), Method::POST, WIDES, &composite).await;
    assert_eq!(code, 201, "{answer}");
}

/// The message of the condition that says that nothing was composed.
async fn refusal(plane: &Plane, name: &str) -> String {
    let is_unsynced = |xr: &Value| condition(xr, "Synced").is_some_and(|it| it.starts_with("False"));
    let xr = plane.until(&format!("{WIDES}/{name}"), is_unsynced).await;
    let conditions = xr["status"]["conditions"].as_array().unwrap();
    conditions.iter().find(|it| it["type"] == "Synced").unwrap()["message"].as_str().unwrap().to_owned()
}

fn binding_to(role: &str) -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "take-over"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "author"}],
    })
}

#[tokio::test]
async fn composed_binding_to_cluster_admin_is_refused_and_the_missing_right_is_told() {
    let Some(plane) = plane_with_author().await else { return };
    compose(&plane, "greedy", &binding_to("cluster-admin")).await;
    let message = refusal(&plane, "greedy").await;
    let cannot = format!("User \"{COMPOSER}\" cannot patch resource \"clusterrolebindings\"");
    assert!(message.contains(&cannot), "{message}");
    plane
        .until_said(
            "greedy",
            &format!("{COMPOSER} is not allowed to [get, list, watch, create, update, patch, delete]"),
        )
        .await;
    assert_eq!(plane.get(&format!("{RBAC}/clusterrolebindings/take-over")).await, Value::Null);
    let (code, _) = plane.send_as(author(), Method::GET, "/api/v1/secrets", &Value::Null).await;
    assert_eq!(code, 403);
    // Nor can it be planned: what would happen depends on a right, which the plan names.
    let another = json!({
        "apiVersion": "tenant.example.org/v1", "kind": "Wide", "metadata": {"name": "another"},
        "spec": {"crossplane": {"compositionRef": {"name": "greedy"}}},
    });
    let plan = plane.plan(&[another]).await.unwrap();
    let forbidden = "cannot get resource \"clusterrolebindings\"";
    let is_refused =
        |verdict: &Verdict| matches!(verdict, Verdict::Refused { reason } if reason.contains(forbidden));
    assert!(plan.composites.iter().any(|it| is_refused(&it.verdict)), "{plan:#?}");
}

/// The kind can be read, so that only the write that the API server tries shows what is missing.
#[tokio::test]
async fn plan_names_the_rights_that_are_missing_to_write_a_composed_kind() {
    let Some(plane) = plane_with_author().await else { return };
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": "readable", "labels": {"rbac.crossplane.io/aggregate-to-crossplane": "true"}},
        "rules": [
            {"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["clusterrolebindings"], "verbs": ["get", "list", "watch"]},
        ],
    });
    plane.apply(&format!("{RBAC}/clusterroles/readable"), &role).await;
    compose(&plane, "greedy", &binding_to("cluster-admin")).await;
    plane.until_said("greedy", "is not allowed to [create, update, patch, delete]").await;
    let another = json!({
        "apiVersion": "tenant.example.org/v1", "kind": "Wide", "metadata": {"name": "another"},
        "spec": {"crossplane": {"compositionRef": {"name": "greedy"}}},
    });
    let plan = plane.plan(&[another]).await.unwrap();
    let denied =
        format!("{COMPOSER} is not allowed to [create, update, patch, delete] resource clusterrolebindings");
    let of_another = plan.composites.iter().find(|it| it.composite.name == "another").unwrap();
    let Verdict::Refused { reason } = &of_another.verdict else { panic!("{of_another:#?}") };
    assert!(reason.contains("`thing`") && reason.contains(&denied), "{reason}");
    assert_eq!(plane.get(&format!("{RBAC}/clusterrolebindings/take-over")).await, Value::Null);
}

#[tokio::test]
async fn nothing_of_the_control_plane_itself_can_be_composed() {
    let Some(plane) = plane_with_author().await else { return };
    let crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let functions = format!("{crds}/functions.pkg.crossplane.io");
    let webhook =
        "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/crossplane-no-usages";
    let (functions_before, webhook_before) = (plane.get(&functions).await, plane.get(webhook).await);
    let all = json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]);
    let objects = [
        // Its rights would be those of the control plane.
        (
            "role",
            json!({
                "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
                "metadata": {"name": "everything", "labels": {"rbac.crossplane.io/aggregate-to-crossplane": "true"}}, "rules": all,
            }),
        ),
        (
            "definition",
            json!({
                "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
                "metadata": {"name": "functions.pkg.crossplane.io"}, "spec": {"group": "pkg.crossplane.io"},
            }),
        ),
        (
            "webhook",
            json!({
                "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
                "metadata": {"name": "crossplane-no-usages"}, "webhooks": [],
            }),
        ),
        (
            "package",
            json!({
                "apiVersion": "pkg.crossplane.io/v1", "kind": "Function",
                "metadata": {"name": "function-theirs"}, "spec": {"package": "example.org/theirs:v1"},
            }),
        ),
        (
            "composition",
            json!({
                "apiVersion": "apiextensions.crossplane.io/v1", "kind": "Composition", "metadata": {"name": "theirs"},
                "spec": {"compositeTypeRef": {"apiVersion": "a.example.org/v1", "kind": "A"}, "mode": "Pipeline", "pipeline": []},
            }),
        ),
        (
            "account",
            json!({
                "apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "metadata": {"name": "mine"}, "spec": {},
            }),
        ),
    ];
    for (name, object) in objects {
        compose(&plane, name, &object).await;
        let message = refusal(&plane, name).await;
        // Whatever its rights are, the control plane does not compose its own webhooks.
        let denial = match name {
            "webhook" => "`crossplane-no-usages`, which belongs to the control plane".to_owned(),
            _ => format!("User \"{COMPOSER}\" cannot patch resource"),
        };
        // Not every API server has every kind.
        assert!(message.contains(&denial) || message.contains("there is no kind"), "{name}: {message}");
    }
    assert_eq!(plane.get(&functions).await["spec"], functions_before["spec"]);
    assert_eq!(plane.get(webhook).await["webhooks"], webhook_before["webhooks"]);
}

#[tokio::test]
async fn administrator_grants_a_kind_by_label_but_nobody_composes_rights_that_the_composer_lacks() {
    let Some(plane) = plane_with_author().await else { return };
    compose(&plane, "greedy", &binding_to("cluster-admin")).await;
    refusal(&plane, "greedy").await;
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": "bindings", "labels": {"rbac.crossplane.io/aggregate-to-crossplane": "true"}},
        "rules": [
            {"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["clusterrolebindings"],
             "verbs": ["get", "list", "watch", "create", "update", "patch", "delete"]},
            {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]},
        ],
    });
    plane.apply(&format!("{RBAC}/clusterroles/bindings"), &role).await;
    let reader = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "pod-reader"},
        "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}],
    });
    plane.apply(&format!("{RBAC}/clusterroles/pod-reader"), &reader).await;
    // What the composer holds, it may give.
    compose(&plane, "modest", &binding_to("pod-reader")).await;
    let path = format!("{RBAC}/clusterrolebindings/take-over");
    let bound = plane.until(&path, Value::is_object).await;
    assert_eq!(bound["roleRef"]["name"], "pod-reader");
    plane.delete(&format!("{WIDES}/modest")).await;
    plane.until(&path, Value::is_null).await;
    let is_told =
        |xr: &Value| xr.to_string().contains("is attempting to grant RBAC permissions not currently held");
    plane
        .merge(
            &format!("{WIDES}/greedy"),
            &json!({"metadata": {"annotations": {"crossplane.io/reconcile-requested-at": "now"}}}),
        )
        .await;
    plane.until(&format!("{WIDES}/greedy"), is_told).await;
    assert_eq!(plane.get(&path).await, Value::Null);
}

#[tokio::test]
async fn role_that_an_administrator_looks_after_is_left_alone() {
    let Some(mut plane) = plane_with_author().await else { return };
    let composed = format!("{RBAC}/clusterroles/system:ferroplane:composed-resources");
    let system = format!("{RBAC}/clusterroles/system:ferroplane:system");
    let rules = plane.get(&system).await["rules"].clone();
    plane.merge(&system, &json!({"rules": []})).await;
    let manual = json!({"rbac.authorization.kubernetes.io/autoupdate": "false"});
    plane.merge(&composed, &json!({"metadata": {"annotations": manual}, "rules": []})).await;
    plane.restart().await;
    assert_eq!(plane.get(&system).await["rules"], rules);
    assert!(plane.get(&composed).await["rules"].as_array().is_none_or(Vec::is_empty));
    let config =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "default"}});
    compose(&plane, "strict", &config).await;
    assert!(refusal(&plane, "strict").await.contains("configmaps"));
}

#[tokio::test]
async fn neither_user_is_an_administrator() {
    let Some(plane) = plane_with_author().await else { return };
    for user in [CONTROLLERS, COMPOSER] {
        for (method, path) in [
            (Method::GET, "/api/v1/nodes"),
            (Method::POST, "/api/v1/namespaces/default/serviceaccounts/default/token"),
            (Method::DELETE, "/apis/rbac.authorization.k8s.io/v1/clusterroles/cluster-admin"),
        ] {
            let (code, answer) =
                plane.send_as(Identity::authenticated(user, []), method.clone(), path, &json!({})).await;
            assert_eq!(code, 403, "{user} {method} {path}: {answer}");
        }
    }
    // Controllers bind the roles of providers. Nothing that is composed may bind any role.
    let bindings = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
    let composer = Identity::authenticated(COMPOSER, []);
    let (code, answer) = plane.send_as(composer, Method::POST, bindings, &json!({})).await;
    assert_eq!(code, 403, "{answer}");
}
