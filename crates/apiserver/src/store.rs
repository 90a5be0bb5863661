//! Keeps objects: durable on disk, all of them in memory, with a history for those who watch.
//!
//! Knows keys and bytes, and of metadata what every object has; no kinds, no HTTP. `docs/store.md` describes the stored format.
//!
//! ```
//! use ferroplane_apiserver::store::{Draft, EventKind, Operation, Options, Store};
//! # use serde_json::json;
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let store = Store::in_memory(Options::default())?; // or `Store::open(directory, options)`
//! let things = store.collection("example.org/things");
//! let mut watcher = store.watch(&things, store.revision())?;
//!
//! // The revision is spliced into the object when it is written.
//! let object = json!({"kind": "Thing", "metadata": {"name": "one", "namespace": "here"}});
//! let draft = Draft::new(object.as_object().unwrap())?;
//! let created = store.submit(vec![Operation::create(things.key("here", "one"), draft)]).await?;
//! assert_eq!(created[0].bytes(), r#"{"kind":"Thing","metadata":{"name":"one","namespace":"here","resourceVersion":"1"}}"#);
//!
//! let events = watcher.next().await?;
//! assert_eq!((events[0].kind(), events[0].entry().bytes()), (EventKind::Added, created[0].bytes()));
//!
//! let snapshot = store.snapshot(&things);
//! assert_eq!(snapshot.range(Some("here"), None).count(), 1);
//! store.submit(vec![Operation::delete(things.key("here", "one"), created[0].revision())]).await?;
//! assert_eq!(store.snapshot_at(&things, snapshot.revision())?.len(), 1);
//! # Ok(())
//! # }
//! ```
//!
//! # Invariants
//! * Nothing is visible before it is durable.
//! * A submission happens wholly or not at all, and is seen wholly or not at all.
//! * Revisions only grow, over restarts and restores, too.
//! * All watchers of a collection see the same events in the same order, none twice and none left out.

mod backup;
mod batch;
mod damaged_rows;
mod directory;
mod entry;
mod history;
mod in_flight;
mod key;
mod load;
mod log;
mod metadata;
mod snapshot;
mod state;
mod tree;
mod watch_cache;
mod writer;

use std::any::Any;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock, RwLockReadGuard, mpsc};

use tokio::sync::{Semaphore, oneshot, watch};

use directory::Directory;
use in_flight::InFlight;
use log::memory::Memory;
use log::sqlite::Sqlite;
use state::State;
use writer::{Message, Submission, Writer};

pub use backup::{BackupError, backup, restore, salvage};
pub use entry::{Change, Draft, DraftError, Entry, Expect, Operation};
pub use history::Window;
pub use key::{Collection, Key};
pub use log::{Batch, Log, LogError, Marks, Row, RowError};
pub use metadata::{ObjectMetadata, Owners, Pairs, Uid};
pub use snapshot::{Range, Snapshot};
pub use watch_cache::{Event, EventKind, WatchError, Watcher};

/// How many KiB may wait to be written. Who comes then waits before joining the queue. Counted in bytes, because objects
/// differ in size by a factor of a thousand: so many submissions could be nothing, or all of the memory.
const QUEUE: u32 = 64 << 10;

/// How a store behaves.
#[derive(Clone, Default)]
pub struct Options {
    pub window: Window,
    /// Says which fields of a stored object can be selected by, given its collection and its bytes.
    pub fields: Option<FieldsOf>,
    /// Whether a client that submits something writes it, too, instead of a thread made for that. Nothing waits for a thread
    /// then, so that the same program does the same things in the same order each time.
    pub writes_in_place: bool,
}

/// Finds the fields of an object that can be selected by.
pub type FieldsOf = Arc<dyn Fn(&str, &[u8]) -> Pairs + Send + Sync>;

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options").field("window", &self.window).finish_non_exhaustive()
    }
}

/// A store. Clones are the same store; it is closed when the last one is gone.
#[derive(Clone, Debug)]
pub struct Store(Arc<Handle>);

#[derive(Debug)]
struct Handle {
    shared: Arc<Shared>,
    queue: mpsc::Sender<Message>,
    /// Who writes, if it is not a thread.
    in_place: Option<Mutex<Writer>>,
    room: Arc<Semaphore>,
    /// Ends with the writer.
    finished: Mutex<Option<oneshot::Receiver<()>>>,
    directory: Option<PathBuf>,
}

/// What the writer and everyone else share.
#[derive(Debug)]
struct Shared {
    state: RwLock<State>,
    /// Everything up to this revision can be read and watched.
    published: Arc<AtomicU64>,
    revisions: watch::Sender<u64>,
    /// Why nothing can be written any more.
    failure: OnceLock<Arc<LogError>>,
    health: watch::Sender<Health>,
    in_flight: Arc<InFlight>,
    observer: OnceLock<Observer>,
}

/// Receives every event.
struct Observer(Box<dyn Fn(&Event) + Send + Sync>);

impl fmt::Debug for Observer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Observer")
    }
}

/// Whether a store can be written to.
#[derive(Clone, Debug, Default)]
pub enum Health {
    #[default]
    Fine,
    /// The last write was refused for want of room. The next one may work.
    Full(Arc<LogError>),
    /// Nothing can be written until the store is opened again.
    Failed(Arc<LogError>),
}

impl Store {
    /// Open the store in a directory, or make one. Blocks while it is read.
    pub fn open(directory: &Path, options: Options) -> Result<Self, OpenError> {
        // The lock comes first: SQLite would recover the write-ahead log of a store that another process is writing to.
        let lock = Directory::lock(directory)?;
        let log = Sqlite::open(&lock.database())?;
        Self::start(Box::new(log), Some(lock), Some(directory.to_owned()), options)
    }

    /// A store that forgets everything when it is closed.
    pub fn in_memory(options: Options) -> Result<Self, OpenError> {
        Self::with_log(Box::new(Memory), options)
    }

    /// A store that is as durable as its log.
    pub fn with_log(log: Box<dyn Log>, options: Options) -> Result<Self, OpenError> {
        Self::start(log, None, None, options)
    }

    fn start(
        mut log: Box<dyn Log>,
        lock: Option<Directory>,
        directory: Option<PathBuf>,
        options: Options,
    ) -> Result<Self, OpenError> {
        let writes_in_place = options.writes_in_place;
        let (state, history) = load::load(&mut *log, options)?;
        let shared = Arc::new(Shared::new(state));
        let (queue, receiver) = mpsc::channel();
        let (finish, finished) = oneshot::channel();
        let writer = Writer { shared: shared.clone(), log, history, queue: receiver, directory: lock };
        let in_place = if writes_in_place {
            Some(Mutex::new(writer))
        } else {
            start_thread(writer, finish)?;
            None
        };
        let room = Arc::new(Semaphore::new(QUEUE as usize));
        let finished = Mutex::new(Some(finished));
        Ok(Self(Arc::new(Handle { shared, queue, in_place, room, finished, directory })))
    }

    /// Stop writing, let go of the files, and wait until that is done. What was submitted before is written.
    pub async fn close(self) {
        // By a message, because other clones of the store may still hold the queue open.
        let _ = self.0.queue.send(Message::Close);
        let finished = self.0.finished.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(finished) = finished {
            let _ = finished.await;
        }
    }

    /// The collection of a name, such as `apps/deployments`. Keep it; looking it up is not free.
    pub fn collection(&self, name: &str) -> Collection {
        let state = self.0.shared.read();
        if let Some(collection) = state.find_collection(name) {
            return collection.clone();
        }
        drop(state);
        // It may have been created since; then this finds it.
        self.0.shared.state.write().unwrap_or_else(PoisonError::into_inner).collection(name)
    }

    /// All collections that were ever asked for, or have had an object; sorted by name.
    pub fn collections(&self) -> Vec<Collection> {
        let mut collections: Vec<_> = self.0.shared.read().collections().cloned().collect();
        collections.sort_by(|one, other| one.name().cmp(other.name()));
        collections
    }

    /// The revision of the newest object, or deletion, that can be read.
    pub fn revision(&self) -> u64 {
        self.0.shared.published.load(Ordering::Acquire)
    }

    /// Follows [`Store::revision`]: for those who wait until the store has come to one.
    pub fn revisions(&self) -> watch::Receiver<u64> {
        self.0.shared.revisions.subscribe()
    }

    pub fn get(&self, key: &Key) -> Option<Arc<Entry>> {
        self.0.shared.read().get(key).cloned()
    }

    /// Waits until what was submitted about a key has happened, or been refused: for those who gave up waiting for it
    /// themselves, and want to know how it ended.
    pub async fn finish_writes(&self, key: &Key) {
        self.0.shared.in_flight.finished(key).await;
    }

    /// The object with a uid.
    pub fn by_uid(&self, uid: &Uid) -> Option<Arc<Entry>> {
        self.0.shared.read().by_uid(uid).cloned()
    }

    /// The objects that name a uid as that of an owner, sorted by collection and path.
    pub fn dependents(&self, owner: &Uid) -> Vec<Arc<Entry>> {
        self.0.shared.read().dependents(owner).cloned().collect()
    }

    /// A collection as it is now.
    pub fn snapshot(&self, collection: &Collection) -> Snapshot {
        let state = self.0.shared.read();
        Snapshot::new(state.revision(), state.tree(collection).clone())
    }

    /// A collection as it was at a revision, if that is not too long ago.
    pub fn snapshot_at(&self, collection: &Collection, revision: u64) -> Result<Snapshot, WatchError> {
        let current = self.revision();
        if revision > current {
            return Err(WatchError::TooNew { revision, current });
        }
        // Held while the events are read, so that these are exactly those between the two revisions.
        let state = self.0.shared.read();
        let snapshot = Snapshot::new(state.revision(), state.tree(collection).clone());
        let events: Vec<_> = collection.watch_cache().read().after(revision)?.cloned().collect();
        drop(state);
        // Undone from the newest event back, because each event only has the object as it was before it.
        Ok(snapshot.before(revision, events.iter().rev()))
    }

    /// Follow a collection from a revision on.
    pub fn watch(&self, collection: &Collection, revision: u64) -> Result<Watcher, WatchError> {
        Watcher::new(collection, revision, self.0.shared.published.clone())
    }

    /// Perform all of these operations, or none, and return for each the object afterwards (of a deleted one its last state).
    ///
    /// They see each other, in order. When this returns `Ok` they are durable and visible. Dropping the future does not take
    /// the submission back.
    pub async fn submit(&self, operations: Vec<Operation>) -> Result<Vec<Arc<Entry>>, SubmitError> {
        self.submit_holding(operations, Box::new(())).await
    }

    /// The same, and keeps something until the operations are visible or refused, whether the caller still waits for that or not.
    pub(crate) async fn submit_holding(
        &self,
        operations: Vec<Operation>,
        held: Box<dyn Any + Send>,
    ) -> Result<Vec<Arc<Entry>>, SubmitError> {
        if let Some(failure) = self.0.shared.failure.get() {
            return Err(SubmitError::Failed(failure.clone()));
        }
        let size: usize = operations.iter().map(Operation::size).sum();
        // What is larger than the whole queue waits until that is empty, instead of for ever.
        let room = u32::try_from(size / 1024 + 1).unwrap_or(u32::MAX).min(QUEUE);
        let permit = self.0.room.clone().acquire_many_owned(room).await.map_err(|_| SubmitError::Closed)?;
        let (reply, answer) = oneshot::channel();
        // Before it is queued, so that a client that reads the key from now on can wait for it.
        let begun = self.0.shared.in_flight.begin(&operations);
        let submission = Submission { operations, reply, permit, begun, held };
        match &self.0.in_place {
            Some(writer) => writer.lock().unwrap_or_else(PoisonError::into_inner).commit(vec![submission]),
            None => self.0.queue.send(Message::Submit(submission)).map_err(|_| SubmitError::Closed)?,
        }
        answer.await.map_err(|_| SubmitError::Unanswered)?
    }

    /// Tell someone of everything that happens from now on, in order and when it is visible. The writer waits meanwhile, so
    /// that it must take no time. There can be only one.
    pub(crate) fn observe(&self, observer: impl Fn(&Event) + Send + Sync + 'static) {
        let _ = self.0.shared.observer.set(Observer(Box::new(observer)));
    }

    /// How many KiB wait to be written.
    pub fn waiting(&self) -> usize {
        (QUEUE as usize).saturating_sub(self.0.room.available_permits())
    }

    pub fn health(&self) -> Health {
        self.0.shared.health.borrow().clone()
    }

    /// Follows [`Store::health`].
    pub fn healths(&self) -> watch::Receiver<Health> {
        self.0.shared.health.subscribe()
    }

    /// Write a copy of the store to a file that must not exist. Blocks its caller only.
    pub fn backup(&self, file: &Path) -> Result<(), BackupError> {
        match &self.0.directory {
            Some(directory) => backup(directory, file),
            None => Err(BackupError::InMemory),
        }
    }
}

fn start_thread(writer: Writer, finish: oneshot::Sender<()>) -> Result<(), OpenError> {
    let run = move || {
        writer.run_to_the_end();
        let _ = finish.send(());
    };
    std::thread::Builder::new().name("store".to_owned()).spawn(run).map_err(OpenError::Thread)?;
    Ok(())
}

impl Shared {
    fn new(state: State) -> Self {
        let revision = state.revision();
        Self {
            state: RwLock::new(state),
            published: Arc::new(AtomicU64::new(revision)),
            revisions: watch::Sender::new(revision),
            failure: OnceLock::new(),
            health: watch::Sender::default(),
            in_flight: InFlight::new(),
            observer: OnceLock::new(),
        }
    }

    fn read(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn note_full(&self, error: &Arc<LogError>) {
        self.health.send_replace(Health::Full(error.clone()));
    }

    fn note_room(&self) {
        self.health.send_if_modified(|health| {
            let was_full = matches!(health, Health::Full(_));
            if was_full {
                *health = Health::Fine;
            }
            was_full
        });
    }

    fn fail(&self, error: &Arc<LogError>) {
        if self.failure.set(error.clone()).is_ok() {
            self.health.send_replace(Health::Failed(error.clone()));
        }
    }
}

/// Why a submission did not happen.
#[derive(Debug, thiserror::Error)]
pub enum SubmitError {
    #[error(transparent)]
    Refused(#[from] Refused),
    /// Nothing was written; it may work later.
    #[error("cannot store the change")]
    Full(#[source] Arc<LogError>),
    /// Nothing was written, because the store has failed before.
    #[error("cannot store the change")]
    Failed(#[source] Arc<LogError>),
    /// It may or may not be there after the next start.
    #[error("cannot tell whether the change was stored")]
    Unknown(#[source] Arc<LogError>),
    /// Nothing was written.
    #[error("cannot store the change: the store is closed")]
    Closed,
    /// It may or may not be there after the next start.
    #[error("cannot tell whether the change was stored: the store was closed meanwhile")]
    Unanswered,
}

/// Something else was found than an operation expected.
#[derive(Debug, thiserror::Error)]
#[error("cannot perform operation {index}: {}", describe(found.as_deref()))]
pub struct Refused {
    /// Which operation it was.
    pub index: usize,
    /// What is at its key.
    pub found: Option<Arc<Entry>>,
}

fn describe(found: Option<&Entry>) -> String {
    found.map_or("there is no such object".to_owned(), |entry| {
        format!("{} is at revision {}", entry.key(), entry.revision())
    })
}

/// Why a store cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("cannot use the data directory `{}`", path.display())]
    Directory { path: PathBuf, source: io::Error },
    #[error("cannot use the data directory `{}`: {} uses it", path.display(), name(*process))]
    Locked { path: PathBuf, process: Option<u32> },
    #[error(
        "cannot use the data directory `{}`: it belongs to user {owner}, and this program runs as user {user}; run it as that \
         user, or choose a directory that is not there yet, which is then made for you",
        path.display()
    )]
    OtherOwner { path: PathBuf, owner: u32, user: u32 },
    #[error(
        "cannot use the data directory `{}`: others can write to it (mode {mode:04o}); if everything in it is yours, make it private \
         with `chmod 700`, otherwise choose another directory",
        path.display()
    )]
    WritableByOthers { path: PathBuf, mode: u32 },
    #[error(
        "cannot use `{}`: it is a symbolic link, and might lead to a file of another user; put the file itself there, or link the \
         whole data directory",
        _0.display()
    )]
    Link(PathBuf),
    #[error("cannot open `{}`: it is not a store of Ferroplane", file.display())]
    Foreign { file: PathBuf },
    #[error(
        "cannot open `{}`: it has version {version} of the format, this program knows {known}; use a newer Ferroplane",
        file.display()
    )]
    Newer { file: PathBuf, version: u64, known: u32 },
    #[error("cannot open `{}`: {why}; use a backup that has not been changed", file.display())]
    Altered { file: PathBuf, why: String },
    #[error(transparent)]
    Log(#[from] LogError),
    #[error("cannot start the thread that writes")]
    Thread(#[source] io::Error),
}

fn name(process: Option<u32>) -> String {
    process.map_or("another process".to_owned(), |process| format!("process {process}"))
}
