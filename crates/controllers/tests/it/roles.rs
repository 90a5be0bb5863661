//! Rights on what is defined.

use ferroplane_apiserver::auth::identity::Identity;
use ferroplane_testkit::plane::Plane;
use http::Method;
use serde_json::{Value, json};

const XRD: &str =
    "/apis/apiextensions.crossplane.io/v1/compositeresourcedefinitions/sites.legacy.example.org";
const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
const EDIT: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles/crossplane:composite:sites.legacy.example.org:aggregate-to-edit";

async fn plane_with_sites() -> Plane {
    let plane = Plane::with_roles().await;
    let definition = json!({
        "apiVersion": "apiextensions.crossplane.io/v1", "kind": "CompositeResourceDefinition",
        "metadata": {"name": "sites.legacy.example.org"},
        "spec": {
            "group": "legacy.example.org", "names": {"kind": "Site", "plural": "sites"},
            "claimNames": {"kind": "Page", "plural": "pages"},
            "versions": [{
                "name": "v1", "served": true, "referenceable": true,
                "schema": {"openAPIV3Schema": {"type": "object"}},
            }],
        },
    });
    plane.apply(XRD, &definition).await;
    for kind in ["compositeResourceType", "compositeResourceClaimType"] {
        plane.until(XRD, |xrd| xrd["status"]["controllers"][kind].is_object()).await;
    }
    for role in ["crossplane", "edit", "view", "browse"] {
        // Rights on claims come once their kind exists, which may be after those on composite resources.
        let is_whole = |found: &Value| {
            found.is_object() && (role == "browse" || found.to_string().contains("\"pages\""))
        };
        plane.until(&EDIT.replace("edit", role), is_whole).await;
    }
    for role in ["crossplane-admin", "crossplane:aggregate-to-browse"] {
        plane.until(&format!("{ROLES}/{role}"), Value::is_object).await;
    }
    plane
}

async fn grant(plane: &Plane, user: &str, role: &str) {
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": user},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
    });
    plane.apply(&format!("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/{user}"), &binding).await;
}

#[tokio::test]
async fn users_can_do_what_the_roles_say_that_gather_those_of_definitions() {
    let plane = plane_with_sites().await;
    grant(&plane, "editor", "crossplane-edit").await;
    grant(&plane, "viewer", "crossplane-view").await;
    grant(&plane, "browser", "crossplane-browse").await;
    let (sites, pages) =
        ("/apis/legacy.example.org/v1/sites", "/apis/legacy.example.org/v1/namespaces/default/pages");
    let object = |kind: &str| json!({"apiVersion": "legacy.example.org/v1", "kind": kind, "metadata": {"name": "a"}, "spec": {}});
    let attempts = [
        ("stranger", Method::GET, sites, 403),
        ("browser", Method::GET, sites, 200),
        ("browser", Method::GET, pages, 403),
        ("viewer", Method::GET, pages, 200),
        ("viewer", Method::POST, pages, 403),
        ("editor", Method::POST, pages, 201),
        ("editor", Method::POST, sites, 201),
        ("viewer", Method::GET, "/apis/apiextensions.crossplane.io/v1/compositions", 200),
        ("editor", Method::GET, "/apis/rbac.authorization.k8s.io/v1/clusterroles", 403),
    ];
    for (user, method, path, wanted) in attempts {
        let identity = Identity::authenticated(user, ["system:authenticated".to_owned()]);
        let body = match method {
            Method::POST => object(if path == sites { "Site" } else { "Page" }),
            _ => Value::Null,
        };
        let (code, answer) = plane.send_as(identity, method.clone(), path, &body).await;
        assert_eq!(code, wanted, "{user} {method} {path}: {answer}");
    }
}

#[tokio::test]
async fn roles_are_restored_and_go_with_their_definition() {
    let plane = plane_with_sites().await;
    let role = plane.get(EDIT).await;
    plane.merge(EDIT, &json!({"rules": [], "metadata": {"labels": {"theirs": "1"}}})).await;
    let restored = plane.until(EDIT, |changed| changed["rules"] == role["rules"]).await;
    assert_eq!(restored["metadata"]["labels"]["theirs"], "1");
    plane.delete(EDIT).await;
    plane.until(EDIT, |again| again.is_object() && again["metadata"]["uid"] != role["metadata"]["uid"]).await;
    plane.delete(XRD).await;
    plane.until(EDIT, Value::is_null).await;
}

#[tokio::test]
async fn role_that_gathers_is_the_users_once_it_is_there() {
    let mut plane = plane_with_sites().await;
    let path = format!("{ROLES}/crossplane-admin");
    plane
        .merge(&path, &json!({"aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"mine": "1"}}]}}))
        .await;
    plane.stop().await;
    plane.writes();
    plane.start().await;
    plane.delete(EDIT).await;
    plane.until(EDIT, Value::is_object).await;
    let selector = &plane.get(&path).await["aggregationRule"]["clusterRoleSelectors"][0]["matchLabels"];
    assert_eq!(selector, &json!({"mine": "1"}));
    assert_eq!(plane.writes(), [format!("POST {ROLES}")]);
}

/// How often controllers have read a definition of a kind.
fn reads_of_kinds(plane: &Plane) -> Vec<String> {
    let is_read = |line: &&str| {
        line.starts_with("rest_client_requests_total{")
            && line.contains("verb=\"get\"")
            && line.contains("resource=\"customresourcedefinitions\"")
    };
    plane.metrics().lines().filter(is_read).map(str::to_owned).collect()
}

#[tokio::test]
async fn roles_that_are_as_they_should_be_cost_no_request() {
    let plane = plane_with_sites().await;
    plane.quiet().await;
    let before = reads_of_kinds(&plane);
    assert!(!before.is_empty(), "{}", plane.metrics());
    // Each of these has the roles of the definition checked.
    for round in 0..5 {
        plane.merge(EDIT, &json!({"metadata": {"labels": {"theirs": round.to_string()}}})).await;
        plane.quiet().await;
    }
    assert_eq!(reads_of_kinds(&plane), before);
    // What is to be written is not written by what is remembered.
    plane.merge(EDIT, &json!({"rules": []})).await;
    plane.until(EDIT, |role| role["rules"].as_array().is_some_and(|rules| !rules.is_empty())).await;
    assert_ne!(reads_of_kinds(&plane), before);
}
