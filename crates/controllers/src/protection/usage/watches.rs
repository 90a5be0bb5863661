//! Wakes usages when something happens to what they are about.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use ferroplane_api::keys;
use ferroplane_engine::Used;
use serde::Deserialize;
use tokio::task::JoinHandle;

use super::registry::{Key, Usages};
use crate::cluster::{Cluster, Error, Query, Resource, Selector, WatchEvent};
use crate::head::Head;
use crate::mirror::{Mirror, Subject};
use crate::runtime::queue::Queue;

/// How long to wait for what is there to be read, before it is asked for one by one.
const PATIENCE: Duration = Duration::from_secs(5);
/// How soon to look again when something cannot be followed.
const PAUSE: Duration = Duration::from_secs(30);

/// Follows the marked objects of every kind of which something is used.
pub(super) struct Watches {
    cluster: Cluster,
    usages: Weak<Usages>,
    queue: Queue<Key>,
    mirrors: Mutex<BTreeMap<Resource, Arc<Mirror>>>,
}

impl Watches {
    pub(super) fn new(cluster: Cluster, usages: &Arc<Usages>, queue: &Queue<Key>) -> Self {
        Self { cluster, usages: Arc::downgrade(usages), queue: queue.clone(), mirrors: Mutex::default() }
    }

    /// Whether an object is known to be marked. From now on, its usages are told when it is not.
    pub(super) async fn is_marked(&self, resource: &Arc<Resource>, namespace: &str, name: &str) -> bool {
        let mirror = self.follow(resource);
        let _ = tokio::time::timeout(PATIENCE, mirror.settled()).await;
        let namespace = if resource.is_namespaced { namespace } else { "" };
        let held = mirror.get(namespace, name);
        held.is_some_and(|held| {
            Head::read(&held.bytes).is_some_and(|head| head.label(keys::IN_USE) == Some("true"))
        })
    }

    fn follow(&self, resource: &Arc<Resource>) -> Arc<Mirror> {
        let mut mirrors = self.mirrors.lock().unwrap_or_else(PoisonError::into_inner);
        mirrors.entry(Resource::clone(resource)).or_insert_with(|| self.start(resource)).clone()
    }

    fn start(&self, resource: &Arc<Resource>) -> Arc<Mirror> {
        let labels = [(keys::IN_USE, "true")].into_iter().collect::<Selector>();
        let subject = Subject { resource: resource.clone(), labels, heads_only: true };
        let mirror = Mirror::start(self.cluster.clone(), subject);
        let (usages, queue) = (self.usages.clone(), self.queue.clone());
        mirror.listen(move |subject, change| {
            let Some(usages) = usages.upgrade() else { return };
            let metadata = &change.head().metadata;
            let used = Used {
                group: subject.resource.group().to_owned(),
                kind: subject.resource.kind.clone(),
                namespace: metadata.namespace.to_string(),
                name: metadata.name.to_string(),
            };
            for usage in usages.of(&used) {
                queue.add(usage);
            }
        });
        mirror
    }

    /// Follow no longer what nothing is used of.
    pub(super) fn tidy(&self, usages: &Usages) {
        let mut mirrors = self.mirrors.lock().unwrap_or_else(PoisonError::into_inner);
        mirrors.retain(|resource, mirror| {
            let is_needed = usages.has_kind(resource.group(), &resource.kind);
            if !is_needed {
                mirror.stop();
            }
            is_needed
        });
    }
}

impl Drop for Watches {
    fn drop(&mut self) {
        for mirror in self.mirrors.lock().unwrap_or_else(PoisonError::into_inner).values() {
            mirror.stop();
        }
    }
}

/// Waits for objects to go, each for one usage.
pub(super) struct Waits {
    cluster: Cluster,
    queue: Queue<Key>,
    tasks: Mutex<HashMap<Key, JoinHandle<()>>>,
}

#[derive(Deserialize)]
struct Page {
    metadata: PageMetadata,
    #[serde(default)]
    items: Vec<serde::de::IgnoredAny>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PageMetadata {
    #[serde(default)]
    resource_version: String,
}

impl Waits {
    pub(super) fn new(cluster: Cluster, queue: &Queue<Key>) -> Self {
        Self { cluster, queue: queue.clone(), tasks: Mutex::default() }
    }

    /// Have the usage looked at again when an object is gone. False if it is gone already.
    pub(super) async fn start(
        &self,
        key: &Key,
        resource: Arc<Resource>,
        namespace: &str,
        name: &str,
    ) -> Result<bool, Error> {
        let fields = format!("metadata.name={name}");
        let query = Query { fields: Some(&fields), ..Query::default() };
        let pieces = self.cluster.list(&resource, namespace, &query).await?;
        let page: Page = serde_json::from_slice(pieces.text()).map_err(Error::garbled)?;
        if page.items.is_empty() {
            self.stop(key);
            return Ok(false);
        }
        let (cluster, queue, usage) = (self.cluster.clone(), self.queue.clone(), key.clone());
        let (namespace, version) = (namespace.to_owned(), page.metadata.resource_version);
        let task = tokio::spawn(async move {
            if !matches!(until_gone(&cluster, &resource, &namespace, &fields, &version).await, Ok(true)) {
                tokio::time::sleep(PAUSE).await;
            }
            queue.add(usage);
        });
        self.replace(key, Some(task));
        Ok(true)
    }

    pub(super) fn stop(&self, key: &Key) {
        self.replace(key, None);
    }

    fn replace(&self, key: &Key, task: Option<JoinHandle<()>>) {
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

/// Whether the object was seen to go before the watch ended.
async fn until_gone(
    cluster: &Cluster,
    resource: &Resource,
    namespace: &str,
    fields: &str,
    version: &str,
) -> Result<bool, Error> {
    let query =
        Query { fields: Some(fields), resource_version: Some(version), is_watch: true, ..Query::default() };
    let mut watch = cluster.watch(resource, namespace, &query).await?;
    while let Some(event) = watch.next().await? {
        if matches!(event, WatchEvent::Gone(_)) {
            return Ok(true);
        }
    }
    Ok(false)
}
