//! Wakes ActionSets when something changes that one of their phases waits for.
//!
//! All phases that wait for objects of one kind in one namespace share one watch, of metadata alone. What cannot be watched is looked at
//! every few seconds.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ferroplane_client::{ApiClient, Change, Informer, InformerScope, Resource};
use ferroplane_engine::action::{Address, NamedBy};

use super::action_set::Key;
use crate::runtime::queue::Queue;

/// What one watch is of: a kind in a namespace.
type WatchScope = (Arc<Resource>, String);

/// Wakes ActionSets.
pub(super) struct Wakers {
    cluster: ApiClient,
    queue: Queue<Key>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    followed: HashMap<WatchScope, Followed>,
    /// What ActionSets wait for.
    waits: HashMap<Key, BTreeSet<(WatchScope, String)>>,
}

/// Objects that are followed.
struct Followed {
    informer: Arc<Informer>,
    /// Who waits, by the names of objects.
    waiting: HashMap<String, HashSet<Key>>,
    /// It cannot be watched.
    has_failed: bool,
}

/// How a wait was noted.
pub(super) struct Noted {
    /// Something was not waited for before: it may have changed between the last look and now.
    pub(super) is_new: bool,
    /// Something cannot be watched.
    pub(super) has_to_poll: bool,
}

impl Wakers {
    pub(super) fn new(cluster: ApiClient, queue: Queue<Key>) -> Arc<Self> {
        Arc::new(Self { cluster, queue, state: Mutex::default() })
    }

    /// Wake an ActionSet whenever one of these objects changes, and by no others.
    pub(super) async fn wait(self: &Arc<Self>, key: &Key, watch: &[Address]) -> Noted {
        let mut wanted = BTreeSet::new();
        let mut has_to_poll = false;
        for address in watch {
            match self.watch_scope(address, &key.0).await {
                Some(watched) => {
                    self.follow(&watched);
                    wanted.insert((watched, address.name.clone()));
                }
                None => has_to_poll = true,
            }
        }
        let mut state = self.lock();
        let before = state.waits.remove(key).unwrap_or_default();
        let is_new = wanted.difference(&before).next().is_some();
        for (watched, name) in before.difference(&wanted) {
            state.leave(watched, name, key);
        }
        for (watched, name) in &wanted {
            if let Some(followed) = state.followed.get_mut(watched) {
                followed.waiting.entry(name.clone()).or_default().insert(key.clone());
                has_to_poll |= followed.has_failed;
            }
        }
        if !wanted.is_empty() {
            state.waits.insert(key.clone(), wanted);
        }
        Noted { is_new, has_to_poll }
    }

    /// Wake an ActionSet no longer.
    pub(super) fn forget(&self, key: &Key) {
        let mut state = self.lock();
        for (watched, name) in state.waits.remove(key).unwrap_or_default() {
            state.leave(&watched, &name, key);
        }
    }

    /// The kind and the namespace of an object. Nothing for what is not to be watched: Secrets are never listed.
    async fn watch_scope(&self, address: &Address, own: &str) -> Option<WatchScope> {
        let api_version = &address.kind.api_version;
        let resource = match &address.kind.by {
            NamedBy::Kind(kind) => self.cluster.resource(api_version, kind).await,
            NamedBy::Resource(plural) => self.cluster.resource_of_plural(api_version, plural).await,
        };
        let resource = resource.ok().flatten().filter(|it| it.kind != "Secret")?;
        let namespace = match (resource.is_namespaced, address.namespace.as_str()) {
            (false, _) => "",
            (true, "") => own,
            (true, namespace) => namespace,
        };
        let namespace = namespace.to_owned();
        Some((resource, namespace))
    }

    fn follow(self: &Arc<Self>, watched: &WatchScope) {
        if self.lock().followed.contains_key(watched) {
            return;
        }
        let (resource, namespace) = watched;
        let scope = InformerScope {
            namespace: Some(namespace.clone()).filter(|namespace| !namespace.is_empty()),
            metadata_only: true,
            ..InformerScope::new(resource.clone())
        };
        let informer = Informer::start(self.cluster.clone(), scope);
        let followed = Followed { informer: informer.clone(), waiting: HashMap::new(), has_failed: false };
        // Another ActionSet may have been faster.
        let spare = {
            let mut state = self.lock();
            match state.followed.entry(watched.clone()) {
                std::collections::hash_map::Entry::Occupied(_) => Some(followed),
                std::collections::hash_map::Entry::Vacant(vacant) => {
                    vacant.insert(followed);
                    None
                }
            }
        };
        if let Some(spare) = spare {
            return spare.informer.stop();
        }
        self.listen(&informer, watched);
    }

    fn listen(self: &Arc<Self>, informer: &Arc<Informer>, watched: &WatchScope) {
        let (wakers, own) = (Arc::downgrade(self), watched.clone());
        informer.listen(move |_, change: Change<'_>| {
            if let Some(wakers) = wakers.upgrade() {
                wakers.wake(&own, &change.header().metadata.name);
            }
        });
        let (wakers, informer, own) = (Arc::downgrade(self), informer.clone(), watched.clone());
        tokio::spawn(async move {
            let synced = informer.synced_or_failed().await;
            let (Err(_), Some(wakers)) = (synced, wakers.upgrade()) else { return };
            wakers.give_up(&own);
        });
    }

    fn wake(&self, watched: &WatchScope, name: &str) {
        let keys: Vec<_> = {
            let state = self.lock();
            let waiting = state.followed.get(watched).and_then(|followed| followed.waiting.get(name));
            waiting.into_iter().flatten().cloned().collect()
        };
        for key in keys {
            self.queue.add(key);
        }
    }

    /// Those who wait for what cannot be watched have to look for themselves.
    fn give_up(&self, watched: &WatchScope) {
        let keys: Vec<_> = {
            let mut state = self.lock();
            let Some(followed) = state.followed.get_mut(watched) else { return };
            followed.has_failed = true;
            followed.waiting.values().flatten().cloned().collect()
        };
        for key in keys {
            self.queue.add(key);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn leave(&mut self, watched: &WatchScope, name: &str, key: &Key) {
        let Some(followed) = self.followed.get_mut(watched) else { return };
        if let Some(keys) = followed.waiting.get_mut(name) {
            keys.remove(key);
            if keys.is_empty() {
                followed.waiting.remove(name);
            }
        }
        if followed.waiting.is_empty() {
            followed.informer.stop();
            self.followed.remove(watched);
        }
    }
}

impl Drop for Wakers {
    fn drop(&mut self) {
        for followed in self.lock().followed.values() {
            followed.informer.stop();
        }
    }
}
