//! Sees to it that of several replicas one works.
//!
//! Whoever holds the `Lease` leads. The others follow it, so that they learn at once when it is given back, and take it when
//! its holder did not renew it in time.
//!
//! # Invariants
//! * A leader writes nothing once it could not renew the lease for two thirds of its duration ([`Term`]); nobody else takes it
//!   before the whole duration has passed.
//! * Clocks of machines are not compared: all durations are measured by whoever waits.

mod election;
mod fenced;
mod term;

pub use election::{Candidacy, Election};
pub use fenced::Fenced;
pub use term::Term;
