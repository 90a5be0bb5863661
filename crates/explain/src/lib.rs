//! Explains what an API server has: the tree of what was composed, and why something is not ready. Performs no I/O.
//!
//! It is a conversation: [`wants`] says what to read next, given what was read before, until there is nothing more to read;
//! then [`tree()`] and [`diagnose`] answer. Only what any user can read is used: objects, their conditions, and events.
//!
//! Beside that, [`audit`] says who can cause what.
//!
//! # Invariants
//! * The same snapshot always gives the same answer.
//! * Whatever is read, the conversation ends: every question is asked once, and the tree is cut where it is too deep.

pub mod audit;
mod complaint;
mod diagnosis;
mod finding;
mod id;
mod inquiry;
mod known_functions;
mod look;
mod overview;
mod packages;
mod readiness_check;
mod rules;
mod snapshot;
mod steps;
#[cfg(test)]
mod testing;
mod texts;
mod tree;
mod words;

pub use diagnosis::{Diagnosis, Link, diagnose};
pub use finding::Finding;
pub use id::Id;
pub use inquiry::{Purpose, wants};
pub use known_functions::KnownFunction;
pub use overview::{CauseGroup, Overview, Severity, Survey, Unread};
pub use rules::causes;
pub use snapshot::{Home, List, Snapshot, State, Want};
pub use tree::{Node, tree};
