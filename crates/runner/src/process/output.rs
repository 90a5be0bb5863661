//! What a program says, as far as it may be needed.

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

/// The last words of a program.
#[derive(Debug)]
pub(super) struct Output {
    tail: Arc<Mutex<VecDeque<u8>>>,
    reading: tokio::sync::Mutex<JoinSet<()>>,
}

impl Output {
    pub(super) fn of(child: &mut Child) -> Self {
        let tail = Arc::new(Mutex::new(VecDeque::new()));
        let mut reading = JoinSet::new();
        if let Some(stdout) = child.stdout.take() {
            reading.spawn(read(stdout, tail.clone()));
        }
        if let Some(stderr) = child.stderr.take() {
            reading.spawn(read(stderr, tail.clone()));
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

async fn read(mut from: impl AsyncRead + Unpin, tail: Arc<Mutex<VecDeque<u8>>>) {
    let mut buffer = [0; 4096];
    while let Ok(length @ 1..) = from.read(&mut buffer).await {
        let mut tail = lock(&tail);
        tail.extend(&buffer[..length]);
        let excess = tail.len().saturating_sub(KEPT);
        tail.drain(..excess);
    }
}

fn lock(tail: &Mutex<VecDeque<u8>>) -> std::sync::MutexGuard<'_, VecDeque<u8>> {
    tail.lock().unwrap_or_else(PoisonError::into_inner)
}
