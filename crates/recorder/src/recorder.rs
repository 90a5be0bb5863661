//! Writes recordings, on a thread beside the reconciles.

#[cfg(test)]
mod tests;

use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use ferroplane_api::Object;
use ferroplane_metrics::{Exposition, labels};
use ferroplane_segments::{Limits, OpenError, SegmentLog};
use tracing::warn;
use uuid::Uuid;

use crate::archive::Archive;
use crate::builder::{Noted, RecordingBuilder};
use crate::encode::{Known, encode};
use crate::frame::{self, FORMAT, batches};
use crate::redact::{FieldName, Redactor};

/// How many recordings wait to be kept, at most, and about how much memory they hold.
const WAITING: usize = 1024;
const WAITING_BYTES: usize = 64 << 20;
/// How long recordings are gathered before they are written: what is done for many at once is done seldom, and much of one is also in the
/// next.
const GATHERING: Duration = Duration::from_millis(10);
/// No more are written together, and not more than this part of the ring.
const TOGETHER: usize = 64;
const PART: u64 = 64;
/// Into how many segments recordings of the full size are divided.
const SEGMENTS: u64 = 8;

/// Keeps recordings. Clones keep them in the same place.
#[derive(Debug, Clone, Default)]
pub struct Recorder(Option<Arc<Shared>>);

#[derive(Debug)]
struct Shared {
    keeper: Arc<Keeper>,
    /// None if a caller that records keeps its recording itself.
    line: Option<Line>,
}

/// Where recordings wait.
#[derive(Debug)]
struct Line {
    sender: SyncSender<Job>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Debug)]
enum Job {
    Keep(Box<Noted>),
    Stop,
}

/// The one that keeps them.
#[derive(Debug)]
struct Keeper {
    /// Another one since the last definition of a kind with secret fields.
    redactor: Mutex<Arc<Redactor>>,
    state: Mutex<LogState>,
    counts: Counts,
    /// About how many bytes are written together.
    together: usize,
}

#[derive(Debug)]
struct LogState {
    log: SegmentLog,
    /// Where the log should be, if another process has that directory: then it is in memory.
    wanted: Option<PathBuf>,
    known: Known,
    /// Who has searched what is known for secrets.
    searched_by: Arc<Redactor>,
    next_id: u64,
    has_complained: bool,
}

#[derive(Debug, Default)]
struct Counts {
    kept: AtomicU64,
    bytes: AtomicU64,
    held: AtomicU64,
    crowded_out: AtomicU64,
    failed: AtomicU64,
    waiting: AtomicUsize,
}

/// Recordings that cannot be kept where they should be.
#[derive(Debug, thiserror::Error)]
#[error("cannot store recordings in {}", directory.display())]
pub struct Uncreatable {
    directory: PathBuf,
    source: OpenError,
}

impl Uncreatable {
    /// Whether a later release wrote what is there.
    pub fn is_of_later_version(&self) -> bool {
        matches!(self.source, OpenError::LaterVersion { .. })
    }
}

impl Recorder {
    /// One that keeps nothing.
    pub fn off() -> Self {
        Self(None)
    }

    /// Keep recordings in files of a directory, and no more than so many bytes. While another process has the directory, they are kept
    /// in memory. Fields of these names are redacted beside those that are always.
    pub fn open(directory: &Path, limit: u64, redacted: &[FieldName]) -> Result<Self, Uncreatable> {
        let fail = |source| Uncreatable { directory: directory.to_owned(), source };
        let fail_with = |source| fail(OpenError::File { path: directory.to_owned(), source });
        let (log, wanted) = match SegmentLog::open(directory, FORMAT, limits(limit)) {
            Ok(log) => (log, None),
            Err(error @ OpenError::InUse { .. }) => {
                let error: &dyn std::error::Error = &error;
                warn!(error, "keeping recordings in memory until the other process ends");
                (SegmentLog::in_memory(FORMAT, limits(limit)), Some(directory.to_owned()))
            }
            Err(error) => return Err(fail(error)),
        };
        // Also for recordings in memory, so that their placeholders equal those of the process that has the
        // directory.
        let key = read_key(&directory.join("key")).map_err(fail_with)?;
        Self::behind(Keeper::new(log, wanted, key, redacted)).map_err(fail_with)
    }

    /// Keep recordings in memory.
    pub fn in_memory(limit: u64, redacted: &[FieldName]) -> Result<Self, Uncreatable> {
        let log = SegmentLog::in_memory(FORMAT, limits(limit));
        let keeper = Keeper::new(log, None, random_key(), redacted);
        Self::behind(keeper).map_err(|source| {
            let directory = PathBuf::new();
            Uncreatable { source: OpenError::File { path: directory.clone(), source }, directory }
        })
    }

    /// Keep recordings in memory, each before the reconcile continues, and always in the same way.
    pub fn in_step(limit: u64, key: [u8; 32]) -> Self {
        let keeper = Arc::new(Keeper::new(SegmentLog::in_memory(FORMAT, limits(limit)), None, key, &[]));
        Self(Some(Arc::new(Shared { keeper, line: None })))
    }

    fn behind(keeper: Keeper) -> io::Result<Self> {
        let keeper = Arc::new(keeper);
        let (sender, receiver) = sync_channel(WAITING);
        let worker = keeper.clone();
        let thread =
            std::thread::Builder::new().name("recorder".to_owned()).spawn(move || worker.work(&receiver))?;
        let line = Some(Line { sender, thread: Mutex::new(Some(thread)) });
        Ok(Self(Some(Arc::new(Shared { keeper, line }))))
    }

    /// Whether anything is recorded.
    pub fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// A definition (XRD) of composite resources is there now, or has changed. The fields that it calls secret are redacted from now on, in
    /// every object of its kinds. When it is deleted, they still are: recordings that wait may have such objects.
    pub fn define(&self, definition: &Object) {
        if let Some(shared) = &self.0 {
            shared.keeper.define(definition);
        }
    }

    /// What a reconcile that begins now is recorded on.
    pub fn begin(&self, composite: &Object, milliseconds: u64) -> RecordingBuilder {
        if self.is_on() { RecordingBuilder::begin(composite, milliseconds) } else { RecordingBuilder::off() }
    }

    /// Keep it. Never waits: if too many wait to be kept, it is dropped.
    pub fn keep(&self, recording: RecordingBuilder) {
        let (Some(shared), Some(noted)) = (&self.0, recording.into_noted()) else { return };
        let counts = &shared.keeper.counts;
        let Some(line) = &shared.line else { return shared.keeper.keep(vec![*noted]) };
        let weight = noted.weight();
        // Added before it is compared, so that two threads cannot both slip in; a little more than the limit
        // may wait.
        let is_crowded = counts.waiting.fetch_add(weight, Ordering::Relaxed) > WAITING_BYTES;
        if is_crowded || line.sender.try_send(Job::Keep(noted)).is_err() {
            counts.waiting.fetch_sub(weight, Ordering::Relaxed);
            counts.crowded_out.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// What has been kept. Later recordings are not in it.
    pub fn archive(&self) -> Archive {
        let Some(shared) = &self.0 else { return Archive::of(Vec::new()) };
        let state = shared.keeper.state.lock().unwrap_or_else(PoisonError::into_inner);
        match state.log.directory() {
            Some(directory) => Archive::open(directory).unwrap_or_else(|_| Archive::of(Vec::new())),
            // Copied under the lock: in memory there is no file that a reader could open meanwhile.
            None => Archive::of(state.log.segments().map(|(_, bytes)| bytes.into_owned()).collect()),
        }
    }

    /// Keep what waits, and nothing more after that. Blocks until all is written.
    pub fn stop(&self) {
        if let Some(shared) = &self.0 {
            shared.stop();
        }
    }

    /// Writes what has been counted. Nothing if nothing is recorded.
    pub fn write_metrics(&self, page: &mut Exposition) {
        let Some(shared) = &self.0 else { return };
        let Counts { kept, bytes, held, crowded_out, failed, .. } = &shared.keeper.counts;
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        page.counter("ferroplane_recorder_recordings_total", "Reconciles that were recorded")
            .value(read(kept));
        let mut dropped = page
            .counter("ferroplane_recorder_dropped_total", "Reconciles that could not be recorded, by reason");
        dropped.series(&labels(&[("reason", "crowded")]), read(crowded_out));
        dropped.series(&labels(&[("reason", "failed")]), read(failed));
        page.counter("ferroplane_recorder_written_bytes_total", "Recordings that were written, in bytes")
            .value(read(bytes));
        page.gauge("ferroplane_recorder_held_bytes", "Size of the recordings that are kept, in bytes")
            .value(read(held));
    }
}

impl Shared {
    fn stop(&self) {
        let Some(line) = &self.line else { return };
        // Taken out under the lock and joined without it, so that a second caller does not wait.
        let thread = line.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            // Blocks if the line is full, which is the point: the worker drains it first.
            let _ = line.sender.send(Job::Stop);
            let _ = thread.join();
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Keeper {
    fn new(log: SegmentLog, wanted: Option<PathBuf>, key: [u8; 32], redacted: &[FieldName]) -> Self {
        // Numbers continue after a restart, so that a number that a user noted never means another recording.
        let next_id = last_id(&log) + 1;
        let together = usize::try_from(log.limits().bytes / PART).unwrap_or(usize::MAX);
        let redactor = Arc::new(Redactor::new(key, redacted));
        let (known, searched_by) = (Known::default(), redactor.clone());
        let state = LogState { log, wanted, known, searched_by, next_id, has_complained: false };
        let (redactor, state) = (Mutex::new(redactor), Mutex::new(state));
        Self { redactor, state, counts: Counts::default(), together }
    }

    fn define(&self, definition: &Object) {
        let mut redactor = self.redactor.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(next) = redactor.with(definition) {
            *redactor = Arc::new(next);
        }
    }

    fn work(&self, jobs: &Receiver<Job>) {
        let mut is_over = false;
        while !is_over && let Ok(first) = jobs.recv() {
            // A caller that waits for the end does not have to wait for more.
            if matches!(first, Job::Keep(_)) {
                // Sleeps on its own thread; nothing waits for it but the recordings.
                std::thread::sleep(GATHERING);
            }
            is_over = self.work_through(std::iter::once(first).chain(jobs.try_iter()));
        }
    }

    /// Keep everything that waits. Returns whether that was all.
    fn work_through(&self, jobs: impl Iterator<Item = Job>) -> bool {
        let (mut together, mut weight) = (Vec::new(), 0);
        let keep = |together: &mut Vec<Noted>, weight: &mut usize| {
            self.keep(std::mem::take(together));
            self.counts.waiting.fetch_sub(std::mem::take(weight), Ordering::Relaxed);
        };
        for job in jobs {
            let Job::Keep(noted) = job else {
                keep(&mut together, &mut weight);
                return true;
            };
            // A frame that is larger than a segment would be refused as a whole.
            if together.len() == TOGETHER || weight + noted.weight() > self.together {
                keep(&mut together, &mut weight);
            }
            weight += noted.weight();
            together.push(*noted);
        }
        keep(&mut together, &mut weight);
        false
    }

    fn keep(&self, noted: Vec<Noted>) {
        if noted.is_empty() {
            return;
        }
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let redactor = self.redactor.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let (kept, failed) = state.keep(noted, &redactor, &self.counts.bytes);
        self.counts.kept.fetch_add(kept, Ordering::Relaxed);
        self.counts.failed.fetch_add(failed, Ordering::Relaxed);
        self.counts.held.store(state.log.len(), Ordering::Relaxed);
    }
}

impl LogState {
    /// Continue in the directory as soon as the other process has left it.
    fn take_over(&mut self) {
        let Some(directory) = &self.wanted else { return };
        let Ok(log) = SegmentLog::open(directory, FORMAT, self.log.limits()) else { return };
        // The few recordings that are in memory have numbers that the other process gave out, too, so that they cannot follow.
        self.next_id = last_id(&log) + 1;
        self.log = log;
        self.wanted = None;
    }

    /// Keep these together. Returns how many are kept, and how many are not.
    fn keep(&mut self, noted: Vec<Noted>, redactor: &Arc<Redactor>, written: &AtomicU64) -> (u64, u64) {
        // At every batch rather than on a timer: the check is one attempt to lock a file.
        self.take_over();
        // What begins a segment cannot refer to anything that was written before. What was searched before a definition changed may
        // have secrets by now.
        if self.log.begins_segment() || !Arc::ptr_eq(&self.searched_by, redactor) {
            self.known = Known::default();
            self.searched_by = redactor.clone();
        }
        let (mut heads, mut bodies, mut failed) = (Vec::new(), Vec::new(), 0);
        let mut added = Vec::new();
        for noted in noted {
            let Some((mut head, body)) = encode(noted, redactor, &mut self.known) else {
                failed += 1;
                continue;
            };
            // Only now: what has too many secrets to be kept gets no number.
            head.id = self.next_id;
            self.next_id += 1;
            // At once, so that the next recording of the same batch can refer to it.
            added.extend(self.known.add(&body.blobs));
            heads.push(head);
            bodies.push(body);
        }
        let count = heads.len() as u64;
        if count == 0 {
            return (0, failed);
        }
        let frame = frame::write(heads, bodies);
        match self.log.append(&frame) {
            Ok(_) => {
                written.fetch_add(frame.len() as u64, Ordering::Relaxed);
                (count, failed)
            }
            Err(error) => {
                // What is not there cannot be referred to.
                self.known.remove(&added);
                // A full disk would fill the log as well.
                if !std::mem::replace(&mut self.has_complained, true) {
                    let error: &dyn std::error::Error = &error;
                    warn!(error, "cannot write recordings; further failures are only counted");
                }
                (0, failed + count)
            }
        }
    }
}

fn limits(bytes: u64) -> Limits {
    Limits { bytes, segments: SEGMENTS }
}

/// The number of the last recording there is.
fn last_id(log: &SegmentLog) -> u64 {
    let last_of = |segment: &[u8]| batches(segment).flat_map(|batch| batch.heads).map(|head| head.id).max();
    log.segments().rev().find_map(|(_, segment)| last_of(&segment)).unwrap_or_default()
}

/// What placeholders are made with, kept so that they stay the same.
fn read_key(path: &Path) -> io::Result<[u8; 32]> {
    let kept = std::fs::read(path).ok().and_then(|bytes| <[u8; 32]>::try_from(bytes).ok());
    if let Some(key) = kept {
        return Ok(key);
    }
    let key = random_key();
    // Created anew: an existing file is no key, and may be a link to a foreign file.
    let _ = std::fs::remove_file(path);
    let mut file =
        // With the key, guesses of secrets can be tested against placeholders.
        std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    io::Write::write_all(&mut file, &key)?;
    Ok(key)
}

fn random_key() -> [u8; 32] {
    let halves = [Uuid::new_v4().into_bytes(), Uuid::new_v4().into_bytes()];
    std::array::from_fn(|place| halves[place / 16][place % 16])
}
