//! Empties namespaces that are being deleted, and lets them go when nothing is left in them.

mod conditions;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use ferroplane_schema::status::Status;
use ferroplane_schema::writes::Part;
use futures_util::future::join_all;
use serde_json::{Map, Value, json};
use tracing::warn;

use crate::builtin::NAMESPACES;
use crate::clock;
use crate::options::{DeleteOptions, Propagation};
use crate::server::ServerState;
use crate::store::Entry;

/// How many objects take their time to count, and how long to wait then.
const MANY: usize = 1_000;
const BREATH: Duration = Duration::from_millis(100);

/// How many namespaces are emptied at once. More than one: a webhook that does not answer may hold one up for long.
const WORKERS: usize = 4;

/// Works until it is stopped.
pub(super) async fn run(server: Arc<ServerState>) {
    let workers = join_all((0..WORKERS).map(|_| work(&server)));
    tokio::join!(follow(&server), workers);
}

async fn work(server: &ServerState) {
    loop {
        let name = server.queues.namespaces.pop().await;
        match reconcile(server, &name).await {
            Ok(()) => server.queues.namespaces.done(&name),
            Err(status) => {
                if server.queues.namespaces.retry(&name, &status.message) {
                    warn!(namespace = %name, problem = status.message, "cannot delete the contents of a namespace yet");
                }
            }
        }
    }
}

/// Notices namespaces that are to go.
async fn follow(server: &ServerState) {
    let collection = server.store.collection(NAMESPACES);
    loop {
        let snapshot = server.store.snapshot(&collection);
        for entry in snapshot.iter().filter(|entry| entry.metadata().is_terminating) {
            server.queues.namespaces.push(entry.key().name().into());
        }
        let Ok(mut watcher) = server.store.watch(&collection, snapshot.revision()) else { continue };
        while let Ok(events) = watcher.next().await {
            for event in events.iter().filter(|event| event.entry().metadata().is_terminating) {
                server.queues.namespaces.push(event.entry().key().name().into());
            }
        }
    }
}

async fn reconcile(server: &ServerState, name: &str) -> Result<(), Status> {
    let namespace = server.store.get(&server.store.collection(NAMESPACES).key("", name));
    let Some(namespace) = namespace.filter(|namespace| namespace.metadata().is_terminating) else {
        return Ok(());
    };
    let failures = empty(server, name).await;
    // Of what is stored, not of what is served: objects of a kind that is gone keep the namespace, too.
    if is_empty(server, name) {
        return release(server, &namespace).await;
    }
    report(server, name, &failures).await?;
    failures.into_iter().next().map_or(Ok(()), Err)
}

/// Deletes what can be deleted. Says of each kind why something of it could not be.
async fn empty(server: &ServerState, namespace: &str) -> Vec<Status> {
    let mut failures = Vec::new();
    for resource in server.registry.catalogue().all().filter(|resource| resource.is_namespaced) {
        let snapshot = server.store.snapshot(&server.store.collection(&resource.collection));
        let mut failure = None;
        for entry in snapshot.range(Some(namespace), None).filter(|entry| !entry.metadata().is_terminating) {
            let options =
                DeleteOptions { propagation: Some(Propagation::Background), ..DeleteOptions::default() };
            match server.delete(entry, options, Some("namespace-controller")).await {
                Err(status) if status.code != 404 => {
                    // The others are tried nevertheless: what is refused now may be in use by one of them.
                    failure.get_or_insert(status);
                }
                _ => {}
            }
        }
        failures.extend(failure);
    }
    failures
}

/// Says in the namespace's conditions what keeps it.
async fn report(server: &ServerState, name: &str, failures: &[Status]) -> Result<(), Status> {
    let left = RemainingContent::count(server, name);
    if left.objects > MANY {
        // Every object that goes wakes us, and counting takes time.
        tokio::time::sleep(BREATH).await;
    }
    let Some(resource) = server.find("", "namespaces") else { return Ok(()) };
    let Some(entry) = server.store.get(&server.store.collection(NAMESPACES).key("", name)) else {
        return Ok(());
    };
    let namespace: Value =
        serde_json::from_slice(entry.bytes()).map_err(|error| Status::internal(&error.to_string()))?;
    let old = namespace["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let new = conditions::updated(&old, &conditions::of(&left, failures), &clock::timestamp());
    if new == old {
        return Ok(());
    }
    let patch = json!({
        "metadata": {"resourceVersion": entry.revision().to_string()},
        "status": {"conditions": new},
    });
    match server.patch(&resource, Part::Status, "", name, &patch).await {
        // Another client changes it; that wakes us again.
        Err(status) if matches!(status.code, 404 | 409) => Ok(()),
        other => other.map(drop),
    }
}

/// What is left in a namespace.
#[derive(Debug, Default)]
struct RemainingContent {
    objects: usize,
    /// How many objects of each resource, such as `configmaps.`.
    resources: BTreeMap<String, usize>,
    finalizers: BTreeMap<String, usize>,
}

impl RemainingContent {
    fn count(server: &ServerState, namespace: &str) -> Self {
        let mut left = Self::default();
        for collection in server.store.collections() {
            let (group, plural) = collection.name().split_once('/').unwrap_or_default();
            for entry in server.store.snapshot(&collection).range(Some(namespace), None) {
                left.objects += 1;
                *left.resources.entry(format!("{plural}.{group}")).or_default() += 1;
                let object: Value = serde_json::from_slice(entry.bytes()).unwrap_or_default();
                let finalizers = object["metadata"]["finalizers"].as_array().into_iter().flatten();
                for finalizer in finalizers.filter_map(Value::as_str) {
                    *left.finalizers.entry(finalizer.to_owned()).or_default() += 1;
                }
            }
        }
        left
    }
}

/// Whether nothing is left, not even of kinds that are no longer known.
fn is_empty(server: &ServerState, namespace: &str) -> bool {
    server
        .store
        .collections()
        .iter()
        .all(|collection| server.store.snapshot(collection).range(Some(namespace), None).next().is_none())
}

/// Takes away what keeps the namespace; if nothing else does, it goes.
async fn release(server: &ServerState, namespace: &Entry) -> Result<(), Status> {
    let mut object: Map<String, Value> =
        serde_json::from_slice(namespace.bytes()).map_err(|error| Status::internal(&error.to_string()))?;
    if let Some(Value::Array(finalizers)) = object.get_mut("spec").and_then(|spec| spec.get_mut("finalizers"))
    {
        finalizers.retain(|finalizer| finalizer != "kubernetes");
    }
    let is_kept = |value: Option<&Value>| {
        value.and_then(Value::as_array).is_some_and(|finalizers| !finalizers.is_empty())
    };
    let metadata = object.get("metadata").and_then(|metadata| metadata.get("finalizers"));
    let spec = object.get("spec").and_then(|spec| spec.get("finalizers"));
    let is_kept = is_kept(metadata) || is_kept(spec);
    if !super::remove_finalizer(server, namespace, &object, is_kept).await? {
        server.queues.namespaces.push(namespace.key().name().into());
    }
    Ok(())
}
