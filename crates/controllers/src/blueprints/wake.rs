//! Requeues ActionSets when an object changes that one of their phases waits for.
//!
//! All phases that wait for objects of one kind in one namespace share one watch, of metadata alone. Objects are polled every few seconds
//! for as long as they cannot be listed, or the API server does not let us watch them.
//!
//! Thousands may wait, so that only the key of each is kept, with shared pointers to what it waits for.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use ferroplane_client::{ApiClient, Change, Informer, InformerScope, Resource};
use ferroplane_engine::action::{Address, NamedBy};
use futures_util::FutureExt as _;
use tokio::task::JoinHandle;

use super::action_set::Key;
use crate::runtime::queue::Queue;

/// The scope of one watch: a kind in a namespace.
type WatchScope = (Arc<Resource>, Arc<str>);

/// An object that is watched: in a scope, by its name.
type WatchedObject = (WatchScope, Arc<str>);

/// Requeues ActionSets.
pub(super) struct Wakers {
    cluster: ApiClient,
    queue: Queue<Key>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    followed: HashMap<WatchScope, Followed>,
    /// The objects that ActionSets wait for.
    waits: HashMap<Key, Box<[WatchedObject]>>,
}

/// The objects of one watch, until dropped.
struct Followed {
    informer: Arc<Informer>,
    /// Requeues the waiting ActionSets when the watch fails, and when it works again.
    guard: JoinHandle<()>,
    /// The waiting ActionSets, by the names of objects.
    waiting: HashMap<Arc<str>, HashSet<Key>>,
}

impl Drop for Followed {
    fn drop(&mut self) {
        self.guard.abort();
        self.informer.stop();
    }
}

/// The result of registering a wait.
pub(super) struct Noted {
    /// An object was not watched before: it may have changed since it was read.
    pub(super) is_new: bool,
    /// Something cannot be watched.
    pub(super) has_to_poll: bool,
}

impl Wakers {
    pub(super) fn new(cluster: ApiClient, queue: Queue<Key>) -> Arc<Self> {
        Arc::new(Self { cluster, queue, state: Mutex::default() })
    }

    /// Requeue an ActionSet when one of these objects changes, and for no others.
    pub(super) async fn wait(self: &Arc<Self>, key: &Key, watch: &[Address]) -> Noted {
        let mut wanted: Vec<WatchedObject> = Vec::new();
        let mut has_to_poll = false;
        for address in watch {
            match self.watch_scope(address, &key.0).await {
                Some(watched) => {
                    self.follow(&watched);
                    wanted.push((watched, address.name.as_str().into()));
                }
                None => has_to_poll = true,
            }
        }
        wanted.sort_unstable();
        wanted.dedup();
        let mut noted = self.lock().replace(key, wanted);
        noted.has_to_poll |= has_to_poll;
        noted
    }

    /// No longer requeue an ActionSet.
    pub(super) fn forget(&self, key: &Key) {
        let mut state = self.lock();
        for (watched, name) in state.waits.remove(key).unwrap_or_default() {
            state.leave(&watched, &name, key);
        }
    }

    /// The kind and the namespace of an object. None for objects that must not be watched: Secrets are never listed.
    async fn watch_scope(&self, address: &Address, own: &str) -> Option<WatchScope> {
        let api_version = &address.kind.api_version;
        let resource = match &address.kind.by {
            NamedBy::Kind(kind) => self.cluster.resource(api_version, kind).await,
            NamedBy::Resource(plural) => self.cluster.resource_of_plural(api_version, plural).await,
        };
        // A watch of Secrets would keep all of a namespace in memory, for one that is read when it is needed.
        let resource = resource.ok().flatten().filter(|it| it.kind != "Secret")?;
        let namespace = match (resource.is_namespaced, address.namespace.as_str()) {
            (false, _) => "",
            (true, "") => own,
            (true, namespace) => namespace,
        };
        Some((resource, namespace.into()))
    }

    fn follow(self: &Arc<Self>, watched: &WatchScope) {
        if self.lock().followed.contains_key(watched) {
            return;
        }
        let (resource, namespace) = watched;
        let scope = InformerScope {
            namespace: Some(namespace.to_string()).filter(|namespace| !namespace.is_empty()),
            // The event alone is enough: the phase reads the object itself.
            metadata_only: true,
            ..InformerScope::new(resource.clone())
        };
        let informer = Informer::start(self.cluster.clone(), scope);
        let guard = requeue_when_refused(Arc::downgrade(self), informer.clone(), watched.clone());
        let guard = tokio::spawn(guard);
        let followed = Followed { informer: informer.clone(), guard, waiting: HashMap::new() };
        // Another ActionSet may have started the same watch meanwhile.
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
        if spare.is_none() {
            self.listen(&informer, watched);
        }
    }

    fn listen(self: &Arc<Self>, informer: &Informer, watched: &WatchScope) {
        let (wakers, own) = (Arc::downgrade(self), watched.clone());
        informer.listen(move |_, change: Change<'_>| {
            if let Some(wakers) = wakers.upgrade() {
                wakers.wake(&own, &change.header().metadata.name);
            }
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

    /// Requeue all ActionSets that wait for objects of a scope.
    fn wake_all(&self, watched: &WatchScope) {
        let keys: Vec<_> = {
            let state = self.lock();
            let Some(followed) = state.followed.get(watched) else { return };
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
    /// Replace the objects that an ActionSet waits for.
    fn replace(&mut self, key: &Key, wanted: Vec<WatchedObject>) -> Noted {
        let before = self.waits.remove(key).unwrap_or_default();
        let is_new = wanted.iter().any(|object| !before.contains(object));
        for (watched, name) in before.iter().filter(|object| !wanted.contains(object)) {
            self.leave(watched, name, key);
        }
        let mut has_to_poll = false;
        let shared = wanted.into_iter().map(|object| {
            has_to_poll |= self.has_to_poll(&object.0);
            self.join(object, key)
        });
        let shared: Box<[_]> = shared.collect();
        if !shared.is_empty() {
            self.waits.insert(key.clone(), shared);
        }
        Noted { is_new, has_to_poll }
    }

    /// Whether changes in a scope cause no event now: it could not be listed yet, or the API server does not let us watch it. Rights may be taken
    /// away, and given back, at any time.
    fn has_to_poll(&self, scope: &WatchScope) -> bool {
        self.followed.get(scope).is_some_and(|Followed { informer, .. }| {
            let listed = informer.synced_or_failed().now_or_never();
            informer.refusal().is_some() || matches!(listed, Some(Err(_)))
        })
    }

    /// Let an ActionSet wait for an object. Returns the shared key of the object.
    fn join(&mut self, (scope, name): WatchedObject, key: &Key) -> WatchedObject {
        let scope = self.followed.get_key_value(&scope).map_or(scope, |(shared, _)| shared.clone());
        let Some(followed) = self.followed.get_mut(&scope) else { return (scope, name) };
        let name = followed.waiting.get_key_value(&name).map_or(name, |(shared, _)| shared.clone());
        followed.waiting.entry(name.clone()).or_default().insert(key.clone());
        (scope, name)
    }

    fn leave(&mut self, watched: &WatchScope, name: &str, key: &Key) {
        let Some(followed) = self.followed.get_mut(watched) else { return };
        if let Some(keys) = followed.waiting.get_mut(name) {
            keys.remove(key);
            if keys.is_empty() {
                followed.waiting.remove(name);
            }
        }
        // Namespaces come and go, and each kind in each of them is a watch of its own.
        if followed.waiting.is_empty() {
            self.followed.remove(watched);
        }
    }
}

/// Requeue all ActionSets that wait for objects of a scope whenever it changes whether they have to poll.
async fn requeue_when_refused(wakers: Weak<Wakers>, informer: Arc<Informer>, watched: WatchScope) {
    let wake_all = || wakers.upgrade().map(|wakers| wakers.wake_all(&watched));
    if informer.synced_or_failed().await.is_err() {
        wake_all();
        informer.synced_or_refused().await;
    }
    for is_refused in [true, false].into_iter().cycle() {
        // After the first list, too: what was deleted before it causes no event.
        if wake_all().is_none() {
            return;
        }
        informer.until_refused(is_refused).await;
    }
}
