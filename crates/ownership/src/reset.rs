//! Which fields a write may change. The server puts all others back, so that no manager comes to own them by sending them.
//!
//! Follows structured-merge-diff 6.3.3, `fieldpath/set.go`; apiextensions-apiserver 0.36.4,
//! `pkg/registry/customresource/strategy.go`.

use std::collections::BTreeMap;

use crate::merge::compare::Comparison;
use crate::merge::pattern::Patterns;
use crate::merge::set::Set;

/// What a write may change, by version.
pub type ResetFields = BTreeMap<String, Filter>;

/// Which fields of a version a write may change.
#[derive(Debug, Clone, PartialEq)]
pub enum Filter {
    /// All but these, and what lies below them.
    Except(Set<'static>),
    /// Only those that fit these patterns.
    Only(Patterns),
}

impl From<Set<'static>> for Filter {
    fn from(set: Set<'static>) -> Self {
        Self::Except(set)
    }
}

impl Filter {
    /// Forgets fields that may not be changed.
    pub(super) fn apply(&self, set: &mut Set<'_>) {
        match self {
            Self::Except(fields) => set.subtract_trees(fields),
            Self::Only(patterns) => set.keep_matching(patterns),
        }
    }

    /// Forgets changes of fields that may not be changed.
    pub(super) fn apply_to_comparison(&self, comparison: &mut Comparison<'_>) {
        for set in [&mut comparison.removed, &mut comparison.modified, &mut comparison.added] {
            self.apply(set);
        }
    }
}

/// The fields that a write to a custom resource with a status may not change.
pub fn reset_for_custom_resource(api_version: &str) -> ResetFields {
    [(api_version.to_owned(), Set::of_fields(&[&["status"]]).into())].into()
}

/// The fields that a write to the status of a custom resource may not change.
pub fn reset_for_custom_resource_status<'a>(api_versions: impl IntoIterator<Item = &'a str>) -> ResetFields {
    let fields = Filter::from(Set::of_fields(&[&["metadata"], &["spec"]]));
    api_versions.into_iter().map(|version| (version.to_owned(), fields.clone())).collect()
}
