//! Selectors: which objects a list or a watch is about.
//!
//! [`LabelSelector`] is parsed from the text of a query or from the object that other objects carry, [`FieldSelector`]
//! from the text of a query.
//!
//! Follows apimachinery 0.36.4, `pkg/labels`, `pkg/fields`.

mod fields;
mod labels;
mod object;
mod parse;
mod selectable;

pub use fields::{FieldRequirement, FieldSelector};
pub use labels::{LabelSelector, Operator, Requirement};
pub use object::validate;
pub use selectable::SelectableFields;
