//! What keeps a cluster in order without being asked: definitions become resources, namespaces are emptied, and what
//! lost its owner, or its time, goes.
//!
//! Janitors look at the store and change it by the same way as every client. What they know is in the store, so that a
//! restart forgets nothing.

mod accounts;
mod definitions;
mod events;
mod garbage;
mod namespaces;
mod queue;
mod roles;

use std::sync::Arc;

use tokio::task::JoinSet;

use crate::server::Inner;
pub(crate) use definitions::recall;
pub(crate) use queue::Signals;

/// Sets all to work. They stop when the set is dropped.
pub(crate) fn start(server: &Arc<Inner>) -> JoinSet<()> {
    let mut janitors = JoinSet::new();
    janitors.spawn(accounts::run(Arc::clone(server)));
    janitors.spawn(definitions::run(Arc::clone(server)));
    janitors.spawn(events::run(Arc::clone(server)));
    janitors.spawn(garbage::run(Arc::clone(server)));
    janitors.spawn(namespaces::run(Arc::clone(server)));
    janitors.spawn(roles::run(Arc::clone(server)));
    janitors
}
