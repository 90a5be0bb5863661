//! Follows the Secrets that composite resources read, so that one that comes late or changes reaches them: connection Secrets of
//! composed resources, and Secrets that functions require.
//!
//! Secrets are not cached as other things are: the data of one is read when a composite resource is reconciled, and held no longer
//! than that. To learn that one has changed, there are two ways, and rights decide between them:
//!
//! * Whoever may list and watch Secrets, as in `ferroplane up`, has one watch for all of them, of which only metadata is kept.
//! * Everybody else reads each Secret by its name from time to time: every `poll_interval`, and never more than [`READS_PER_SECOND`] in all.
//!   A watch for each name would be quicker, but takes the right to watch all Secrets just the same, and 100,000 watches. What is
//!   selected by labels is listed instead, if that is allowed.
//!
//! Either way only versions are compared; the data is read by the reconcile that this wakes.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::{Arc, Weak};
use std::time::Duration;

use ferroplane_api::{Object, meta};
use ferroplane_client::{
    ApiClient, Change, Error, Informer, InformerScope, LabelSelector, ObjectPath, Query, Resource,
};
use ferroplane_wire::v1::ResourceSelector;
use ferroplane_wire::v1::resource_selector::Match;
use tokio::time::{Instant, sleep, sleep_until};
use tracing::{debug, info};

use super::Composites;
use super::rights::may;

/// How many Secrets are read per second at most, whatever there are. 3,000 of them are read once a minute, 100,000 in 34 minutes.
const READS_PER_SECOND: u32 = 50;
/// How soon to look again whether there is anything to read, or whether a watch has failed.
const GLANCE: Duration = Duration::from_secs(1);
/// How often to ask whether Secrets may be watched by now.
const RIGHTS_HOLD: Duration = Duration::from_mins(10);

/// The kind.
pub(super) fn resource() -> Resource {
    Resource {
        api_version: "v1".to_owned(),
        kind: "Secret".to_owned(),
        plural: "secrets".to_owned(),
        is_namespaced: true,
    }
}

/// Whether Secrets are selected.
pub(super) fn are_selected(selector: &ResourceSelector) -> bool {
    selector.api_version == "v1" && selector.kind == "Secret"
}

/// A Secret, as something that is required.
pub(super) fn selector(namespace: &str, name: &str) -> ResourceSelector {
    ResourceSelector {
        api_version: "v1".to_owned(),
        kind: "Secret".to_owned(),
        namespace: Some(namespace.to_owned()),
        r#match: Some(Match::MatchName(name.to_owned())),
    }
}

/// The Secrets that are selected by labels, by namespace and name.
pub(super) async fn list(cluster: &ApiClient, selector: &ResourceSelector) -> Result<Vec<Object>, Error> {
    let labels = match &selector.r#match {
        Some(Match::MatchLabels(labels)) => labels.labels.clone(),
        _ => BTreeMap::new(),
    };
    let labels = LabelSelector { equal: labels, exists: None };
    let query = Query { labels: Some(&labels), ..Query::default() };
    let namespace = selector.namespace.as_deref().unwrap_or_default();
    let mut found = cluster.list_objects(&resource(), namespace, &query).await?;
    // A label of a function is text like any other: one with a comma would be two conditions to the API server.
    let wanted = || labels.equal.iter().map(|(key, value)| (key.as_str(), value.as_str()));
    found.retain(|secret| meta::matches_labels(secret, wanted()));
    Ok(found)
}

/// What tells apart two lists of Secrets, and the newest version in this one.
pub(super) fn versions_of(secrets: &[Object]) -> (u64, u64) {
    let mut hash = DefaultHasher::new();
    let mut newest = 0;
    for secret in secrets {
        let version = meta::resource_version(secret);
        (meta::namespace(secret), meta::name(secret), version).hash(&mut hash);
        newest = newest.max(version.parse().unwrap_or_default());
    }
    (hash.finish(), newest)
}

/// Follow all Secrets that are of interest, until aborted.
pub(super) async fn follow(cluster: ApiClient, composites: Weak<Composites>, poll_interval: Duration) {
    loop {
        if may_watch(&cluster).await {
            watch(&cluster, &composites).await;
        }
        info!(
            every = poll_interval.as_secs(),
            "reads Secrets one by one: the control plane may not list and watch Secrets"
        );
        let until = Instant::now() + RIGHTS_HOLD;
        while Instant::now() < until {
            poll(&cluster, &composites, poll_interval).await;
        }
    }
}

async fn may_watch(cluster: &ApiClient) -> bool {
    let secrets = resource();
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
    let scope = InformerScope { metadata_only: true, ..InformerScope::new(Arc::new(resource())) };
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
        composites.shared.dependencies.selected_secret_changed(change);
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
    let (followed, selected) = followed.unwrap_or_default();
    let count = u32::try_from(followed.len() + selected.len()).unwrap_or(u32::MAX).max(1);
    let pace = (interval / count).max(Duration::from_secs(1) / READS_PER_SECOND);
    let mut number = 0;
    for (namespace, name) in &followed {
        number += 1;
        sleep_until(began_at + pace * number).await;
        let Some(version) = version_of(cluster, namespace, name).await else { continue };
        if let Some(composites) = composites.upgrade() {
            composites.shared.dependencies.secret_changed(namespace, name, version);
        }
    }
    for selector in &selected {
        number += 1;
        sleep_until(began_at + pace * number).await;
        let Ok(found) = list(cluster, selector).await else { continue };
        if let Some(composites) = composites.upgrade() {
            composites.shared.dependencies.secrets_listed(None, selector, &found);
        }
    }
    if followed.is_empty() && selected.is_empty() {
        sleep(GLANCE.min(interval)).await;
    }
}

/// The version that a Secret has now. Zero if it is not there, none if that cannot be told.
async fn version_of(cluster: &ApiClient, namespace: &str, name: &str) -> Option<u64> {
    let path = ObjectPath { resource: &resource(), namespace, name };
    match cluster.get_object(path).await {
        Ok(secret) => Some(secret.map_or(0, |secret| meta::resource_version(&secret).parse().unwrap_or(0))),
        Err(error) => {
            debug!(namespace, name, error = ferroplane_engine::chain(&error), "cannot read a Secret");
            None
        }
    }
}
