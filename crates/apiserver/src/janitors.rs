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

use ferroplane_schema::status::Status;
use serde_json::{Map, Value};
use tokio::task::JoinSet;

use crate::server::Inner;
use crate::store::{Change, Draft, Entry, Expect, Operation, SubmitError};
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

/// Stores an object without what kept it, or deletes it if nothing else does. Says whether nobody was faster.
async fn let_go(
    server: &Inner,
    entry: &Entry,
    object: &Map<String, Value>,
    is_kept: bool,
) -> Result<bool, Status> {
    let change = if is_kept {
        Change::Put(Draft::new(object).map_err(|error| Status::internal(&error.to_string()))?)
    } else {
        Change::Delete
    };
    let expect = Expect::Revision(entry.revision());
    match server.store.submit(vec![Operation { key: entry.key().clone(), expect, change }]).await {
        Ok(_) => Ok(true),
        Err(SubmitError::Refused(_)) => Ok(false),
        Err(error) => Err(crate::verbs::unavailable(&error)),
    }
}
