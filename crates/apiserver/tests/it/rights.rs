//! Everybody may do what roles allow, and nothing else.

use serde_json::{Value, json};

use crate::cluster::Cluster;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles";
const BINDINGS: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings";

fn role(name: &str, verbs: &[&str], resources: &[&str]) -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": name},
        "rules": [{"apiGroups": ["", "rbac.authorization.k8s.io"], "resources": resources, "verbs": verbs}],
    })
}

fn binding(name: &str, role: &str, user: &str) -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": role},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
    })
}

#[tokio::test]
async fn rights_come_and_go_with_bindings() {
    let cluster = Cluster::new().await;
    let bob = cluster.as_user("bob");
    let refused = bob.get(MAPS).await;
    assert_eq!(
        refused.is(403)["message"],
        "configmaps is forbidden: User \"bob\" cannot list resource \"configmaps\" in API group \"\" in the namespace \
         \"default\""
    );
    cluster.post(ROLES, &role("reader", &["list"], &["configmaps"])).await.is(201);
    cluster.post(BINDINGS, &binding("bob", "reader", "bob")).await.is(201);
    bob.get(MAPS).await.is(200);
    bob.get(&format!("{MAPS}/a")).await.is(403);
    cluster.delete(&format!("{BINDINGS}/bob")).await.is(200);
    bob.get(MAPS).await.is(403);
}

#[tokio::test]
async fn nobody_grants_what_they_do_not_hold() {
    let cluster = Cluster::new().await;
    cluster.post(ROLES, &role("granter", &["create", "list"], &["roles", "configmaps"])).await.is(201);
    cluster.post(BINDINGS, &binding("bob", "granter", "bob")).await.is(201);
    let bob = cluster.as_user("bob");
    bob.post(ROLES, &role("less", &["list"], &["configmaps"])).await.is(201);
    let refused = bob.post(ROLES, &role("more", &["delete"], &["configmaps"])).await;
    assert!(
        refused.is(403)["message"]
            .as_str()
            .unwrap()
            .contains("attempting to grant RBAC permissions not currently held")
    );
}

#[tokio::test]
async fn reviews_tell_what_one_may() {
    let cluster = Cluster::new().await;
    let review = json!({
        "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": {"verb": "delete", "resource": "pods", "namespace": "default"}},
    });
    let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    assert_eq!(cluster.post(path, &review).await.is(201)["status"]["allowed"], true);
    assert_eq!(cluster.as_user("bob").post(path, &review).await.is(201)["status"]["allowed"], false);
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    let path = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    let answer = cluster.as_user("bob").post(path, &review).await;
    assert_eq!(answer.is(201)["status"]["userInfo"]["username"], "bob");
}

#[tokio::test]
async fn who_is_not_known_sees_health_and_version_only() {
    let cluster = Cluster::new().await;
    let nobody = cluster.as_nobody();
    nobody.get("/healthz").await.is(200);
    nobody.get("/version").await.is(200);
    nobody.get("/api").await.is(403);
    nobody.get(MAPS).await.is(403);
}

#[tokio::test]
async fn masters_may_be_someone_else() {
    let cluster = Cluster::new().await;
    let response = cluster.raw("GET", MAPS, &[("impersonate-user", "bob")], "").await;
    assert_eq!(response.status(), 403);
    let response = cluster.as_user("bob").raw("GET", MAPS, &[("impersonate-user", "admin")], "").await;
    assert_eq!(response.status(), 403);
}

#[tokio::test]
async fn role_shows_the_rules_that_it_gathers() {
    let cluster = Cluster::new().await;
    let path = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
    let gathering = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "all"},
        "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"to": "all"}}]},
    });
    cluster.post(path, &gathering).await.is(201);
    let rules = json!([{"apiGroups": ["example.org"], "resources": ["things"], "verbs": ["get"]}]);
    let gathered = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": "one", "labels": {"to": "all"}}, "rules": rules,
    });
    cluster.post(path, &gathered).await.is(201);
    cluster.until(&format!("{path}/all"), |answer| answer.body["rules"] == rules).await;
    cluster.delete(&format!("{path}/one")).await.is(200);
    let is_empty = |rules: &Value| rules.is_null() || rules.as_array().is_some_and(Vec::is_empty);
    cluster.until(&format!("{path}/all"), |answer| is_empty(&answer.body["rules"])).await;
}
