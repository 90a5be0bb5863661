//! Structural schemas: what the schema in a `CustomResourceDefinition` says, and what it does to an object.
//!
//! [`Props`] is a schema as it is written. [`rules`] says what Kubernetes would refuse in it. [`Schema`] is the
//! same compiled: made once, it prunes, defaults, coerces and validates any number of objects.
//!
//! Follows apiextensions-apiserver 0.36.4, `pkg/apiserver/schema/structural.go`.
//!
//! # Invariants
//! * Errors have the texts, fields and causes that Kubernetes gives them. Where Kubernetes goes through a map in
//!   random order, we go in the order of the keys.
//! * Nothing is nested more deeply than [`MAX_DEPTH`], so nothing overflows the stack.
//! * Validation allocates nothing unless something is wrong.

mod coerce;
mod compile;
mod compile_budget;
mod correlate;
pub mod crd;
mod decode;
mod default;
mod expressions;
mod field_path;
pub(crate) mod format;
mod internal;
mod list_type;
mod number;
pub(crate) mod object_meta;
pub mod openapi;
mod pattern;
mod prepare;
mod props;
mod props_json;
mod prune;
mod report;
mod resource;
pub mod rules;
pub mod strict_json;
mod surround;
mod validate;

pub use coerce::Coercion;
pub use compile::Schema;
pub use compile_budget::is_withheld;
pub use decode::DecodeError;
pub use expressions::RuleCost;
pub use object_meta::ObjectMeta;
pub use pattern::Pattern;
pub use prepare::{prepare_create, prepare_status_update, prepare_update};
pub use props::{Additional, Items, Props, ValidationRule};
pub(crate) use props_json::number_to_json;
pub use resource::{CustomResource, Scale, Unacceptable};

/// How deeply schemas can be nested. No text can be read that is nested more deeply.
pub const MAX_DEPTH: usize = 64;

/// How deeply values can be nested where no schema bounds them.
const MAX_VALUE_DEPTH: usize = 500;
