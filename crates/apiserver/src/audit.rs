//! The audit log: who did what, one line of JSON each, in the shape of `audit.k8s.io/v1`.
//!
//! A [`Policy`] says which requests have lines, and how much those tell. Requests never wait for the log. If it cannot keep up,
//! or cannot be written, events are lost; how many is counted, and the log says so itself as soon as it can be written again.

pub(crate) mod event;
mod file;
mod policy;
mod refusals;
mod writer;

use std::io::{self, Write as _};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

pub(crate) use policy::{Attributes, Decision};
pub use policy::{DEFAULT as DEFAULT_POLICY, Policy, PolicyError};

use event::Event;
use file::RotatingFile;
use refusals::RefusalLimit;
use writer::Writer;

/// What to log, how much to keep, and how much may wait.
#[derive(Debug, Clone)]
pub struct Settings {
    pub policy: Policy,
    /// Begin a new file when this one has so many bytes.
    pub bytes: u64,
    /// How many full files to keep beside the current one. None keeps all.
    pub files: Option<usize>,
    /// How long to keep full files. None keeps them for ever.
    pub age: Option<Duration>,
    /// How many events may wait to be written.
    pub queue: usize,
    /// How much memory they may take.
    pub queue_bytes: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            policy: Policy::default(),
            bytes: 100 << 20,
            files: Some(10),
            age: None,
            // What thousands of writes per second come to in a second or two.
            queue: 16_384,
            queue_bytes: 64 << 20,
        }
    }
}

/// A log that is open. Events that wait are written when it is closed, or dropped.
#[derive(Debug)]
pub struct AuditLog {
    writer: Writer,
    policy: Policy,
    refusals: RefusalLimit,
    recorded: AtomicU64,
}

impl AuditLog {
    /// Opens a log, for its owner alone, and continues where it ends. `-` is standard output.
    pub fn open(path: &Path, settings: &Settings) -> io::Result<Self> {
        let limits = (settings.queue, settings.queue_bytes);
        let writer = if path.as_os_str() == "-" {
            Writer::start(limits, |lines| {
                let mut output = io::stdout().lock();
                output.write_all(lines)?;
                output.flush()
            })?
        } else {
            let mut file = RotatingFile::open(path, settings.bytes, settings.files, settings.age)?;
            Writer::start(limits, move |lines| file.write(lines))?
        };
        let (policy, refusals) = (settings.policy.clone(), RefusalLimit::default());
        Ok(Self { writer, policy, refusals, recorded: AtomicU64::new(0) })
    }

    pub(crate) fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Says what became of a request. Never waits.
    pub(crate) fn record(&self, mut event: Event) {
        if event.is_refusal_of_stranger() {
            let Some(omitted) = self.refusals.pass() else { return };
            if omitted > 0 {
                event.annotations.push((refusals::OMITTED.to_owned(), omitted.to_string()));
            }
        }
        self.recorded.fetch_add(1, Ordering::Relaxed);
        self.writer.send(event);
    }

    /// How many events there were so far.
    pub fn recorded(&self) -> u64 {
        self.recorded.load(Ordering::Relaxed)
    }

    /// How many events were lost so far.
    pub fn lost(&self) -> u64 {
        self.writer.lost()
    }

    /// Waits until everything is written. Gives up after a while: a disk may hang.
    pub fn close(self, patience: Duration) -> u64 {
        self.writer.close(patience)
    }
}

#[cfg(test)]
mod tests;
