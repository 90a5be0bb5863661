//! What controllers have to live with, and what was seen of them meanwhile.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

use tokio::sync::Notify;
use tokio::time::Instant;

use super::chance::Chance;

/// Decides what goes wrong, and notes what happens.
#[derive(Debug)]
pub(super) struct Weather {
    pub(super) luck: Chance,
    pub(super) moods: Chance,
    is_stormy: AtomicBool,
    /// Whether what sites become never changes, so that there is nothing to delete.
    pub(super) is_steady: bool,
    began_at: Instant,
    /// What was written by controllers and called by them, so far.
    writes: AtomicU64,
    calls: AtomicU64,
    /// At which write controllers are killed next, and whether that is carried out before.
    killing: Mutex<Option<(u64, bool)>>,
    pub(super) killed: Notify,
    /// How many seconds the clock is wrong.
    pub(super) clock: AtomicI64,
    /// What cannot be asked for at all: paths that start like this.
    pub(super) blocked: Mutex<Option<&'static str>>,
    /// A path that cannot be read, and the code of the answer. What is below it can: the objects of a collection that cannot be listed.
    pub(super) unlisted: Mutex<Option<(&'static str, u16)>>,
    /// How often paths were read by controllers.
    reads: Mutex<BTreeMap<String, u64>>,
    /// Whether the API server cannot be reached.
    pub(super) is_down: AtomicBool,
    /// How often all watches were ended.
    cuts: AtomicU64,
    /// Wakes those who watch, in the order in which they began to wait.
    pub(super) cut: Notify,
    /// Which lists of what is composed are refused after half a minute.
    pub(super) delayed: Mutex<Option<&'static str>>,
    trace: Mutex<Vec<String>>,
    wrongs: Mutex<Vec<String>>,
}

impl Weather {
    pub(super) fn new(seed: u64, is_steady: bool) -> Self {
        Self {
            luck: Chance::new(seed, 1),
            moods: Chance::new(seed, 2),
            is_stormy: AtomicBool::new(false),
            is_steady,
            began_at: Instant::now(),
            writes: AtomicU64::new(0),
            calls: AtomicU64::new(0),
            killing: Mutex::default(),
            killed: Notify::new(),
            clock: AtomicI64::new(0),
            blocked: Mutex::default(),
            unlisted: Mutex::default(),
            reads: Mutex::default(),
            is_down: AtomicBool::new(false),
            cuts: AtomicU64::new(0),
            cut: Notify::new(),
            delayed: Mutex::default(),
            trace: Mutex::default(),
            wrongs: Mutex::default(),
        }
    }

    pub(super) fn is_stormy(&self) -> bool {
        self.is_stormy.load(Ordering::Relaxed)
    }

    pub(super) fn set_stormy(&self, is_stormy: bool) {
        self.note(if is_stormy { "--- faults begin" } else { "--- faults end" });
        self.is_stormy.store(is_stormy, Ordering::Relaxed);
        if !is_stormy {
            *self.killing.lock().unwrap() = None;
        }
    }

    /// Kill controllers at one of their next writes.
    pub(super) fn kill_soon(&self, writes: u64, is_carried_out: bool) {
        *self.killing.lock().unwrap() = Some((self.writes.load(Ordering::Relaxed) + writes, is_carried_out));
    }

    /// Make sure that controllers were killed at every write: that they have survived the last one.
    pub(super) fn assert_all_were_tried(&self, write: u64, most: u64) {
        let is_pending = self.killing.lock().unwrap().is_some();
        assert!(write < most || is_pending, "there are more than {most} writes: try more");
    }

    pub(super) fn kill_now(&self) {
        self.killed.notify_one();
    }

    /// End all watches.
    pub(super) fn cut_watches(&self) {
        self.note("--- watches end");
        self.cuts.fetch_add(1, Ordering::Relaxed);
        self.cut.notify_waiters();
    }

    pub(super) fn cuts(&self) -> u64 {
        self.cuts.load(Ordering::Relaxed)
    }

    pub(super) fn is_blocked(&self, path: &str) -> bool {
        self.blocked.lock().unwrap().is_some_and(|blocked| path.starts_with(blocked))
    }

    /// The code of the answer to a read of this path, if it cannot be read.
    pub(super) fn unlisted(&self, path: &str) -> Option<u16> {
        self.unlisted.lock().unwrap().filter(|(unlisted, _)| *unlisted == path).map(|(_, code)| code)
    }

    pub(super) fn count_read(&self, path: &str) {
        *self.reads.lock().unwrap().entry(path.to_owned()).or_default() += 1;
    }

    /// How often controllers read this.
    pub(super) fn reads(&self, path: &str) -> u64 {
        self.reads.lock().unwrap().get(path).copied().unwrap_or_default()
    }

    pub(super) fn is_delayed(&self, path: &str, query: Option<&str>) -> bool {
        let is_of_composed = query.is_some_and(|query| query.contains("labelSelector"));
        is_of_composed && self.delayed.lock().unwrap().is_some_and(|delayed| path.starts_with(delayed))
    }

    /// A write is about to happen. Returns whether it is the last one, and if so whether it is carried out.
    pub(super) fn count_write(&self) -> Option<bool> {
        let count = self.writes.fetch_add(1, Ordering::Relaxed) + 1;
        let mut killing = self.killing.lock().unwrap();
        let (_, is_carried_out) = killing.take_if(|(at, _)| *at <= count)?;
        Some(is_carried_out)
    }

    pub(super) fn count_call(&self) {
        self.calls.fetch_add(1, Ordering::Relaxed);
    }

    /// How much controllers wrote.
    pub(super) fn writes(&self) -> u64 {
        self.writes.load(Ordering::Relaxed)
    }

    /// Grows whenever controllers do something.
    pub(super) fn activity(&self) -> u64 {
        self.writes.load(Ordering::Relaxed) + self.calls.load(Ordering::Relaxed)
    }

    pub(super) fn note(&self, what: &str) {
        let line = format!("{:>12.3} {what}", self.began_at.elapsed().as_secs_f64());
        self.trace.lock().unwrap().push(line);
    }

    /// Something happened that must never happen.
    pub(super) fn accuse(&self, what: String) {
        self.note(&format!("WRONG: {what}"));
        self.wrongs.lock().unwrap().push(what);
    }

    pub(super) fn wrongs(&self) -> Vec<String> {
        self.wrongs.lock().unwrap().clone()
    }

    pub(super) fn trace(&self) -> Vec<String> {
        self.trace.lock().unwrap().clone()
    }
}
