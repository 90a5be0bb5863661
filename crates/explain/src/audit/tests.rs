//! Who can cause what, in small clusters.
#![expect(clippy::needless_pass_by_value, reason = "values read better where tests make them")]

mod control_plane;
mod direct;
mod gained;
mod generated;

use serde_json::{Value, json};

use super::{Answer, Audit, AuditInput, AuditKind, CompositeUse, Question};
use crate::snapshot::Home;

const RBAC: &str = "rbac.authorization.k8s.io/v1";

/// A small cluster.
#[derive(Clone)]
pub(super) struct ClusterFixture {
    input: AuditInput,
}

impl ClusterFixture {
    pub(super) fn embedded() -> Self {
        Self::at(Home::Embedded)
    }

    pub(super) fn cluster() -> Self {
        Self::at(Home::Cluster)
    }

    fn at(home: Home) -> Self {
        let kinds = [
            ("", "Secret", "secrets", true),
            ("", "ConfigMap", "configmaps", true),
            ("", "Pod", "pods", true),
            ("", "Namespace", "namespaces", false),
            ("", "ServiceAccount", "serviceaccounts", true),
            ("rbac.authorization.k8s.io", "ClusterRoleBinding", "clusterrolebindings", false),
            ("apiextensions.crossplane.io", "Composition", "compositions", false),
            (
                "apiextensions.crossplane.io",
                "CompositeResourceDefinition",
                "compositeresourcedefinitions",
                false,
            ),
            ("protection.crossplane.io", "Usage", "usages", true),
            ("protection.crossplane.io", "ClusterUsage", "clusterusages", false),
            ("ferroplane.io", "AccessGrant", "accessgrants", false),
            ("demo.io", "App", "apps", true),
            ("demo.io", "XNet", "xnets", false),
            ("demo.io", "Net", "nets", true),
        ];
        let kind = |(group, kind, plural, is_namespaced): (&str, &str, &str, bool)| AuditKind {
            group: group.to_owned(),
            kind: kind.to_owned(),
            plural: plural.to_owned(),
            is_namespaced,
        };
        let groups = ["", "rbac.authorization.k8s.io", "apiextensions.k8s.io"];
        let input = AuditInput {
            home,
            kinds: kinds.into_iter().map(kind).collect(),
            kubernetes_groups: groups.into_iter().map(str::to_owned).collect(),
            passive_functions: ["function-auto-ready".to_owned()].into(),
            ..AuditInput::default()
        };
        Self { input }
    }

    pub(super) fn with(mut self, object: Value) -> Self {
        self.input.objects.push(object.as_object().cloned().unwrap_or_default());
        self
    }

    /// A cluster role, bound to a user in the whole cluster (no namespace) or in one.
    pub(super) fn gives(self, user: &str, namespace: &str, rules: Value) -> Self {
        let role = format!("{user}-{namespace}-{}", self.input.objects.len());
        self.with(cluster_role(&role, rules)).binds(user, namespace, &role)
    }

    /// A binding of a cluster role.
    pub(super) fn binds(self, user: &str, namespace: &str, role: &str) -> Self {
        let kind = if namespace.is_empty() { "ClusterRoleBinding" } else { "RoleBinding" };
        self.with(json!({
            "apiVersion": RBAC, "kind": kind, "metadata": {"name": role, "namespace": namespace},
            "roleRef": {"kind": "ClusterRole", "name": role}, "subjects": [{"kind": "User", "name": user}],
        }))
    }

    /// A namespaced kind App, and a Composition of it with these resources for `function-patch-and-transform`.
    pub(super) fn apps(self, resources: Value) -> Self {
        self.with(definition("App", "apps", "Namespaced", None)).with(composition("app", "App", resources))
    }

    /// An App in a namespace.
    pub(super) fn app_in(mut self, namespace: &str) -> Self {
        let (group, kind) = ("demo.io".to_owned(), "App".to_owned());
        self.input.composites.insert(CompositeUse { group, kind, namespace: namespace.to_owned() });
        self
    }

    /// What the control plane of `ferroplane up` may compose.
    pub(super) fn composer(self, rules: Value) -> Self {
        self.gives("system:ferroplane:composer", "", rules)
    }

    pub(super) fn ask(&self, question: Question) -> Vec<Answer> {
        Audit::new(self.input.clone()).who_can(&question)
    }

    /// The answers about a user, as `where: route`.
    pub(super) fn about(&self, user: &str, question: Question) -> Vec<String> {
        let answers = self.ask(question).into_iter().filter(|it| it.subject == super::Subject::user(user));
        answers.map(|answer| shown(&answer)).collect()
    }

    pub(super) fn audit(&self) -> Audit {
        Audit::new(self.input.clone())
    }
}

/// An answer on one line.
pub(super) fn shown(answer: &Answer) -> String {
    let names: Vec<_> = answer.names.iter().cloned().collect();
    let names = if names.is_empty() { String::new() } else { format!(" [{}]", names.join(" ")) };
    let perhaps = if answer.is_certain { "" } else { "perhaps " };
    let steps: Vec<_> = answer.route.iter().map(|step| step.does.as_str()).collect();
    format!("{perhaps}{}{names}: {}", answer.reach, steps.join(" → "))
}

pub(super) fn cluster_role(name: &str, rules: Value) -> Value {
    json!({"apiVersion": RBAC, "kind": "ClusterRole", "metadata": {"name": name}, "rules": rules})
}

pub(super) fn rule(verbs: &str, group: &str, resources: &str) -> Value {
    let list = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    json!({"verbs": list(verbs), "apiGroups": [group], "resources": list(resources)})
}

pub(super) fn definition(kind: &str, plural: &str, scope: &str, claim: Option<(&str, &str)>) -> Value {
    let claim = claim.map(|(kind, plural)| json!({"kind": kind, "plural": plural}));
    json!({
        "apiVersion": "apiextensions.crossplane.io/v2", "kind": "CompositeResourceDefinition",
        "metadata": {"name": format!("{plural}.demo.io")},
        "spec": {"group": "demo.io", "scope": scope, "names": {"kind": kind, "plural": plural}, "claimNames": claim},
    })
}

pub(super) fn composition(name: &str, kind: &str, resources: Value) -> Value {
    calling(name, kind, "function-patch-and-transform", json!({"resources": resources}))
}

pub(super) fn calling(name: &str, kind: &str, function: &str, input: Value) -> Value {
    json!({
        "apiVersion": "apiextensions.crossplane.io/v1", "kind": "Composition", "metadata": {"name": name},
        "spec": {
            "mode": "Pipeline", "compositeTypeRef": {"apiVersion": "demo.io/v1", "kind": kind},
            "pipeline": [{"step": "compose", "functionRef": {"name": function}, "input": input},
                         {"step": "ready", "functionRef": {"name": "function-auto-ready"}}],
        },
    })
}

pub(super) fn base(api_version: &str, kind: &str) -> Value {
    json!({"name": "it", "base": {"apiVersion": api_version, "kind": kind}})
}

pub(super) fn secrets(verb: &str) -> Question {
    Question::about(verb, "", "secrets", true)
}

pub(super) fn secrets_in(verb: &str, namespace: &str) -> Question {
    Question { namespace: Some(namespace.to_owned()), ..secrets(verb) }
}
