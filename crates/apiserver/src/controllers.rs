//! Controllers of the API itself, as kube-controller-manager and apiextensions-apiserver have them: definitions become
//! resources, namespaces are emptied, and what lost its owner, or its time, goes.
//!
//! Controllers look at the store and change it by the same way as every client. What they know is in the store, so that a
//! restart forgets nothing.
//!
//! A webhook may refuse what a controller wants to delete. One refusal keeps neither its siblings nor anything else, and is not
//! forgotten: it is tried again, with a growing delay, and soon when the object or the webhooks change ([`queue`]).

mod cluster_role_aggregation;
mod custom_resource_definitions;
mod event_expiry;
mod garbage_collector;
mod namespaces;
mod queue;
mod service_accounts;
mod work_queues;

use std::sync::Arc;
use std::time::Duration;

use ferroplane_schema::status::Status;
use serde_json::{Map, Value};
use tokio::task::JoinSet;

use crate::server::ServerState;
use crate::store::{Change, Draft, Entry, Expect, Operation, SubmitError};
pub(crate) use custom_resource_definitions::serve_established;
pub(crate) use work_queues::WorkQueues;

/// How long to wait before trying again what does not depend on anybody else.
const PAUSE: Duration = Duration::from_secs(1);

/// Sets all to work. They stop when the set is dropped.
pub(crate) fn start(server: &Arc<ServerState>) -> JoinSet<()> {
    let mut controllers = JoinSet::new();
    controllers.spawn(service_accounts::run(Arc::clone(server)));
    controllers.spawn(custom_resource_definitions::run(Arc::clone(server)));
    controllers.spawn(event_expiry::run(Arc::clone(server)));
    controllers.spawn(garbage_collector::run(Arc::clone(server)));
    controllers.spawn(namespaces::run(Arc::clone(server)));
    controllers.spawn(cluster_role_aggregation::run(Arc::clone(server)));
    controllers
}

/// Stores an object without a finalizer, or deletes it if it was the last one. Returns whether there was no conflict.
async fn remove_finalizer(
    server: &ServerState,
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
        Err(error) => Err(crate::verbs::storage_failure(&error)),
    }
}
