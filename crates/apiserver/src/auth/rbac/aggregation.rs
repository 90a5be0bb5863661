//! Roles whose rules are those of other roles.
//!
//! Kubernetes has a controller that copies the rules, so a role that aggregates aggregated roles takes several rounds,
//! and for a moment grants too little or too much. Here the rules count at once; [`Policy::stale_aggregations`] says
//! what is left to write so that everyone sees them.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, OnceLock};

use ferroplane_schema::selector::LabelSelector;

use super::objects::Role;
use super::rule_index::RuleIndex;
use super::{Policy, PolicyRule};

impl Policy {
    /// Aggregated roles whose stored rules are not what they grant, with the rules to store.
    pub fn stale_aggregations(&self) -> Vec<(&str, Arc<[PolicyRule]>)> {
        let wanted = self.aggregated();
        let stale = |(name, role): (&'_ String, &Arc<Role>)| {
            wanted.get(name).filter(|rules| **rules != role.rules).map(Arc::clone)
        };
        let entries = self.cluster_roles.iter();
        entries.filter_map(|entry| stale(entry).map(|rules| (entry.0.as_str(), rules))).collect()
    }
}

/// The rules of all aggregated roles.
pub(super) fn aggregate(roles: &BTreeMap<String, Arc<Role>>) -> HashMap<String, Arc<[PolicyRule]>> {
    let aggregated = roles.iter().filter(|(_, role)| role.is_aggregated());
    aggregated.map(|(name, _)| (name.clone(), gather(name, roles).into())).collect()
}

/// What an aggregated role selects, directly or not, and the rules of all that.
#[derive(Debug, Default)]
pub(super) struct Aggregate {
    selectors: Vec<LabelSelector>,
    /// Computed when it is first needed, because most aggregated roles are bound to no subject. Then it is kept up to date.
    index: OnceLock<RuleIndex>,
}

impl Aggregate {
    fn selects(&self, role: &Role) -> bool {
        self.selectors.iter().any(|selector| role.is_selected_by(selector))
    }

    pub(super) fn index(&self, roles: &BTreeMap<String, Arc<Role>>) -> &RuleIndex {
        self.index.get_or_init(|| {
            let mut index = RuleIndex::default();
            let selected = roles.iter().filter(|(_, role)| !role.is_aggregated() && self.selects(role));
            selected.for_each(|(name, role)| index.insert(name, &role.rules));
            index
        })
    }

    /// Learn of a role that aggregates nothing.
    pub(super) fn insert(&mut self, name: &str, role: &Role) {
        if self.index.get().is_some()
            && self.selects(role)
            && let Some(index) = self.index.get_mut()
        {
            index.insert(name, &role.rules);
        }
    }

    pub(super) fn remove(&mut self, name: &str, role: &Role) {
        if self.index.get().is_some()
            && self.selects(role)
            && let Some(index) = self.index.get_mut()
        {
            index.remove(name, &role.rules);
        }
    }
}

/// What all aggregated roles select.
pub(super) fn aggregates(roles: &BTreeMap<String, Arc<Role>>) -> HashMap<String, Aggregate> {
    let aggregated: Vec<_> = roles.iter().filter(|(_, role)| role.is_aggregated()).collect();
    let selectors = |name: &str| {
        let mut visited = HashSet::from([name.to_owned()]);
        let mut pending = vec![name];
        let mut found = Vec::new();
        while let Some(role) = pending.pop().and_then(|name| roles.get(name)) {
            for selector in &role.selectors {
                let selected = aggregated.iter().filter(|(_, role)| role.is_selected_by(selector));
                let new = selected.filter(|(name, _)| visited.insert((*name).clone()));
                pending.extend(new.map(|(name, _)| name.as_str()));
                found.push(selector.clone());
            }
        }
        found
    };
    let aggregate = |name: &str| Aggregate { selectors: selectors(name), ..Aggregate::default() };
    aggregated.iter().map(|(name, _)| ((*name).clone(), aggregate(name))).collect()
}

/// The rules of everything that a role selects, directly or not, each once, in the order Kubernetes has them.
fn gather(name: &str, roles: &BTreeMap<String, Arc<Role>>) -> Vec<PolicyRule> {
    let mut visited = HashSet::from([name]);
    // A stack of our own: how deep roles select each other is up to users.
    let mut pending = selected(name, roles);
    let mut seen = HashSet::new();
    let mut gathered = Vec::new();
    while let Some(name) = pending.pop() {
        if !visited.insert(name) {
            continue;
        }
        match roles.get(name) {
            Some(role) if role.is_aggregated() => pending.extend(selected(name, roles)),
            Some(role) => gathered.extend(role.rules.iter().filter(|rule| seen.insert(*rule)).cloned()),
            None => {}
        }
    }
    gathered
}

/// The names of roles that a role selects, the first last.
fn selected<'r>(name: &str, roles: &'r BTreeMap<String, Arc<Role>>) -> Vec<&'r str> {
    let selectors = roles.get(name).map(|role| role.selectors.as_slice()).unwrap_or_default();
    let of = |selector| roles.iter().filter(move |(_, role)| role.is_selected_by(selector));
    let mut names: Vec<_> = selectors.iter().flat_map(of).map(|(name, _)| name.as_str()).collect();
    names.reverse();
    names
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, Value, json};

    use super::*;
    use crate::auth::rbac::RbacKind;

    fn object(value: Value) -> Map<String, Value> {
        serde_json::from_value(value).unwrap()
    }

    fn aggregated(name: &str, selects: &str, label: &str) -> Map<String, Value> {
        object(json!({
            "metadata": {"name": name, "labels": {label: "true"}},
            "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {selects: "true"}}]},
        }))
    }

    fn plain(name: &str, label: &str, verb: &str) -> Map<String, Value> {
        let rule = json!({"verbs": [verb], "apiGroups": [""], "resources": ["pods"]});
        object(json!({"metadata": {"name": name, "labels": {label: "true"}}, "rules": [rule]}))
    }

    fn policy(roles: &[Map<String, Value>]) -> Policy {
        let mut policy = Policy::default();
        for role in roles {
            policy.put(RbacKind::ClusterRole, role).unwrap();
        }
        policy
    }

    fn verbs(policy: &Policy, role: &str) -> Vec<String> {
        policy.cluster_role(role).unwrap().iter().flat_map(|rule| rule.verbs.clone()).collect()
    }

    #[test]
    fn aggregated_role_aggregates_aggregated_roles() {
        let mut policy = policy(&[
            aggregated("admin", "to-admin", "none"),
            aggregated("edit", "to-edit", "to-admin"),
            plain("a", "to-edit", "update"),
            plain("b", "to-admin", "bind"),
        ]);
        assert_eq!(verbs(&policy, "admin"), ["bind", "update"]);
        policy.remove(RbacKind::ClusterRole, "", "a");
        assert_eq!(verbs(&policy, "admin"), ["bind"]);
    }

    #[test]
    fn roles_that_select_each_other_settle() {
        let policy = policy(&[
            aggregated("one", "x", "y"),
            aggregated("two", "y", "x"),
            plain("a", "x", "get"),
            plain("b", "y", "list"),
        ]);
        assert_eq!(verbs(&policy, "one"), ["get", "list"]);
        assert_eq!(verbs(&policy, "two"), ["list", "get"]);
    }

    #[test]
    fn stale_aggregation_is_what_is_left_to_write() {
        let mut policy = policy(&[aggregated("view", "to-view", "none"), plain("a", "to-view", "get")]);
        let (name, rules) = policy.stale_aggregations().pop().unwrap();
        assert_eq!(name, "view");
        let mut stored = aggregated("view", "to-view", "none");
        stored.insert("rules".to_owned(), json!(rules.as_ref()));
        policy.put(RbacKind::ClusterRole, &stored).unwrap();
        assert!(policy.stale_aggregations().is_empty());
    }

    #[test]
    fn selector_that_cannot_be_read_selects_nothing() {
        let role = object(json!({
            "metadata": {"name": "bad"},
            "aggregationRule": {"clusterRoleSelectors": [{"matchExpressions": [{"key": "a", "operator": "?"}]}]},
        }));
        assert_eq!(verbs(&policy(&[role, plain("a", "x", "get")]), "bad"), Vec::<String>::new());
    }
}
