//! The registry of all usages and the objects that they protect.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use ferroplane_api::{Object, keys, meta};
use ferroplane_client::{ApiClient, Change, Informer, InformerScope, Resource};
use ferroplane_engine::{Used, used_by};

/// The kinds of usages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Flavour {
    Namespaced,
    Cluster,
    /// Like those of clusters, from before they had a group of their own.
    Legacy,
}

impl Flavour {
    pub(crate) const ALL: [Self; 3] = [Self::Namespaced, Self::Cluster, Self::Legacy];

    /// The source of events.
    pub(crate) fn component(self) -> &'static str {
        match self {
            Self::Namespaced => "usage/usage.protection.crossplane.io",
            Self::Cluster => "usage/clusterusage.protection.crossplane.io",
            Self::Legacy => "usage/usage.apiextensions.crossplane.io",
        }
    }

    fn resource(self) -> Resource {
        let (group, kind, plural) = match self {
            Self::Namespaced => (keys::PROTECTION, "Usage", "usages"),
            Self::Cluster => (keys::PROTECTION, "ClusterUsage", "clusterusages"),
            Self::Legacy => (keys::APIEXTENSIONS, "Usage", "usages"),
        };
        Resource {
            api_version: format!("{group}/v1beta1"),
            kind: kind.to_owned(),
            plural: plural.to_owned(),
            is_namespaced: self == Self::Namespaced,
        }
    }
}

/// A usage.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct UsageKey {
    pub(crate) flavour: Flavour,
    pub(crate) namespace: String,
    pub(crate) name: String,
}

/// All usages.
#[derive(Debug)]
pub(crate) struct Usages {
    informers: [Arc<Informer>; 3],
    index: Mutex<Index>,
}

/// Which objects are in use, and by which usages.
#[derive(Debug, Default)]
struct Index {
    used: HashMap<UsageKey, Used>,
    usages: HashMap<Used, BTreeSet<UsageKey>>,
    /// How many usages there are of objects of a group and kind.
    kinds: HashMap<(String, String), usize>,
}

impl Usages {
    /// Watch all usages, until [`Usages::stop`].
    pub(crate) async fn start(cluster: &ApiClient) -> Arc<Self> {
        let follow = |flavour: Flavour| {
            let resource = Arc::new(flavour.resource());
            let scope = InformerScope::new(resource);
            Informer::start(cluster.clone(), scope)
        };
        let usages = Arc::new(Self { informers: Flavour::ALL.map(follow), index: Mutex::default() });
        for flavour in Flavour::ALL {
            // Weak: this registry holds the informers, and they would hold it.
            let follower = Arc::downgrade(&usages);
            usages.informer(flavour).listen(move |_, change| {
                if let Some(usages) = follower.upgrade() {
                    usages.notice(flavour, change);
                }
            });
        }
        for informer in &usages.informers {
            // Before anything can be deleted: a usage that is not known yet protects nothing.
            informer.synced().await;
        }
        usages
    }

    pub(crate) fn stop(&self) {
        for informer in &self.informers {
            informer.stop();
        }
    }

    /// Call a listener with all usages, and with each that changes from now on.
    pub(crate) fn listen(&self, listener: impl Fn(UsageKey) + Send + Sync + 'static) {
        let listener = Arc::new(listener);
        for flavour in Flavour::ALL {
            let listener = listener.clone();
            self.informer(flavour).listen(move |_, change| listener(key(flavour, change)));
        }
    }

    pub(crate) fn resource(&self, flavour: Flavour) -> &Arc<Resource> {
        self.informer(flavour).resource()
    }

    pub(crate) fn object(&self, key: &UsageKey) -> Option<Object> {
        self.informer(key.flavour).object(&key.namespace, &key.name)
    }

    /// Update the registry with the response to a write.
    pub(crate) fn learn(&self, key: &UsageKey, bytes: &Bytes) {
        // A usage that was just written has to protect from the moment of the answer, not from that of the watch
        // event.
        self.informer(key.flavour).insert_written(bytes);
        if let Some(usage) = self.object(key) {
            self.index().put(key.clone(), used_by(&usage));
        }
    }

    /// The usages of an object. Those without a namespace protect objects of that name in all of them.
    pub(crate) fn of(&self, used: &Used) -> Vec<UsageKey> {
        let index = self.index();
        let everywhere = Used { namespace: String::new(), ..used.clone() };
        let exact = index.usages.get(used).into_iter().flatten();
        let general = index.usages.get(&everywhere).into_iter().flatten();
        // A namespaced usage protects objects in its own namespace, even if it names none.
        let general = general.filter(|key| key.flavour != Flavour::Namespaced && *used != everywhere);
        let usages: BTreeSet<_> = exact.chain(general).cloned().collect();
        usages.into_iter().collect()
    }

    /// Whether anything of a group and kind is in use.
    pub(crate) fn has_kind(&self, group: &str, kind: &str) -> bool {
        self.index().kinds.contains_key(&(group.to_owned(), kind.to_owned()))
    }

    fn informer(&self, flavour: Flavour) -> &Arc<Informer> {
        &self.informers[flavour as usize]
    }

    fn notice(&self, flavour: Flavour, change: Change<'_>) {
        let used = match change {
            Change::Applied { object, .. } => {
                self.informer(flavour).to_object(object).and_then(|usage| used_by(&usage))
            }
            Change::Deleted { .. } => None,
        };
        self.index().put(key(flavour, change), used);
    }

    fn index(&self) -> MutexGuard<'_, Index> {
        self.index.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Index {
    /// Set the object of a usage, or none.
    fn put(&mut self, key: UsageKey, used: Option<Used>) {
        // Most changes of a usage are of its status.
        if self.used.get(&key) == used.as_ref() {
            return;
        }
        if let Some(before) = self.used.remove(&key) {
            self.take(&key, &before);
        }
        if let Some(used) = used {
            // By kind, too: a webhook is asked about every deletion, and most kinds are not used by anything.
            *self.kinds.entry((used.group.clone(), used.kind.clone())).or_default() += 1;
            self.usages.entry(used.clone()).or_default().insert(key.clone());
            self.used.insert(key, used);
        }
    }

    fn take(&mut self, key: &UsageKey, used: &Used) {
        if let Some(usages) = self.usages.get_mut(used) {
            usages.remove(key);
            if usages.is_empty() {
                self.usages.remove(used);
            }
        }
        let kind = (used.group.clone(), used.kind.clone());
        if let Some(count) = self.kinds.get_mut(&kind) {
            *count -= 1;
            if *count == 0 {
                self.kinds.remove(&kind);
            }
        }
    }
}

fn key(flavour: Flavour, change: Change<'_>) -> UsageKey {
    let metadata = &change.header().metadata;
    UsageKey { flavour, namespace: metadata.namespace.to_string(), name: metadata.name.to_string() }
}

/// The key of an object in use.
pub(crate) fn as_used(object: &Object) -> Used {
    Used {
        group: meta::group(meta::api_version(object)).to_owned(),
        kind: meta::kind(object).to_owned(),
        namespace: meta::namespace(object).to_owned(),
        name: meta::name(object).to_owned(),
    }
}
