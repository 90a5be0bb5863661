//! The index of all roles and bindings.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, OnceLock};

use serde_json::{Map, Value};

use super::aggregation::Aggregate;
use super::custom_groups::CustomGroups;
use super::objects::{Binding, Metadata, Role, RoleReference};
use super::{Attributes, PolicyRule, RbacKind, aggregation};
use crate::auth::identity::{Identity, service_account_name};

/// Everything that decides who may do what.
#[derive(Debug, Default)]
pub struct Policy {
    roles: HashMap<String, HashMap<String, Role>>,
    pub(super) cluster_roles: BTreeMap<String, Arc<Role>>,
    cluster_bindings: Bindings,
    bindings: HashMap<String, Bindings>,
    /// The rules of aggregated roles, found when they are first needed after a change.
    aggregated: OnceLock<HashMap<String, Arc<[PolicyRule]>>>,
    /// What each aggregated role selects. Few roles aggregate others, and these change seldom.
    aggregates: OnceLock<HashMap<String, Aggregate>>,
    pub(super) custom_groups: CustomGroups,
}

impl Policy {
    /// A policy in which rules about all custom resources leave these groups out.
    pub fn reserving(groups: impl IntoIterator<Item = String>) -> Self {
        Self { custom_groups: CustomGroups::new(groups), ..Self::default() }
    }

    /// Learn of a new or changed object. One that cannot be read grants nothing.
    pub fn put(&mut self, kind: RbacKind, object: &Map<String, Value>) -> serde_json::Result<()> {
        let metadata = Metadata::of(object)?;
        let (namespace, name) = (metadata.namespace.clone(), metadata.name.clone());
        // Before it is read: if it cannot be, what it granted before must not continue.
        let before = if kind == RbacKind::ClusterRole {
            self.take_cluster_role(&name)
        } else {
            self.remove(kind, &namespace, &name);
            None
        };
        match kind {
            RbacKind::Role => {
                let role = Role::read(object, metadata)?;
                self.roles.entry(namespace).or_default().insert(name, role);
            }
            RbacKind::ClusterRole => {
                let role = Role::read(object, metadata).map(Arc::new);
                self.reconsider_aggregates(before.as_deref(), role.as_deref().ok());
                let role = role?;
                if !role.is_aggregated() {
                    self.aggregates_mut().for_each(|aggregate| aggregate.insert(&name, &role));
                }
                self.cluster_roles.insert(name, role);
            }
            RbacKind::RoleBinding => {
                let binding = Binding::read(object, metadata)?;
                self.bindings.entry(namespace).or_default().insert(name, binding);
            }
            RbacKind::ClusterRoleBinding => {
                let binding = Binding::read(object, Metadata { namespace: String::new(), ..metadata })?;
                self.cluster_bindings.insert(name, binding);
            }
        }
        Ok(())
    }

    /// Forget an object.
    pub fn remove(&mut self, kind: RbacKind, namespace: &str, name: &str) {
        match kind {
            RbacKind::Role => {
                forget(&mut self.roles, namespace, |roles| {
                    roles.remove(name);
                    roles.is_empty()
                });
            }
            RbacKind::ClusterRole => {
                let before = self.take_cluster_role(name);
                self.reconsider_aggregates(before.as_deref(), None);
            }
            RbacKind::RoleBinding => {
                forget(&mut self.bindings, namespace, |bindings| {
                    bindings.remove(name);
                    bindings.by_name.is_empty()
                });
            }
            RbacKind::ClusterRoleBinding => self.cluster_bindings.remove(name),
        }
    }

    fn take_cluster_role(&mut self, name: &str) -> Option<Arc<Role>> {
        self.aggregated.take();
        let role = self.cluster_roles.remove(name)?;
        if !role.is_aggregated() {
            self.aggregates_mut().for_each(|aggregate| aggregate.remove(name, &role));
        }
        Some(role)
    }

    /// What aggregated roles select is found again only if one of them selects something else, or is selected by something
    /// else. The rules that are written into them for everyone to see do not matter.
    fn reconsider_aggregates(&mut self, before: Option<&Role>, after: Option<&Role>) {
        if before.and_then(Role::selection) != after.and_then(Role::selection) {
            self.aggregates.take();
        }
    }

    fn aggregates_mut(&mut self) -> impl Iterator<Item = &mut Aggregate> {
        self.aggregates.get_mut().into_iter().flat_map(HashMap::values_mut)
    }

    /// Whether the role of a binding allows one of what is asked for. None if there is no such role.
    pub(super) fn allows(&self, binding: &Binding, asked: [Option<&Attributes<'_>>; 2]) -> Option<bool> {
        let mut asked = asked.into_iter().flatten();
        let name = binding.role.name.as_str();
        let role = match binding.role.kind.as_str() {
            "ClusterRole" => &**self.cluster_roles.get(name)?,
            "Role" => self.roles.get(&binding.namespace)?.get(name)?,
            _ => return None,
        };
        if !role.is_aggregated() {
            return Some(asked.any(|asked| role.allows(asked)));
        }
        let aggregates = self.aggregates.get_or_init(|| aggregation::aggregates(&self.cluster_roles));
        let index = aggregates.get(name).map(|aggregate| aggregate.index(&self.cluster_roles));
        Some(index.is_some_and(|index| asked.any(|asked| index.allows(asked))))
    }

    /// The rules of a role of the cluster: its own, or those it aggregates.
    pub(super) fn cluster_role(&self, name: &str) -> Option<&[PolicyRule]> {
        let role = self.cluster_roles.get(name)?;
        if role.is_aggregated() { self.aggregated().get(name).map(AsRef::as_ref) } else { Some(&role.rules) }
    }

    pub(super) fn aggregated(&self) -> &HashMap<String, Arc<[PolicyRule]>> {
        self.aggregated.get_or_init(|| aggregation::aggregate(&self.cluster_roles))
    }

    /// The rules that a binding of the namespace refers to, none if there is no such role.
    pub(super) fn referenced(&self, role: &RoleReference, namespace: &str) -> Option<&[PolicyRule]> {
        match role.kind.as_str() {
            "ClusterRole" => self.cluster_role(&role.name),
            "Role" => self.roles.get(namespace)?.get(&role.name).map(|role| role.rules.as_ref()),
            _ => None,
        }
    }

    /// Bindings that mean someone, those of the cluster first. One that means them twice may come twice.
    pub(super) fn bindings_of<'p>(
        &'p self,
        identity: &'p Identity,
        namespace: &str,
    ) -> impl Iterator<Item = &'p Arc<Binding>> {
        let local = if namespace.is_empty() { None } else { self.bindings.get(namespace) };
        [Some(&self.cluster_bindings), local].into_iter().flatten().flat_map(|bindings| bindings.of(identity))
    }
}

/// Changes what a namespace has, and forgets the namespace if that leaves nothing.
fn forget<T>(all: &mut HashMap<String, T>, namespace: &str, change: impl FnOnce(&mut T) -> bool) {
    if all.get_mut(namespace).is_some_and(change) {
        all.remove(namespace);
    }
}

/// Bindings of one scope, by who is meant.
#[derive(Debug, Default)]
struct Bindings {
    by_name: BTreeMap<String, Arc<Binding>>,
    users: HashMap<String, Vec<Arc<Binding>>>,
    groups: HashMap<String, Vec<Arc<Binding>>>,
}

impl Bindings {
    fn of<'p>(&'p self, identity: &'p Identity) -> impl Iterator<Item = &'p Arc<Binding>> {
        let by_user = self.users.get(&identity.name).into_iter().flatten();
        let by_group = identity.groups.iter().filter_map(|group| self.groups.get(group)).flatten();
        by_user.chain(by_group)
    }

    fn insert(&mut self, name: String, binding: Binding) {
        let binding = Arc::new(binding);
        for (is_group, subject) in keys(&binding) {
            let index = if is_group { &mut self.groups } else { &mut self.users };
            index.entry(subject).or_default().push(Arc::clone(&binding));
        }
        self.by_name.insert(name, binding);
    }

    fn remove(&mut self, name: &str) {
        let Some(binding) = self.by_name.remove(name) else { return };
        for (is_group, subject) in keys(&binding) {
            let index = if is_group { &mut self.groups } else { &mut self.users };
            if let Some(bindings) = index.get_mut(&subject) {
                bindings.retain(|candidate| !Arc::ptr_eq(candidate, &binding));
                if bindings.is_empty() {
                    index.remove(&subject);
                }
            }
        }
    }
}

/// Under what to find a binding: the names of users and groups, each once.
fn keys(binding: &Binding) -> std::collections::BTreeSet<(bool, String)> {
    let key = |subject: &super::objects::Subject| match subject.kind.as_str() {
        "User" => Some((false, subject.name.clone())),
        "Group" => Some((true, subject.name.clone())),
        "ServiceAccount" if subject.namespace.is_empty() => None,
        "ServiceAccount" => Some((false, service_account_name(&subject.namespace, &subject.name))),
        _ => None,
    };
    binding.subjects.iter().filter_map(key).collect()
}
