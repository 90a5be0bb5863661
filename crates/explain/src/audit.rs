//! Computes who can cause a write: directly, and through the control plane. Performs no I/O.
//!
//! RBAC says what a subject may write. It does not say what follows: a user who writes a Composition decides what the control plane
//! composes, a user who creates pods acts as their service accounts, a user who may `escalate` has every right. Here each of these is
//! an edge from one [actor](actor::Actor) to another, and a subject can cause whatever an actor may do that it reaches.
//!
//! # Invariants
//! * The same objects always give the same answers, in the same order.
//! * A direct right is answered as the API server's RBAC authorizer answers it. Authorizers beside RBAC are not known here.
//! * Whatever the objects say, the search ends: there are finitely many actors, and each is checked once.
//! * A namespaced composite resource never leads out of its namespace, but for reads of cluster-scoped kinds and what grants allow.

mod actor;
mod answer;
mod composing;
mod edges;
mod graph;
mod held;
mod input;
mod intercepts;
mod operations;
mod packages;
mod powers;
mod reach;
mod rights;
mod routes;
mod rule;
mod selector;
mod subject;
#[cfg(test)]
mod tests;

pub use answer::{Answer, Audit, Step};
pub use input::{AuditInput, AuditKind, AuditedKinds, CompositeUse, audited_kinds};
pub use powers::{POWERS, Power, PowerHeld};
pub use reach::Reach;
pub use rule::{BLOCK_DELETE, Question};
pub use subject::Subject;
