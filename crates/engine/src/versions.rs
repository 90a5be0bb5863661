//! The functions that can be called, and the version that a step gets.
//!
//! A [`Catalogue`] has one [`Record`] per version of a function, built in or from a package. [`resolve()`] finds the version that a step
//! asks for. Versions change with releases of the plane: the state of a version is never stored, but follows from its [`Lifecycle`] and
//! the release.
//!
//! # Invariants
//! * A removed version is never replaced silently: asking for it is an error.
//! * There is no I/O: the same catalogue and the same question always give the same answer.

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
