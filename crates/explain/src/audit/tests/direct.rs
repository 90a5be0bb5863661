//! Direct rights: the same answers as the RBAC authorizer's, whatever roles and bindings look like.

use serde_json::{Value, json};

use super::*;

fn named(mut rule: Value, names: &[&str]) -> Value {
    rule["resourceNames"] = json!(names);
    rule
}

#[test]
fn right_holds_where_its_binding_is() {
    let fixture = ClusterFixture::embedded().gives("ann", "", json!([rule("delete", "", "secrets")])).gives(
        "bob",
        "prod",
        json!([rule("delete", "", "secrets")]),
    );
    assert_eq!(fixture.about("ann", secrets("delete")), ["all namespaces: may delete secrets"]);
    assert_eq!(fixture.about("bob", secrets("delete")), ["prod: may delete secrets"]);
    assert_eq!(fixture.about("bob", secrets_in("delete", "prod")).len(), 1);
    assert_eq!(fixture.about("bob", secrets_in("delete", "dev")), Vec::<String>::new());
    assert_eq!(fixture.about("bob", secrets("get")), Vec::<String>::new());
}

#[test]
fn administrators_need_no_role() {
    let answers = ClusterFixture::embedded().ask(secrets("delete"));
    assert_eq!(
        answers.iter().map(shown).collect::<Vec<_>>(),
        ["all namespaces: may do everything: RBAC is not evaluated"]
    );
}

#[test]
fn names_limit_a_right_and_are_told() {
    let rules = json!([named(rule("get", "", "secrets"), &["a", "b"])]);
    let fixture = ClusterFixture::embedded().gives("ann", "", rules);
    assert_eq!(fixture.about("ann", secrets("get")), ["all namespaces [a b]: may get secrets"]);
    let one = |name: &str| Question { name: Some(name.to_owned()), ..secrets("get") };
    assert_eq!(fixture.about("ann", one("a")).len(), 1);
    assert_eq!(fixture.about("ann", one("c")).len(), 0);
}

#[test]
fn right_without_names_hides_the_same_with_names() {
    let all = json!([rule("get", "", "secrets"), named(rule("get", "", "secrets"), &["a"])]);
    let fixture = ClusterFixture::embedded().gives("ann", "", all);
    assert_eq!(fixture.about("ann", secrets("get")), ["all namespaces: may get secrets"]);
}

#[test]
fn subresources_are_rights_of_their_own() {
    let log = Question::about("get", "", "pods", true).of_subresource("log");
    for (resources, is_allowed) in [
        ("pods", false),
        ("pods/log", true),
        ("*/log", true),
        ("*", true),
        ("pods/*", false),
        ("*/status", false),
    ] {
        let fixture = ClusterFixture::embedded().gives("ann", "", json!([rule("get", "", resources)]));
        assert_eq!(fixture.about("ann", log.clone()).len(), usize::from(is_allowed), "{resources}");
    }
}

#[test]
fn paths_are_no_resources_and_are_of_the_cluster() {
    let metrics =
        Question { verb: "get".to_owned(), path: Some("/metrics/slis".to_owned()), ..Question::default() };
    let rules = json!([{"verbs": ["get"], "nonResourceURLs": ["/metrics/*"]}]);
    let fixture = ClusterFixture::embedded().gives("ann", "", rules.clone()).gives("bob", "prod", rules);
    assert_eq!(fixture.about("ann", metrics.clone()).len(), 1);
    assert_eq!(fixture.about("bob", metrics).len(), 0);
    assert_eq!(fixture.about("ann", secrets("get")).len(), 0);
}

#[test]
fn cluster_scoped_objects_are_not_in_namespaces_but_a_namespace_is_in_itself() {
    let fixture = ClusterFixture::embedded().gives("bob", "prod", json!([rule("*", "*", "*")]));
    let bindings = Question::about("create", "rbac.authorization.k8s.io", "clusterrolebindings", false);
    assert_eq!(fixture.about("bob", bindings).len(), 0);
    let namespaces = |verb: &str| Question::about(verb, "", "namespaces", false);
    assert_eq!(fixture.about("bob", namespaces("get")), ["cluster [prod]: may get namespaces"]);
    assert_eq!(fixture.about("bob", namespaces("create")).len(), 0);
    assert_eq!(fixture.about("bob", namespaces("list")).len(), 0);
}

#[test]
fn members_are_told_with_their_group() {
    let group = |name: &str| json!({"kind": "Group", "name": name});
    let binding = json!({
        "apiVersion": RBAC, "kind": "ClusterRoleBinding", "metadata": {"name": "all"},
        "roleRef": {"kind": "ClusterRole", "name": "reader"},
        "subjects": [group("system:authenticated"), {"kind": "User", "name": "ann"}],
    });
    let fixture = ClusterFixture::embedded()
        .with(cluster_role("reader", json!([rule("get", "", "secrets")])))
        .with(binding);
    let subjects: Vec<_> = fixture.ask(secrets("get")).into_iter().map(|it| it.subject.to_string()).collect();
    assert_eq!(subjects, ["Group system:authenticated", "Group system:masters"]);
}

#[test]
fn aggregated_roles_that_select_each_other_settle() {
    let aggregated = |name: &str, selects: &str, label: &str| {
        json!({
            "apiVersion": RBAC, "kind": "ClusterRole", "metadata": {"name": name, "labels": {label: "true"}},
            "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {selects: "true"}}]},
        })
    };
    let mut plain = cluster_role("plain", json!([rule("get", "", "secrets")]));
    plain["metadata"]["labels"] = json!({"x": "true"});
    let fixture = ClusterFixture::embedded()
        .with(aggregated("one", "x", "y"))
        .with(aggregated("two", "y", "x"))
        .with(aggregated("self", "z", "z"))
        .with(plain);
    for role in ["one", "two"] {
        assert_eq!(fixture.clone().binds("ann", "", role).about("ann", secrets("get")).len(), 1, "{role}");
    }
    assert_eq!(fixture.binds("ann", "", "self").about("ann", secrets("get")).len(), 0);
}

#[test]
fn kubernetes_goes_by_the_rules_that_its_controller_has_copied() {
    let mut role = cluster_role("gathering", json!([rule("get", "", "secrets")]));
    role["aggregationRule"] = json!({"clusterRoleSelectors": [{"matchLabels": {"x": "true"}}]});
    assert_eq!(
        ClusterFixture::cluster()
            .with(role.clone())
            .binds("ann", "", "gathering")
            .about("ann", secrets("get"))
            .len(),
        1
    );
    assert_eq!(
        ClusterFixture::embedded()
            .with(role)
            .binds("ann", "", "gathering")
            .about("ann", secrets("get"))
            .len(),
        0
    );
}

#[test]
fn selectors_that_cannot_be_read_select_nothing() {
    for selector in [
        json!({"matchExpressions": [{"key": "x", "operator": "?"}]}),
        json!({"matchLabels": "x"}),
        json!({"matchFields": {"x": "true"}}),
        json!("x"),
        json!(null),
    ] {
        let mut plain = cluster_role("plain", json!([rule("get", "", "secrets")]));
        plain["metadata"]["labels"] = json!({"x": "true"});
        let gathering = json!({
            "apiVersion": RBAC, "kind": "ClusterRole", "metadata": {"name": "gathering"},
            "aggregationRule": {"clusterRoleSelectors": [selector]},
        });
        let fixture = ClusterFixture::embedded().with(plain).with(gathering).binds("ann", "", "gathering");
        assert_eq!(fixture.about("ann", secrets("get")).len(), 0, "{selector}");
    }
}

#[test]
fn missing_role_gives_nothing_and_is_told() {
    let fixture = ClusterFixture::embedded().binds("ann", "", "absent");
    assert_eq!(fixture.about("ann", secrets("get")).len(), 0);
    let notes = fixture.audit().notes(None);
    assert!(
        notes[0].contains("ClusterRoleBinding absent of ClusterRole absent, which does not exist"),
        "{notes:?}"
    );
}

#[test]
fn objects_that_make_no_sense_give_nothing() {
    let fixture = ClusterFixture::embedded()
        .with(json!({"apiVersion": RBAC, "kind": "ClusterRole", "metadata": {"name": "r"}, "rules": "all"}))
        .with(json!({"apiVersion": RBAC, "kind": "ClusterRole", "rules": [null, 1, {"verbs": "*", "resources": {}}]}))
        .with(json!({"apiVersion": RBAC, "kind": "ClusterRoleBinding", "subjects": [1, {"kind": "Robot", "name": "x"}]}))
        .with(json!({
            "apiVersion": RBAC, "kind": "ClusterRoleBinding", "metadata": {"name": "b"},
            "roleRef": {"kind": "Role", "name": "r"}, "subjects": [{"kind": "User", "name": "ann"}],
        }))
        .with(json!({"apiVersion": "apiextensions.crossplane.io/v2", "kind": "CompositeResourceDefinition", "spec": []}))
        .with(json!({"apiVersion": "apiextensions.crossplane.io/v1", "kind": "Composition", "spec": {"pipeline": 7}}))
        .with(json!({"apiVersion": "ferroplane.io/v1alpha1", "kind": "AccessGrant", "spec": {"to": "all"}}));
    assert_eq!(fixture.ask(secrets("get")).len(), 1, "administrators only");
}

/// Only the API server of `ferroplane up` has a name for the groups of all custom resources.
#[test]
fn custom_groups_are_those_of_nobody_else() {
    let rules = json!([rule("create", "custom-resources.ferroplane.io", "*")]);
    let may = |fixture: ClusterFixture, group: &str| {
        let question = Question::about("create", group, "things", true);
        !fixture.gives("ann", "", rules.clone()).about("ann", question).is_empty()
    };
    assert!(may(ClusterFixture::embedded(), "demo.io"));
    for group in ["", "rbac.authorization.k8s.io", "apiextensions.crossplane.io", "ferroplane.io", "apps"] {
        assert!(!may(ClusterFixture::embedded(), group), "{group}");
    }
    assert!(!may(ClusterFixture::cluster(), "demo.io"));
}
