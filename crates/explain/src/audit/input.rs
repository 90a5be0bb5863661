//! The input of an audit, and the objects to read for it.

use std::collections::BTreeSet;

use ferroplane_api::{Object, crds, keys};

use crate::snapshot::Home;

/// Objects of a kind that an audit reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AuditedKinds {
    pub api_version: &'static str,
    pub kind: &'static str,
    /// Without these there is no answer. Others may be missing from the API server.
    pub is_required: bool,
}

const RBAC: &str = "rbac.authorization.k8s.io/v1";

/// All objects that have to be read, everywhere. What any of them says decides who can do what, so that an answer without
/// one of the lists would be wrong.
pub fn audited_kinds() -> impl Iterator<Item = AuditedKinds> {
    let required = ["Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding"];
    let required = required.map(|kind| AuditedKinds { api_version: RBAC, kind, is_required: true });
    let others = [
        ("apiextensions.crossplane.io/v2", "CompositeResourceDefinition"),
        ("apiextensions.crossplane.io/v1", "Composition"),
        ("pkg.crossplane.io/v1", "Function"),
        ("protection.crossplane.io/v1beta1", "Usage"),
        ("protection.crossplane.io/v1beta1", "ClusterUsage"),
        ("apiextensions.crossplane.io/v1beta1", "Usage"),
        ("ferroplane.io/v1alpha1", "AccessGrant"),
    ];
    let others = others.map(|(api_version, kind)| AuditedKinds { api_version, kind, is_required: false });
    required.into_iter().chain(others)
}

/// A kind that the API server serves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditKind {
    pub group: String,
    pub kind: String,
    pub plural: String,
    pub is_namespaced: bool,
}

/// Where there are composite resources of a kind.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct CompositeUse {
    pub group: String,
    pub kind: String,
    /// Empty if they are in none.
    pub namespace: String,
}

/// Everything that decides who can do what.
#[derive(Debug, Clone, Default)]
pub struct AuditInput {
    pub home: Home,
    /// Objects of all [`audited_kinds`].
    pub objects: Vec<Object>,
    pub kinds: Vec<AuditKind>,
    pub composites: BTreeSet<CompositeUse>,
    /// The groups of Kubernetes' own kinds.
    pub kubernetes_groups: BTreeSet<String>,
    /// The names of functions that are known to compose nothing of their own.
    pub passive_functions: BTreeSet<String>,
    /// The user that writes composed resources, if it is given. Otherwise it is found out.
    pub composer: Option<String>,
}

impl AuditInput {
    /// Whether a rule about all custom resources means this group. Only the API server of `ferroplane up` has such rules.
    pub(super) fn is_custom(&self, group: &str) -> bool {
        self.home == Home::Embedded
            && group.contains('.')
            && !self.kubernetes_groups.contains(group)
            && !crds::ALL.iter().any(|crd| crd.group == group)
    }

    pub(super) fn of_kind<'i>(&'i self, group: &'i str, kind: &'i str) -> impl Iterator<Item = &'i Object> {
        self.objects.iter().filter(move |object| {
            let meta = (ferroplane_api::meta::api_version(object), ferroplane_api::meta::kind(object));
            ferroplane_api::meta::group(meta.0) == group && meta.1 == kind
        })
    }

    pub(super) fn kind(&self, group: &str, kind: &str) -> Option<&AuditKind> {
        self.kinds.iter().find(|known| known.group == group && known.kind == kind)
    }

    pub(super) fn kind_of(&self, group: &str, plural: &str) -> Option<&AuditKind> {
        self.kinds.iter().find(|known| known.group == group && known.plural == plural)
    }
}

/// The group of roles and bindings.
pub(super) const RBAC_GROUP: &str = "rbac.authorization.k8s.io";
/// The group of definitions and Compositions.
pub(super) const DEFINITIONS: &str = keys::APIEXTENSIONS;
