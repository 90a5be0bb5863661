//! Reads a layer in a thread of its own: decompressing and hashing take as long as writing files does.
//!
//! # Invariants
//! * At most [`DEPTH`] + 2 chunks are in memory.
//! * The digest is of all that the source had, or there is none.

use std::io::{self, BufRead, BufReader, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread;

use super::{LimitExceeded, Limits};
use crate::compression::Compression;
use crate::{Algorithm, Digest, Hasher};

const CHUNK: usize = 256 << 10;
const DEPTH: usize = 8;

/// What a layer unpacks to, as long as it is within limits.
pub(crate) struct Bounded<'a> {
    source: Box<dyn Read + Send + 'a>,
    compressed: Arc<AtomicU64>,
    produced: u64,
    /// How many bytes this and all further layers may have.
    left: u64,
    limits: &'a Limits,
}

impl<'a> Bounded<'a> {
    pub(crate) fn new(
        source: impl Read + Send + 'a,
        compression: Compression,
        left: u64,
        limits: &'a Limits,
    ) -> Self {
        let compressed = Arc::new(AtomicU64::new(0));
        let counted = Counted { source, count: Arc::clone(&compressed) };
        let source = compression.reader(BufReader::with_capacity(CHUNK, counted));
        Self { source, compressed, produced: 0, left, limits }
    }

    fn check(&self) -> Result<(), LimitExceeded> {
        if self.produced > self.left {
            return Err(LimitExceeded::Bytes(self.limits.bytes));
        }
        // What was read ahead of the decompressor counts, too: a layer may get a little more, never less.
        let allowed = self.compressed.load(Ordering::Relaxed).saturating_mul(self.limits.ratio);
        if self.produced > allowed.max(Limits::FREE_BYTES) {
            return Err(LimitExceeded::Ratio(self.limits.ratio));
        }
        Ok(())
    }
}

impl Read for Bounded<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.source.read(buffer)?;
        self.produced += count as u64;
        self.check().map_err(io::Error::other)?;
        Ok(count)
    }
}

struct Counted<R> {
    source: R,
    count: Arc<AtomicU64>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.source.read(buffer)?;
        self.count.fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }
}

/// What was read: how many bytes, and their digest.
pub(super) struct Content {
    pub(super) length: u64,
    pub(super) digest: Digest,
}

/// Give a source to a consumer, chunk by chunk. The consumer has to read it to its end, or fail.
pub(super) fn consume<T, E>(
    source: Bounded<'_>,
    algorithm: Algorithm,
    consumer: impl FnOnce(Chunks) -> Result<T, E>,
) -> Result<(T, Content), E> {
    let (full, filled) = sync_channel(DEPTH);
    let (empty, emptied) = channel();
    thread::scope(|scope| {
        let producer = scope.spawn(move || produce(source, Hasher::new(algorithm), &full, &emptied));
        // The consumer drops its end when it fails, at which the producer stops.
        let result = consumer(Chunks { filled, empty, chunk: Vec::new(), at: 0 })?;
        let content = producer.join().expect("reading a layer does not panic");
        Ok((result, content))
    })
}

fn produce(
    mut source: Bounded,
    mut hasher: Hasher,
    full: &SyncSender<io::Result<Vec<u8>>>,
    emptied: &Receiver<Vec<u8>>,
) -> Content {
    loop {
        let mut chunk = emptied.try_recv().unwrap_or_else(|_| Vec::with_capacity(CHUNK));
        chunk.clear();
        let read = source.by_ref().take(CHUNK as u64).read_to_end(&mut chunk);
        let is_end = read.is_err() || chunk.is_empty();
        hasher.update(&chunk);
        // Without a reader the digest is not needed either.
        let is_sent = full.send(read.map(|_| chunk)).is_ok();
        if is_end || !is_sent {
            return Content { length: source.produced, digest: hasher.finish() };
        }
    }
}

/// The chunks of a layer as a reader.
pub(super) struct Chunks {
    filled: Receiver<io::Result<Vec<u8>>>,
    empty: Sender<Vec<u8>>,
    chunk: Vec<u8>,
    at: usize,
}

impl Read for Chunks {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let available = self.fill_buf()?;
        let count = available.len().min(buffer.len());
        buffer[..count].copy_from_slice(&available[..count]);
        self.consume(count);
        Ok(count)
    }
}

impl BufRead for Chunks {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.at == self.chunk.len() {
            // After its last chunk the producer is gone.
            let next = self.filled.recv().unwrap_or_else(|_| Ok(Vec::new()))?;
            let used = std::mem::replace(&mut self.chunk, next);
            self.at = 0;
            let _ = self.empty.send(used);
        }
        Ok(&self.chunk[self.at..])
    }

    fn consume(&mut self, count: usize) {
        self.at += count;
    }
}
