//! What code says besides its answer: lines for the log, bounded.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use wasmtime_wasi::cli::{IsTerminal, StdoutStream};
use wasmtime_wasi::p2::{OutputStream, Pollable, StreamResult};

/// Takes the lines that code writes to stderr or to the log, without their line ends.
pub type LogSink = Arc<dyn Fn(&str) + Send + Sync>;

/// The longest line that is passed on. A longer one is passed on in pieces.
const LONGEST_LINE: usize = 8 << 10;

/// How much of the last line goes into an error.
const LONGEST_QUOTE: usize = 256;

/// The log of a call. Clones write to the same log.
#[derive(Clone)]
pub(crate) struct Log(Arc<Mutex<Lines>>);

struct Lines {
    sink: LogSink,
    /// The beginning of a line whose end was not written yet.
    partial: Vec<u8>,
    /// How many bytes may still be written.
    left: usize,
    was_cut: bool,
    last: String,
}

impl Log {
    pub(crate) fn new(sink: LogSink, limit: usize) -> Self {
        let lines = Lines { sink, partial: Vec::new(), left: limit, was_cut: false, last: String::new() };
        Self(Arc::new(Mutex::new(lines)))
    }

    /// Begin anew, for the next call of code that keeps running and so keeps its streams.
    pub(crate) fn restart(&self, sink: LogSink, limit: usize) {
        *self.lines() = Lines { sink, partial: Vec::new(), left: limit, was_cut: false, last: String::new() };
    }

    /// Write a whole line.
    pub(crate) fn line(&self, line: &str) {
        let mut lines = self.lines();
        lines.write(line.as_bytes());
        lines.write(b"\n");
    }

    /// Pass on what was written without a line end, and say what the last line was.
    pub(crate) fn finish(&self) -> String {
        let mut lines = self.lines();
        lines.end_line();
        std::mem::take(&mut lines.last)
    }

    fn lines(&self) -> MutexGuard<'_, Lines> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Lines {
    fn write(&mut self, bytes: &[u8]) {
        let kept = &bytes[..bytes.len().min(self.left)];
        self.left -= kept.len();
        for piece in kept.split_inclusive(|byte| *byte == b'\n') {
            for part in piece.chunks(LONGEST_LINE) {
                self.partial.extend_from_slice(part);
                if part.ends_with(b"\n") || self.partial.len() >= LONGEST_LINE {
                    self.end_line();
                }
            }
        }
        if kept.len() < bytes.len() && !self.was_cut {
            self.was_cut = true;
            self.end_line();
            (self.sink)("the log ends here: the code wrote more than it may");
        }
    }

    fn end_line(&mut self) {
        let line = std::mem::take(&mut self.partial);
        let line = String::from_utf8_lossy(&line);
        let line = line.trim_end_matches(['\n', '\r']);
        if !line.is_empty() {
            (self.sink)(line);
            self.last = line.chars().take(LONGEST_QUOTE).collect();
        }
    }
}

impl fmt::Debug for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Log")
    }
}

impl IsTerminal for Log {
    fn is_terminal(&self) -> bool {
        false
    }
}

impl StdoutStream for Log {
    fn async_stream(&self) -> Box<dyn tokio::io::AsyncWrite + Send + Sync> {
        // Only WASI 0.3 asks for this, which is not offered.
        Box::new(tokio::io::sink())
    }

    fn p2_stream(&self) -> Box<dyn OutputStream> {
        Box::new(self.clone())
    }
}

impl OutputStream for Log {
    fn write(&mut self, bytes: bytes::Bytes) -> StreamResult<()> {
        self.lines().write(&bytes);
        Ok(())
    }

    fn flush(&mut self) -> StreamResult<()> {
        Ok(())
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        // What is written beyond the limit is dropped: code that cannot write to stderr would end itself.
        Ok(64 << 10)
    }
}

#[wasmtime_wasi::async_trait]
impl Pollable for Log {
    async fn ready(&mut self) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    fn logged(limit: usize, writes: &[&str]) -> (Vec<String>, String) {
        let lines = Arc::new(Mutex::new(Vec::new()));
        let sink = lines.clone();
        let log = Log::new(Arc::new(move |line| sink.lock().unwrap().push(line.to_owned())), limit);
        for write in writes {
            log.lines().write(write.as_bytes());
        }
        let last = log.finish();
        let lines = lines.lock().unwrap().clone();
        (lines, last)
    }

    #[test]
    fn pieces_become_lines() {
        let (lines, last) = logged(100, &["one\ntw", "o\r\n\n", "three"]);

        assert_eq!(lines, ["one", "two", "three"]);
        assert_eq!(last, "three");
    }

    #[test]
    fn what_is_beyond_the_limit_is_dropped_and_said_once() {
        let (lines, _) = logged(6, &["one\n", "two\n", "three\n"]);

        assert_eq!(lines, ["one", "tw", "the log ends here: the code wrote more than it may"]);
    }

    #[test]
    fn line_without_end_is_passed_on_in_pieces() {
        let (lines, last) = logged(usize::MAX, &["x".repeat(LONGEST_LINE * 2 + 1).as_str()]);

        assert_eq!(lines.iter().map(String::len).collect::<Vec<_>>(), [LONGEST_LINE, LONGEST_LINE, 1]);
        assert_eq!(last, "x");
    }
}
