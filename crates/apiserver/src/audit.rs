//! The audit log: who changed what, one line of JSON each, in the shape of `audit.k8s.io/v1`.
//!
//! Requests never wait for the log. If it cannot keep up, or cannot be written, events are lost; how many is counted, and
//! the log says so itself as soon as it can be written again.

mod event;
mod file;
mod writer;

use std::path::Path;
use std::time::Duration;

pub use event::{Event, Level, ObjectReference, Outcome};

use file::RotatingFile;
use writer::Writer;

/// How much to keep, and how much may wait.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Begin a new file when this one has so many bytes.
    pub bytes: u64,
    /// How many full files to keep beside the current one.
    pub files: usize,
    /// How many events may wait to be written.
    pub queue: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self { bytes: 100 << 20, files: 10, queue: 4_096 }
    }
}

/// A log that is open. Events that wait are written when it is closed, or dropped.
#[derive(Debug)]
pub struct AuditLog {
    writer: Writer,
}

impl AuditLog {
    /// Opens a log, for its owner alone, and goes on where it ends.
    pub fn open(path: &Path, settings: &Settings) -> std::io::Result<Self> {
        let mut file = RotatingFile::open(path, settings.bytes, settings.files)?;
        let writer = Writer::start(settings.queue, move |lines| file.write(lines))?;
        Ok(Self { writer })
    }

    /// Says that something was asked for, and what became of it. Never waits.
    pub fn record(&self, event: &Event<'_>) {
        self.writer.send(event.to_line());
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
