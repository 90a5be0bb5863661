//! Finds the rules that speak of a resource, however many roles there are.
//!
//! Every kind that users define brings roles of its own, and the control plane in this process asks for its rights with every
//! request: a look at all rules would cost each request more with each kind.

use std::collections::HashMap;
use std::sync::Arc;

use super::objects::Role;
use super::{Attributes, Rule};

/// The rules of roles of the cluster that aggregate no others, by what they are about.
#[derive(Debug, Default)]
pub(super) struct RuleIndex {
    /// By group, then by resource with its subresource, both as the rule writes them.
    resources: HashMap<String, HashMap<String, Vec<IndexedRule>>>,
    /// Rules about paths.
    paths: Vec<IndexedRule>,
}

/// One rule of a role.
#[derive(Debug, Clone)]
pub(super) struct IndexedRule {
    pub(super) name: Arc<str>,
    pub(super) role: Arc<Role>,
    position: usize,
}

impl IndexedRule {
    fn rule(&self) -> &Rule {
        &self.role.rules[self.position]
    }
}

impl RuleIndex {
    pub(super) fn insert(&mut self, name: &str, role: &Arc<Role>) {
        let name = Arc::<str>::from(name);
        for (position, rule) in role.rules.iter().enumerate() {
            let indexed = IndexedRule { name: Arc::clone(&name), role: Arc::clone(role), position };
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

    pub(super) fn remove(&mut self, name: &str, role: &Role) {
        if role.rules.iter().any(|rule| !rule.non_resource_urls.is_empty()) {
            self.paths.retain(|indexed| *indexed.name != *name);
        }
        for rule in role.rules.iter() {
            for group in &rule.api_groups {
                let Some(resources) = self.resources.get_mut(group) else { continue };
                for resource in &rule.resources {
                    let Some(rules) = resources.get_mut(resource) else { continue };
                    rules.retain(|indexed| *indexed.name != *name);
                    if rules.is_empty() {
                        resources.remove(resource);
                    }
                }
                if resources.is_empty() {
                    self.resources.remove(group);
                }
            }
        }
    }

    /// The rules that allow what is asked for. One of several lists may come more than once.
    pub(super) fn allowing<'i>(
        &'i self,
        attributes: &'i Attributes<'i>,
    ) -> impl Iterator<Item = &'i IndexedRule> {
        let (paths, resources) = match attributes.path {
            Some(_) => (self.paths.as_slice(), None),
            None => (&[][..], Some(self.about(attributes))),
        };
        let found = paths.iter().chain(resources.into_iter().flatten());
        found.filter(|indexed| indexed.rule().allows(attributes))
    }

    /// The rules that are about a resource by its name, or about all resources.
    fn about<'i>(&'i self, attributes: &'i Attributes<'i>) -> impl Iterator<Item = &'i IndexedRule> {
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
