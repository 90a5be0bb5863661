//! The group `rollout.ferroplane.io`: new revisions of functions reach composite resources in waves, and developers intercept calls.
//!
//! | File | What it does |
//! |---|---|
//! | `cohort` | Decides which revisions the steps of a composite resource call, given all rollouts |
//! | `calls` | Counts calls of the revisions that are compared |
//! | `known_subjects` | The composite resources that a rollout is about |
//! | `trials` | Keeps the results of trials, until the controller has read them |
//! | `leases` | Decides which `FunctionIntercept`s are renewed in time |
//! | `interceptions` | Keeps the results of calls that were sent to developers' processes |
//! | `intercept_controller` | Writes the status of `FunctionIntercept`s |
//! | `controller` | Observes composite resources, calls `engine::rollout::decide`, and writes the status |
//!
//! A candidate is tried where it would be applied: the controller of composite resources runs both revisions, compares their plans, and
//! applies that of the old one if the rollout refuses the difference (`apiextensions/composite/trial.rs`).

mod calls;
mod cohort;
pub(crate) mod controller;
pub(crate) mod intercept_controller;
mod interceptions;
mod known_subjects;
mod leases;
mod trials;

pub(crate) use calls::Calls;
pub(crate) use cohort::Cohort;
pub(crate) use interceptions::Interceptions;
pub(crate) use known_subjects::KnownSubjects;
pub(crate) use leases::Leases;
pub(crate) use trials::{Proof, Trial, Trials};
