//! What holds whatever roles, bindings, kinds and Compositions there are.

use serde_json::{Value, json};

use super::*;
use crate::audit::{Reach, Subject};

/// Numbers that look random and are the same every time.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % limit
    }

    fn one<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.below(of.len())]
    }
}

const NAMESPACES: [&str; 3] = ["red", "blue", "green"];

/// A rule about anything, with stars, names and subresources among it.
fn any_rule(numbers: &mut Numbers) -> Value {
    let verbs = ["get", "create", "update", "patch", "delete", "bind", "escalate", "impersonate", "*"];
    let groups = [
        "",
        "apps",
        "demo.io",
        "apiextensions.crossplane.io",
        "rbac.authorization.k8s.io",
        "pkg.crossplane.io",
        "*",
    ];
    let resources = [
        "secrets",
        "pods",
        "apps",
        "nets",
        "xnets",
        "compositions",
        "functions",
        "roles",
        "clusterroles",
        "rolebindings",
        "clusterrolebindings",
        "users",
        "groups",
        "serviceaccounts",
        "serviceaccounts/token",
        "*/status",
        "namespaces",
        "*",
    ];
    let mut rule = json!({
        "verbs": [numbers.one(&verbs), numbers.one(&verbs)], "apiGroups": [numbers.one(&groups)],
        "resources": [numbers.one(&resources), numbers.one(&resources)],
    });
    if numbers.below(4) == 0 {
        rule["resourceNames"] = json!([numbers.one(&["app", "u1", "a", "red", "r2"])]);
    }
    rule
}

fn any_fixture(numbers: &mut Numbers) -> ClusterFixture {
    let mut fixture =
        if numbers.below(2) == 0 { ClusterFixture::embedded() } else { ClusterFixture::cluster() };
    for role in 0..6 {
        let rules: Vec<_> = (0..numbers.below(4)).map(|_| any_rule(numbers)).collect();
        let mut role = cluster_role(&format!("r{role}"), json!(rules));
        role["metadata"]["labels"] = json!({numbers.one(&["x", "y"]): "true"});
        if numbers.below(4) == 0 {
            role["aggregationRule"] =
                json!({"clusterRoleSelectors": [{"matchLabels": {numbers.one(&["x", "y"]): "true"}}]});
        }
        fixture = fixture.with(role);
    }
    for _ in 0..8 {
        let user = numbers.one(&[
            "u1",
            "u2",
            "u3",
            "system:ferroplane",
            "system:ferroplane:composer",
            "system:serviceaccount:red:a",
        ]);
        let namespace = numbers.one(&["", "red", "blue"]);
        let role = format!("r{}", numbers.below(7));
        fixture = fixture.binds(user, namespace, &role);
    }
    let composed = [base("v1", "Secret"), base("demo.io/v1", "Net"), base("x/v1", "Absent")];
    let composed = composed[numbers.below(3)].clone();
    fixture = fixture.apps(json!([composed])).app_in("red");
    if numbers.below(2) == 0 {
        fixture = fixture.with(definition("XNet", "xnets", "LegacyCluster", Some(("Net", "nets"))));
        fixture = fixture.with(composition("net", "XNet", json!([base("v1", "Secret")])));
    }
    fixture
}

fn questions() -> Vec<Question> {
    let secrets = ["get", "create", "delete", "*"].map(secrets);
    let bindings = Question::about("create", "rbac.authorization.k8s.io", "clusterrolebindings", false);
    secrets.into_iter().chain([bindings, Question::about("*", "*", "*", false)]).collect()
}

#[test]
fn whatever_there_is_the_answer_is_the_same_and_comes_to_an_end() {
    let mut numbers = Numbers(1);
    for _ in 0..300 {
        let fixture = any_fixture(&mut numbers);
        let (one, mut other) = (fixture.audit(), fixture);
        other.input.objects.reverse();
        let other = other.audit();
        for question in questions() {
            let told = |audit: &Audit| -> Vec<_> {
                let answers = audit.who_can(&question).into_iter();
                answers.map(|it| (it.subject, it.reach, it.names, it.is_certain, it.route.len())).collect()
            };
            assert_eq!(told(&one), told(&other), "{question:?}");
        }
    }
}

/// Whoever can in one namespace is told when that namespace is asked about, and nobody else.
#[test]
fn answers_about_one_namespace_are_those_about_all_of_them() {
    let mut numbers = Numbers(2);
    for _ in 0..300 {
        let audit = any_fixture(&mut numbers).audit();
        for question in questions().into_iter().filter(|question| question.is_namespaced) {
            let everywhere = audit.who_can(&question);
            for namespace in NAMESPACES {
                let asked = Question { namespace: Some(namespace.to_owned()), ..question.clone() };
                let there: std::collections::BTreeSet<_> =
                    audit.who_can(&asked).into_iter().map(|it| it.subject).collect();
                let reaches =
                    |it: &&Answer| it.reach == Reach::Namespaces || it.reach == Reach::namespace(namespace);
                let expected: std::collections::BTreeSet<_> =
                    everywhere.iter().filter(reaches).map(|it| it.subject.clone()).collect();
                assert_eq!(there, expected, "{asked:?}");
            }
        }
    }
}

/// Tenants who may write Apps and Compositions of Apps, whatever the control plane may do, write in namespaces that have Apps.
#[test]
fn namespaced_kinds_never_lead_out_of_their_namespaces() {
    let mut numbers = Numbers(3);
    for _ in 0..300 {
        // Nobody has other rights, so that there is no other way.
        let rules: Vec<_> = (0..4).map(|_| any_rule(&mut numbers)).collect();
        let fixture = ClusterFixture::embedded()
            .composer(json!(rules))
            .gives("system:ferroplane", "", json!([rule("*", "*", "*")]))
            .apps(json!([base("v1", numbers.one(&["Secret", "ConfigMap", "Absent"]))]))
            .app_in("red")
            .gives("tenant", "blue", json!([rule("*", "demo.io", "apps")]))
            .gives("author", "", json!([rule("patch", "apiextensions.crossplane.io", "compositions")]));
        let audit = fixture.audit();
        for question in questions().into_iter().filter(|question| question.verb != "get") {
            // What the composer can become by its own rights is another matter.
            let by_itself = audit
                .who_can(&question)
                .iter()
                .any(|it| it.subject == Subject::user("system:ferroplane:composer") && !it.is_direct());
            if by_itself {
                continue;
            }
            for answer in audit.who_can(&question) {
                let allowed = match &answer.subject {
                    it if *it == Subject::user("tenant") => Reach::namespace("blue"),
                    it if *it == Subject::user("author") && answer.is_certain => Reach::namespace("red"),
                    it if *it == Subject::user("author") => Reach::Namespaces,
                    _ => continue,
                };
                assert!(answer.reach == allowed, "{question:?}: {}", shown(&answer));
            }
        }
    }
}
