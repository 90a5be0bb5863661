//! What is being written, so that a client that reads an object can wait for what was begun before.
//!
//! That is optional: acknowledged writes are visible anyway. It is for those who gave up waiting for a write, and now look
//! whether it happened. Otherwise they might be shown the object as it was a moment before, and their next write be refused.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use tokio::sync::Notify;

use super::entry::{Change, Operation};
use super::key::Key;

/// Keys share slots, which costs those that collide a short wait, and takes constant memory.
const SLOTS: usize = 1024;

/// How much was begun and ended, of keys that share a slot.
#[derive(Debug, Default)]
struct Slot {
    begun: AtomicU32,
    ended: AtomicU32,
}

#[derive(Debug)]
pub(super) struct InFlight {
    slots: Box<[Slot]>,
    ended: Notify,
}

/// A submission that has begun. It ends when this is dropped.
#[derive(Debug)]
pub(super) struct InFlightGuard {
    in_flight: Arc<InFlight>,
    slots: Vec<usize>,
}

impl InFlight {
    pub(super) fn new() -> Arc<Self> {
        let slots = std::iter::repeat_with(Slot::default).take(SLOTS).collect();
        Arc::new(Self { slots, ended: Notify::new() })
    }

    pub(super) fn begin(self: &Arc<Self>, operations: &[Operation]) -> InFlightGuard {
        let changes = operations.iter().filter(|operation| !matches!(operation.change, Change::Nothing));
        let slots: Vec<_> = changes.map(|operation| slot(&operation.key)).collect();
        for slot in &slots {
            self.slots[*slot].begun.fetch_add(1, Ordering::AcqRel);
        }
        InFlightGuard { in_flight: self.clone(), slots }
    }

    /// Waits for what has begun, but not for what begins meanwhile.
    pub(super) async fn finished(&self, key: &Key) {
        let slot = &self.slots[slot(key)];
        let begun = slot.begun.load(Ordering::Acquire);
        loop {
            let mut ended = pin!(self.ended.notified());
            // From here on no end is missed.
            ended.as_mut().enable();
            let left = begun.wrapping_sub(slot.ended.load(Ordering::Acquire));
            // More may have ended than had begun, which looks like a very large number.
            if left == 0 || left > u32::MAX / 2 {
                return;
            }
            ended.await;
        }
    }
}

impl Drop for InFlightGuard {
    fn drop(&mut self) {
        for slot in &self.slots {
            self.in_flight.slots[*slot].ended.fetch_add(1, Ordering::AcqRel);
        }
        self.in_flight.ended.notify_waiters();
    }
}

fn slot(key: &Key) -> usize {
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    // The remainder is small, whatever the hash.
    usize::try_from(hasher.finish() % SLOTS as u64).unwrap_or_default()
}
