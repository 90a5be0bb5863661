//! Templates: what they do, what they may cost, and what Go's own package makes of the same ones.
//!
//! The comparison asks the peer `text-template`, if it is installed (`cargo xtask peers`), about generated templates.
//! `FERROPLANE_CASES` says how many, `FERROPLANE_SEED` with which number to begin.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod basics;
mod comparison;
#[path = "../../../../tests/comparison/dice.rs"]
mod dice;
mod functions;
mod generator;
mod limits;
#[path = "../../../../tests/comparison/oracle.rs"]
mod oracle;
mod soup;
