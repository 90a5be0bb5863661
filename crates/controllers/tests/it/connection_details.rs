//! Connection details of composed resources: wherever and whenever they appear, they reach composite resources and claims.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ferroplane_apiserver::auth::identity::Identity;
use ferroplane_testkit::plane::{Plane, condition};
use serde_json::{Value, json};

const XRD: &str =
    "/apis/apiextensions.crossplane.io/v1/compositeresourcedefinitions/stores.legacy.example.org";
const CRD: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/databases.cloud.example.org";
const CLAIM: &str = "/apis/legacy.example.org/v1/namespaces/default/shops/blog";
/// Where whoever manages the database writes its connection details.
const SECRET: &str = "/api/v1/namespaces/default/secrets/database";
/// Where the claim wants them.
const CLAIMED: &str = "/api/v1/namespaces/default/secrets/claimed";

fn open_schema() -> Value {
    json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
}

async fn define(plane: &Plane) {
    let crd = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "databases.cloud.example.org"},
        "spec": {
            "group": "cloud.example.org", "scope": "Cluster", "names": {"kind": "Database", "plural": "databases"},
            "versions": [{
                "name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                    "type": "object", "properties": {"spec": open_schema()},
                }},
            }],
        },
    });
    plane.apply(CRD, &crd).await;
    let xrd = json!({
        "apiVersion": "apiextensions.crossplane.io/v1", "kind": "CompositeResourceDefinition",
        "metadata": {"name": "stores.legacy.example.org"},
        "spec": {
            "group": "legacy.example.org", "names": {"kind": "Store", "plural": "stores"},
            "claimNames": {"kind": "Shop", "plural": "shops"},
            "versions": [{
                "name": "v1", "served": true, "referenceable": true,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object"}}}},
            }],
        },
    });
    plane.apply(XRD, &xrd).await;
    plane
        .until(XRD, |xrd| condition(xrd, "Offered").is_some_and(|offered| offered.starts_with("True")))
        .await;
}

/// A shop is a database, and everything is built in.
async fn compose(plane: &Plane) {
    let composition = json!({
        "apiVersion": "apiextensions.crossplane.io/v1", "kind": "Composition", "metadata": {"name": "stores"},
        "spec": {
            "compositeTypeRef": {"apiVersion": "legacy.example.org/v1", "kind": "Store"}, "mode": "Pipeline",
            "writeConnectionSecretsToNamespace": "kube-system",
            "pipeline": [{
                "step": "compose", "functionRef": {"name": "function-patch-and-transform"},
                "input": {"apiVersion": "pt.fn.crossplane.io/v1beta1", "kind": "Resources", "resources": [{
                    "name": "database",
                    "base": {"apiVersion": "cloud.example.org/v1", "kind": "Database", "spec": {
                        "writeConnectionSecretToRef": {"namespace": "default", "name": "database"},
                    }},
                    "connectionDetails": [{
                        "name": "password", "type": "FromConnectionSecretKey", "fromConnectionSecretKey": "password",
                    }],
                    "readinessChecks": [{"type": "None"}],
                }]},
            }],
        },
    });
    plane.apply("/apis/apiextensions.crossplane.io/v1/compositions/stores", &composition).await;
    let claim = json!({
        "apiVersion": "legacy.example.org/v1", "kind": "Shop", "metadata": {"name": "blog"},
        "spec": {"writeConnectionSecretToRef": {"name": "claimed"}},
    });
    plane.apply(CLAIM, &claim).await;
    plane
        .until(CLAIM, |claim| condition(claim, "Ready").is_some_and(|ready| ready.starts_with("True")))
        .await;
}

async fn set_password(plane: &Plane, password: &str) {
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "type": "connection.crossplane.io/v1alpha1",
        "metadata": {"name": "database"}, "data": {"password": STANDARD.encode(password)},
    });
    plane.apply(SECRET, &secret).await;
}

async fn until_claimed(plane: &Plane, password: &str) {
    let password = json!(STANDARD.encode(password));
    plane.until(CLAIMED, |secret| secret["data"]["password"] == password).await;
}

async fn late_and_changed_details_reach_the_claim(plane: &Plane) {
    compose(plane).await;
    plane.quiet().await;
    set_password(plane, "first").await;
    until_claimed(plane, "first").await;
    plane.quiet().await;
    set_password(plane, "second").await;
    until_claimed(plane, "second").await;
    plane.delete(SECRET).await;
    set_password(plane, "third").await;
    until_claimed(plane, "third").await;
}

/// The Secrets of the claim and of its composite resource are written again when they are deleted, and taken back when their owner is
/// removed.
async fn lost_details_come_back(plane: &Plane) {
    let claim = plane.get(CLAIM).await;
    let store = claim["spec"]["resourceRef"]["name"].as_str().unwrap();
    let store = plane.get(&format!("/apis/legacy.example.org/v1/stores/{store}")).await;
    let own =
        format!("/api/v1/namespaces/kube-system/secrets/{}", store["metadata"]["uid"].as_str().unwrap());
    for (path, owner) in [(CLAIMED, &claim), (own.as_str(), &store)] {
        let before = plane.get(path).await;
        let is_owned =
            |secret: &Value| secret["metadata"]["ownerReferences"][0]["uid"] == owner["metadata"]["uid"];
        assert!(is_owned(&before), "{before:#}");
        plane.delete(path).await;
        let is_back = |secret: &Value| {
            secret["data"] == before["data"] && secret["metadata"]["uid"] != before["metadata"]["uid"]
        };
        plane.until(path, is_back).await;
        plane.quiet().await;
        plane.merge(path, &json!({"metadata": {"ownerReferences": null}})).await;
        plane.until(path, is_owned).await;
        plane.quiet().await;
    }
}

#[tokio::test]
async fn details_that_come_late_or_change_reach_the_claim() {
    let plane = Plane::new().await;
    define(&plane).await;
    late_and_changed_details_reach_the_claim(&plane).await;
    plane.quiet().await;
    lost_details_come_back(&plane).await;
    plane.quiet().await;
    // To have followed them costs nothing afterwards.
    assert_eq!(plane.quiet().await, Vec::<String>::new());
    plane.delete(CLAIM).await;
    plane.until(CLAIM, Value::is_null).await;
}

/// All rights but those to list and watch Secrets, as the chart gives them.
async fn limit(plane: &Plane) -> Identity {
    let allow = |groups: &[&str], resources: &[&str], verbs: &[&str]| json!({"apiGroups": groups, "resources": resources, "verbs": verbs});
    let groups = [
        "apiextensions.crossplane.io",
        "pkg.crossplane.io",
        "protection.crossplane.io",
        "ops.crossplane.io",
        "apiextensions.k8s.io",
        "legacy.example.org",
        "cloud.example.org",
        "rbac.authorization.k8s.io",
    ];
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "limited"},
        "rules": [
            allow(&groups, &["*"], &["*"]), allow(&[""], &["events", "configmaps", "namespaces"], &["*"]),
            allow(&[""], &["secrets"], &["get", "create", "update", "patch"]),
        ],
    });
    plane.apply("/apis/rbac.authorization.k8s.io/v1/clusterroles/limited", &role).await;
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "limited"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "limited"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "limited"}],
    });
    plane.apply("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/limited", &binding).await;
    Identity::authenticated("limited", ["system:authenticated".to_owned()])
}

#[tokio::test]
async fn details_reach_the_claim_where_secrets_may_only_be_read_by_name() {
    let mut plane = Plane::new().await;
    define(&plane).await;
    let who = limit(&plane).await;
    plane.stop().await;
    plane.tuning.poll_interval = Duration::from_millis(200);
    plane.start_as(who).await;
    late_and_changed_details_reach_the_claim(&plane).await;
    plane.quiet().await;
    lost_details_come_back(&plane).await;
}
