//! Watches the Secrets that composite resources read, so that a Secret that is created late or changes reaches them: connection Secrets
//! of composed resources, credentials of steps, and Secrets that functions require. Also watches the connection Secrets that composite
//! resources and claims write, so that one that is deleted or changed is written again.
//!
//! Secrets are not cached like other objects: the data of one is read when a composite resource is reconciled, and not kept. There are
//! two ways to notice a change, and rights decide between them:
//!
//! * If the plane may list and watch Secrets, as in `ferroplane up`, there is one watch for all of them, of which only metadata is kept.
//! * Otherwise each Secret is read by its name: every `poll_interval`, and at most [`READS_PER_SECOND`] in all. A watch for each name
//!   would be faster, but needs the right to watch all Secrets just the same, and 100,000 watches. Secrets that are selected by labels
//!   are listed instead, if that is allowed.
//!
//! Both compare versions only; the reconcile reads the data.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::{Arc, Weak};
use std::time::Duration;

use ferroplane_api::{Object, meta};
use ferroplane_client::{
    ApiClient, Change, Error, Informer, InformerScope, LabelSelector, ObjectPath, Query, Resource,
};
use ferroplane_engine::Requirement;
use ferroplane_wire::v1::ResourceSelector;
use ferroplane_wire::v1::resource_selector::Match;
use tokio::time::{Instant, sleep, sleep_until};
use tracing::{debug, info};

use super::Composites;
use super::rights::may;

/// The maximum number of Secrets that are read per second. 3,000 of them are read once a minute, 100,000 in 34 minutes.
const READS_PER_SECOND: u32 = 50;
/// How soon to check again whether there is anything to read, or whether a watch has failed.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// How often to check whether Secrets may be watched by now.
const RIGHTS_HOLD: Duration = Duration::from_mins(10);

/// The kind `Secret`.
pub(super) fn resource() -> Resource {
    Resource {
        api_version: "v1".to_owned(),
        kind: "Secret".to_owned(),
        plural: "secrets".to_owned(),
        is_namespaced: true,
    }
}

/// Whether a selector selects Secrets.
pub(super) fn are_selected(selector: &ResourceSelector) -> bool {
    selector.api_version == "v1" && selector.kind == "Secret"
}

/// The selector of one Secret.
pub(super) fn selector(namespace: &str, name: &str) -> ResourceSelector {
    ResourceSelector {
        api_version: "v1".to_owned(),
        kind: "Secret".to_owned(),
        namespace: Some(namespace.to_owned()),
        r#match: Some(Match::MatchName(name.to_owned())),
    }
}

/// A dependency on one Secret, which no step asked for.
pub(super) fn requirement(namespace: &str, name: &str) -> Requirement {
    Requirement { step: String::new(), name: String::new(), selector: selector(namespace, name) }
}

/// The Secrets that match labels, by namespace and name.
pub(super) async fn list(cluster: &ApiClient, selector: &ResourceSelector) -> Result<Vec<Object>, Error> {
    let labels = match &selector.r#match {
        Some(Match::MatchLabels(labels)) => labels.labels.clone(),
        _ => BTreeMap::new(),
    };
    let labels = LabelSelector { equal: labels, exists: None };
    let query = Query { labels: Some(&labels), ..Query::default() };
    let namespace = selector.namespace.as_deref().unwrap_or_default();
    let mut found = cluster.list_objects(&resource(), namespace, &query).await?;
    // A function can put any text into a label: with a comma it would be two conditions to the API server.
    let wanted = || labels.equal.iter().map(|(key, value)| (key.as_str(), value.as_str()));
    found.retain(|secret| meta::matches_labels(secret, wanted()));
    Ok(found)
}

/// A hash of a list of Secrets, and the newest version in it.
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

/// Watch all Secrets that composite resources depend on, until aborted.
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
        // If the API server does not answer, the watch itself shows whether it is allowed.
        if may(cluster, verb, &secrets, "").await == Some(false) {
            return false;
        }
    }
    true
}

/// Watch all Secrets, for as long as that is allowed.
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
    // Also if this task is aborted.
    let _informer = Stopped(informer.clone());
    loop {
        let is_failing = informer.synced_or_failed().await.is_err();
        if is_failing && !may_watch(cluster).await {
            return;
        }
        sleep(CHECK_INTERVAL).await;
    }
}

/// Stops an informer when it is dropped.
struct Stopped(Arc<Informer>);

impl Drop for Stopped {
    fn drop(&mut self) {
        self.0.stop();
    }
}

/// Read every Secret that composite resources depend on once, evenly spread over the interval.
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
        sleep(CHECK_INTERVAL.min(interval)).await;
    }
}

/// The current version of a Secret. Zero if it does not exist, none if it cannot be read.
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
