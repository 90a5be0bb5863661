//! Deletes what has lost all its owners, makes owners wait for what they own, and lets go of orphans.
//!
//! Nothing is deleted on doubt: an owner is gone only if its kind is known and there is no object of its name with its
//! identifier. Of kinds that are not known, owners are taken to be there.

use std::sync::Arc;

use ferroplane_schema::status::Status;
use ferroplane_schema::writes::Part;
use serde_json::{Map, Value, json};
use tracing::warn;

use super::queue::PAUSE;
use crate::options::{DeleteOptions, Propagation};
use crate::server::ServerState;
use crate::store::{Entry, Uid};
use crate::verbs::{FOREGROUND, ORPHAN};

/// Works until it is stopped.
pub(super) async fn run(server: Arc<ServerState>) {
    enqueue_unfinished(&server);
    loop {
        let uid = server.queues.garbage.pop().await;
        if let Err(status) = reconcile(&server, &uid).await {
            warn!(uid = %uid, problem = status.message, "cannot collect garbage yet");
            let server = Arc::downgrade(&server);
            tokio::spawn(async move {
                tokio::time::sleep(PAUSE).await;
                if let Some(server) = server.upgrade() {
                    server.queues.garbage.push(uid);
                }
            });
        }
    }
}

/// What was under way before the last stop is taken up again.
fn enqueue_unfinished(server: &ServerState) {
    for collection in server.store.collections() {
        for entry in &server.store.snapshot(&collection) {
            let metadata = entry.metadata();
            if metadata.is_terminating || !metadata.owners.is_empty() {
                server.queues.garbage.push(metadata.uid.clone());
            }
        }
    }
}

async fn reconcile(server: &ServerState, uid: &Uid) -> Result<(), Status> {
    let Some(entry) = server.store.by_uid(uid) else {
        // It is gone, and what it owned may have nobody else.
        for dependent in server.store.dependents(uid) {
            collect(server, &dependent).await?;
        }
        return Ok(());
    };
    if entry.metadata().is_terminating {
        let object = read(&entry)?;
        if has_finalizer(&object, ORPHAN) {
            return release_dependents(server, &entry, &object).await;
        }
        if has_finalizer(&object, FOREGROUND) {
            return wait_for_dependents(server, &entry, &object).await;
        }
    }
    collect(server, &entry).await
}

fn read(entry: &Entry) -> Result<Map<String, Value>, Status> {
    serde_json::from_slice(entry.bytes()).map_err(|error| Status::internal(&error.to_string()))
}

fn metadata<'o>(object: &'o Map<String, Value>, name: &str) -> &'o [Value] {
    let value = object.get("metadata").and_then(|metadata| metadata.get(name));
    value.and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn has_finalizer(object: &Map<String, Value>, finalizer: &str) -> bool {
    metadata(object, "finalizers").iter().any(|own| own == finalizer)
}

/// What an owner is to something that it owns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Owner {
    /// There, or perhaps there.
    Solid,
    Gone,
    /// Being deleted, and waiting for what it owns to go first.
    Waiting,
}

/// Deletes an object that has owners, none of which is there, and lets it forget some that are not.
async fn collect(server: &ServerState, entry: &Entry) -> Result<(), Status> {
    if entry.metadata().owners.is_empty() {
        return Ok(());
    }
    let object = read(entry)?;
    let references = metadata(&object, "ownerReferences");
    let owners: Vec<_> = references.iter().map(|reference| classify(server, entry, reference)).collect();
    if owners.iter().all(|owner| *owner == Owner::Solid) {
        return Ok(());
    }
    if owners.contains(&Owner::Solid) {
        let kept = references.iter().zip(&owners).filter(|(_, owner)| **owner == Owner::Solid);
        let kept: Vec<_> = kept.map(|(reference, _)| reference.clone()).collect();
        return set_owners(server, entry, &kept).await;
    }
    let propagation = if has_finalizer(&object, ORPHAN) {
        Propagation::Orphan
    } else if has_finalizer(&object, FOREGROUND)
        || owners.contains(&Owner::Waiting) && has_dependents(server, entry)
    {
        Propagation::Foreground
    } else {
        Propagation::Background
    };
    remove(server, entry, propagation).await
}

fn has_dependents(server: &ServerState, entry: &Entry) -> bool {
    !server.store.dependents(&entry.metadata().uid).is_empty()
}

fn classify(server: &ServerState, dependent: &Entry, reference: &Value) -> Owner {
    let text = |name: &str| reference.get(name).and_then(Value::as_str).unwrap_or_default();
    let api_version = text("apiVersion");
    let group = api_version.split_once('/').map_or("", |(group, _)| group);
    let catalogue = server.registry.catalogue();
    // A kind that is not served now may be served again, with the owner still in the store.
    let Some(resource) = catalogue.find_kind(group, text("kind")) else { return Owner::Solid };
    let namespace = dependent.key().namespace();
    // Something outside of namespaces cannot be owned by something inside of one: nobody knows which.
    if resource.is_namespaced && namespace.is_empty() {
        return Owner::Solid;
    }
    let namespace = if resource.is_namespaced { namespace } else { "" };
    let key = server.store.collection(&resource.collection).key(namespace, text("name"));
    let owner = server.store.get(&key).filter(|owner| owner.metadata().uid == Uid::from(text("uid")));
    let Some(owner) = owner else { return Owner::Gone };
    let blocks = reference.get("blockOwnerDeletion") == Some(&Value::Bool(true));
    let waits = owner.metadata().is_terminating
        && read(&owner).is_ok_and(|object| has_finalizer(&object, FOREGROUND));
    if waits && blocks { Owner::Waiting } else { Owner::Solid }
}

async fn set_owners(server: &ServerState, entry: &Entry, owners: &[Value]) -> Result<(), Status> {
    let owners = if owners.is_empty() { Value::Null } else { owners.into() };
    patch(server, entry, json!({ "ownerReferences": owners })).await
}

/// Changes the metadata of an object, if it is as it was.
async fn patch(server: &ServerState, entry: &Entry, mut metadata: Value) -> Result<(), Status> {
    let Some(resource) = server.resource_of(entry) else { return Ok(()) };
    metadata["resourceVersion"] = entry.revision().to_string().into();
    metadata["uid"] = entry.metadata().uid.to_string().into();
    let key = entry.key();
    let patch = json!({ "metadata": metadata });
    let patched = server.patch(&resource, Part::Whole, key.namespace(), key.name(), &patch).await;
    patched.map(drop).or_else(is_gone)
}

async fn remove(server: &ServerState, entry: &Entry, propagation: Propagation) -> Result<(), Status> {
    let options = DeleteOptions {
        propagation: Some(propagation),
        resource_version: Some(entry.revision().to_string()),
        ..DeleteOptions::default()
    };
    server.delete(entry, options, Some("generic-garbage-collector")).await.map(drop).or_else(is_gone)
}

/// What is gone needs no more care.
fn is_gone(status: Status) -> Result<(), Status> {
    if status.code == 404 { Ok(()) } else { Err(status) }
}

/// Everything that an object owns forgets it, and then it may go.
async fn release_dependents(
    server: &ServerState,
    owner: &Entry,
    object: &Map<String, Value>,
) -> Result<(), Status> {
    for dependent in server.store.dependents(&owner.metadata().uid) {
        let held = read(&dependent)?;
        let uid = owner.metadata().uid.to_string();
        let others = metadata(&held, "ownerReferences").iter().filter(|reference| reference["uid"] != uid);
        let others: Vec<_> = others.cloned().collect();
        set_owners(server, &dependent, &others).await?;
    }
    drop_finalizer(server, owner, object, ORPHAN).await
}

/// Deletes what an object owns. When nothing that it has to wait for is left, it may go, too.
async fn wait_for_dependents(
    server: &ServerState,
    owner: &Entry,
    object: &Map<String, Value>,
) -> Result<(), Status> {
    let uid = owner.metadata().uid.to_string();
    let mut is_blocked = false;
    for dependent in server.store.dependents(&owner.metadata().uid) {
        let held = read(&dependent)?;
        is_blocked |= metadata(&held, "ownerReferences")
            .iter()
            .any(|reference| reference["uid"] == uid && reference["blockOwnerDeletion"] == Value::Bool(true));
        if !dependent.metadata().is_terminating {
            collect_for(server, &dependent, &uid).await?;
        }
    }
    // What goes at once is gone by now.
    let is_alone = !is_blocked
        || server.store.dependents(&owner.metadata().uid).iter().all(|dependent| {
            read(dependent).is_ok_and(|held| {
                metadata(&held, "ownerReferences").iter().all(|reference| {
                    reference["uid"] != uid || reference["blockOwnerDeletion"] != Value::Bool(true)
                })
            })
        });
    if is_alone { drop_finalizer(server, owner, object, FOREGROUND).await } else { Ok(()) }
}

/// Deletes what is owned by one that waits, unless somebody else owns it, too.
async fn collect_for(server: &ServerState, dependent: &Entry, owner: &str) -> Result<(), Status> {
    let held = read(dependent)?;
    let references = metadata(&held, "ownerReferences");
    let others: Vec<_> = references
        .iter()
        .filter(|reference| {
            reference["uid"] != owner && classify(server, dependent, reference) == Owner::Solid
        })
        .cloned()
        .collect();
    if others.is_empty() {
        let is_owner = has_dependents(server, dependent);
        let propagation = if is_owner { Propagation::Foreground } else { Propagation::Background };
        return remove(server, dependent, propagation).await;
    }
    set_owners(server, dependent, &others).await
}

async fn drop_finalizer(
    server: &ServerState,
    entry: &Entry,
    object: &Map<String, Value>,
    finalizer: &str,
) -> Result<(), Status> {
    let rest: Vec<_> =
        metadata(object, "finalizers").iter().filter(|own| *own != finalizer).cloned().collect();
    patch(server, entry, json!({ "finalizers": rest })).await
}
