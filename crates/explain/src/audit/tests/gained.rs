//! Rights that are gained by other rights.

use serde_json::json;

use super::*;

#[test]
fn who_may_impersonate_has_the_rights_of_others() {
    let fixture = ClusterFixture::embedded().gives("boss", "", json!([rule("get", "", "secrets")])).gives(
        "ann",
        "",
        json!([rule("impersonate", "", "users")]),
    );
    let expected = "all namespaces: impersonates users → acts as User boss → may get secrets";
    assert_eq!(fixture.about("ann", secrets("get")), [expected]);
}

#[test]
fn impersonating_by_name_leads_to_that_one_alone() {
    let mut only = rule("impersonate", "", "users");
    only["resourceNames"] = json!(["other"]);
    let fixture = ClusterFixture::embedded().gives("boss", "", json!([rule("get", "", "secrets")])).gives(
        "ann",
        "",
        json!([only]),
    );
    assert_eq!(fixture.about("ann", secrets("get")).len(), 0);
}

/// A group is impersonated beside a user.
#[test]
fn group_alone_cannot_be_impersonated() {
    let fixture = ClusterFixture::embedded().gives("ann", "", json!([rule("impersonate", "", "groups")]));
    assert_eq!(fixture.about("ann", secrets("get")).len(), 0);
    let fixture =
        ClusterFixture::embedded().gives("ann", "", json!([rule("impersonate", "", "groups users")]));
    assert_eq!(fixture.about("ann", secrets("get")).len(), 1, "as system:masters");
}

#[test]
fn who_may_escalate_or_bind_has_every_right() {
    const RBAC_GROUP: &str = "rbac.authorization.k8s.io";
    let cases = [
        ("update escalate", "clusterroles", "", 1),
        ("update", "clusterroles", "", 0),
        ("escalate", "clusterroles", "", 0),
        ("bind create", "clusterroles clusterrolebindings", "", 1),
        ("bind", "clusterroles", "", 0),
        ("create", "clusterrolebindings", "", 0),
        ("bind create", "clusterroles rolebindings", "prod", 1),
        ("update escalate", "clusterroles", "prod", 0),
    ];
    for (verbs, resources, namespace, count) in cases {
        let fixture =
            ClusterFixture::embedded().gives("ann", namespace, json!([rule(verbs, RBAC_GROUP, resources)]));
        let answers = fixture.about("ann", secrets("get"));
        assert_eq!(answers.len(), count, "{verbs} {resources} {namespace}: {answers:?}");
        assert!(namespace.is_empty() || answers.iter().all(|it| it.starts_with("prod: ")), "{answers:?}");
    }
}

#[test]
fn role_that_may_be_bound_gives_what_it_has() {
    let mut bind = rule("bind", "rbac.authorization.k8s.io", "clusterroles");
    bind["resourceNames"] = json!(["viewer"]);
    let write = rule("create", "rbac.authorization.k8s.io", "rolebindings");
    let fixture = ClusterFixture::embedded()
        .with(cluster_role("viewer", json!([rule("get", "", "secrets")])))
        .gives("ann", "prod", json!([bind, write]));
    let expected = "prod: binds ClusterRole viewer in namespace prod → may get secrets";
    assert_eq!(fixture.about("ann", secrets("get")), [expected]);
    assert_eq!(fixture.about("ann", secrets("delete")).len(), 0);
}

#[test]
fn pods_have_rights_where_pods_run() {
    let account = json!({
        "apiVersion": RBAC, "kind": "ClusterRoleBinding", "metadata": {"name": "deployer"},
        "roleRef": {"kind": "ClusterRole", "name": "deleter"},
        "subjects": [{"kind": "ServiceAccount", "namespace": "ci", "name": "deployer"}],
    });
    let fixture = |home: ClusterFixture| {
        home.with(cluster_role("deleter", json!([rule("delete", "", "secrets")])))
            .with(account.clone())
            .gives("ann", "ci", json!([rule("create", "apps", "deployments")]))
            .gives("bob", "dev", json!([rule("create", "", "pods")]))
    };
    let (cluster, embedded) = (fixture(ClusterFixture::cluster()), fixture(ClusterFixture::embedded()));
    let expected = "all namespaces: runs pods in namespace ci (may create deployments.apps) → acts as a service account in namespace ci \
                    → acts as ServiceAccount ci/deployer → may delete secrets";
    assert_eq!(cluster.about("ann", secrets("delete")), [expected]);
    assert_eq!(cluster.about("ann", secrets_in("get", "ci")).len(), 1, "a pod mounts Secrets");
    assert_eq!(cluster.about("bob", secrets("delete")).len(), 0);
    assert_eq!(embedded.about("ann", secrets("delete")).len(), 0);
}

#[test]
fn tokens_make_one_a_service_account() {
    let binding = json!({
        "apiVersion": RBAC, "kind": "RoleBinding", "metadata": {"name": "it", "namespace": "ci"},
        "roleRef": {"kind": "ClusterRole", "name": "getter"}, "subjects": [{"kind": "ServiceAccount", "name": "runner"}],
    });
    let fixture = ClusterFixture::embedded()
        .with(cluster_role("getter", json!([rule("get", "", "secrets")])))
        .with(binding)
        .gives("ann", "ci", json!([rule("create", "", "serviceaccounts/token")]));
    let expected = "ci: issues tokens of service accounts in namespace ci → acts as ServiceAccount ci/runner → may get secrets";
    assert_eq!(fixture.about("ann", secrets("get")), [expected]);
}

#[test]
fn who_deletes_a_namespace_or_a_kind_deletes_what_is_in_it() {
    let mut only = rule("delete", "", "namespaces");
    only["resourceNames"] = json!(["dev"]);
    let fixture = ClusterFixture::embedded().gives("ann", "", json!([only])).gives(
        "bob",
        "",
        json!([rule("delete", "apiextensions.k8s.io", "customresourcedefinitions")]),
    );
    assert_eq!(
        fixture.about("ann", secrets("delete")),
        ["dev: deletes namespace dev → deletes what is in it"]
    );
    let apps = Question::about("delete", "demo.io", "apps", true);
    assert_eq!(fixture.about("bob", apps).len(), 1);
    assert_eq!(fixture.about("bob", secrets("delete")).len(), 0);
}
