//! Gives every namespace what programs in it expect: a service account, and the authority to trust.

use std::sync::Arc;

use ferroplane_schema::status::Status;
use serde_json::{Value, json};
use tracing::warn;

use crate::builtin::NAMESPACES;
use crate::server::ServerState;
use crate::store::EventKind;

/// Works until it is stopped.
pub(super) async fn run(server: Arc<ServerState>) {
    let collection = server.store.collection(NAMESPACES);
    loop {
        let snapshot = server.store.snapshot(&collection);
        for entry in snapshot.iter().filter(|entry| !entry.metadata().is_terminating) {
            ensure_defaults(&server, entry.key().name()).await;
        }
        let Ok(mut watcher) = server.store.watch(&collection, snapshot.revision()) else { continue };
        while let Ok(events) = watcher.next().await {
            // Only new ones: a user who deletes the default account of a namespace gets it back at the next start, not at once.
            for event in events.iter().filter(|event| event.kind() == EventKind::Added) {
                ensure_defaults(&server, event.entry().key().name()).await;
            }
        }
    }
}

async fn ensure_defaults(server: &ServerState, namespace: &str) {
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}});
    let mut wanted = vec![("serviceaccounts", "default", account)];
    if let Some(authority) = server.authority.get() {
        let map = json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {
                "name": "kube-root-ca.crt",
                "annotations": {"kubernetes.io/description": "Certificate authority that signed the certificate of the API server."},
            },
            "data": {"ca.crt": authority},
        });
        wanted.push(("configmaps", "kube-root-ca.crt", map));
    }
    for (plural, name, object) in wanted {
        if let Err(status) = make(server, plural, namespace, name, &object).await {
            warn!(namespace, name, problem = status.message, "cannot create a default object of a namespace");
        }
    }
}

async fn make(
    server: &ServerState,
    plural: &str,
    namespace: &str,
    name: &str,
    object: &Value,
) -> Result<(), Status> {
    let Some(resource) = server.find("", plural) else { return Ok(()) };
    if server.store.get(&server.store.collection(&resource.collection).key(namespace, name)).is_some() {
        return Ok(());
    }
    match server.create(&resource, namespace, object).await {
        // It was created meanwhile, or the namespace is deleted already.
        Err(status) if matches!(status.code, 403 | 404 | 409) => Ok(()),
        other => other.map(drop),
    }
}
