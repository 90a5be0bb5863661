//! Decides how a new revision of a function or a composition reaches composite resources: which ones are moved, when, and when all are
//! moved back.
//!
//! The status of a `FunctionRollout` is the only state. [`decide()`] computes the next status from it and the observations; an
//! [`Overlay`] reads from it which revision a composite resource calls.
//!
//! ```text
//! Idle ─ a newer revision is in service ─▶ (Previewing ─▶) Progressing ─ all waves are ready ─▶ Promoted
//!                                                             │  ▲
//!                                            paused, or failed ▼  │ not paused
//!                                                           Paused
//!   Previewing, Progressing, Paused ─ failed, or undone ─▶ RollingBack ─ nothing calls it any more ─▶ RolledBack
//! ```
//!
//! # Invariants
//! * The same status and observations always give the same decision.
//! * Until a revision is promoted, a composite resource that was moved to it stays moved, unless all are moved back.
//! * Of the moved ones, at most `maxUnavailable` are not known to be as ready as before.
//! * Composite resources with the update policy `Manual` are counted, and never moved.
//! * While one revision is rolled out, a newer one waits.
//! * A request of a user is handled once.
//! * Nothing is moved while there may be composite resources that are not known.
//! * After a restart, a function that cannot be called counts as a failure only after it had time to start ([`Restart`]).

mod acceptance;
mod decide;
mod differences;
mod overlay;
mod restart;
mod share;
mod subject;
#[cfg(test)]
mod tests;

pub use acceptance::{ACCEPTED, accept, is_in_use, target_of};
pub use decide::{
    CallCounts, CallStatistics, Commands, Decision, Example, Observation, RevisionFact, Tried, decide,
    waits_for,
};
pub use differences::{Comparison, Differences, MOST_ADDED, compare, compare_alone, is_slow};
pub use overlay::{Choice, Member, Overlay, Overlays, overlays};
pub use restart::{Restart, is_uncallable};
pub use subject::{Health, Subject, recorded_as};
