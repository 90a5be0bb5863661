//! A cache of all objects of a kind that are selected, as compact bytes, kept up to date by a list and watches.
//!
//! # Invariants
//! * A list replaces everything but what was written after it was made. What a watch brings is ignored if it is older than what is cached.
//! * A server whose data is older than what it sent before, because it was restored from a backup, is believed.
//! * Listeners are notified of every object that changed, however the watch was interrupted; several changes of one object may be
//!   told as one.
//! * An informer of one namespace asks for nothing but that namespace.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tracing::{debug, warn};

use crate::api_client::{JsonObject, PAGE_SIZE};
use crate::backoff::Backoff;
use crate::error::chain;
use crate::{ApiClient, Error, LabelSelector, ObjectHeader, Query, Resource, WatchEvent};

const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// A watch without events that lasts for less is one that the server does not want to last.
const SHORT_WATCH: Duration = Duration::from_secs(10);
/// Where `kubectl apply` keeps what it applied.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Which objects are cached.
#[derive(Debug, Clone)]
pub struct InformerScope {
    pub resource: Arc<Resource>,
    /// None for all namespaces.
    pub namespace: Option<String>,
    pub labels: LabelSelector,
    /// Only their metadata is kept, without managed fields and without the copy of the object that `kubectl apply` leaves in an
    /// annotation: the data of a Secret would be in it.
    pub metadata_only: bool,
    /// Everything but their data is kept, without the copy of the object either. For Secrets of which only the changes matter, and who
    /// made them: managed fields stay.
    pub without_data: bool,
    /// What stands for the data that is not kept, if something does.
    pub stand_in: Option<DataStandIn>,
}

/// Computes fields that stand for the data of an object which is kept without it, such as digests. They are added to what is kept.
#[derive(Clone)]
pub struct DataStandIn(Arc<dyn Fn(&JsonObject) -> JsonObject + Send + Sync>);

impl DataStandIn {
    pub fn new(compute: impl Fn(&JsonObject) -> JsonObject + Send + Sync + 'static) -> Self {
        Self(Arc::new(compute))
    }
}

impl std::fmt::Debug for DataStandIn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("DataStandIn")
    }
}

impl InformerScope {
    /// All objects of a kind, whole and in all namespaces.
    pub fn new(resource: Arc<Resource>) -> Self {
        let labels = LabelSelector::default();
        Self { resource, namespace: None, labels, metadata_only: false, without_data: false, stand_in: None }
    }

    /// As much of an object as is kept. Lists and answers to writes bring whole objects, whatever was asked for.
    fn reduce(&self, bytes: &Bytes) -> Bytes {
        let kept = match self {
            Self { metadata_only: true, .. } => metadata_of(bytes),
            Self { without_data: true, stand_in, .. } => without_data(bytes, stand_in.as_ref()),
            _ => None,
        };
        kept.unwrap_or_else(|| bytes.clone())
    }
}

/// An object as the API server has it.
#[derive(Debug, Clone)]
pub struct CachedObject {
    pub bytes: Bytes,
    /// Grows with every change.
    pub version: u64,
}

/// What happened to an object.
#[derive(Debug, Clone, Copy)]
pub enum Change<'a> {
    /// It was created or changed. With what it was before, if it was there.
    Applied { header: &'a ObjectHeader<'a>, object: &'a CachedObject, before: Option<&'a CachedObject> },
    /// It was deleted. With its last state.
    Deleted { header: &'a ObjectHeader<'a>, object: &'a CachedObject },
}

impl<'a> Change<'a> {
    pub fn header(&self) -> &'a ObjectHeader<'a> {
        match self {
            Self::Applied { header, .. } | Self::Deleted { header, .. } => header,
        }
    }

    pub fn object(&self) -> &'a CachedObject {
        match self {
            Self::Applied { object, .. } | Self::Deleted { object, .. } => object,
        }
    }
}

/// What happened to an informer.
#[derive(Debug, Clone, Copy)]
pub enum InformerEvent<'a> {
    Started,
    Stopped,
    /// It read everything.
    Listed,
    /// It continued with a new watch after one had ended.
    WatchRestarted,
    /// It cannot list or watch.
    Failed(&'a Error),
}

/// Is called with each change.
type Listener = Arc<dyn Fn(&InformerScope, Change<'_>) + Send + Sync>;

/// The objects of a kind.
pub struct Informer {
    scope: InformerScope,
    client: ApiClient,
    listeners: RwLock<Vec<Listener>>,
    cache: RwLock<Cache>,
    state: Mutex<SyncState>,
    /// Why the API server does not serve it, or does not let us watch it. None as long as it does.
    refusal: Mutex<Option<InformerError>>,
    /// Wakes those who wait for another state, in the order in which they began to.
    state_changed: Notify,
    task: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Debug, Clone)]
enum SyncState {
    Listing,
    /// Everything that was there has been read.
    Synced,
    /// It cannot be read.
    Failing(InformerError),
}

/// Why an informer cannot read what it caches. It tries again all the time. All who wait for it share the error.
#[derive(Debug, Clone, thiserror::Error)]
pub enum InformerError {
    /// The API server does not serve the kind, or does not let the client list or watch it.
    #[error(transparent)]
    Refused(Arc<Error>),
    /// The API server did not answer, or it failed. It may answer the next time.
    #[error(transparent)]
    Unavailable(Arc<Error>),
}

impl InformerError {
    fn of(error: Error) -> Self {
        let is_refused = error.is_not_found() || error.is_forbidden();
        let error = Arc::new(error);
        if is_refused { Self::Refused(error) } else { Self::Unavailable(error) }
    }
}

#[derive(Debug, Default)]
struct Cache {
    objects: HashMap<Box<str>, CachedObject>,
    /// The API server has sent everything up to this version.
    version: u64,
}

impl std::fmt::Debug for Informer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Informer").field("scope", &self.scope).finish_non_exhaustive()
    }
}

impl Informer {
    /// Keep a cache up to date until [`Informer::stop`].
    pub fn start(client: ApiClient, scope: InformerScope) -> Arc<Self> {
        let informer = Arc::new(Self {
            scope,
            client,
            listeners: RwLock::default(),
            cache: RwLock::default(),
            state: Mutex::new(SyncState::Listing),
            refusal: Mutex::default(),
            state_changed: Notify::new(),
            task: Mutex::default(),
        });
        informer.observe(InformerEvent::Started);
        let task = tokio::spawn(informer.clone().run());
        *informer.task.lock().unwrap_or_else(PoisonError::into_inner) = Some(task);
        informer
    }

    /// Tell this listener of every object that is there, and of everything that changes from now on.
    pub fn listen(&self, listener: impl Fn(&InformerScope, Change<'_>) + Send + Sync + 'static) {
        let listener: Listener = Arc::new(listener);
        // Before it is shown what is there: it may hear of something twice, but never not at all.
        self.listeners.write().unwrap_or_else(PoisonError::into_inner).push(listener.clone());
        for object in self.all() {
            if let Some(header) = ObjectHeader::read(&object.bytes) {
                listener(&self.scope, Change::Applied { header: &header, object: &object, before: None });
            }
        }
    }

    fn announce(&self, change: Change<'_>) {
        // Cloned, so that a listener may register another one without a deadlock.
        let listeners = self.listeners.read().unwrap_or_else(PoisonError::into_inner).clone();
        for listener in listeners {
            listener(&self.scope, change);
        }
    }

    pub fn resource(&self) -> &Arc<Resource> {
        &self.scope.resource
    }

    /// Stop to list and watch. What is cached stays.
    pub fn stop(&self) {
        if let Some(task) = self.task.lock().unwrap_or_else(PoisonError::into_inner).take() {
            task.abort();
            self.observe(InformerEvent::Stopped);
        }
    }

    fn observe(&self, event: InformerEvent<'_>) {
        self.client.observe_informer(&self.scope.resource, event);
    }

    /// Wait until everything that was there has been read.
    pub async fn synced(&self) {
        self.wait_for(|state| matches!(state, SyncState::Synced)).await;
    }

    /// Wait until everything that was there has been read, or it is known why that cannot be.
    pub async fn synced_or_failed(&self) -> Result<(), InformerError> {
        match self.wait_for(|state| !matches!(state, SyncState::Listing)).await {
            SyncState::Failing(error) => Err(error),
            SyncState::Listing | SyncState::Synced => Ok(()),
        }
    }

    /// Wait until everything that was there has been read, or the API server does not serve it, or does not let us read it. An API
    /// server that does not answer is waited for.
    pub async fn synced_or_refused(&self) {
        let is_known = |state: &SyncState| {
            matches!(state, SyncState::Synced | SyncState::Failing(InformerError::Refused(_)))
        };
        self.wait_for(is_known).await;
    }

    /// Why the API server does not serve it now, or does not let us watch it. None as long as it does. What is cached stays, unless
    /// the kind is gone.
    pub fn refusal(&self) -> Option<InformerError> {
        self.refusal.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Wait until there is a refusal, or until there is none.
    pub async fn until_refused(&self, is_refused: bool) {
        loop {
            // From before looking, so that nothing is missed.
            let changed = self.state_changed.notified();
            if self.refusal().is_some() == is_refused {
                return;
            }
            changed.await;
        }
    }

    fn set_refusal(&self, refusal: Option<InformerError>) {
        *self.refusal.lock().unwrap_or_else(PoisonError::into_inner) = refusal;
        self.state_changed.notify_waiters();
    }

    async fn wait_for(&self, is_wanted: impl Fn(&SyncState) -> bool) -> SyncState {
        loop {
            // From before looking, so that nothing is missed.
            let changed = self.state_changed.notified();
            let state = self.state.lock().unwrap_or_else(PoisonError::into_inner).clone();
            if is_wanted(&state) {
                return state;
            }
            changed.await;
        }
    }

    fn set_state(&self, state: SyncState) {
        *self.state.lock().unwrap_or_else(PoisonError::into_inner) = state;
        self.state_changed.notify_waiters();
    }

    /// How many objects are cached.
    pub fn len(&self) -> usize {
        self.read().objects.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn get(&self, namespace: &str, name: &str) -> Option<CachedObject> {
        self.get_by_key(&cache_key(namespace, name))
    }

    pub fn get_by_key(&self, key: &str) -> Option<CachedObject> {
        self.read().objects.get(key).cloned()
    }

    /// One object, as JSON.
    pub fn object(&self, namespace: &str, name: &str) -> Option<JsonObject> {
        self.to_object(&self.get(namespace, name)?)
    }

    /// A cached object, as JSON.
    pub fn to_object(&self, cached: &CachedObject) -> Option<JsonObject> {
        let mut object: JsonObject = serde_json::from_slice(&cached.bytes).ok()?;
        self.scope.resource.add_kind(&mut object);
        Some(object)
    }

    /// The names of everything that is cached, in no order.
    pub fn names(&self) -> Vec<String> {
        let cache = self.read();
        let names = cache.objects.keys().filter_map(|key| key.rsplit('/').next());
        names.map(str::to_owned).collect()
    }

    /// Everything that is cached, by namespace and name.
    pub fn all(&self) -> Vec<CachedObject> {
        let cache = self.read();
        let mut all: Vec<_> = cache.objects.iter().collect();
        all.sort_unstable_by_key(|(key, _)| *key);
        all.into_iter().map(|(_, object)| object.clone()).collect()
    }

    /// Everything that is cached, as JSON, by namespace and name.
    pub fn objects(&self) -> Vec<JsonObject> {
        self.all().iter().filter_map(|object| self.to_object(object)).collect()
    }

    /// Cache the answer to a write at once, without waiting for the watch. Listeners are not called.
    pub fn insert_written(&self, bytes: &Bytes) {
        let Some(header) = ObjectHeader::read(bytes) else { return };
        let object = CachedObject { version: header.version(), bytes: self.scope.reduce(bytes) };
        let mut cache = self.write();
        // After what the watch has sent already, the object may have been deleted.
        if object.version > cache.version {
            cache.insert(&header, &object);
        }
    }

    /// Drop an object at once that, after a write with this answer, is not selected any more. Listeners are not called.
    pub fn remove_written(&self, bytes: &Bytes) {
        if let Some(header) = ObjectHeader::read(bytes) {
            self.write().remove(&header);
        }
    }

    async fn run(self: Arc<Self>) {
        let mut backoff = Backoff::new(FIRST_PAUSE, LONGEST_PAUSE);
        let mut logged = String::new();
        loop {
            let result = match self.list().await {
                Ok(version) => {
                    logged.clear();
                    self.watch(version, &mut backoff).await
                }
                Err(error) => Err(error),
            };
            let Err(error) = result else { continue };
            self.observe(InformerEvent::Failed(&error));
            // At once and without a pause: history is compacted all the time, and nothing is wrong.
            if error.is_gone() {
                debug!(kind = self.scope.resource.kind, "listing all objects again");
                continue;
            }
            // The kind no longer exists, nor do its objects; no deletions would be sent for them.
            if error.is_not_found() {
                self.remove_all();
            }
            let pause = backoff.next().max(error.retry_after().unwrap_or_default());
            self.log(&mut logged, chain(&error));
            let error = InformerError::of(error);
            if let InformerError::Refused(_) = &error {
                self.set_refusal(Some(error.clone()));
            }
            // Only before the first list succeeded: afterwards the cache is stale, which callers can live
            // with, but complete.
            if self.read().version == 0 {
                self.set_state(SyncState::Failing(error));
            }
            tokio::time::sleep(pause).await;
        }
    }

    /// Warn of a failure once: a kind that is gone may stay so.
    fn log(&self, logged: &mut String, error: String) {
        let kind = &self.scope.resource.kind;
        if *logged == error {
            debug!(kind, error, "still cannot watch objects");
        } else {
            warn!(kind, error, "cannot watch objects; trying again");
            *logged = error;
        }
    }

    fn query(&self) -> Query<'_> {
        let InformerScope { labels, metadata_only, .. } = &self.scope;
        Query { labels: Some(labels), metadata_only: *metadata_only, ..Query::default() }
    }

    fn namespace(&self) -> &str {
        self.scope.namespace.as_deref().unwrap_or_default()
    }

    /// Read everything. Returns the version at which a watch continues.
    async fn list(&self) -> Result<String, Error> {
        let mut present = HashSet::new();
        let mut continuation: Option<String> = None;
        loop {
            let query =
                Query { limit: Some(PAGE_SIZE), continuation: continuation.as_deref(), ..self.query() };
            let page = self.client.list(&self.scope.resource, self.namespace(), &query).await?;
            let version = page.resource_version.parse().unwrap_or_default();
            for bytes in page.items() {
                if let Some(header) = ObjectHeader::read(&bytes) {
                    self.insert(&header, &bytes, Some(version));
                    present.insert(header.key().into_boxed_str());
                }
            }
            continuation = page.continuation;
            if continuation.is_none() {
                // Deletions are announced after everything that is there: a listener that counts never sees
                // too few.
                self.remove_all_but(&present, version);
                // Before the state is set: a client that waits for it may insert the answer to a write at once, and
                // needs the version to compare with. It may be lower than before.
                self.write().version = version;
                self.set_state(SyncState::Synced);
                self.observe(InformerEvent::Listed);
                return Ok(page.resource_version);
            }
        }
    }

    /// Follow what happens after this version, through as many watches as it takes. Ends when everything has to be listed again.
    async fn watch(&self, mut version: String, backoff: &mut Backoff) -> Result<(), Error> {
        let mut is_first = true;
        loop {
            if !std::mem::take(&mut is_first) {
                self.observe(InformerEvent::WatchRestarted);
            }
            let query = Query { resource_version: Some(&version), ..self.query() };
            let mut watch = self.client.watch(&self.scope.resource, self.namespace(), &query).await?;
            // Not after a list: a client may be allowed to list and not to watch.
            if self.refusal().is_some() {
                self.set_refusal(None);
            }
            let (mut has_events, began_at) = (false, Instant::now());
            while let Some(event) = watch.next().await? {
                if !std::mem::replace(&mut has_events, true) {
                    backoff.reset();
                }
                if let Some(newer) = self.take(&event) {
                    version = newer;
                }
            }
            if has_events {
                continue;
            }
            if began_at.elapsed() < SHORT_WATCH {
                // A server that ends every watch at once must not be asked again at once.
                tokio::time::sleep(backoff.next()).await;
                continue;
            }
            backoff.reset();
            if self.is_ahead_of_server(&version).await? {
                return Ok(());
            }
        }
    }

    /// Whether the server has not come to this version yet. An API server whose data was restored from a backup lets clients watch from a
    /// version that it has yet to reach, and sends nothing until then.
    async fn is_ahead_of_server(&self, version: &str) -> Result<bool, Error> {
        let query = Query { limit: Some(1), ..self.query() };
        let page = self.client.list(&self.scope.resource, self.namespace(), &query).await?;
        let number = |version: &str| version.parse::<u64>().ok();
        Ok(number(&page.resource_version).zip(number(version)).is_some_and(|(now, then)| now < then))
    }

    /// Apply an event to the cache. Returns the resource version that it brings.
    fn take(&self, event: &WatchEvent) -> Option<String> {
        let (WatchEvent::Applied(bytes) | WatchEvent::Deleted(bytes) | WatchEvent::Bookmark(bytes)) = event;
        let header = ObjectHeader::read(bytes)?;
        match event {
            WatchEvent::Applied(bytes) => self.insert(&header, bytes, None),
            WatchEvent::Deleted(bytes) => self.remove(&header, bytes),
            WatchEvent::Bookmark(_) => {}
        }
        self.advance(header.version());
        Some(header.metadata.resource_version.into_owned())
    }

    /// Take over an object from a watch, or from a list of this version.
    fn insert(&self, header: &ObjectHeader<'_>, bytes: &Bytes, listed: Option<u64>) {
        let object = CachedObject { version: header.version(), bytes: self.scope.reduce(bytes) };
        let mut cache = self.write();
        let inserted = match listed {
            Some(version) => cache.insert_listed(header, &object, version),
            None => cache.insert(header, &object),
        };
        drop(cache);
        if let Some(before) = inserted {
            self.announce(Change::Applied { header, object: &object, before: before.as_ref() });
        }
    }

    fn remove(&self, header: &ObjectHeader<'_>, bytes: &Bytes) {
        if self.write().remove(header) {
            let object = CachedObject { bytes: bytes.clone(), version: header.version() };
            self.announce(Change::Deleted { header, object: &object });
        }
    }

    /// What a list of this version does not have was deleted meanwhile.
    fn remove_all_but(&self, present: &HashSet<Box<str>>, version: u64) {
        let lost = self.read().lost(present, version);
        for bytes in lost.into_values() {
            if let Some(header) = ObjectHeader::read(&bytes) {
                self.remove(&header, &bytes);
            }
        }
    }

    fn remove_all(&self) {
        self.remove_all_but(&HashSet::new(), u64::MAX);
    }

    fn advance(&self, version: u64) {
        let mut cache = self.write();
        cache.version = cache.version.max(version);
    }

    fn read(&self) -> std::sync::RwLockReadGuard<'_, Cache> {
        self.cache.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> std::sync::RwLockWriteGuard<'_, Cache> {
        self.cache.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Cache {
    /// Keep an object, unless the cached one is newer. Returns what was cached before, if it was kept.
    #[expect(clippy::option_option, reason = "whether it was kept, and what was there")]
    fn insert(&mut self, header: &ObjectHeader<'_>, object: &CachedObject) -> Option<Option<CachedObject>> {
        let key = header.key();
        match self.objects.get_mut(key.as_str()) {
            // An equal version is taken, so that listeners hear of it: `insert_written` has cached the same
            // object without telling them.
            Some(present) if present.version > object.version => None,
            Some(present) => Some(Some(std::mem::replace(present, object.clone()))),
            None => Some(self.objects.insert(key.into(), object.clone())),
        }
    }

    /// Keep an object of a list of this version, unless the cached one was written after the list was made. An older object replaces a
    /// newer one: the list is what the server has. Returns what was cached before, if it was kept.
    #[expect(clippy::option_option, reason = "whether it was kept, and what was there")]
    fn insert_listed(
        &mut self,
        header: &ObjectHeader<'_>,
        object: &CachedObject,
        listed: u64,
    ) -> Option<Option<CachedObject>> {
        let key = header.key();
        if self.objects.get(key.as_str()).is_some_and(|present| !self.is_known_to(present, listed)) {
            return None;
        }
        Some(self.objects.insert(key.into(), object.clone()))
    }

    /// Whether a list of this version says what became of an object. Of what was written after it was made, it does not.
    fn is_known_to(&self, object: &CachedObject, listed: u64) -> bool {
        // A list never comes before what a watch has sent, unless the data of the server was restored from a backup. Then what was
        // written before is gone, and what is written from now on comes by the next watch.
        listed < self.version || object.version <= listed
    }

    /// The objects that a list of this version does not have.
    fn lost(&self, present: &HashSet<Box<str>>, listed: u64) -> BTreeMap<Box<str>, Bytes> {
        let is_lost = |object: &CachedObject| self.is_known_to(object, listed);
        let lost = self.objects.iter().filter(|(key, it)| is_lost(it) && !present.contains(*key));
        lost.map(|(key, object)| (key.clone(), object.bytes.clone())).collect()
    }

    /// Drop an object, unless it has been created anew since. Returns whether it was there.
    fn remove(&mut self, header: &ObjectHeader<'_>) -> bool {
        let key = header.key();
        let is_there =
            self.objects.get(key.as_str()).is_some_and(|object| object.version <= header.version());
        if is_there {
            self.objects.remove(key.as_str());
        }
        is_there
    }
}

/// As much of an object as is kept where only metadata is.
fn metadata_of(bytes: &Bytes) -> Option<Bytes> {
    #[derive(Deserialize, Serialize)]
    struct OnlyMetadata {
        metadata: JsonObject,
    }
    let mut object: OnlyMetadata = serde_json::from_slice(bytes).ok()?;
    object.metadata.remove("managedFields");
    remove_last_applied(&mut object.metadata);
    serde_json::to_vec(&object).ok().map(Bytes::from)
}

/// As much of an object as is kept where its data is not.
fn without_data(bytes: &Bytes, stand_in: Option<&DataStandIn>) -> Option<Bytes> {
    let mut object: JsonObject = serde_json::from_slice(bytes).ok()?;
    let added = stand_in.map(|stand_in| (stand_in.0)(&object)).unwrap_or_default();
    for field in ["data", "stringData", "binaryData"] {
        object.remove(field);
    }
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        remove_last_applied(metadata);
    }
    object.extend(added);
    serde_json::to_vec(&object).ok().map(Bytes::from)
}

fn remove_last_applied(metadata: &mut JsonObject) {
    if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
        annotations.remove(LAST_APPLIED);
    }
}

/// The key of an object in the cache of its kind.
pub fn cache_key(namespace: &str, name: &str) -> String {
    format!("{namespace}/{name}")
}

#[cfg(test)]
mod tests {
    use std::future::Pending;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::{Context, Poll};

    use http::{Request, Response};
    use kube::client::Body;
    use tower_service::Service;

    use super::*;
    use crate::object_header::count;

    /// An API server that never answers.
    struct SilentServer;

    impl Service<Request<Body>> for SilentServer {
        type Response = Response<Body>;
        type Error = std::io::Error;
        type Future = Pending<Result<Self::Response, Self::Error>>;

        fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
            Poll::Ready(Ok(()))
        }

        fn call(&mut self, _: Request<Body>) -> Self::Future {
            std::future::pending()
        }
    }

    /// An informer that has nothing but what a test gives it.
    fn informer() -> Arc<Informer> {
        informer_of(scope("ConfigMap", "configmaps"))
    }

    fn informer_of(scope: InformerScope) -> Arc<Informer> {
        Informer::start(ApiClient::new(kube::Client::new(SilentServer, "default")), scope)
    }

    fn scope(kind: &str, plural: &str) -> InformerScope {
        let resource = Resource {
            api_version: "v1".to_owned(),
            kind: kind.to_owned(),
            plural: plural.to_owned(),
            is_namespaced: true,
        };
        InformerScope::new(resource.into())
    }

    #[tokio::test]
    async fn header_of_an_object_is_read_once_for_an_event_and_all_listeners() {
        let informer = informer();
        let told = Arc::new(AtomicUsize::new(0));
        for _ in 0..3 {
            let told = told.clone();
            informer.listen(move |_, change| {
                assert_eq!(change.header().key(), "n/a");
                told.fetch_add(1, Ordering::Relaxed);
            });
        }
        let object = |version: u64| {
            Bytes::from(format!(
                r#"{{"metadata":{{"name":"a","namespace":"n","resourceVersion":"{version}"}}}}"#
            ))
        };
        let events = [
            WatchEvent::Applied(object(1)),
            WatchEvent::Applied(object(2)),
            WatchEvent::Bookmark(object(3)),
            WatchEvent::Deleted(object(4)),
        ];
        for event in events {
            let before = count::read();
            informer.take(&event);
            assert_eq!(count::read() - before, 1, "{event:?}");
        }
        // The bookmark is about no object.
        assert_eq!(told.load(Ordering::Relaxed), 3 * 3);
        informer.stop();
    }

    #[tokio::test]
    async fn answers_to_writes_are_kept_as_reduced_as_what_a_watch_brings() {
        let secret = |version: u64| {
            let object = serde_json::json!({
                "type": "Opaque", "data": {"password": "eA=="},
                "metadata": {
                    "name": "a", "namespace": "n", "resourceVersion": version.to_string(),
                    "annotations": {LAST_APPLIED: "x"},
                },
            });
            Bytes::from(object.to_string())
        };
        let scopes = [
            InformerScope { without_data: true, ..scope("Secret", "secrets") },
            InformerScope { metadata_only: true, ..scope("Secret", "secrets") },
        ];
        for scope in scopes {
            let informer = informer_of(scope);
            informer.insert_written(&secret(1));
            let written = informer.object("n", "a").unwrap();
            assert_eq!(written.get("data"), None, "{informer:?}");
            assert_eq!(written["metadata"]["annotations"], serde_json::json!({}), "{informer:?}");
            informer.take(&WatchEvent::Applied(secret(2)));
            let mut watched = informer.object("n", "a").unwrap();
            watched["metadata"]["resourceVersion"] = "1".into();
            assert_eq!(written, watched, "{informer:?}");
            informer.stop();
        }
    }

    #[test]
    fn object_that_was_written_after_a_list_was_made_is_not_lost_by_it() {
        let mut cache = Cache { version: 5, ..Cache::default() };
        for (name, version) in
            [("told", 4), ("deleted", 5), ("listed", 3), ("older-than-the-list", 6), ("written", 9)]
        {
            let text = format!(
                r#"{{"metadata":{{"name":"{name}","namespace":"n","resourceVersion":"{version}"}}}}"#
            );
            let bytes = Bytes::from(text);
            let header = ObjectHeader::read(&bytes).unwrap();
            cache.insert(&header, &CachedObject { bytes: bytes.clone(), version });
        }
        let present = HashSet::<Box<str>>::from(["n/listed".into()]);
        let lost =
            |version: u64| cache.lost(&present, version).into_keys().map(String::from).collect::<Vec<_>>();
        assert_eq!(lost(7), ["n/deleted", "n/older-than-the-list", "n/told"]);
        // The data of the API server was restored from a backup: everything goes that it does not have.
        assert_eq!(lost(1).len(), 4);
        // The kind is gone.
        assert_eq!(lost(u64::MAX).len(), 4);
    }

    #[test]
    fn list_replaces_newer_objects_unless_they_were_written_after_it() {
        for (told, cached, listed, is_replaced) in [
            // As usual.
            (5, 4, 7, true),
            // Written after the list was made, or while it was read.
            (5, 9, 7, false),
            // Restored from a backup: the list is older than what a watch has sent.
            (100, 90, 50, true),
            (100, 120, 50, true),
            // Restored from a backup, and written to since: the list is newer, its object older.
            (100, 90, 130, true),
        ] {
            let mut cache = Cache { version: told, ..Cache::default() };
            let object = |version: u64| {
                let text = format!(r#"{{"metadata":{{"name":"a","resourceVersion":"{version}"}}}}"#);
                CachedObject { bytes: text.into(), version }
            };
            let (before, after) = (object(cached), object(3));
            let (before_header, after_header) =
                (ObjectHeader::read(&before.bytes).unwrap(), ObjectHeader::read(&after.bytes).unwrap());
            cache.insert(&before_header, &before);
            let inserted = cache.insert_listed(&after_header, &after, listed);
            assert_eq!(inserted.is_some(), is_replaced, "{told} {cached} {listed}");
            let version = cache.objects["/a"].version;
            assert_eq!(version == 3, is_replaced, "{told} {cached} {listed}");
        }
    }
}
