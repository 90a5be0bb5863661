//! Everybody may do what roles allow, and nothing else.

use serde_json::{Value, json};

use crate::cluster::{Answer, Cluster};
use crate::definitions::{WIDGETS, cluster_with_widgets, widget};

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
async fn who_may_change_but_not_create_creates_nothing() {
    let cluster = Cluster::new().await;
    cluster.post(ROLES, &role("changer", &["patch", "update"], &["configmaps", "services"])).await.is(201);
    cluster.post(BINDINGS, &binding("bob", "changer", "bob")).await.is(201);
    let bob = cluster.as_user("bob");
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"a": "1"}});
    let path = format!("{MAPS}/a");
    let refused = bob.apply(&path, "bob", &map).await;
    assert_eq!(
        refused.is(403)["message"],
        "configmaps \"a\" is forbidden: User \"bob\" cannot create resource \"configmaps\" in API group \"\" in the \
         namespace \"default\""
    );
    let dry = format!("{path}?fieldManager=bob&dryRun=All");
    bob.send("PATCH", &dry, "application/apply-patch+yaml", &map).await.is(403);
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]},
    });
    let services = "/api/v1/namespaces/default/services/s";
    bob.put(services, &service).await.is(403);
    cluster.get(&path).await.is(404);
    cluster.get(services).await.is(404);

    cluster.apply(&path, "admin", &map).await.is(201);
    cluster.put(services, &service).await.is(201);
    let more =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"b": "2"}});
    bob.apply(&path, "bob", &more).await.is(200);
    bob.put(services, &service).await.is(200);
}

#[tokio::test]
async fn who_may_create_but_not_change_changes_nothing() {
    let cluster = cluster_with_widgets().await;
    let mut creator = role("creator", &["create"], &["widgets"]);
    creator["rules"][0]["apiGroups"] = json!(["example.org"]);
    cluster.post(ROLES, &creator).await.is(201);
    cluster.post(BINDINGS, &binding("bob", "creator", "bob")).await.is(201);
    cluster.post(WIDGETS, &widget("a", &json!({"color": "red"}))).await.is(201);
    let path = format!("{WIDGETS}/a");
    // The path of a custom resource may have a name in a request to create one.
    cluster.as_user("bob").post(&path, &widget("a", &json!({"color": "blue"}))).await.is(409);
    assert_eq!(cluster.get(&path).await.is(200)["spec"]["color"], "red");
}

#[tokio::test]
async fn binding_in_a_namespace_gives_rights_on_the_namespace() {
    let cluster = Cluster::new().await;
    for name in ["team-a", "team-b"] {
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        cluster.post("/api/v1/namespaces", &namespace).await.is(201);
    }
    let mut admin = binding("bob", "admin", "bob");
    admin["roleRef"]["kind"] = "ClusterRole".into();
    let bindings = "/apis/rbac.authorization.k8s.io/v1/namespaces/team-a/rolebindings";
    cluster.post(bindings, &admin).await.is(201);
    let bob = cluster.as_user("bob");
    let is_admin = |answer: &Answer| answer.code != 403;
    // The rules of the role are gathered from others.
    bob.until("/api/v1/namespaces/team-a", is_admin).await.is(200);
    let refused = bob.get("/api/v1/namespaces/team-b").await;
    assert_eq!(
        refused.is(403)["message"],
        "namespaces \"team-b\" is forbidden: User \"bob\" cannot get resource \"namespaces\" in API group \"\" in the \
         namespace \"team-b\""
    );
    bob.get("/api/v1/namespaces").await.is(403);
    bob.delete("/api/v1/namespaces/team-a").await.is(403);

    let parts = role("keeper", &["get", "update"], &["namespaces/status", "namespaces/finalize"]);
    let roles = "/apis/rbac.authorization.k8s.io/v1/namespaces/team-a/roles";
    cluster.post(roles, &parts).await.is(201);
    cluster.post(bindings, &binding("ann", "keeper", "ann")).await.is(201);
    let ann = cluster.as_user("ann");
    let namespace = ann.get("/api/v1/namespaces/team-a/status").await.is(200).clone();
    ann.put("/api/v1/namespaces/team-a/finalize", &namespace).await.is(200);
    ann.get("/api/v1/namespaces/team-b/status").await.is(403);
    ann.get("/api/v1/namespaces/team-a").await.is(403);
}

#[tokio::test]
async fn right_to_create_a_part_may_name_the_object() {
    let cluster = Cluster::new().await;
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    let mut requester = role("requester", &["create"], &["serviceaccounts/token"]);
    requester["rules"][0]["resourceNames"] = json!(["robot"]);
    cluster.post(ROLES, &requester).await.is(201);
    cluster.post(BINDINGS, &binding("bob", "requester", "bob")).await.is(201);
    let bob = cluster.as_user("bob");
    let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
    // It is allowed, and what it asks for is missing.
    bob.post(&format!("{accounts}/robot/token"), &request).await.is(404);
    bob.post(&format!("{accounts}/other/token"), &request).await.is(403);
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
