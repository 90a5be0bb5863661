//! Who owns which fields of an object: what writes do to `metadata.managedFields`, and what applying does to the
//! object itself.
//!
//! [`update()`] notes who changed what when an object is created, replaced or patched. [`apply()`] merges a
//! configuration into an object and refuses to take what others own, unless forced. It decides only: the
//! [`Plan`] changes the object. Defaults are put in afterwards; on a plan that changes nothing, they are there.
//!
//! There is no clock: the time of a write is part of the [`Request`].
//!
//! Follows apimachinery 0.36.4, `pkg/util/managedfields`.
//!
//! # Invariants
//! * A write that changes nothing changes no time.
//! * Managed fields that cannot be read never fail an update: they are replaced or dropped.
//! * Live objects are in the version of the request. Entries of other versions of the kind are kept: what they own is
//!   looked for in the object as those versions see it, which a [`Convert`] tells. Without one, all versions see the same.
//!   Entries of versions that the kind does not have are dropped.

mod apply;
mod cap;
mod conflict;
mod contested;
mod entry;
mod extract;
mod holds;
mod item_index;
mod last_applied;
mod ledger;
pub mod merge;
mod plan;
mod prune;
mod reset;
mod scale;
mod stamp;
mod unchanged;
mod update;

use std::sync::Arc;

use ferroplane_golang::json::JsonObject;

pub use apply::apply;
pub use conflict::{ApplyError, Cause, Conflict};
pub use contested::{Contested, contested};
pub use entry::validate;
pub use extract::{extract, owns};
pub use holds::{holds, same};
pub use plan::Plan;
pub use reset::{Filter, ResetFields, reset_for_custom_resource, reset_for_custom_resource_status};
pub use scale::Scale;
pub use unchanged::keep_times;
pub use update::{Updated, update};

use crate::merge::shape::{Cursor, Shapes};

/// What is known about the kind of an object.
#[derive(Debug, Clone)]
pub struct VersionedKind {
    pub name: String,
    pub versions: Vec<Version>,
}

/// A version of a kind.
#[derive(Debug, Clone)]
pub struct Version {
    /// Group and version, as objects say it.
    pub api_version: String,
    pub shapes: Arc<Shapes>,
}

/// A write: by whom, in which version, to which part, and when.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    pub manager: &'a str,
    pub api_version: &'a str,
    /// Empty, unless a subresource is written.
    pub subresource: &'a str,
    /// In RFC 3339, UTC, to the second.
    pub time: &'a str,
    pub reset_fields: Option<&'a ResetFields>,
    /// Who knows what objects are in other versions, if they are anything else than they are in this one.
    pub converter: Option<&'a dyn Convert>,
}

/// Makes of an object one of another version of its kind.
pub trait Convert: std::fmt::Debug + Sync {
    fn convert(&self, object: &JsonObject, api_version: &str) -> Result<JsonObject, String>;
}

impl VersionedKind {
    fn shape(&self, api_version: &str) -> Option<Cursor<'_>> {
        let version = self.versions.iter().find(|version| version.api_version == api_version)?;
        Some(version.shapes.root())
    }
}

impl<'a> Request<'a> {
    fn reset(&self, api_version: &str) -> Option<&'a Filter> {
        self.reset_fields.and_then(|fields| fields.get(api_version))
    }
}
