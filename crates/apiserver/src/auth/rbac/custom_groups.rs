//! One name for the groups of all custom resources.
//!
//! Rules can name a group or all groups, and nothing between. A control plane has to work with kinds that are not defined yet, and must
//! not be given Kubernetes' own for that: roles, webhooks, certificates. Here a rule may say so.

use std::collections::HashSet;
use std::sync::LazyLock;

use ferroplane_schema::builtin;

use super::Attributes;

/// In a rule: every group of custom resources. On another API server it is a group that does not exist, and grants nothing.
pub const CUSTOM_RESOURCES: &str = "custom-resources.ferroplane.io";

static KUBERNETES: LazyLock<HashSet<&str>> =
    LazyLock::new(|| builtin::resources().iter().map(|row| row.group).collect());

/// The groups of Kubernetes' own kinds, which that name does not stand for.
pub fn kubernetes_groups() -> impl Iterator<Item = &'static str> {
    KUBERNETES.iter().copied()
}

/// Which groups that name stands for: all but Kubernetes' own and those that are set apart.
#[derive(Debug, Default)]
pub(super) struct CustomGroups {
    reserved: HashSet<String>,
}

impl CustomGroups {
    pub(super) fn new(reserved: impl IntoIterator<Item = String>) -> Self {
        Self { reserved: reserved.into_iter().collect() }
    }

    /// What is asked for, as rules about all custom resources see it. None if they do not speak of it.
    pub(super) fn generalise<'a>(&self, attributes: &Attributes<'a>) -> Option<Attributes<'a>> {
        let group = attributes.group;
        // The group of a custom resource is a domain with at least two labels.
        let is_custom = attributes.path.is_none()
            && group.contains('.')
            && !KUBERNETES.contains(group)
            && !self.reserved.contains(group);
        is_custom.then_some(Attributes { group: CUSTOM_RESOURCES, ..*attributes })
    }
}
