//! The group `rollout.ferroplane.io`: new revisions of functions reach composite resources in waves.
//!
//! | File | What it does |
//! |---|---|
//! | `cohort` | Says which revisions the steps of a composite resource call, given all rollouts |
//! | `trials` | Remembers how candidates did where they were tried, until the controller has judged them |
//! | `controller` | Observes composite resources, asks `engine::rollout::decide`, and writes the status |
//!
//! A candidate is tried where it would be applied: the controller of composite resources runs both revisions, compares their plans, and
//! carries out that of the old one if the rollout refuses the difference (`apiextensions/composite/trial.rs`).

mod cohort;
pub(crate) mod controller;
mod trials;

pub(crate) use cohort::Cohort;
pub(crate) use trials::{Trial, Trials};
