//! Merges objects by their types: what a configuration adds to an object, which fields differ, who names what.
//!
//! A [`MergeShape`](shape::MergeShape) says how a value merges, a [`Set`](set::Set) names fields. Everything else walks
//! values along shapes. What belongs to whom is decided in [`crate`].
//!
//! Follows structured-merge-diff 6.3.3, `typed/typed.go`.
//!
//! # Invariants
//! * No value deeper than [`MAX_DEPTH`] is walked: a client that calls a walk asks [`is_too_deep`] first.
//! * Sets are sorted, without duplicates, and have no branch without a member.

pub mod combine;
pub mod compare;
pub mod fields;
pub mod fieldset;
mod list;
pub(crate) mod lost;
pub mod path;
pub mod pattern;
pub mod reconcile;
pub mod remove;
pub(crate) mod rewrite;
mod scalar;
pub mod set;
pub mod shape;
pub(crate) mod text;
pub mod validate;

use ferroplane_golang::json::JsonObject;
use serde_json::Value;

/// How deep values may be nested. A JSON parser refuses at 128.
pub const MAX_DEPTH: usize = 160;

/// Whether an object is nested deeper than the walks would survive.
pub fn is_too_deep(object: &JsonObject) -> bool {
    object.values().any(|value| exceeds(value, MAX_DEPTH))
}

fn exceeds(value: &Value, left: usize) -> bool {
    match value {
        // The check recurses itself, but never deeper than the limit.
        Value::Array(items) => left == 0 || items.iter().any(|item| exceeds(item, left - 1)),
        Value::Object(fields) => left == 0 || fields.values().any(|field| exceeds(field, left - 1)),
        _ => false,
    }
}
