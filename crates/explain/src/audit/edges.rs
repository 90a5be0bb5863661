//! What an actor can become by the rights that it has: Kubernetes' own ways.
//!
//! The ways by the control plane are in `routes`, `intercepts`, `operations` and `packages`. All add edges to what a [`Finder`] has found.

use super::actor::{Actor, Edge};
use super::held::{Facts, Held, WRITES};
use super::input::RBAC_GROUP;
use super::reach::Reach;
use super::rule::{Names, Question};
use super::subject::Subject;
use crate::snapshot::Home;

/// Kinds that become pods.
const WORKLOADS: [(&str, &str); 9] = [
    ("", "pods"),
    ("", "replicationcontrollers"),
    ("apps", "daemonsets"),
    ("apps", "deployments"),
    ("apps", "replicasets"),
    ("apps", "statefulsets"),
    ("batch", "cronjobs"),
    ("batch", "jobs"),
    ("", "podtemplates"),
];

/// Finds what an actor can become.
pub(super) struct Finder<'f> {
    pub(super) facts: &'f Facts,
    pub(super) actor: &'f Actor,
    pub(super) found: Vec<Edge>,
}

/// All ways from an actor to others.
pub(super) fn edges(facts: &Facts, actor: &Actor) -> Vec<Edge> {
    let mut finder = Finder { facts, actor, found: Vec::new() };
    match actor {
        Actor::Users | Actor::Groups | Actor::ServiceAccounts(_) => finder.members(),
        // There is nothing left to be gained.
        Actor::Subject(subject) if subject.is_masters() => {}
        Actor::Unlimited(Reach::Cluster) => {}
        _ => {
            finder.impersonate();
            finder.issue_tokens();
            finder.run_pods();
            finder.bind();
            finder.escalate();
            finder.approve_certificates();
            finder.delete_with_its_contents();
            finder.write_definitions();
            finder.compose();
            finder.operate();
            finder.use_packages();
        }
    }
    finder.found
}

impl Finder<'_> {
    pub(super) fn held(&self, question: &Question) -> Vec<Held> {
        self.facts.held(self.actor, question)
    }

    /// What is held for the first of these verbs for which anything is, for each place and name.
    pub(super) fn held_any(
        &self,
        verbs: &[&str],
        group: &str,
        resource: &str,
        is_namespaced: bool,
    ) -> Vec<Held> {
        let questions = verbs.iter().map(|verb| Question::about(verb, group, resource, is_namespaced));
        questions.flat_map(|question| self.held(&question)).collect()
    }

    pub(super) fn add(&mut self, to: Actor, does: String, held: &Held) {
        self.add_if(to, does, held, held.is_certain);
    }

    pub(super) fn add_if(&mut self, to: Actor, does: String, held: &Held, is_certain: bool) {
        // The control plane's own rights are part of the words.
        let by = held.by.clone();
        let is_known = |edge: &Edge| edge.to == to && (edge.is_certain || !is_certain);
        if to != *self.actor && !self.found.iter().any(is_known) {
            self.found.push(Edge { to, does, by, is_certain });
        }
    }

    fn members(&mut self) {
        let subjects = self.facts.rights.subjects();
        let is_member = |subject: &&Subject| match (self.actor, subject) {
            (Actor::Users, Subject::User { .. }) | (Actor::Groups, Subject::Group { .. }) => true,
            (Actor::ServiceAccounts(reach), Subject::ServiceAccount { namespace, .. }) => {
                reach.covers(&Reach::namespace(namespace))
            }
            _ => false,
        };
        let edge = |subject: &Subject| Edge {
            to: Actor::Subject(subject.clone()),
            does: format!("acts as {subject}"),
            by: String::new(),
            is_certain: true,
        };
        let edges: Vec<_> = subjects.filter(is_member).map(edge).collect();
        self.found.extend(edges);
    }

    fn impersonate(&mut self) {
        let users = self.held(&Question::about("impersonate", "", "users", false));
        for held in &users {
            match &held.names {
                Names::All => self.add(Actor::Users, "impersonates users".to_owned(), held),
                Names::Some(names) => {
                    for name in names {
                        let to = Actor::Subject(Subject::user(name));
                        self.add(to, format!("impersonates User {name}"), held);
                    }
                }
            }
        }
        let accounts = self.held(&Question::about("impersonate", "", "serviceaccounts", true));
        self.act_as_accounts(&accounts, "impersonates");
        // A user who impersonates a group has to impersonate a user with it.
        if users.is_empty() && accounts.is_empty() {
            return;
        }
        for held in self.held(&Question::about("impersonate", "", "groups", false)) {
            match &held.names {
                Names::All => self.add(Actor::Groups, "impersonates groups".to_owned(), &held),
                Names::Some(names) => {
                    for name in names {
                        let to = Actor::Subject(Subject::group(name));
                        self.add(to, format!("impersonates Group {name}"), &held);
                    }
                }
            }
        }
    }

    fn issue_tokens(&mut self) {
        let tokens = Question::about("create", "", "serviceaccounts", true).of_subresource("token");
        let tokens = self.held(&tokens);
        self.act_as_accounts(&tokens, "issues tokens of");
        if self.facts.input.home == Home::Embedded {
            return;
        }
        // A Secret of the right type is filled with a token.
        let made = self.held_any(&WRITES, "", "secrets", true);
        let read = self.held_any(&["get", "list", "watch"], "", "secrets", true);
        for (reach, held) in in_both(&made, &read) {
            if held.names == Names::All {
                let does = format!(
                    "creates a Secret for a token of a service account {}, and reads it",
                    reach.words()
                );
                self.add(Actor::ServiceAccounts(reach), does, &held);
            }
        }
    }

    fn act_as_accounts(&mut self, held: &[Held], does: &str) {
        for held in held {
            match &held.names {
                Names::All => {
                    let does = format!("{does} service accounts {}", held.reach.words());
                    self.add(Actor::ServiceAccounts(held.reach.clone()), does, held);
                }
                Names::Some(names) => {
                    for account in self.accounts(&held.reach, names) {
                        self.add(Actor::Subject(account.clone()), format!("{does} {account}"), held);
                    }
                }
            }
        }
    }

    fn accounts(&self, reach: &Reach, names: &std::collections::BTreeSet<String>) -> Vec<Subject> {
        let is_one = |subject: &&Subject| match subject {
            Subject::ServiceAccount { namespace, name } => {
                names.contains(name) && reach.covers(&Reach::namespace(namespace))
            }
            _ => false,
        };
        self.facts.rights.subjects().filter(is_one).cloned().collect()
    }

    /// A pod has the service account and the Secrets that its author chooses. The API server of `ferroplane up` runs none.
    fn run_pods(&mut self) {
        if let Actor::Pod(reach) = self.actor {
            let does = format!("acts as a service account {}", reach.words());
            let edge =
                Edge { to: Actor::ServiceAccounts(reach.clone()), does, by: String::new(), is_certain: true };
            self.found.push(edge);
        }
        if self.facts.input.home == Home::Embedded {
            return;
        }
        for (group, resource) in WORKLOADS {
            for held in self.held_any(&WRITES, group, resource, true) {
                let does = format!("runs pods {} ({})", held.reach.words(), held.does);
                self.add(Actor::Pod(held.reach.clone()), does, &held);
            }
        }
        for (verb, subresource) in [("create", "exec"), ("get", "exec"), ("patch", "ephemeralcontainers")] {
            let question = Question::about(verb, "", "pods", true).of_subresource(subresource);
            for held in self.held(&question) {
                let does = format!("runs commands in pods {}", held.reach.words());
                // Whether there are pods, and whose accounts they have, is not known.
                self.add_if(Actor::Pod(held.reach.clone()), does, &held, false);
            }
        }
    }

    /// A user who may `bind` a role and write bindings has the role.
    fn bind(&mut self) {
        let everywhere = self.held_any(&WRITES, RBAC_GROUP, "clusterrolebindings", false);
        // In a namespace as well: a right to bind in a namespace holds for its bindings.
        let binds = self.held(&Question::about("bind", RBAC_GROUP, "clusterroles", true));
        let binds_everywhere = self.held(&Question::about("bind", RBAC_GROUP, "clusterroles", false));
        if !everywhere.is_empty() {
            for held in &binds_everywhere {
                self.take_cluster_roles(held, &Reach::Cluster);
            }
        }
        let in_namespaces = self.held_any(&WRITES, RBAC_GROUP, "rolebindings", true);
        for (reach, held) in in_both(&in_namespaces, &binds) {
            self.take_cluster_roles(&held, &reach);
        }
        let binds_roles = self.held(&Question::about("bind", RBAC_GROUP, "roles", true));
        for (reach, held) in in_both(&in_namespaces, &binds_roles) {
            self.take_roles(&held, &reach);
        }
    }

    fn take_cluster_roles(&mut self, held: &Held, reach: &Reach) {
        match &held.names {
            Names::All => {
                let does = format!("binds any ClusterRole {}", reach.words());
                self.add(Actor::Unlimited(reach.clone()), does, held);
            }
            Names::Some(names) => {
                for name in names {
                    let role = (String::new(), name.clone());
                    let does = format!("binds ClusterRole {name} {}", reach.words());
                    self.add(Actor::Role { role, reach: reach.clone() }, does, held);
                }
            }
        }
    }

    fn take_roles(&mut self, held: &Held, reach: &Reach) {
        let is_meant = |role: &&(String, String)| {
            !role.0.is_empty() && reach.covers(&Reach::namespace(&role.0)) && held.names.has(&role.1)
        };
        let roles: Vec<_> = self.facts.rights.roles().filter(is_meant).cloned().collect();
        for role in roles {
            let there = Reach::namespace(&role.0);
            let does = format!("binds Role {}/{}", role.0, role.1);
            self.add(Actor::Role { role, reach: there }, does, held);
        }
    }

    /// A user who may `escalate` a role that they have, or can have, has every right.
    fn escalate(&mut self) {
        let written = self.held_any(&["update", "patch"], RBAC_GROUP, "clusterroles", false);
        let escalated = self.held(&Question::about("escalate", RBAC_GROUP, "clusterroles", false));
        for (_, held) in in_both(&written, &escalated) {
            match &held.names {
                // There is always a role that everybody has.
                Names::All => self.add(
                    Actor::Unlimited(Reach::Cluster),
                    "writes any right into a ClusterRole".to_owned(),
                    &held,
                ),
                Names::Some(names) => self.widen("", names, &held),
            }
        }
        let created = self.held(&Question::about("create", RBAC_GROUP, "clusterroles", false));
        if let Some((_, held)) = in_both(&created, &escalated).into_iter().next() {
            self.widen_aggregated(&held);
        }
        let written = self.held_any(&["update", "patch"], RBAC_GROUP, "roles", true);
        let escalated = self.held(&Question::about("escalate", RBAC_GROUP, "roles", true));
        for (reach, held) in in_both(&written, &escalated) {
            let own: Vec<_> = self.own_roles().into_iter().filter(|(role, _)| !role.0.is_empty()).collect();
            for (role, there) in own {
                if reach.covers(&there) && held.names.has(&role.1) {
                    let does = format!("writes any right into Role {}/{}", role.0, role.1);
                    self.add(Actor::Unlimited(there), does, &held);
                }
            }
        }
    }

    fn widen(&mut self, namespace: &str, names: &std::collections::BTreeSet<String>, held: &Held) {
        for (role, reach) in self.own_roles() {
            if role.0 == namespace && names.contains(&role.1) {
                let does = format!("writes any right into ClusterRole {}", role.1);
                self.add(Actor::Unlimited(reach), does, held);
            }
        }
    }

    /// A new role with the right label is part of an aggregated one.
    fn widen_aggregated(&mut self, held: &Held) {
        for (role, reach) in self.own_roles() {
            if self.facts.rights.is_aggregated(&role) {
                let does =
                    format!("creates a ClusterRole with any right that ClusterRole {} aggregates", role.1);
                self.add(Actor::Unlimited(reach), does, held);
            }
        }
    }

    /// The roles that a user who acts has, and where.
    fn own_roles(&self) -> Vec<((String, String), Reach)> {
        let subjects: Vec<&Subject> = match self.actor {
            Actor::Subject(subject) => vec![subject],
            Actor::Composer { .. } => self.facts.composers.iter().collect(),
            _ => Vec::new(),
        };
        let bound = subjects.into_iter().flat_map(|subject| self.facts.rights.bound_to(subject));
        bound.map(|bound| (bound.role.clone(), bound.reach.clone())).collect()
    }

    /// A user who may sign client certificates can become any user, but no administrator: Kubernetes refuses that group.
    fn approve_certificates(&mut self) {
        const CERTIFICATES: &str = "certificates.k8s.io";
        if self.facts.input.home == Home::Embedded {
            return;
        }
        let created =
            self.held(&Question::about("create", CERTIFICATES, "certificatesigningrequests", false));
        let approval = |verb| {
            Question::about(verb, CERTIFICATES, "certificatesigningrequests", false)
                .of_subresource("approval")
        };
        let approved = ["update", "patch"].into_iter().any(|verb| !self.held(&approval(verb)).is_empty());
        let mut signer = Question::about("approve", CERTIFICATES, "signers", false);
        signer.name = Some("kubernetes.io/kube-apiserver-client".to_owned());
        let may_sign = !self.held(&signer).is_empty();
        let Some(held) = created.first().filter(|_| approved && may_sign) else { return };
        self.add(Actor::Users, "approves a client certificate for any user".to_owned(), held);
        let groups = self.facts.rights.subjects().filter(|subject| matches!(subject, Subject::Group { .. }));
        let groups: Vec<_> = groups.filter(|group| !group.is_masters()).cloned().collect();
        for group in groups {
            let does = format!("approves a client certificate for {group}");
            self.add(Actor::Subject(group), does, held);
        }
    }

    fn delete_with_its_contents(&mut self) {
        for held in self.held(&Question::about("delete", "", "namespaces", false)) {
            let reaches = match &held.names {
                Names::All => vec![Reach::Namespaces],
                Names::Some(names) => names.iter().map(|name| Reach::namespace(name)).collect(),
            };
            for reach in reaches {
                let does = match &reach {
                    Reach::Namespace(name) => format!("deletes namespace {name}"),
                    _ => "deletes namespaces".to_owned(),
                };
                self.add(Actor::Deletion { reach, resource: None }, does, &held);
            }
        }
        for held in
            self.held(&Question::about("delete", "apiextensions.k8s.io", "customresourcedefinitions", false))
        {
            let kinds = self.facts.input.kinds.iter().filter(|kind| {
                // Only custom resources have a definition that could be deleted.
                kind.group.contains('.') && !self.facts.input.kubernetes_groups.contains(&kind.group)
            });
            let kinds = kinds.map(|kind| (kind.group.clone(), kind.plural.clone()));
            let kinds: Vec<_> =
                kinds.filter(|(group, plural)| held.names.has(&format!("{plural}.{group}"))).collect();
            for (group, plural) in kinds {
                let does = format!("deletes CustomResourceDefinition {plural}.{group}");
                let to = Actor::Deletion { reach: Reach::Cluster, resource: Some((group, plural)) };
                self.add(to, does, &held);
            }
        }
    }
}

/// Where both rights hold, with the second one and the names that both have.
pub(super) fn in_both(one: &[Held], other: &[Held]) -> Vec<(Reach, Held)> {
    let mut found: Vec<(Reach, Held)> = Vec::new();
    for first in one {
        for second in other {
            let reach = if first.reach.covers(&second.reach) { &second.reach } else { &first.reach };
            let is_shared = first.reach.covers(&second.reach) || second.reach.covers(&first.reach);
            let Some(names) = first.names.and(&second.names).filter(|_| is_shared) else { continue };
            let by = if first.by == second.by || first.by.is_empty() {
                second.by.clone()
            } else {
                format!("{}, {}", first.by, second.by)
            };
            let held =
                Held { names, by, is_certain: first.is_certain && second.is_certain, ..second.clone() };
            found.push((reach.clone(), held));
        }
    }
    found
}
