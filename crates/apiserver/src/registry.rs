//! Which resources there are: one descriptor for each, built-in kinds and custom ones alike.
//!
//! Readers take the catalogue as it is at that moment and keep it for the length of a request.

mod custom;
mod resource;

use std::collections::BTreeMap;
use std::sync::Arc;

use arc_swap::ArcSwap;

pub(crate) use custom::{DefinitionError, custom, fingerprint};
pub(crate) use resource::{DeletionStrategy, Names, Origin, Part, Resource, Version, collection};

/// All resources that are served, by group and plural name.
#[derive(Debug, Clone, Default)]
pub(crate) struct Catalogue {
    groups: BTreeMap<String, BTreeMap<String, Arc<Resource>>>,
    /// Grows with every change, so that what was derived from the catalogue can be recognised as outdated.
    pub(crate) edition: u64,
}

/// The catalogue that counts now.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    current: ArcSwap<Catalogue>,
}

impl Registry {
    pub(crate) fn new(resources: impl IntoIterator<Item = Resource>) -> Self {
        let mut catalogue = Catalogue::default();
        for resource in resources {
            catalogue.insert(resource);
        }
        Self { current: ArcSwap::from_pointee(catalogue) }
    }

    pub(crate) fn catalogue(&self) -> Arc<Catalogue> {
        self.current.load_full()
    }

    /// Changes the catalogue. A client that reads it afterwards sees all of the change; watches of changed resources end.
    pub(crate) fn change(&self, change: impl Fn(&mut Catalogue)) {
        let previous = self.current.rcu(|current| {
            let mut next = Catalogue::clone(current);
            change(&mut next);
            next.edition += 1;
            next
        });
        let current = self.current.load();
        for resource in previous.all() {
            let successor = current.find(&resource.group, &resource.names.plural);
            // By identity: a definition that did not change keeps its descriptor, and those who watch it need not begin again.
            if !successor.is_some_and(|successor| Arc::ptr_eq(successor, resource)) {
                resource.end.send_replace(true);
            }
        }
    }
}

impl Catalogue {
    pub(crate) fn insert(&mut self, resource: impl Into<Arc<Resource>>) {
        let resource = resource.into();
        let group = self.groups.entry(resource.group.clone()).or_default();
        group.insert(resource.names.plural.clone(), resource);
    }

    /// Whether a resource is there as it was defined then.
    pub(crate) fn has_edition(&self, group: &str, plural: &str, fingerprint: &str) -> bool {
        self.find(group, plural).is_some_and(|resource| resource.fingerprint == fingerprint)
    }

    pub(crate) fn remove(&mut self, group: &str, plural: &str) {
        if let Some(resources) = self.groups.get_mut(group) {
            resources.remove(plural);
            if resources.is_empty() {
                self.groups.remove(group);
            }
        }
    }

    /// A resource by its plural name.
    pub(crate) fn find(&self, group: &str, plural: &str) -> Option<&Arc<Resource>> {
        self.groups.get(group)?.get(plural)
    }

    /// A resource by its kind.
    pub(crate) fn find_kind(&self, group: &str, kind: &str) -> Option<&Arc<Resource>> {
        self.groups.get(group)?.values().find(|resource| resource.names.kind == kind)
    }

    /// Whether a version of a group has any resource.
    pub(crate) fn has_version(&self, group: &str, version: &str) -> bool {
        self.groups
            .get(group)
            .is_some_and(|resources| resources.values().any(|resource| resource.served(version).is_some()))
    }

    /// Whether a group is one of Kubernetes' own.
    pub(crate) fn is_builtin(&self, group: &str) -> bool {
        self.resources(group).any(|resource| !matches!(resource.origin, Origin::Custom { .. }))
    }

    pub(crate) fn groups(&self) -> impl Iterator<Item = &str> {
        self.groups.keys().map(String::as_str)
    }

    /// The resources of a group, by their plural names.
    pub(crate) fn resources(&self, group: &str) -> impl Iterator<Item = &Arc<Resource>> {
        self.groups.get(group).into_iter().flat_map(BTreeMap::values)
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<Resource>> {
        self.groups.values().flat_map(BTreeMap::values)
    }

    /// The versions of a group that are served, the one that clients should prefer first.
    pub(crate) fn versions(&self, group: &str) -> Vec<&str> {
        let served = self.resources(group).flat_map(|resource| resource.versions.iter());
        let mut versions: Vec<_> =
            served.filter(|version| version.is_served).map(|version| version.name.as_str()).collect();
        versions.sort_unstable_by(|one, other| by_preference(one, other));
        versions.dedup();
        versions
    }
}

/// Kubernetes' order of versions: stable before beta before alpha, newer before older, anything else last by name.
fn by_preference(one: &str, other: &str) -> std::cmp::Ordering {
    match (rank(one), rank(other)) {
        (Some(one), Some(other)) => other.cmp(&one),
        (Some(_), None) => std::cmp::Ordering::Less,
        (None, Some(_)) => std::cmp::Ordering::Greater,
        (None, None) => one.cmp(other),
    }
}

/// Stability, major and minor version of a name such as `v1beta2`.
fn rank(version: &str) -> Option<(u8, u64, u64)> {
    let rest = version.strip_prefix('v')?;
    let end = rest.find(|character: char| !character.is_ascii_digit()).unwrap_or(rest.len());
    let major = rest[..end].parse().ok()?;
    match &rest[end..] {
        "" => Some((2, major, 0)),
        rest => {
            let (stability, minor) = rest
                .strip_prefix("beta")
                .map(|minor| (1, minor))
                .or_else(|| rest.strip_prefix("alpha").map(|minor| (0, minor)))?;
            Some((stability, major, minor.parse().ok()?))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stable_and_newer_versions_come_first() {
        let mut versions =
            ["v1", "foo1", "v1alpha2", "v10", "v2beta1", "v2", "v1alpha10", "foo10", "v1beta1"];
        versions.sort_unstable_by(|one, other| by_preference(one, other));
        let expected = ["v10", "v2", "v1", "v2beta1", "v1beta1", "v1alpha10", "v1alpha2", "foo1", "foo10"];
        assert_eq!(versions, expected);
    }
}
