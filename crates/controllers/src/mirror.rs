//! What the API server has, followed: all objects of a kind that are selected, as compact bytes.
//!
//! # Invariants
//! * A mirror never goes back: what is older than what it has is ignored.
//! * Whoever listens is told of every object that changed, however the watch was interrupted; several changes of one
//!   object may be told as one.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use bytes::Bytes;
use ferroplane_api::Object;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tracing::{debug, warn};

use crate::cluster::{Cluster, Error, Query, Resource, Selector, WatchEvent};
use crate::head::Head;
use crate::metrics::Watched;
use crate::runtime::backoff::Backoff;

/// How many objects are read at a time.
const PAGE: u32 = 500;
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// Which objects are mirrored.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Subject {
    pub(crate) resource: Arc<Resource>,
    pub(crate) labels: Selector,
    /// Only their metadata is kept.
    pub(crate) heads_only: bool,
}

/// An object as the API server has it.
#[derive(Debug, Clone)]
pub(crate) struct Held {
    pub(crate) bytes: Bytes,
    /// Grows with every change.
    pub(crate) version: u64,
}

/// What happened to an object.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Change<'a> {
    /// With what it said before, if it was there.
    Put { head: &'a Head<'a>, object: &'a Held, before: Option<&'a Held> },
    /// With what it said last.
    Gone { head: &'a Head<'a>, object: &'a Held },
}

impl<'a> Change<'a> {
    pub(crate) fn head(&self) -> &'a Head<'a> {
        match self {
            Self::Put { head, .. } | Self::Gone { head, .. } => head,
        }
    }

    pub(crate) fn object(&self) -> &'a Held {
        match self {
            Self::Put { object, .. } | Self::Gone { object, .. } => object,
        }
    }
}

/// Who is told what changes.
type Listener = Arc<dyn Fn(&Subject, Change<'_>) + Send + Sync>;

/// The objects of a kind.
pub(crate) struct Mirror {
    subject: Subject,
    cluster: Cluster,
    listeners: RwLock<Vec<Listener>>,
    contents: RwLock<Contents>,
    phase: Mutex<Phase>,
    /// Wakes those who wait for another phase, in the order in which they began to.
    turned: Notify,
    task: Mutex<Option<JoinHandle<()>>>,
}

/// How far a mirror has come.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Phase {
    Reading,
    /// Everything that was there has been read.
    Complete,
    /// It cannot be read, for this reason.
    Failing(String),
}

#[derive(Debug, Default)]
struct Contents {
    objects: HashMap<Box<str>, Held>,
    /// Everything up to this version has been told by the API server.
    told: u64,
}

impl std::fmt::Debug for Mirror {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Mirror").field("subject", &self.subject).finish_non_exhaustive()
    }
}

impl Mirror {
    /// Follow a kind until [`Mirror::stop`].
    pub(crate) fn start(cluster: Cluster, subject: Subject) -> Arc<Self> {
        let mirror = Arc::new(Self {
            subject,
            cluster,
            listeners: RwLock::default(),
            contents: RwLock::default(),
            phase: Mutex::new(Phase::Reading),
            turned: Notify::new(),
            task: Mutex::default(),
        });
        mirror.count(Watched::Began);
        let task = tokio::spawn(mirror.clone().follow());
        *mirror.task.lock().unwrap_or_else(PoisonError::into_inner) = Some(task);
        mirror
    }

    /// Tell this listener of everything that is there, and of everything that changes from now on.
    pub(crate) fn listen(&self, listener: impl Fn(&Subject, Change<'_>) + Send + Sync + 'static) {
        let listener: Listener = Arc::new(listener);
        // Before it is told what is there: it may hear of something twice, but never not at all.
        self.listeners.write().unwrap_or_else(PoisonError::into_inner).push(listener.clone());
        for object in self.all() {
            if let Some(head) = Head::read(&object.bytes) {
                listener(&self.subject, Change::Put { head: &head, object: &object, before: None });
            }
        }
    }

    fn announce(&self, change: Change<'_>) {
        let listeners = self.listeners.read().unwrap_or_else(PoisonError::into_inner).clone();
        for listener in listeners {
            listener(&self.subject, change);
        }
    }

    pub(crate) fn resource(&self) -> &Arc<Resource> {
        &self.subject.resource
    }

    /// Follow no longer.
    pub(crate) fn stop(&self) {
        if let Some(task) = self.task.lock().unwrap_or_else(PoisonError::into_inner).take() {
            task.abort();
            self.count(Watched::Ended);
        }
    }

    fn count(&self, watched: Watched<'_>) {
        self.cluster.metrics().count_watch(&self.subject.resource, watched);
    }

    /// Wait until everything that was there has been read.
    pub(crate) async fn complete(&self) {
        self.wait_for(|phase| *phase == Phase::Complete).await;
    }

    /// Wait until everything that was there has been read, or it is known why that cannot be.
    pub(crate) async fn settled(&self) -> Result<(), String> {
        match self.wait_for(|phase| *phase != Phase::Reading).await {
            Phase::Failing(reason) => Err(reason),
            _ => Ok(()),
        }
    }

    async fn wait_for(&self, is_wanted: impl Fn(&Phase) -> bool) -> Phase {
        loop {
            // From before looking, so that nothing is missed.
            let turned = self.turned.notified();
            let phase = self.phase.lock().unwrap_or_else(PoisonError::into_inner).clone();
            if is_wanted(&phase) {
                return phase;
            }
            turned.await;
        }
    }

    fn turn(&self, phase: Phase) {
        *self.phase.lock().unwrap_or_else(PoisonError::into_inner) = phase;
        self.turned.notify_waiters();
    }

    /// How many objects it has.
    pub(crate) fn len(&self) -> usize {
        self.read().objects.len()
    }

    pub(crate) fn get(&self, namespace: &str, name: &str) -> Option<Held> {
        self.read().objects.get(key(namespace, name).as_str()).cloned()
    }

    /// The same by what it is called among those of its kind.
    pub(crate) fn get_by_key(&self, key: &str) -> Option<Held> {
        self.read().objects.get(key).cloned()
    }

    /// One object, read as JSON.
    pub(crate) fn object(&self, namespace: &str, name: &str) -> Option<Object> {
        self.to_object(&self.get(namespace, name)?)
    }

    /// An object that is held, as JSON.
    pub(crate) fn to_object(&self, held: &Held) -> Option<Object> {
        let mut object: Object = serde_json::from_slice(&held.bytes).ok()?;
        self.subject.resource.name_kind(&mut object);
        Some(object)
    }

    /// Everything that is held, by namespace and name.
    pub(crate) fn all(&self) -> Vec<Held> {
        let contents = self.read();
        let mut all: Vec<_> = contents.objects.iter().collect();
        all.sort_unstable_by_key(|(key, _)| *key);
        all.into_iter().map(|(_, held)| held.clone()).collect()
    }

    /// Everything that is held, as JSON, by namespace and name.
    pub(crate) fn objects(&self) -> Vec<Object> {
        self.all().iter().filter_map(|held| self.to_object(held)).collect()
    }

    /// Learn at once what a write came to, without waiting to be told. Nobody else is told.
    pub(crate) fn learn(&self, bytes: &Bytes) {
        let Some(head) = Head::read(bytes) else { return };
        let version = head.version();
        let mut contents = self.write();
        // What has been told already may have been followed by the end of the object.
        if version > contents.told {
            contents.put(&head, &Held { bytes: bytes.clone(), version });
        }
    }

    /// Learn at once that, by a write, an object that came to this is not selected any more. Nobody else is told.
    pub(crate) fn unlearn(&self, bytes: &Bytes) {
        if let Some(head) = Head::read(bytes) {
            self.write().remove(&head);
        }
    }

    async fn follow(self: Arc<Self>) {
        let mut backoff = Backoff::new(FIRST_PAUSE, LONGEST_PAUSE);
        let mut said = String::new();
        loop {
            let result = match self.list().await {
                Ok(version) => {
                    said.clear();
                    self.watch(version, &mut backoff).await
                }
                Err(error) => Err(error),
            };
            let Err(error) = result else { continue };
            self.count(Watched::Failed(&error));
            if error.is_gone() {
                debug!(kind = self.subject.resource.kind, "reads everything again");
                continue;
            }
            if error.is_not_found() {
                self.lose_all();
            }
            let reason = ferroplane_engine::chain(&error);
            if self.read().told == 0 {
                self.turn(Phase::Failing(reason.clone()));
            }
            let pause = backoff.next().max(error.retry_after().unwrap_or_default());
            self.complain(&mut said, reason);
            tokio::time::sleep(pause).await;
        }
    }

    /// Say why it cannot follow, once: a kind that is gone may stay so.
    fn complain(&self, said: &mut String, error: String) {
        let kind = &self.subject.resource.kind;
        if *said == error {
            debug!(kind, error, "still cannot follow objects");
        } else {
            warn!(kind, error, "cannot follow objects; trying again");
            *said = error;
        }
    }

    /// Read everything. Returns the version that it is.
    async fn list(&self) -> Result<String, Error> {
        let mut present = HashSet::new();
        let mut continuation: Option<String> = None;
        loop {
            let query = Query {
                labels: Some(&self.subject.labels),
                limit: Some(PAGE),
                continuation: continuation.as_deref(),
                heads_only: self.subject.heads_only,
                ..Query::default()
            };
            let pieces = self.cluster.list(&self.subject.resource, "", &query).await?;
            let page: Page<'_> = serde_json::from_slice(pieces.text()).map_err(Error::garbled)?;
            for item in &page.items {
                if let Some(key) = self.put(&pieces.part(item.get())) {
                    present.insert(key);
                }
            }
            continuation = page.metadata.continuation.filter(|token| !token.is_empty());
            if continuation.is_none() {
                self.lose_all_but(&present);
                let version = page.metadata.resource_version;
                self.note(version.parse().unwrap_or_default());
                self.turn(Phase::Complete);
                self.count(Watched::Listed);
                return Ok(version);
            }
        }
    }

    /// Follow what happens after this version, through as many watches as it takes.
    async fn watch(&self, mut version: String, backoff: &mut Backoff) -> Result<(), Error> {
        let mut is_first = true;
        loop {
            if !std::mem::take(&mut is_first) {
                self.count(Watched::Restarted);
            }
            let query = Query {
                labels: Some(&self.subject.labels),
                resource_version: Some(&version),
                is_watch: true,
                heads_only: self.subject.heads_only,
                ..Query::default()
            };
            let mut watch = self.cluster.watch(&self.subject.resource, "", &query).await?;
            let mut has_told = false;
            while let Some(event) = watch.next().await? {
                if !std::mem::replace(&mut has_told, true) {
                    backoff.reset();
                }
                if let Some(told) = self.tell(event) {
                    version = told;
                }
            }
            if !has_told {
                // A server that ends every watch at once must not be asked again at once.
                tokio::time::sleep(backoff.next()).await;
            }
        }
    }

    /// Take in an event. Returns the version that it brings.
    fn tell(&self, event: WatchEvent) -> Option<String> {
        match event {
            WatchEvent::Put(bytes) => {
                let version = Head::read(&bytes)?.metadata.resource_version.into_owned();
                self.put(&bytes)?;
                self.note(version.parse().unwrap_or_default());
                Some(version)
            }
            WatchEvent::Gone(bytes) => {
                let head = Head::read(&bytes)?;
                self.lose(&head, &bytes);
                self.note(head.version());
                Some(head.metadata.resource_version.into_owned())
            }
            WatchEvent::Bookmark(bytes) => {
                let head = Head::read(&bytes)?;
                self.note(head.version());
                Some(head.metadata.resource_version.into_owned())
            }
        }
    }

    /// An object is there. Returns its key.
    fn put(&self, bytes: &Bytes) -> Option<Box<str>> {
        let head = Head::read(bytes)?;
        let object = Held { version: head.version(), bytes: bytes.clone() };
        let kept = self.write().put(&head, &object);
        if let Some(before) = kept {
            self.announce(Change::Put { head: &head, object: &object, before: before.as_ref() });
        }
        Some(head.key().into())
    }

    fn lose(&self, head: &Head<'_>, bytes: &Bytes) {
        if self.write().remove(head) {
            let object = Held { bytes: bytes.clone(), version: head.version() };
            self.announce(Change::Gone { head, object: &object });
        }
    }

    /// Whatever was not read is gone.
    fn lose_all_but(&self, present: &HashSet<Box<str>>) {
        let lost: BTreeMap<_, _> = {
            let contents = self.read();
            let lost = contents.objects.iter().filter(|(key, _)| !present.contains(*key));
            lost.map(|(key, held)| (key.clone(), held.bytes.clone())).collect()
        };
        for bytes in lost.into_values() {
            if let Some(head) = Head::read(&bytes) {
                self.lose(&head, &bytes);
            }
        }
    }

    fn lose_all(&self) {
        self.lose_all_but(&HashSet::new());
    }

    fn note(&self, version: u64) {
        let mut contents = self.write();
        contents.told = contents.told.max(version);
    }

    fn read(&self) -> std::sync::RwLockReadGuard<'_, Contents> {
        self.contents.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> std::sync::RwLockWriteGuard<'_, Contents> {
        self.contents.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Contents {
    /// Keep an object, unless what is held is newer. Returns what was held before, if it was kept.
    #[expect(clippy::option_option, reason = "whether it was kept, and what was there")]
    fn put(&mut self, head: &Head<'_>, object: &Held) -> Option<Option<Held>> {
        let key = head.key();
        match self.objects.get_mut(key.as_str()) {
            Some(present) if present.version > object.version => None,
            Some(present) => Some(Some(std::mem::replace(present, object.clone()))),
            None => Some(self.objects.insert(key.into(), object.clone())),
        }
    }

    /// Lose an object, unless it has been made anew since. Returns whether it was there.
    fn remove(&mut self, head: &Head<'_>) -> bool {
        let key = head.key();
        let is_there = self.objects.get(key.as_str()).is_some_and(|held| held.version <= head.version());
        if is_there {
            self.objects.remove(key.as_str());
        }
        is_there
    }
}

#[derive(Deserialize)]
struct Page<'a> {
    metadata: PageMetadata,
    #[serde(borrow, default)]
    items: Vec<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PageMetadata {
    #[serde(default)]
    resource_version: String,
    #[serde(default, rename = "continue")]
    continuation: Option<String>,
}

/// What an object is called among those of its kind.
pub(crate) fn key(namespace: &str, name: &str) -> String {
    format!("{namespace}/{name}")
}
