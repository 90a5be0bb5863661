//! Deletes what has lost all its owners, makes owners wait for what they own, and lets go of orphans.
//!
//! Nothing is deleted on doubt: an owner is gone only if its kind is known and there is no object of its name with its
//! identifier. Of kinds that are not known, owners are taken to be there.
//!
//! Every object is a piece of work of its own. An owner that is deleted requeues its dependents, and deletes nothing itself: a
//! webhook that refuses to have one dependent deleted must not keep the others, above all if they are what it is in use by.
//! Follows the garbage collector of kube-controller-manager 1.36, which has the same shape.

use std::sync::Arc;

use ferroplane_schema::status::Status;
use ferroplane_schema::writes::Part;
use futures_util::future::join_all;
use serde::Deserialize;
use serde_json::{Value, json};
use tracing::warn;

use crate::options::{DeleteOptions, Propagation};
use crate::server::ServerState;
use crate::store::{Entry, Uid};
use crate::verbs::{FOREGROUND, ORPHAN};

/// How many objects are checked at once. Deletions share commits, and a webhook that does not answer holds up one worker only.
const WORKERS: usize = 16;

/// Works until it is stopped.
pub(super) async fn run(server: Arc<ServerState>) {
    enqueue_unfinished(&server);
    join_all((0..WORKERS).map(|_| work(&server))).await;
}

async fn work(server: &ServerState) {
    let queue = &server.queues.garbage;
    loop {
        let uid = queue.pop().await;
        match reconcile(server, &uid).await {
            Ok(Progress::Done) => queue.done(&uid),
            Ok(Progress::Waiting) => queue.wait(&uid),
            Err(status) => {
                if queue.retry(&uid, &status.message) {
                    let object = server.store.by_uid(&uid).map(|entry| describe(&entry)).unwrap_or_default();
                    warn!(object, uid = %uid, problem = status.message, "cannot collect garbage yet");
                }
            }
        }
    }
}

/// For a log: which object is meant.
fn describe(entry: &Entry) -> String {
    format!("{} {}", entry.key().collection().name(), entry.key().path())
}

/// How far an object has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Progress {
    /// There is nothing to do until something happens.
    Done,
    /// It waits for others. Most of what they do is noticed; an owner reference that no longer blocks is not, so it looks again
    /// now and then.
    Waiting,
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

async fn reconcile(server: &ServerState, uid: &Uid) -> Result<Progress, Status> {
    let Some(entry) = server.store.by_uid(uid) else {
        // It is deleted, and its dependents may have no other owner.
        for dependent in server.store.dependents(uid) {
            server.queues.garbage.push(dependent.metadata().uid.clone());
        }
        return Ok(Progress::Done);
    };
    if entry.metadata().is_terminating {
        let held = read(&entry)?;
        if held.has_finalizer(ORPHAN) {
            return release_dependents(server, &entry, &held).await.map(|()| Progress::Done);
        }
        if held.has_finalizer(FOREGROUND) {
            return wait_for_dependents(server, &entry, &held).await;
        }
        // Another finalizer keeps it. There is nothing left to delete.
        return Ok(Progress::Done);
    }
    collect(server, &entry).await.map(|()| Progress::Done)
}

/// The part of an object that decisions go by. The rest is not read: everything that has an owner is checked when the server
/// starts.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Held {
    #[serde(default)]
    owner_references: Option<Vec<Value>>,
    #[serde(default)]
    finalizers: Option<Vec<Value>>,
}

impl Held {
    fn owner_references(&self) -> &[Value] {
        self.owner_references.as_deref().unwrap_or_default()
    }

    fn finalizers(&self) -> &[Value] {
        self.finalizers.as_deref().unwrap_or_default()
    }

    fn has_finalizer(&self, finalizer: &str) -> bool {
        self.finalizers().iter().any(|own| own == finalizer)
    }
}

fn read(entry: &Entry) -> Result<Held, Status> {
    #[derive(Deserialize)]
    struct Stored {
        metadata: Held,
    }
    let stored: Stored =
        serde_json::from_slice(entry.bytes()).map_err(|error| Status::internal(&error.to_string()))?;
    Ok(stored.metadata)
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
    let held = read(entry)?;
    let references = held.owner_references();
    let owners: Vec<_> = references.iter().map(|reference| classify(server, entry, reference)).collect();
    if owners.iter().all(|owner| *owner == Owner::Solid) {
        return Ok(());
    }
    if owners.contains(&Owner::Solid) {
        let kept = references.iter().zip(&owners).filter(|(_, owner)| **owner == Owner::Solid);
        let kept: Vec<_> = kept.map(|(reference, _)| reference.clone()).collect();
        return set_owners(server, entry, &kept).await;
    }
    let dependents = server.store.dependents(&entry.metadata().uid);
    let waits = owners.contains(&Owner::Waiting) && !dependents.is_empty();
    if waits && references.iter().any(blocks) && dependents.iter().any(|it| is_waiting(it)) {
        return unblock_owners(server, entry, references).await;
    }
    let propagation = if waits {
        Propagation::Foreground
    } else if held.has_finalizer(ORPHAN) {
        Propagation::Orphan
    } else if held.has_finalizer(FOREGROUND) {
        Propagation::Foreground
    } else {
        Propagation::Background
    };
    remove(server, entry, propagation).await
}

/// Whether an owner has to wait for what has this reference to it.
fn blocks(reference: &Value) -> bool {
    reference["blockOwnerDeletion"] == Value::Bool(true)
}

/// Whether an object is being deleted and waits for what it owns to go first.
fn is_waiting(entry: &Entry) -> bool {
    entry.metadata().is_terminating && read(entry).is_ok_and(|held| held.has_finalizer(FOREGROUND))
}

/// Nothing waits for an object that owns one that waits: they would wait for each other, in a circle.
async fn unblock_owners(server: &ServerState, entry: &Entry, references: &[Value]) -> Result<(), Status> {
    let mut references = references.to_vec();
    for reference in references.iter_mut().filter(|reference| blocks(reference)) {
        reference["blockOwnerDeletion"] = false.into();
    }
    set_owners(server, entry, &references).await?;
    // Its owners have not changed, so that nothing else requeues them.
    entry.metadata().owners.iter().for_each(|owner| server.queues.garbage.push(owner.clone()));
    server.queues.garbage.push(entry.metadata().uid.clone());
    Ok(())
}

fn classify(server: &ServerState, dependent: &Entry, reference: &Value) -> Owner {
    let text = |name: &str| reference.get(name).and_then(Value::as_str).unwrap_or_default();
    let api_version = text("apiVersion");
    let group = api_version.split_once('/').map_or("", |(group, _)| group);
    let catalogue = server.registry.catalogue();
    // A kind that is not served now may be served again, with the owner still in the store.
    let Some(resource) = catalogue.find_kind(group, text("kind")) else { return Owner::Solid };
    let namespace = dependent.key().namespace();
    // A cluster-scoped object cannot have a namespaced owner: its namespace is unknown.
    if resource.is_namespaced && namespace.is_empty() {
        return Owner::Solid;
    }
    let namespace = if resource.is_namespaced { namespace } else { "" };
    let key = server.store.collection(&resource.collection).key(namespace, text("name"));
    let owner = server.store.get(&key).filter(|owner| owner.metadata().uid == Uid::from(text("uid")));
    let Some(owner) = owner else { return Owner::Gone };
    if is_waiting(&owner) { Owner::Waiting } else { Owner::Solid }
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
async fn release_dependents(server: &ServerState, owner: &Entry, held: &Held) -> Result<(), Status> {
    let mut outcome = Ok(());
    for dependent in server.store.dependents(&owner.metadata().uid) {
        // One that cannot be changed does not keep the others from being let go of.
        outcome = outcome.and(release_dependent(server, owner, &dependent).await);
    }
    outcome?;
    drop_finalizer(server, owner, held, ORPHAN).await
}

async fn release_dependent(server: &ServerState, owner: &Entry, dependent: &Entry) -> Result<(), Status> {
    let held = read(dependent)?;
    let uid = owner.metadata().uid.to_string();
    let others = held.owner_references().iter().filter(|reference| reference["uid"] != uid);
    let others: Vec<_> = others.cloned().collect();
    set_owners(server, dependent, &others).await
}

/// Requeues all dependents of an object. When none is left that it has to wait for, it is deleted, too.
async fn wait_for_dependents(server: &ServerState, owner: &Entry, held: &Held) -> Result<Progress, Status> {
    let uid = owner.metadata().uid.to_string();
    let is_blocking = |dependent: &Entry| {
        // What cannot be read is waited for: nothing is let go of on doubt.
        read(dependent).map_or(true, |held| {
            let references = held.owner_references().iter();
            references.filter(|reference| reference["uid"] == uid).any(blocks)
        })
    };
    let mut is_blocked = false;
    for dependent in server.store.dependents(&owner.metadata().uid) {
        is_blocked |= is_blocking(&dependent);
        if !dependent.metadata().is_terminating {
            server.queues.garbage.push(dependent.metadata().uid.clone());
        }
    }
    if is_blocked {
        return Ok(Progress::Waiting);
    }
    drop_finalizer(server, owner, held, FOREGROUND).await.map(|()| Progress::Done)
}

async fn drop_finalizer(
    server: &ServerState,
    entry: &Entry,
    held: &Held,
    finalizer: &str,
) -> Result<(), Status> {
    let rest: Vec<_> = held.finalizers().iter().filter(|own| *own != finalizer).cloned().collect();
    patch(server, entry, json!({ "finalizers": rest })).await
}
