//! The output of a program: its last lines for errors, and every line for those who subscribe.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::process::Child;
use tokio::task::JoinSet;
use tokio::time::timeout;

/// How much of what a program said is kept: its last words, not its life story.
const KEPT: usize = 8 << 10;
/// How long to wait for the rest of what a program that ended has said.
const REST: Duration = Duration::from_secs(1);
/// A longer line is handed on in pieces.
const LONGEST_LINE: usize = 16 << 10;

/// Is given every line that a program prints.
pub type LineSink = Arc<dyn Fn(&str) + Send + Sync>;

/// The last words of a program.
#[derive(Debug)]
pub(super) struct Output {
    tail: Arc<Mutex<VecDeque<u8>>>,
    reading: tokio::sync::Mutex<JoinSet<()>>,
}

impl Output {
    pub(super) fn of(child: &mut Child, lines: Option<&LineSink>) -> Self {
        let tail = Arc::new(Mutex::new(VecDeque::new()));
        let mut reading = JoinSet::new();
        if let Some(stdout) = child.stdout.take() {
            reading.spawn(read(stdout, tail.clone(), Lines::new(lines)));
        }
        if let Some(stderr) = child.stderr.take() {
            reading.spawn(read(stderr, tail.clone(), Lines::new(lines)));
        }
        Self { tail, reading: reading.into() }
    }

    /// What a program that has ended said last, ready to be put after an error, or nothing.
    pub(super) async fn last_words(&self) -> String {
        let mut reading = self.reading.lock().await;
        // A grandchild that inherited the pipes may keep them open for ever.
        let _ = timeout(REST, async { while reading.join_next().await.is_some() {} }).await;
        self.so_far()
    }

    /// The same, of a program that may have more to say.
    pub(super) fn so_far(&self) -> String {
        let tail: Vec<u8> = lock(&self.tail).iter().copied().collect();
        let text = String::from_utf8_lossy(&tail);
        let text = text.trim();
        if text.is_empty() { String::new() } else { format!("; it said:\n{text}") }
    }
}

async fn read(mut from: impl AsyncRead + Unpin, tail: Arc<Mutex<VecDeque<u8>>>, mut lines: Lines) {
    let mut buffer = [0; 4096];
    while let Ok(length @ 1..) = from.read(&mut buffer).await {
        lines.add(&buffer[..length]);
        let mut tail = lock(&tail);
        tail.extend(&buffer[..length]);
        let excess = tail.len().saturating_sub(KEPT);
        tail.drain(..excess);
    }
    lines.finish();
}

/// Makes lines of what comes in pieces.
struct Lines {
    sink: Option<LineSink>,
    begun: Vec<u8>,
}

impl Lines {
    fn new(sink: Option<&LineSink>) -> Self {
        Self { sink: sink.cloned(), begun: Vec::new() }
    }

    fn add(&mut self, piece: &[u8]) {
        if self.sink.is_none() {
            return;
        }
        for part in piece.split_inclusive(|byte| *byte == b'\n') {
            self.begun.extend(part);
            if part.ends_with(b"\n") || self.begun.len() >= LONGEST_LINE {
                self.finish();
            }
        }
    }

    fn finish(&mut self) {
        let text = String::from_utf8_lossy(&self.begun);
        let line = text.trim_end();
        if let Some(sink) = self.sink.as_ref().filter(|_| !line.is_empty()) {
            sink(line);
        }
        self.begun.clear();
    }
}

fn lock(tail: &Mutex<VecDeque<u8>>) -> std::sync::MutexGuard<'_, VecDeque<u8>> {
    tail.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_become_lines() {
        let heard = Arc::new(Mutex::new(Vec::new()));
        let hear = heard.clone();
        let sink: LineSink = Arc::new(move |line: &str| hear.lock().unwrap().push(line.to_owned()));
        let mut lines = Lines::new(Some(&sink));
        for piece in ["on", "e\r\ntwo\n\nth", "ree"] {
            lines.add(piece.as_bytes());
        }
        lines.finish();
        lines.add(&vec![b'x'; 3 * LONGEST_LINE]);
        lines.finish();
        let heard = heard.lock().unwrap();
        assert_eq!(heard[..3], ["one", "two", "three"]);
        assert_eq!(heard[3..].iter().map(String::len).sum::<usize>(), 3 * LONGEST_LINE);
    }
}
