//! Decisions, compared with a policy that has no index.

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::*;
use crate::auth::rbac::{CUSTOM_RESOURCES, RbacKind};

fn object(value: Value) -> Map<String, Value> {
    serde_json::from_value(value).unwrap()
}

fn policy(objects: &[(RbacKind, Value)]) -> Policy {
    let mut policy = Policy::default();
    for (kind, value) in objects {
        policy.put(*kind, &object(value.clone())).unwrap();
    }
    policy
}

fn reader() -> Value {
    let rule = json!({"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]});
    json!({"metadata": {"name": "reader", "namespace": "default"}, "rules": [rule]})
}

fn bound(kind: &str, subject: &Value) -> Value {
    json!({
        "metadata": {"name": "readers", "namespace": "default"},
        "roleRef": {"apiGroup": GROUP, "kind": kind, "name": "reader"},
        "subjects": [subject],
    })
}

const GET_POD: Attributes<'_> = Attributes {
    verb: "get",
    group: "",
    resource: "pods",
    subresource: "",
    name: "x",
    namespace: "default",
    path: None,
};

#[test]
fn binding_of_a_namespace_counts_there_only() {
    let policy = policy(&[
        (RbacKind::Role, reader()),
        (RbacKind::RoleBinding, bound("Role", &json!({"kind": "User", "name": "bob"}))),
    ]);
    let bob = Identity::authenticated("bob", []);
    let decision = policy.decide(&bob, &GET_POD);
    assert!(decision.is_allowed());
    let reason = "RBAC: allowed by RoleBinding \"readers/default\" of Role \"reader\" to User \"bob\"";
    assert_eq!(decision.reason(), reason);
    for namespace in ["other", ""] {
        assert!(!policy.decide(&bob, &Attributes { namespace, ..GET_POD }).is_allowed());
    }
}

#[test]
fn service_account_is_of_the_namespace_of_its_binding() {
    let subject = json!({"kind": "ServiceAccount", "name": "builder"});
    let mut policy =
        policy(&[(RbacKind::ClusterRole, reader()), (RbacKind::RoleBinding, bound("ClusterRole", &subject))]);
    let builder = Identity::service_account("default", "builder", "");
    let reason = policy.decide(&builder, &GET_POD).reason();
    let end = "\"readers/default\" of ClusterRole \"reader\" to ServiceAccount \"builder/default\"";
    assert!(reason.ends_with(end), "{reason}");
    let stranger = Identity::service_account("other", "builder", "");
    assert!(!policy.decide(&stranger, &GET_POD).is_allowed());
    policy.remove(RbacKind::RoleBinding, "default", "readers");
    assert!(!policy.decide(&builder, &GET_POD).is_allowed());
}

#[test]
fn service_account_without_a_namespace_is_nobody_in_a_binding_of_the_cluster() {
    let subject = json!({"kind": "ServiceAccount", "name": "builder"});
    let policy = policy(&[
        (RbacKind::ClusterRole, reader()),
        (RbacKind::ClusterRoleBinding, bound("ClusterRole", &subject)),
    ]);
    let builder = Identity::service_account("default", "builder", "");
    assert!(!policy.decide(&builder, &GET_POD).is_allowed());
}

#[test]
fn refusal_names_roles_that_are_missing() {
    let policy = policy(&[(RbacKind::RoleBinding, bound("Role", &json!({"kind": "Group", "name": "devs"})))]);
    let bob = Identity::authenticated("bob", ["devs".to_owned()]);
    let refusal = policy.check(&bob, &GET_POD).unwrap_err();
    let end = "in the namespace \"default\": RBAC: role.rbac.authorization.k8s.io \"reader\" not found";
    assert!(refusal.message.ends_with(end), "{}", refusal.message);
    assert_eq!(refusal.code, 403);
}

#[test]
fn masters_need_no_roles() {
    let root = Identity::authenticated("root", [MASTERS.to_owned()]);
    assert!(Policy::default().decide(&root, &GET_POD).is_allowed());
}

#[test]
fn object_that_cannot_be_read_grants_nothing() {
    let mut policy = policy(&[
        (RbacKind::ClusterRole, reader()),
        (RbacKind::RoleBinding, bound("ClusterRole", &json!({"kind": "User", "name": "bob"}))),
    ]);
    let bob = Identity::authenticated("bob", []);
    assert!(policy.decide(&bob, &GET_POD).is_allowed());
    let broken = object(json!({"metadata": {"name": "reader"}, "rules": [{"verbs": 7}]}));
    policy.put(RbacKind::ClusterRole, &broken).unwrap_err();
    assert!(!policy.decide(&bob, &GET_POD).is_allowed());
}

#[test]
fn thousands_of_groups_are_looked_up_one_by_one() {
    let subject = json!({"kind": "Group", "name": "g4999"});
    let policy =
        policy(&[(RbacKind::ClusterRole, reader()), (RbacKind::RoleBinding, bound("ClusterRole", &subject))]);
    let joiner = Identity::authenticated("bob", (0..5_000).map(|number| format!("g{number}")));
    assert!(policy.decide(&joiner, &GET_POD).is_allowed());
}

#[test]
fn rule_about_custom_resources_means_neither_kubernetes_kinds_nor_reserved_groups() {
    let mut policy = Policy::reserving(["pkg.example.org".to_owned()]);
    let everything = json!({"verbs": ["*"], "apiGroups": [CUSTOM_RESOURCES], "resources": ["*"]});
    let role = json!({"metadata": {"name": "reader"}, "rules": [everything]});
    policy.put(RbacKind::ClusterRole, &object(role)).unwrap();
    let binding = bound("ClusterRole", &json!({"kind": "User", "name": "bob"}));
    policy.put(RbacKind::ClusterRoleBinding, &object(binding)).unwrap();
    let bob = Identity::authenticated("bob", []);
    let may = |group: &str| policy.decide(&bob, &Attributes { group, ..GET_POD }).is_allowed();
    for custom in ["example.org", "s3.aws.example.org", "gateway.networking.k8s.io"] {
        assert!(may(custom), "{custom}");
    }
    for closed in
        ["", "apps", GROUP, "admissionregistration.k8s.io", "certificates.k8s.io", "pkg.example.org"]
    {
        assert!(!may(closed), "{closed}");
    }
    let path = Attributes { verb: "get", path: Some("/metrics"), ..Attributes::default() };
    assert!(!policy.decide(&bob, &path).is_allowed());
}

fn one_of(values: &'static [&'static str]) -> impl Strategy<Value = String> {
    proptest::sample::select(values).prop_map(str::to_owned)
}

fn few(values: &'static [&'static str]) -> impl Strategy<Value = Vec<String>> {
    proptest::collection::vec(one_of(values), 0..3)
}

const NAMES: &[&str] = &["a", "b"];
const ROLES: &[&str] = &["a", "b", "c", "d"];
const LABELS: &[&str] = &["to-x", "to-y"];
const NAMESPACES: &[&str] = &["", "n1", "n2"];

fn rule() -> impl Strategy<Value = Value> {
    let lists = (
        few(&["get", "list", "*"]),
        few(&["", "apps", CUSTOM_RESOURCES, "example.org", "*"]),
        few(&["pods", "pods/log", "*/log", "*"]),
        few(NAMES),
        few(&["/a", "/a/*", "*"]),
    );
    lists.prop_map(|(verbs, groups, resources, names, urls)| {
        json!({"verbs": verbs, "apiGroups": groups, "resources": resources, "resourceNames": names,
            "nonResourceURLs": urls})
    })
}

fn subject() -> impl Strategy<Value = Value> {
    (one_of(&["User", "Group", "ServiceAccount", "Other"]), one_of(NAMES), one_of(NAMESPACES))
        .prop_map(|(kind, name, namespace)| json!({"kind": kind, "name": name, "namespace": namespace}))
}

/// A change of one object: new content, or none.
fn change() -> impl Strategy<Value = (RbacKind, String, String, Option<Value>)> {
    let kinds = [RbacKind::Role, RbacKind::ClusterRole, RbacKind::RoleBinding, RbacKind::ClusterRoleBinding];
    let place = (proptest::sample::select(kinds.to_vec()), one_of(&["n1", "n2"]), one_of(ROLES));
    let content = (
        any::<bool>(),
        proptest::collection::vec(rule(), 0..3),
        (one_of(&["Role", "ClusterRole"]), one_of(ROLES)),
        proptest::collection::vec(subject(), 0..3),
        (few(LABELS), few(LABELS)),
    );
    (place, content).prop_map(|((kind, namespace, name), content)| {
        let (is_removed, rules, (role, target), subjects, (labels, selected)) = content;
        let is_local = matches!(kind, RbacKind::Role | RbacKind::RoleBinding);
        let namespace = if is_local { namespace } else { String::new() };
        let labels: Map<_, _> = labels.into_iter().map(|label| (label, json!("true"))).collect();
        let selectors: Vec<_> =
            selected.iter().map(|label| json!({"matchLabels": {label: "true"}})).collect();
        let is_cluster_role = kind == RbacKind::ClusterRole;
        let object = json!({
            "metadata": {"name": name, "namespace": namespace, "labels": labels},
            "aggregationRule": is_cluster_role.then(|| json!({"clusterRoleSelectors": selectors})),
            "rules": rules,
            "roleRef": {"apiGroup": GROUP, "kind": role, "name": target},
            "subjects": subjects,
        });
        (kind, namespace, name, (!is_removed).then_some(object))
    })
}

fn identity() -> impl Strategy<Value = Identity> {
    prop_oneof![
        (one_of(NAMES), few(NAMES)).prop_map(|(name, groups)| Identity::authenticated(name, groups)),
        (one_of(&["n1", "n2"]), one_of(NAMES))
            .prop_map(|(namespace, name)| Identity::service_account(&namespace, &name, "")),
    ]
}

type Key = (u8, String, String);
type Fixture = std::collections::BTreeMap<Key, Value>;

/// Reads everything, in the most obvious way.
fn naive(world: &Fixture, identity: &Identity, attributes: &Attributes<'_>) -> bool {
    world.iter().any(|((kind, namespace, _), binding)| {
        let is_binding = *kind == RbacKind::ClusterRoleBinding as u8
            || *kind == RbacKind::RoleBinding as u8 && namespace == attributes.namespace;
        let subjects = binding["subjects"].as_array().unwrap();
        let is_meant = subjects.iter().any(|subject| naive_subject(subject, namespace, identity));
        let role = &binding["roleRef"];
        let role_kind = if role["kind"] == "Role" { RbacKind::Role } else { RbacKind::ClusterRole };
        let role_namespace = if role_kind == RbacKind::Role { namespace.clone() } else { String::new() };
        let key = (role_kind as u8, role_namespace, role["name"].as_str().unwrap().to_owned());
        is_binding && is_meant && naive_role(world, &key, &mut Vec::new(), attributes)
    })
}

/// Whether a role has a rule that allows it, or selects one that does.
fn naive_role(world: &Fixture, key: &Key, seen: &mut Vec<Key>, attributes: &Attributes<'_>) -> bool {
    let Some(role) = world.get(key).filter(|_| !seen.contains(key)) else { return false };
    seen.push(key.clone());
    let selectors = role["aggregationRule"]["clusterRoleSelectors"].as_array().cloned().unwrap_or_default();
    if selectors.is_empty() {
        return naive_rules(&role["rules"], attributes);
    }
    let is_selected = |other: &Value| {
        let labels = other["metadata"]["labels"].as_object().unwrap();
        selectors
            .iter()
            .any(|it| it["matchLabels"].as_object().unwrap().keys().all(|label| labels.contains_key(label)))
    };
    world.iter().any(|(other, role)| {
        other.0 == RbacKind::ClusterRole as u8
            && is_selected(role)
            && naive_role(world, other, seen, attributes)
    })
}

fn naive_subject(subject: &Value, namespace: &str, identity: &Identity) -> bool {
    let name = subject["name"].as_str().unwrap();
    let own = subject["namespace"].as_str().unwrap();
    let namespace = if own.is_empty() { namespace } else { own };
    match subject["kind"].as_str().unwrap() {
        "User" => identity.name == name,
        "Group" => identity.is_in(name),
        "ServiceAccount" => identity.name == format!("system:serviceaccount:{namespace}:{name}"),
        _ => false,
    }
}

fn naive_rules(rules: &Value, attributes: &Attributes<'_>) -> bool {
    rules.as_array().unwrap().iter().any(|rule| {
        let rule: PolicyRule = serde_json::from_value(rule.clone()).unwrap();
        let general = Attributes { group: CUSTOM_RESOURCES, ..*attributes };
        let is_general = attributes.path.is_none() && attributes.group == "example.org";
        rule.allows(attributes) || is_general && rule.allows(&general)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn index_answers_like_a_look_at_everything(
        changes in proptest::collection::vec(change(), 1..32),
        identity in identity(),
        (verb, group, resource, subresource) in
            (one_of(&["get", "list"]), one_of(&["", "apps", "example.org"]), one_of(&["pods", "nodes"]), one_of(&["", "log"])),
        (name, namespace, is_path) in (one_of(NAMES), one_of(NAMESPACES), any::<bool>()),
    ) {
        let path = is_path.then_some("/a/b");
        let attributes = Attributes {
            verb: &verb, group: &group, resource: &resource, subresource: &subresource,
            name: &name, namespace: &namespace, path,
        };
        let mut policy = Policy::default();
        let mut world = Fixture::new();
        for (kind, namespace, name, content) in changes {
            if let Some(content) = content {
                policy.put(kind, content.as_object().unwrap()).unwrap();
                world.insert((kind as u8, namespace, name), content);
            } else {
                policy.remove(kind, &namespace, &name);
                world.remove(&(kind as u8, namespace, name));
            }
            // After each change: what was found for one decision must not outlive the change.
            prop_assert_eq!(policy.decide(&identity, &attributes).is_allowed(), naive(&world, &identity, &attributes));
        }
        let expected = naive(&world, &identity, &attributes);
        let listed = policy.rules_of(&identity, &namespace).to_status();
        let allowed_by_list = ["resourceRules", "nonResourceRules"].iter().any(|key| naive_rules(&listed[key], &attributes));
        prop_assert_eq!(allowed_by_list, expected);
    }
}
