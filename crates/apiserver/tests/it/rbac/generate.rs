//! Small worlds of roles and bindings, and questions about them.

use serde_json::{Value, json};

use crate::dice::Dice;

const NAMES: &[&str] = &["a", "b", "c"];
const NAMESPACES: &[&str] = &["n1", "n2"];
const VERBS: &[&str] = &["get", "list", "*", "create", "get"];
const GROUPS: &[&str] = &["", "apps", "*"];
const RESOURCES: &[&str] = &["pods", "pods/log", "*/log", "*", "deployments", "deployments/scale", "*/*"];
const URLS: &[&str] = &["/a", "/a/*", "*", "/a/b", "/a*", "/*"];
const TEXTS: &[&str] = &["a", "a", "a", "a", "b", "system:masters2", "qu\"ote", "<é>\u{7}"];

/// The question with this number.
pub(crate) fn question(seed: u64) -> Value {
    let mut dice = Dice::new(seed);
    let is_grant = dice.chance(40);
    let bindings = if dice.chance(30) { (1, 0) } else { (dice.below(4), dice.below(5)) };
    json!({
        "op": if is_grant { "grant" } else { "decide" },
        "roles": roles(&mut dice, true),
        "clusterRoles": roles(&mut dice, false),
        "roleBindings": many(&mut dice, bindings.0, |dice, number| binding(dice, number, true)),
        "clusterRoleBindings": many(&mut dice, bindings.1, |dice, number| binding(dice, number, false)),
        "user": user(&mut dice),
        "attributes": attributes(&mut dice),
        "rules": if dice.chance(50) { json!([narrow_rule(&mut dice)]) } else { rules(&mut dice, 1) },
    })
}

fn many(dice: &mut Dice, count: usize, mut make: impl FnMut(&mut Dice, usize) -> Value) -> Value {
    (0..count).map(|number| make(dice, number)).collect()
}

fn list(dice: &mut Dice, choices: &[&str], least: usize) -> Value {
    let count = least + dice.below(3);
    (0..count).map(|_| dice.pick(choices)).collect()
}

fn rules(dice: &mut Dice, least: usize) -> Value {
    let count = least + dice.below(3);
    many(dice, count, |dice, _| {
        if dice.chance(25) {
            return json!({"verbs": list(dice, VERBS, 1), "nonResourceURLs": list(dice, URLS, 1)});
        }
        let names = if dice.chance(30) { list(dice, NAMES, 1) } else { json!([]) };
        json!({
            "verbs": list(dice, VERBS, 1), "apiGroups": list(dice, GROUPS, 1),
            "resources": list(dice, RESOURCES, 1), "resourceNames": names,
        })
    })
}

/// A rule that grants little.
fn narrow_rule(dice: &mut Dice) -> Value {
    json!({"verbs": ["get"], "apiGroups": ["apps"], "resources": [dice.pick(RESOURCES)], "resourceNames": ["a"]})
}

fn roles(dice: &mut Dice, is_local: bool) -> Value {
    let namespaces = if is_local { NAMESPACES } else { &[""] };
    let mut roles = Vec::new();
    for namespace in namespaces {
        for name in NAMES {
            if dice.chance(80) {
                roles.push(
                    json!({"metadata": {"name": name, "namespace": namespace}, "rules": rules(dice, 1)}),
                );
            }
        }
    }
    Value::Array(roles)
}

fn binding(dice: &mut Dice, number: usize, is_local: bool) -> Value {
    let namespace = if is_local { dice.pick(NAMESPACES) } else { "" };
    let kind = if is_local { dice.pick(&["Role", "ClusterRole"]) } else { "ClusterRole" };
    let subjects = 1 + dice.below(3);
    json!({
        "metadata": {"name": format!("b{number}"), "namespace": namespace},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": dice.pick(NAMES)},
        "subjects": many(dice, subjects, |dice, _| json!({
            "kind": dice.pick(&["User", "Group", "ServiceAccount", "User", "Group", "Other"]),
            "name": dice.pick(TEXTS),
            "namespace": dice.pick(&["", "n1", "n2"]),
        })),
    })
}

fn user(dice: &mut Dice) -> Value {
    let name = if dice.chance(20) {
        format!("system:serviceaccount:{}:{}", dice.pick(NAMESPACES), dice.pick(&["a", "b"]))
    } else {
        dice.pick(TEXTS).to_owned()
    };
    json!({"Name": name, "Groups": list(dice, TEXTS, 0)})
}

fn attributes(dice: &mut Dice) -> Value {
    let namespace = dice.pick(&["", "n1", "n1", "n2"]);
    if dice.chance(20) {
        return json!({"verb": dice.pick(VERBS), "path": dice.pick(&["/a", "/a/b", "/b", "/a/b<c>"]), "namespace": ""});
    }
    json!({
        "verb": dice.pick(&["get", "list", "create"]),
        "group": dice.pick(&["", "apps"]),
        "resource": dice.pick(&["pods", "deployments"]),
        "subresource": dice.pick(&["", "", "log", "scale"]),
        "name": dice.pick(&["", "a", "b", "qu\"ote"]),
        "namespace": namespace,
    })
}
