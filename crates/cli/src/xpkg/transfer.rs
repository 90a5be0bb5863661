//! Shows how far images are on their way.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use ferroplane_image::Digest;
use ferroplane_image::registry::Progress;
use indicatif::ProgressBar;

use crate::terminal::Terminal;

/// A bar for all blobs of a transfer. Clones share it.
#[derive(Clone)]
pub(crate) struct Transfer {
    bar: ProgressBar,
    blobs: Arc<Mutex<HashMap<Digest, (u64, u64)>>>,
}

impl Transfer {
    pub(crate) fn start(terminal: &mut Terminal, words: &'static str) -> Self {
        Self { bar: terminal.transfer(words), blobs: Arc::default() }
    }

    /// What clients of registries call.
    pub(crate) fn reporter(&self) -> impl Fn(Progress) + Send + Sync + 'static {
        let transfer = self.clone();
        move |progress| transfer.report(progress)
    }

    pub(crate) fn finish(&self) {
        self.bar.finish_and_clear();
    }

    fn report(&self, progress: Progress) {
        let mut blobs = self.blobs.lock().unwrap_or_else(PoisonError::into_inner);
        blobs.insert(progress.digest, (progress.received, progress.size));
        let (received, size) =
            blobs.values().fold((0, 0), |sum: (u64, u64), blob| (sum.0 + blob.0, sum.1 + blob.1));
        self.bar.set_length(size);
        self.bar.set_position(received);
    }
}
