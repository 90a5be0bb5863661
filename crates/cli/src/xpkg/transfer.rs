//! Shows how far images are on their way.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use ferroplane_image::Digest;
use ferroplane_image::registry::Progress;
use indicatif::{HumanBytes, ProgressBar};

use crate::terminal::Terminal;

/// A bar for all blobs of a transfer. Clones share it.
#[derive(Clone)]
pub(crate) struct Transfer {
    bar: ProgressBar,
    blobs: Arc<Blobs>,
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
        let (received, size) = self.blobs.add(progress);
        self.bar.set_length(size);
        self.bar.set_position(received);
    }
}

/// How many bytes have come of each blob, and how many it has.
#[derive(Default)]
struct Blobs(Mutex<HashMap<Digest, (u64, u64)>>);

impl Blobs {
    /// How many bytes have come of all blobs, and how many they have.
    fn add(&self, progress: Progress) -> (u64, u64) {
        let mut blobs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        blobs.insert(progress.digest, (progress.received, progress.size));
        blobs.values().fold((0, 0), |sum: (u64, u64), blob| (sum.0 + blob.0, sum.1 + blob.1))
    }
}

/// Says how far the images of functions are that are pulled while another piece of work is shown. Clones share it.
#[derive(Clone)]
pub(crate) struct PulledImages {
    blobs: Arc<Blobs>,
    /// Where the work is shown, and its words.
    shown: Arc<Mutex<(ProgressBar, &'static str)>>,
}

impl PulledImages {
    pub(crate) fn during(work: &ProgressBar, words: &'static str) -> Self {
        Self { blobs: Arc::default(), shown: Arc::new(Mutex::new((work.clone(), words))) }
    }

    /// From now on, another piece of work is shown.
    pub(crate) fn move_to(&self, work: &ProgressBar, words: &'static str) {
        *self.shown.lock().unwrap_or_else(PoisonError::into_inner) = (work.clone(), words);
    }

    pub(crate) fn report(&self, progress: Progress) {
        let (received, size) = self.blobs.add(progress);
        let shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        let (work, words) = &*shown;
        if received < size {
            work.set_message(format!("pulling images: {} of {}", HumanBytes(received), HumanBytes(size)));
        } else {
            work.set_message(*words);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_are_shown_while_they_are_pulled() {
        let (first, second) = (ProgressBar::hidden(), ProgressBar::hidden());
        let pulled = PulledImages::during(&first, "starting");
        let digest = |letter: &str| format!("sha256:{}", letter.repeat(64)).parse::<Digest>().unwrap();
        let report = |letter, received| {
            pulled.report(Progress { digest: digest(letter), received, size: 10 << 20 });
        };

        report("a", 5 << 20);
        assert_eq!(first.message(), "pulling images: 5.00 MiB of 10.00 MiB");
        report("b", 0);
        assert_eq!(first.message(), "pulling images: 5.00 MiB of 20.00 MiB");
        report("a", 10 << 20);
        report("b", 10 << 20);
        assert_eq!(first.message(), "starting");

        pulled.move_to(&second, "rendering");
        report("c", 0);
        assert_eq!(second.message(), "pulling images: 20.00 MiB of 30.00 MiB");
        assert_eq!(first.message(), "starting");
    }
}
