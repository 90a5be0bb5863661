//! Stores the rules of aggregated roles. They apply already; this makes them visible.

use std::sync::Arc;

use ferroplane_schema::writes::Part;
use serde_json::{Value, json};
use tracing::warn;

use super::PAUSE;
use crate::auth::rbac::{GROUP, RbacKind};
use crate::server::ServerState;

/// Works until it is stopped. A client that watched the store could be notified of a role before the policy knows it, and would find
/// nothing to do.
pub(super) async fn run(server: Arc<ServerState>) {
    loop {
        write_all(&server).await;
        server.queues.roles.notified().await;
    }
}

async fn write_all(server: &ServerState) {
    let stale: Vec<(String, Value)> = {
        let policy = server.authorizer.policy();
        let stale = policy.stale_aggregations().into_iter();
        stale.map(|(name, rules)| (name.to_owned(), json!({ "rules": &*rules }))).collect()
    };
    let Some(resource) = server.find(GROUP, RbacKind::ClusterRole.resource()) else { return };
    for (name, patch) in stale {
        match server.patch(&resource, Part::Whole, "", &name, &patch).await {
            Err(status) if !matches!(status.code, 404 | 409) => {
                warn!(role = name, problem = status.message, "cannot write the rules of an aggregated role");
                tokio::time::sleep(PAUSE).await;
                server.queues.roles.notify_one();
            }
            _ => {}
        }
    }
}
