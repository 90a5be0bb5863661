//! Roles and bindings: which rules each subject holds, and where.

use std::collections::{BTreeMap, BTreeSet};

use ferroplane_api::{Object, meta};
use serde_json::Value;

use super::input::{AuditInput, RBAC_GROUP};
use super::reach::Reach;
use super::rule::Rule;
use super::selector::{selectors, selects};
use super::subject::{MASTERS, Subject};
use crate::look::{at, text_at};
use crate::snapshot::Home;

/// Namespace and name of a role. Cluster roles have no namespace.
pub(super) type RoleName = (String, String);

/// A role that a subject has, by a binding.
#[derive(Debug, Clone)]
pub(super) struct BoundRole {
    pub(super) role: RoleName,
    pub(super) reach: Reach,
    /// For example `ClusterRoleBinding ops of ClusterRole admin`.
    pub(super) by: String,
}

/// All roles and bindings.
#[derive(Debug, Default)]
pub(super) struct Rights {
    roles: BTreeMap<RoleName, Vec<Rule>>,
    aggregated: BTreeSet<String>,
    bound: BTreeMap<Subject, Vec<BoundRole>>,
    /// Bindings of roles that do not exist, in words.
    pub(super) dangling: Vec<String>,
}

impl Rights {
    pub(super) fn read(input: &AuditInput) -> Self {
        let mut rights = Self::default();
        rights.read_roles(input);
        // It needs no binding, and has to be among the subjects all the same.
        rights.bound.entry(Subject::group(MASTERS)).or_default();
        for kind in ["ClusterRoleBinding", "RoleBinding"] {
            for binding in input.of_kind(RBAC_GROUP, kind) {
                rights.bind(kind, binding);
            }
        }
        rights
    }

    pub(super) fn subjects(&self) -> impl Iterator<Item = &Subject> {
        self.bound.keys()
    }

    pub(super) fn roles(&self) -> impl Iterator<Item = &RoleName> {
        self.roles.keys()
    }

    pub(super) fn rules(&self, role: &RoleName) -> &[Rule] {
        self.roles.get(role).map(Vec::as_slice).unwrap_or_default()
    }

    pub(super) fn is_aggregated(&self, role: &RoleName) -> bool {
        role.0.is_empty() && self.aggregated.contains(&role.1)
    }

    /// The roles that a subject has itself, and by the groups that it is in.
    pub(super) fn bound_to<'r>(&'r self, subject: &Subject) -> impl Iterator<Item = &'r BoundRole> {
        let own = self.bound.get(subject).into_iter().flatten();
        let groups = subject.implied_groups();
        own.chain(groups.into_iter().flat_map(|group| self.bound.get(&group).into_iter().flatten()))
    }

    /// A subject that has a role through a binding of its own.
    pub(super) fn holders<'r>(&'r self, role: &'r RoleName) -> impl Iterator<Item = &'r Subject> {
        let has = move |bound: &Vec<BoundRole>| bound.iter().any(|bound| bound.role == *role);
        self.bound.iter().filter(move |(_, bound)| has(bound)).map(|(subject, _)| subject)
    }

    fn read_roles(&mut self, input: &AuditInput) {
        for role in input.of_kind(RBAC_GROUP, "Role") {
            self.roles
                .insert((meta::namespace(role).to_owned(), meta::name(role).to_owned()), own_rules(role));
        }
        let cluster_roles: BTreeMap<&str, &Object> =
            input.of_kind(RBAC_GROUP, "ClusterRole").map(|role| (meta::name(role), role)).collect();
        for (name, role) in &cluster_roles {
            let is_aggregated = selectors(role).is_some();
            // Kubernetes has a controller copy the rules of others, and its authorizer goes by the copy. Ours gathers them itself.
            let is_gathered = is_aggregated && input.home == Home::Embedded;
            let rules = if is_gathered { gather(name, &cluster_roles) } else { own_rules(role) };
            self.roles.insert((String::new(), (*name).to_owned()), rules);
            if is_aggregated {
                self.aggregated.insert((*name).to_owned());
            }
        }
    }

    fn bind(&mut self, kind: &str, binding: &Object) {
        let namespace = if kind == "RoleBinding" { meta::namespace(binding) } else { "" };
        let (role_kind, name) =
            (text_at(binding, &["roleRef", "kind"]), text_at(binding, &["roleRef", "name"]));
        let role = match role_kind {
            "Role" if kind == "RoleBinding" => (namespace.to_owned(), name.to_owned()),
            "ClusterRole" => (String::new(), name.to_owned()),
            _ => return,
        };
        let path = if namespace.is_empty() { String::new() } else { format!("{namespace}/") };
        let by = format!("{kind} {path}{} of {role_kind} {name}", meta::name(binding));
        if !self.roles.contains_key(&role) {
            self.dangling.push(format!("{by}, which does not exist"));
        }
        let reach = if kind == "RoleBinding" { Reach::namespace(namespace) } else { Reach::Cluster };
        let subjects = binding.get("subjects").and_then(Value::as_array).into_iter().flatten();
        let subjects: BTreeSet<_> =
            subjects.filter_map(|subject| Subject::read(subject, namespace)).collect();
        for subject in subjects {
            let bound = BoundRole { role: role.clone(), reach: reach.clone(), by: by.clone() };
            self.bound.entry(subject).or_default().push(bound);
        }
    }
}

fn own_rules(role: &Object) -> Vec<Rule> {
    at(role, &["rules"]).and_then(Value::as_array).into_iter().flatten().map(Rule::read).collect()
}

/// The rules of everything that a role selects, directly or not. Roles may select each other.
fn gather(name: &str, roles: &BTreeMap<&str, &Object>) -> Vec<Rule> {
    let mut visited = BTreeSet::new();
    let mut pending = vec![name];
    let mut gathered: Vec<Rule> = Vec::new();
    while let Some((name, role)) = pending.pop().and_then(|name| roles.get_key_value(name)) {
        if !visited.insert(*name) {
            continue;
        }
        match selectors(role) {
            None => gathered.extend(own_rules(role)),
            Some(selectors) => {
                let is_selected = |role: &Object| selectors.iter().any(|selector| selects(selector, role));
                pending.extend(roles.iter().filter(|(_, role)| is_selected(role)).map(|(name, _)| *name));
            }
        }
    }
    gathered
}
