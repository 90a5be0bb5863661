//! What is being written, so that whoever reads an object can wait for what was begun before.
//!
//! Nobody has to: what was acknowledged is visible anyway. It is for those who gave up waiting for a write, and now look
//! whether it happened. Otherwise they might be shown the object as it was a moment before, and their next write be refused.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use tokio::sync::Notify;

use super::entry::{Change, Operation};
use super::key::Key;

/// Keys share places, which costs those who meet a short wait, and nobody room that grows.
const PLACES: usize = 1024;

/// How much was begun and ended, of keys that share a place.
#[derive(Debug, Default)]
struct Place {
    begun: AtomicU32,
    ended: AtomicU32,
}

#[derive(Debug)]
pub(super) struct Underway {
    places: Box<[Place]>,
    ended: Notify,
}

/// A submission that has begun. It ends when this is dropped.
#[derive(Debug)]
pub(super) struct Begun {
    underway: Arc<Underway>,
    places: Vec<usize>,
}

impl Underway {
    pub(super) fn new() -> Arc<Self> {
        let places = std::iter::repeat_with(Place::default).take(PLACES).collect();
        Arc::new(Self { places, ended: Notify::new() })
    }

    pub(super) fn begin(self: &Arc<Self>, operations: &[Operation]) -> Begun {
        let changes = operations.iter().filter(|operation| !matches!(operation.change, Change::Nothing));
        let places: Vec<_> = changes.map(|operation| place(&operation.key)).collect();
        for place in &places {
            self.places[*place].begun.fetch_add(1, Ordering::AcqRel);
        }
        Begun { underway: self.clone(), places }
    }

    /// Waits for what has begun, but not for what begins meanwhile.
    pub(super) async fn settled(&self, key: &Key) {
        let place = &self.places[place(key)];
        let begun = place.begun.load(Ordering::Acquire);
        loop {
            let mut ended = pin!(self.ended.notified());
            // From here on no end is missed.
            ended.as_mut().enable();
            let left = begun.wrapping_sub(place.ended.load(Ordering::Acquire));
            // More may have ended than had begun, which looks like a very large number.
            if left == 0 || left > u32::MAX / 2 {
                return;
            }
            ended.await;
        }
    }
}

impl Drop for Begun {
    fn drop(&mut self) {
        for place in &self.places {
            self.underway.places[*place].ended.fetch_add(1, Ordering::AcqRel);
        }
        self.underway.ended.notify_waiters();
    }
}

fn place(key: &Key) -> usize {
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    // The remainder is small, whatever the hash.
    usize::try_from(hasher.finish() % PLACES as u64).unwrap_or_default()
}
