//! Instances that are kept for the next call, because they take long to start.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use wasmtime::Store;
use wasmtime::component::Func;

use crate::guest::ComponentGuest;

/// Calls after which an instance is not kept, so that what it leaks does not add up.
const CALLS: usize = 10_000;

/// Instances that wait for the next call of the same code with the same key. An instance never serves two keys.
pub(crate) struct WarmInstances {
    waiting: Mutex<VecDeque<WarmInstance>>,
    limit: usize,
    memory: usize,
}

/// An instance that answered, and can answer again.
pub(crate) struct WarmInstance {
    pub(crate) store: Store<ComponentGuest>,
    pub(crate) run: Func,
    /// The digest of its code, and what the caller says that it may be used for.
    pub(crate) key: ([u8; 32], u64),
    pub(crate) calls: usize,
}

impl WarmInstances {
    pub(crate) fn new(limit: usize, memory: usize) -> Self {
        Self { waiting: Mutex::default(), limit, memory }
    }

    /// The one that was used last: its memory is most likely still in the caches of the processor.
    pub(crate) fn take(&self, key: ([u8; 32], u64)) -> Option<WarmInstance> {
        let mut waiting = self.waiting();
        let at = waiting.iter().rposition(|instance| instance.key == key)?;
        waiting.remove(at)
    }

    /// Keep an instance, in the place of the one that was not used for longest.
    pub(crate) fn keep(&self, mut instance: WarmInstance) {
        instance.calls += 1;
        if instance.calls >= CALLS || instance.store.data().meter.memory() > self.memory || self.limit == 0 {
            return;
        }
        let mut waiting = self.waiting();
        let displaced = if waiting.len() >= self.limit { waiting.pop_front() } else { None };
        waiting.push_back(instance);
        // Dropped without the lock: to clear its memory takes a while.
        drop(waiting);
        drop(displaced);
    }

    pub(crate) fn clear(&self) {
        let dropped = std::mem::take(&mut *self.waiting());
        drop(dropped);
    }

    fn waiting(&self) -> MutexGuard<'_, VecDeque<WarmInstance>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
