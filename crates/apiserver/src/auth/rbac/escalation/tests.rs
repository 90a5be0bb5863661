//! Who may grant what.

use serde_json::{Map, Value, json};

use super::*;

fn object(value: Value) -> Map<String, Value> {
    serde_json::from_value(value).unwrap()
}

fn binding(name: &str, role: &str, user: &str) -> Map<String, Value> {
    object(json!({
        "metadata": {"name": name},
        "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": role},
        "subjects": [{"kind": "User", "name": user}],
    }))
}

fn role(name: &str, rules: &Value) -> Map<String, Value> {
    object(json!({"metadata": {"name": name}, "rules": rules}))
}

/// Bob may read pods and write roles and bindings; what else he may is given.
fn policy(more: &Value) -> Policy {
    let mut policy = Policy::default();
    let pods = json!([{"verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods"]}]);
    for role in [role("reader", &pods), role("more", more), role("all", &json!(everything()))] {
        policy.put(RbacKind::ClusterRole, &role).unwrap();
    }
    for (name, role, user) in [("one", "reader", "bob"), ("two", "more", "bob"), ("three", "all", "root")] {
        policy.put(RbacKind::ClusterRoleBinding, &binding(name, role, user)).unwrap();
    }
    policy
}

fn check(policy: &Policy, user: &str, kind: RbacKind, new: &Map<String, Value>) -> Result<(), String> {
    let identity = Identity::authenticated(user, ["devs".to_owned()]);
    let write = Write { kind, namespace: "", name: "", new, old: None };
    policy.check_escalation(&identity, &write).map_err(|status| status.message)
}

fn secrets() -> Map<String, Value> {
    role("thief", &json!([{"verbs": ["get"], "apiGroups": [""], "resources": ["secrets"]}]))
}

#[test]
fn role_with_rights_that_its_author_holds_is_written() {
    let new = role("mine", &json!([{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}]));
    check(&policy(&json!([])), "bob", RbacKind::ClusterRole, &new).unwrap();
}

#[test]
fn role_with_rights_that_its_author_does_not_hold_is_refused_in_the_words_of_kubernetes() {
    let refusal = check(&policy(&json!([])), "bob", RbacKind::ClusterRole, &secrets()).unwrap_err();
    assert_eq!(
        refusal,
        "clusterroles.rbac.authorization.k8s.io \"thief\" is forbidden: user \"bob\" (groups=[\"devs\" \
         \"system:authenticated\"]) is attempting to grant RBAC permissions not currently held:\n\
         {APIGroups:[\"\"], Resources:[\"secrets\"], Verbs:[\"get\"]}"
    );
}

#[test]
fn whoever_may_escalate_writes_any_role() {
    let more = json!([{"verbs": ["escalate"], "apiGroups": [GROUP], "resources": ["clusterroles"]}]);
    check(&policy(&more), "bob", RbacKind::ClusterRole, &secrets()).unwrap();
}

#[test]
fn missing_roles_are_named_beside_missing_rights() {
    let mut policy = policy(&json!([]));
    policy.put(RbacKind::ClusterRoleBinding, &binding("four", "gone", "bob")).unwrap();
    let refusal = check(&policy, "bob", RbacKind::ClusterRole, &secrets()).unwrap_err();
    let end = "; resolution errors: [clusterrole.rbac.authorization.k8s.io \"gone\" not found]";
    assert!(refusal.ends_with(end), "{refusal}");
}

#[test]
fn aggregated_role_needs_all_rights() {
    let mut new = role("net", &json!([]));
    new.insert("aggregationRule".to_owned(), json!({"clusterRoleSelectors": [{}]}));
    let policy = policy(&json!([]));
    let refusal = check(&policy, "bob", RbacKind::ClusterRole, &new).unwrap_err();
    assert!(refusal.ends_with("must have cluster-admin privileges to use the aggregationRule"), "{refusal}");
    check(&policy, "root", RbacKind::ClusterRole, &new).unwrap();
}

#[test]
fn binding_of_a_role_that_is_held_is_written() {
    let policy = policy(&json!([]));
    check(&policy, "bob", RbacKind::ClusterRoleBinding, &binding("new", "reader", "eve")).unwrap();
    let refusal =
        check(&policy, "bob", RbacKind::ClusterRoleBinding, &binding("new", "all", "bob")).unwrap_err();
    assert!(
        refusal.contains("not currently held:\n{APIGroups:[\"*\"], Resources:[\"*\"], Verbs:[\"*\"]}\n{NonR")
    );
}

#[test]
fn binding_of_a_role_that_is_missing_is_refused() {
    let refusal =
        check(&policy(&json!([])), "bob", RbacKind::ClusterRoleBinding, &binding("new", "gone", "eve"));
    assert_eq!(refusal.unwrap_err(), "clusterroles.rbac.authorization.k8s.io \"gone\" not found");
}

#[test]
fn whoever_may_bind_a_role_binds_it() {
    let bind = json!([{
        "verbs": ["bind"], "apiGroups": [GROUP], "resources": ["clusterroles"], "resourceNames": ["all"],
    }]);
    check(&policy(&bind), "bob", RbacKind::ClusterRoleBinding, &binding("new", "all", "eve")).unwrap();
}

#[test]
fn garbage_collection_of_a_role_needs_no_rights() {
    let old = secrets();
    let mut new = old.clone();
    new["metadata"]["finalizers"] = json!(["a"]);
    let write =
        Write { kind: RbacKind::ClusterRole, namespace: "", name: "thief", new: &new, old: Some(&old) };
    let nobody = Identity::authenticated("nobody", []);
    policy(&json!([])).check_escalation(&nobody, &write).unwrap();
    new["metadata"]["labels"] = json!({"a": "b"});
    let write =
        Write { kind: RbacKind::ClusterRole, namespace: "", name: "thief", new: &new, old: Some(&old) };
    policy(&json!([])).check_escalation(&nobody, &write).unwrap_err();
}

#[test]
fn masters_write_anything() {
    let identity = Identity::authenticated("root", [MASTERS.to_owned()]);
    let new = secrets();
    let write = Write { kind: RbacKind::ClusterRole, namespace: "", name: "", new: &new, old: None };
    Policy::default().check_escalation(&identity, &write).unwrap();
}
