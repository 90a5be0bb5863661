//! Asks us and Kubernetes' own code who may do what, and who may grant what, and tells in what we differ.
//!
//! `golden.jsonl` holds what the original said of some questions; that comparison always runs. With the peer
//! `kubernetes-rbac` installed (`cargo xtask peers`), more questions are compared: `FERROPLANE_CASES` says how many,
//! `FERROPLANE_SEED` with which number to begin, and `FERROPLANE_UPDATE_GOLDEN=1` writes `golden.jsonl` anew.

mod generate;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use ferroplane_apiserver::auth::identity::Identity;
use ferroplane_apiserver::auth::rbac::{Attributes, Policy, RbacKind, Write, bootstrap_objects};

use serde_json::{Map, Value, json};

use crate::oracle::{self, Oracle, number};

const PEER: &str = "kubernetes-rbac";

/// So many of the generated questions are recorded.
const RECORDED: u64 = 60;

const KINDS: [(RbacKind, &str); 4] = [
    (RbacKind::Role, "roles"),
    (RbacKind::ClusterRole, "clusterRoles"),
    (RbacKind::RoleBinding, "roleBindings"),
    (RbacKind::ClusterRoleBinding, "clusterRoleBindings"),
];

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/rbac/golden.jsonl")
}

fn policy(question: &Value) -> Policy {
    let mut policy = Policy::default();
    for (kind, field) in KINDS {
        for object in question[field].as_array().unwrap() {
            policy.put(kind, object.as_object().unwrap()).unwrap();
        }
    }
    policy
}

fn identity(question: &Value) -> Identity {
    let user = &question["user"];
    Identity {
        name: user["Name"].as_str().unwrap().to_owned(),
        groups: serde_json::from_value(user["Groups"].clone()).unwrap(),
        ..Identity::default()
    }
}

/// What we say.
fn answer(question: &Value) -> Value {
    let (policy, identity) = (policy(question), identity(question));
    let asked = &question["attributes"];
    let text = |field: &str| asked[field].as_str().unwrap_or_default();
    let attributes = Attributes {
        verb: text("verb"),
        group: text("group"),
        resource: text("resource"),
        subresource: text("subresource"),
        name: text("name"),
        namespace: text("namespace"),
        path: asked["path"].as_str(),
    };
    match question["op"].as_str().unwrap() {
        "decide" => decide(&policy, &identity, &attributes),
        "grant" => grant(&policy, &identity, attributes.namespace, &question["rules"]),
        other => panic!("no such question: {other}"),
    }
}

fn decide(policy: &Policy, identity: &Identity, attributes: &Attributes<'_>) -> Value {
    let decision = policy.decide(identity, attributes);
    let rules = policy.rules_of(identity, attributes.namespace).to_status();
    let count = |field: &str| rules[field].as_array().unwrap().len();
    json!({
        "allowed": decision.is_allowed(),
        "reason": if decision.is_allowed() { decision.reason() } else { String::new() },
        "refusal": attributes.forbidden(identity, "").message,
        "resourceRules": count("resourceRules"),
        "pathRules": count("nonResourceRules"),
    })
}

fn grant(policy: &Policy, identity: &Identity, namespace: &str, rules: &Value) -> Value {
    let role =
        Map::from_iter([("metadata".to_owned(), json!({"name": "x"})), ("rules".to_owned(), rules.clone())]);
    let write = Write { kind: RbacKind::Role, namespace, name: "", new: &role, old: None };
    match policy.check_escalation(identity, &write) {
        Ok(()) => json!({}),
        Err(status) => {
            let start = "roles.rbac.authorization.k8s.io \"x\" is forbidden: ";
            json!({"refusal": status.message.strip_prefix(start).unwrap()})
        }
    }
}

/// Leaves out what the original says at random, or in the words of a list that is not a server's.
fn comparable(question: &Value, mut answer: Value) -> Value {
    if let Some(refusal) = answer.get("refusal").and_then(Value::as_str) {
        answer["refusal"] = json!(refusal.split("; resolution errors").next());
    }
    let bindings =
        ["roleBindings", "clusterRoleBindings"].map(|field| question[field].as_array().unwrap().len());
    if answer.get("allowed").is_some() && (answer["allowed"] == false || bindings.iter().sum::<usize>() > 1) {
        answer["reason"] = json!("");
    }
    answer
}

fn differences(cases: &[(Value, Value)]) -> Vec<String> {
    let different = |(question, theirs): &(Value, Value)| {
        let ours = comparable(question, answer(question));
        let theirs = comparable(question, theirs.clone());
        // The original is asked only whether rights are held, not whether that matters.
        let theirs = if may_escalate(question) { json!({}) } else { theirs };
        (ours != theirs).then(|| format!("{question}\n    ours   {ours}\n    theirs {theirs}"))
    };
    cases.iter().filter_map(different).collect()
}

fn may_escalate(question: &Value) -> bool {
    let attributes = Attributes {
        verb: "escalate",
        group: "rbac.authorization.k8s.io",
        resource: "roles",
        namespace: question["attributes"]["namespace"].as_str().unwrap(),
        ..Attributes::default()
    };
    question["op"] == "grant" && policy(question).decide(&identity(question), &attributes).is_allowed()
}

fn check(cases: &[(Value, Value)]) {
    let different = differences(cases);
    assert!(different.is_empty(), "{} of {} differ:\n{}", different.len(), cases.len(), different.join("\n"));
}

fn ask(questions: Vec<Value>) -> Option<Vec<(Value, Value)>> {
    let answers = Oracle::start(PEER)?.ask(&questions);
    Some(questions.into_iter().zip(answers).collect())
}

#[test]
fn known_questions_are_answered_as_by_kubernetes() {
    if oracle::is_recording() {
        let cases = ask((0..RECORDED).map(generate::question).collect()).unwrap();
        let lines: Vec<_> = cases.iter().map(|case| json!(case).to_string()).collect();
        fs::write(golden(), lines.join("\n") + "\n").unwrap();
    }
    let text = fs::read_to_string(golden()).unwrap();
    let cases: Vec<_> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(cases.len() as u64, RECORDED);
    check(&cases);
}

#[test]
fn generated_questions_are_answered_as_by_kubernetes() {
    let start = number("FERROPLANE_SEED", 1_000);
    let questions = (start..start + number("FERROPLANE_CASES", 2_000)).map(generate::question).collect();
    let Some(cases) = ask(questions) else { return };
    let count = |is_meant: fn(&Value) -> bool| cases.iter().filter(|(_, answer)| is_meant(answer)).count();
    let counts = [
        count(|answer| answer["allowed"] == true),
        count(|answer| answer["allowed"] == false),
        count(|answer| answer.get("allowed").is_none() && answer.get("refusal").is_some()),
        count(|answer| answer == &json!({})),
    ];
    // All answers must be frequent, or nothing is learnt.
    assert!(counts.iter().all(|count| count * 50 > cases.len()), "{counts:?}");
    oracle::say(&format!("compared {counts:?} answers: yes, no, grant refused, grant made"));
    check(&cases);
}

/// A rule or subject list in which order says nothing.
fn sorted(mut value: Value) -> Value {
    if let Some(list) = value.as_array_mut() {
        list.sort_by_key(Value::to_string);
    }
    value
}

/// What an object says, whatever the order within its rules.
fn essence(object: &Value) -> Value {
    let rule = |rule: &Value| {
        let fields = rule.as_object().unwrap().clone().into_iter();
        fields.map(|(key, list)| (key, sorted(list))).collect::<Map<_, _>>()
    };
    let rules = object["rules"].as_array().map(|rules| rules.iter().map(rule).collect::<Vec<_>>());
    let is_aggregated = !object["aggregationRule"].is_null();
    json!({
        "labels": object["metadata"]["labels"],
        "annotations": object["metadata"]["annotations"],
        "rules": if is_aggregated { None } else { rules },
        "aggregationRule": object["aggregationRule"],
        "roleRef": object["roleRef"],
        "subjects": object["subjects"],
    })
}

#[test]
fn roles_to_begin_with_are_those_of_kubernetes() {
    let Some(cases) = ask(vec![json!({"op": "bootstrap"})]) else { return };
    let theirs = &cases[0].1;
    let by_name = |field: &str| -> BTreeMap<String, Value> {
        let list = theirs[field].as_array().unwrap().iter();
        list.map(|object| (object["metadata"]["name"].as_str().unwrap().to_owned(), essence(object)))
            .collect()
    };
    let (roles, bindings) = (by_name("roles"), by_name("bindings"));
    for (kind, object) in bootstrap_objects() {
        let theirs = if kind == RbacKind::ClusterRole { &roles } else { &bindings };
        let name = object["metadata"]["name"].as_str().unwrap().to_owned();
        assert_eq!(essence(&Value::Object(object)), theirs[&name], "{kind:?} {name}");
    }
}
