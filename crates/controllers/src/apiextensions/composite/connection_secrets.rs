//! Follows the connection Secrets of composed resources, so that details that come late or change reach composite resources.
//!
//! A Secret that nobody may list cannot be cached as other things are. So there are two ways, and rights decide between them:
//!
//! * Whoever may list and watch Secrets, as in `ferroplane up`, has one watch for all of them, of which only metadata is kept.
//! * Everybody else reads each Secret by its name from time to time: every `poll_interval`, and never more than [`READS_PER_SECOND`] in all.
//!   A watch for each name would be quicker, but takes the right to watch all Secrets just the same, and 100,000 watches.
//!
//! Either way only a version is compared; the details themselves are read by the reconcile that this wakes.

use std::sync::{Arc, Weak};
use std::time::Duration;

use ferroplane_api::meta;
use ferroplane_client::{ApiClient, Change, Informer, InformerScope, ObjectPath};
use ferroplane_wire::v1::ResourceSelector;
use ferroplane_wire::v1::resource_selector::Match;
use tokio::time::{Instant, sleep, sleep_until};
use tracing::{debug, info};

use super::Composites;
use super::required::secrets;
use super::rights::may;

/// How many Secrets are read per second at most, whatever there are. 3,000 of them are read once a minute, 100,000 in 34 minutes.
const READS_PER_SECOND: u32 = 50;
/// How soon to look again whether there is anything to read, or whether a watch has failed.
const GLANCE: Duration = Duration::from_secs(1);
/// How often to ask whether Secrets may be watched by now.
const RIGHTS_HOLD: Duration = Duration::from_mins(10);

/// A connection Secret, as something that is required.
pub(super) fn selector(namespace: &str, name: &str) -> ResourceSelector {
    ResourceSelector {
        api_version: "v1".to_owned(),
        kind: "Secret".to_owned(),
        namespace: Some(namespace.to_owned()),
        r#match: Some(Match::MatchName(name.to_owned())),
    }
}

/// Follow all connection Secrets that are of interest, until aborted.
pub(super) async fn follow(cluster: ApiClient, composites: Weak<Composites>, poll_interval: Duration) {
    loop {
        if may_watch(&cluster).await {
            watch(&cluster, &composites).await;
        }
        info!(
            every = poll_interval.as_secs(),
            "reads connection Secrets one by one: the control plane may not list and watch Secrets"
        );
        let until = Instant::now() + RIGHTS_HOLD;
        while Instant::now() < until {
            poll(&cluster, &composites, poll_interval).await;
        }
    }
}

async fn may_watch(cluster: &ApiClient) -> bool {
    let secrets = secrets();
    for verb in ["list", "watch"] {
        // An API server that does not say is one that does not mind: then the watch itself tells.
        if may(cluster, verb, &secrets, "").await == Some(false) {
            return false;
        }
    }
    true
}

/// Follow all Secrets by one watch, for as long as that is allowed.
async fn watch(cluster: &ApiClient, composites: &Weak<Composites>) {
    let scope = InformerScope { metadata_only: true, ..InformerScope::new(Arc::new(secrets())) };
    let informer = Informer::start(cluster.clone(), scope);
    let whom = composites.clone();
    informer.listen(move |_, change| {
        let Some(composites) = whom.upgrade() else { return };
        let metadata = &change.header().metadata;
        let version = match change {
            Change::Applied { object, .. } => object.version,
            Change::Deleted { .. } => 0,
        };
        composites.shared.dependencies.secret_changed(&metadata.namespace, &metadata.name, version);
    });
    // However this ends: when it is aborted, too.
    let _informer = Stopped(informer.clone());
    loop {
        let is_failing = informer.synced_or_failed().await.is_err();
        if is_failing && !may_watch(cluster).await {
            return;
        }
        sleep(GLANCE).await;
    }
}

/// An informer that stops when this is dropped.
struct Stopped(Arc<Informer>);

impl Drop for Stopped {
    fn drop(&mut self) {
        self.0.stop();
    }
}

/// Read every Secret that is of interest once, evenly spread over the interval.
async fn poll(cluster: &ApiClient, composites: &Weak<Composites>, interval: Duration) {
    let began_at = Instant::now();
    let followed = composites.upgrade().map(|composites| composites.shared.dependencies.followed_secrets());
    let followed = followed.unwrap_or_default();
    let count = u32::try_from(followed.len()).unwrap_or(u32::MAX).max(1);
    let pace = (interval / count).max(Duration::from_secs(1) / READS_PER_SECOND);
    for (number, (namespace, name)) in (1..).zip(&followed) {
        sleep_until(began_at + pace * number).await;
        let Some(version) = version_of(cluster, namespace, name).await else { continue };
        if let Some(composites) = composites.upgrade() {
            composites.shared.dependencies.secret_changed(namespace, name, version);
        }
    }
    if followed.is_empty() {
        sleep(GLANCE.min(interval)).await;
    }
}

/// The version that a Secret has now. Zero if it is not there, none if that cannot be told.
async fn version_of(cluster: &ApiClient, namespace: &str, name: &str) -> Option<u64> {
    let path = ObjectPath { resource: &secrets(), namespace, name };
    match cluster.get_object(path).await {
        Ok(secret) => Some(secret.map_or(0, |secret| meta::resource_version(&secret).parse().unwrap_or(0))),
        Err(error) => {
            debug!(
                namespace,
                name,
                error = ferroplane_engine::chain(&error),
                "cannot read a connection Secret"
            );
            None
        }
    }
}
