//! What an API server does to objects: what holds for all of them, and what Kubernetes' own code does to the same ones.
//!
//! Comparisons with originals read recorded answers, which always runs, and ask the peers that are installed
//! (`cargo xtask peers`) about generated cases. `FERROPLANE_CASES` says how many, `FERROPLANE_SEED` with which number to
//! begin, and `FERROPLANE_UPDATE_GOLDEN=1` records answers anew.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod api_server;
mod cancelled;
#[path = "../../../../tests/comparison/dice.rs"]
mod dice;
mod kinds;
mod kinds_properties;
#[path = "../../../../tests/comparison/oracle.rs"]
mod oracle;
mod properties;
mod structural;
mod structural_properties;
mod views;
