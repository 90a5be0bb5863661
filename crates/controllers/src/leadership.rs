//! Leader election: of several replicas, one runs the controllers.
//!
//! The replica that holds the `Lease` leads. The others watch it, so that they notice at once when it is released, and take it when its
//! holder did not renew it in time.
//!
//! # Invariants
//! * A leader writes nothing once it could not renew the lease for two thirds of its duration ([`Term`]); no other replica takes it
//!   before the whole duration has passed.
//! * Clocks of machines are not compared: each replica measures durations itself.

mod election;
mod fenced;
mod term;

pub use election::{Candidacy, Election};
pub use fenced::Fenced;
pub use term::Term;
