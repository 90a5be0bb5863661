//! Requeues usages when their objects change.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use ferroplane_api::keys;
use ferroplane_client::{
    ApiClient, Error, Informer, InformerScope, LabelSelector, ObjectHeader, Query, Resource, WatchEvent,
};
use ferroplane_engine::Used;
use tokio::task::JoinHandle;

use super::registry::{UsageKey, Usages};
use crate::runtime::queue::Queue;

/// How long to wait for the cache of a kind, before objects are read one by one.
const PATIENCE: Duration = Duration::from_secs(5);
/// How soon to try again when a kind cannot be watched.
const PAUSE: Duration = Duration::from_secs(30);

/// Watches the marked objects of every kind with usages.
pub(super) struct Watches {
    cluster: ApiClient,
    usages: Weak<Usages>,
    queue: Queue<UsageKey>,
    informers: Mutex<BTreeMap<Resource, Arc<Informer>>>,
}

impl Watches {
    pub(super) fn new(cluster: ApiClient, usages: &Arc<Usages>, queue: &Queue<UsageKey>) -> Self {
        Self { cluster, usages: Arc::downgrade(usages), queue: queue.clone(), informers: Mutex::default() }
    }

    /// Whether an object is known to be marked. From now on, its usages are requeued when it is not.
    pub(super) async fn is_marked(&self, resource: &Arc<Resource>, namespace: &str, name: &str) -> bool {
        let informer = self.follow(resource);
        // Of objects that cannot be listed it is unknown: then the object itself is read.
        let _ = tokio::time::timeout(PATIENCE, informer.synced_or_failed()).await;
        let namespace = if resource.is_namespaced { namespace } else { "" };
        let held = informer.get(namespace, name);
        held.is_some_and(|held| {
            ObjectHeader::read(&held.bytes).is_some_and(|header| header.label(keys::IN_USE) == Some("true"))
        })
    }

    fn follow(&self, resource: &Arc<Resource>) -> Arc<Informer> {
        let mut informers = self.informers.lock().unwrap_or_else(PoisonError::into_inner);
        informers.entry(Resource::clone(resource)).or_insert_with(|| self.start(resource)).clone()
    }

    fn start(&self, resource: &Arc<Resource>) -> Arc<Informer> {
        // Only marked objects: there may be many objects of the kind, and few in use.
        let labels = [(keys::IN_USE, "true")].into_iter().collect::<LabelSelector>();
        let scope = InformerScope { labels, metadata_only: true, ..InformerScope::new(resource.clone()) };
        let informer = Informer::start(self.cluster.clone(), scope);
        let (usages, queue) = (self.usages.clone(), self.queue.clone());
        informer.listen(move |scope, change| {
            let Some(usages) = usages.upgrade() else { return };
            let metadata = &change.header().metadata;
            let used = Used {
                group: scope.resource.group().to_owned(),
                kind: scope.resource.kind.clone(),
                namespace: metadata.namespace.to_string(),
                name: metadata.name.to_string(),
            };
            for usage in usages.of(&used) {
                queue.add(usage);
            }
        });
        informer
    }

    /// Stop watches of kinds without usages.
    pub(super) fn tidy(&self, usages: &Usages) {
        let mut informers = self.informers.lock().unwrap_or_else(PoisonError::into_inner);
        informers.retain(|resource, informer| {
            let is_needed = usages.has_kind(resource.group(), &resource.kind);
            if !is_needed {
                informer.stop();
            }
            is_needed
        });
    }
}

impl Drop for Watches {
    fn drop(&mut self) {
        for informer in self.informers.lock().unwrap_or_else(PoisonError::into_inner).values() {
            informer.stop();
        }
    }
}

/// Waits for the deletion of objects, each for one usage.
pub(super) struct Waits {
    cluster: ApiClient,
    queue: Queue<UsageKey>,
    tasks: Mutex<HashMap<UsageKey, JoinHandle<()>>>,
}

impl Waits {
    pub(super) fn new(cluster: ApiClient, queue: &Queue<UsageKey>) -> Self {
        Self { cluster, queue: queue.clone(), tasks: Mutex::default() }
    }

    /// Requeue the usage when an object is deleted. False if it is deleted already.
    pub(super) async fn start(
        &self,
        key: &UsageKey,
        resource: Arc<Resource>,
        namespace: &str,
        name: &str,
    ) -> Result<bool, Error> {
        let fields = format!("metadata.name={name}");
        let query = Query { fields: Some(&fields), ..Query::default() };
        let page = self.cluster.list(&resource, namespace, &query).await?;
        if page.is_empty() {
            self.stop(key);
            return Ok(false);
        }
        let (cluster, queue, usage) = (self.cluster.clone(), self.queue.clone(), key.clone());
        let (namespace, version) = (namespace.to_owned(), page.resource_version);
        let task = tokio::spawn(async move {
            // A watch that ended early, or could not start, proves nothing. The usage checks itself, a little
            // later.
            if !matches!(until_gone(&cluster, &resource, &namespace, &fields, &version).await, Ok(true)) {
                tokio::time::sleep(PAUSE).await;
            }
            queue.add(usage);
        });
        self.replace(key, Some(task));
        Ok(true)
    }

    pub(super) fn stop(&self, key: &UsageKey) {
        self.replace(key, None);
    }

    fn replace(&self, key: &UsageKey, task: Option<JoinHandle<()>>) {
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        let before = match task {
            Some(task) => tasks.insert(key.clone(), task),
            None => tasks.remove(key),
        };
        if let Some(before) = before {
            before.abort();
        }
    }
}

impl Drop for Waits {
    fn drop(&mut self) {
        for task in self.tasks.lock().unwrap_or_else(PoisonError::into_inner).values() {
            task.abort();
        }
    }
}

/// Whether the deletion of the object was seen before the watch ended.
async fn until_gone(
    cluster: &ApiClient,
    resource: &Resource,
    namespace: &str,
    fields: &str,
    version: &str,
) -> Result<bool, Error> {
    // From the version of the list on, so that nothing between the two is missed.
    let query = Query { fields: Some(fields), resource_version: Some(version), ..Query::default() };
    let mut watch = cluster.watch(resource, namespace, &query).await?;
    while let Some(event) = watch.next().await? {
        if matches!(event, WatchEvent::Deleted(_)) {
            return Ok(true);
        }
    }
    Ok(false)
}
