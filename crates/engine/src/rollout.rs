//! Decides how a new revision of a function or a composition reaches composite resources: who is moved, when, and when all go back.
//!
//! The status of a `FunctionRollout` is all that is remembered. [`decide()`] takes it, and what was observed, to the next status; an
//! [`Overlay`] reads from it which revision a composite resource calls.
//!
//! ```text
//! Idle ─ a newer revision is in service ─▶ (Previewing ─▶) Progressing ─ all waves are ready ─▶ Promoted
//!                                                             │  ▲
//!                                            paused, or failed ▼  │ not paused
//!                                                           Paused
//!   Previewing, Progressing, Paused ─ failed, or undone ─▶ RollingBack ─ nobody calls it any more ─▶ RolledBack
//! ```
//!
//! # Invariants
//! * The same status and observations always give the same decision.
//! * Until a revision is promoted, whoever was moved to it stays moved, unless all go back.
//! * Of those that were moved, at most `maxUnavailable` are not known to be as ready as before.
//! * Composite resources with the update policy `Manual` are counted, and never moved.
//! * While one revision is rolled out, a newer one waits.

mod acceptance;
mod decide;
mod differences;
mod overlay;
mod share;
mod subject;
#[cfg(test)]
mod tests;

pub use acceptance::{ACCEPTED, accept, target_of};
pub use decide::{
    CallCounts, CallStatistics, Commands, Decision, Example, Observation, RevisionFact, Tried, decide,
};
pub use differences::{Comparison, Differences, compare, compare_alone};
pub use overlay::{Choice, Member, Overlay, Overlays, overlays};
pub use subject::{Health, Subject, recorded_as};
