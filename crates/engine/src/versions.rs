//! What can be called, and which version of it a step gets.
//!
//! A [`Catalogue`] has one [`Record`] per version of a function, whether it is built in or came in a package.
//! [`resolve()`] joins what a step asks for with what there is. Versions come and go with releases of the plane:
//! the state of a version is never stored, but follows from its [`Lifecycle`] and the release that asks.
//!
//! # Invariants
//! * A version that was removed is never replaced silently: asking for it is an error.
//! * Nothing is looked up here: the same catalogue and the same question always give the same answer.

mod catalogue;
mod lifecycle;
mod native;
mod resolve;
mod rules;
mod version;

pub use catalogue::{
    Catalogue, Family, Record, Revision, STABILITY_LABEL, UnusableFunction, VERSION_LABEL, VersionSource,
};
pub use lifecycle::{Lifecycle, LifecycleState};
pub use native::{Native, NotReplaced, Replaceable, Replacement, replacement};
pub use resolve::{Advice, Advisory, Question, Resolution, Unresolved, resolve, resolve_preferring};
pub use rules::Fault;
pub use version::{InvalidVersion, Version};
