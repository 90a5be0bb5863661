//! The answer of a command: what it writes to stdout, bounded.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use wasmtime_wasi::cli::{IsTerminal, StdoutStream};
use wasmtime_wasi::p2::{OutputStream, Pollable, StreamError, StreamResult};

/// What a command wrote to stdout. Clones are the same stream.
#[derive(Debug, Clone)]
pub(crate) struct Output {
    written: Arc<Mutex<Vec<u8>>>,
    limit: usize,
}

/// Stops code that writes more than it may.
#[derive(Debug, thiserror::Error)]
#[error("more was written to stdout than is accepted")]
pub(crate) struct Overflow;

impl Output {
    pub(crate) fn new(limit: usize) -> Self {
        Self { written: Arc::default(), limit }
    }

    pub(crate) fn take(&self) -> Vec<u8> {
        std::mem::take(&mut self.written())
    }

    fn written(&self) -> MutexGuard<'_, Vec<u8>> {
        self.written.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl IsTerminal for Output {
    fn is_terminal(&self) -> bool {
        false
    }
}

impl StdoutStream for Output {
    fn async_stream(&self) -> Box<dyn tokio::io::AsyncWrite + Send + Sync> {
        // Only WASI 0.3 asks for this, which is not offered.
        Box::new(tokio::io::sink())
    }

    fn p2_stream(&self) -> Box<dyn OutputStream> {
        Box::new(self.clone())
    }
}

impl OutputStream for Output {
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        let mut written = self.written();
        if bytes.len() > self.limit - written.len() {
            return Err(StreamError::Trap(wasmtime::Error::new(Overflow)));
        }
        written.extend_from_slice(&bytes);
        Ok(())
    }

    fn flush(&mut self) -> StreamResult<()> {
        Ok(())
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        Ok(1 << 20)
    }
}

#[wasmtime_wasi::async_trait]
impl Pollable for Output {
    async fn ready(&mut self) {}
}
