//! Finds the rules that speak of a resource, however many there are.
//!
//! Every kind that users define brings roles, which others aggregate, and the control plane in this process asks for its rights
//! with every request: a look at all rules of an aggregated role would cost each request more with each kind.

use std::collections::HashMap;
use std::sync::Arc;

use super::{Attributes, PolicyRule};

/// Rules of roles, by what they are about.
#[derive(Debug, Default)]
pub(super) struct RuleIndex {
    /// By group, then by resource with its subresource, both as the rule writes them.
    resources: HashMap<String, HashMap<String, Vec<IndexedRule>>>,
    /// Rules about paths.
    paths: Vec<IndexedRule>,
}

/// One rule of a role.
#[derive(Debug, Clone)]
struct IndexedRule {
    role: Arc<str>,
    rules: Arc<[PolicyRule]>,
    position: usize,
}

impl IndexedRule {
    fn rule(&self) -> &PolicyRule {
        &self.rules[self.position]
    }
}

impl RuleIndex {
    /// Learn of the rules of a role, which must not be known.
    pub(super) fn insert(&mut self, role: &str, rules: &Arc<[PolicyRule]>) {
        let role = Arc::<str>::from(role);
        for (position, rule) in rules.iter().enumerate() {
            let indexed = IndexedRule { role: Arc::clone(&role), rules: Arc::clone(rules), position };
            if !rule.non_resource_urls.is_empty() {
                self.paths.push(indexed.clone());
            }
            for group in &rule.api_groups {
                let resources = self.resources.entry(group.clone()).or_default();
                for resource in &rule.resources {
                    resources.entry(resource.clone()).or_default().push(indexed.clone());
                }
            }
        }
    }

    /// Forget the rules of a role.
    pub(super) fn remove(&mut self, role: &str, rules: &[PolicyRule]) {
        if rules.iter().any(|rule| !rule.non_resource_urls.is_empty()) {
            self.paths.retain(|indexed| *indexed.role != *role);
        }
        for rule in rules {
            for group in &rule.api_groups {
                let Some(resources) = self.resources.get_mut(group) else { continue };
                for resource in &rule.resources {
                    let Some(indexed) = resources.get_mut(resource) else { continue };
                    indexed.retain(|indexed| *indexed.role != *role);
                    if indexed.is_empty() {
                        resources.remove(resource);
                    }
                }
                if resources.is_empty() {
                    self.resources.remove(group);
                }
            }
        }
    }

    /// Whether one of the rules allows what is asked for.
    pub(super) fn allows(&self, attributes: &Attributes<'_>) -> bool {
        let is_allowed = |indexed: &IndexedRule| indexed.rule().allows(attributes);
        match attributes.path {
            Some(_) => self.paths.iter().any(is_allowed),
            None => self.about(attributes).any(is_allowed),
        }
    }

    /// The rules that are about a resource by its name, or about all resources.
    fn about<'i>(&'i self, attributes: &Attributes<'i>) -> impl Iterator<Item = &'i IndexedRule> {
        let Attributes { group, resource, subresource, .. } = *attributes;
        let (whole, any_parent) = match subresource {
            "" => (std::borrow::Cow::Borrowed(resource), None),
            _ => (format!("{resource}/{subresource}").into(), Some(format!("*/{subresource}"))),
        };
        let groups = [self.resources.get(group), self.resources.get("*")];
        groups.into_iter().flatten().flat_map(move |resources| {
            let by_parent = any_parent.as_ref().and_then(|name| resources.get(name));
            [resources.get(&*whole), by_parent, resources.get("*")].into_iter().flatten().flatten()
        })
    }
}
