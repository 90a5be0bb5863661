//! The delay before a failed operation is tried again.
//!
//! An attempt writes the status of its operation, and every write reconciles it again. That reconcile must not be the next attempt.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ferroplane_api::{Object, meta};
use tokio::time::Instant;

/// The pauses between attempts, by the names of operations. They are in memory only: after a restart, the next attempt follows at once.
#[derive(Debug, Default)]
pub(super) struct Pauses(Mutex<HashMap<String, Pause>>);

#[derive(Debug)]
struct Pause {
    uid: String,
    generation: i64,
    end: Instant,
}

impl Pauses {
    /// Start a pause. A change of the spec ends it.
    pub(super) fn begin(&self, operation: &Object, length: Duration) {
        let (uid, generation) = (meta::uid(operation).to_owned(), meta::generation(operation));
        let pause = Pause { uid, generation, end: Instant::now() + length };
        self.lock().insert(meta::name(operation).to_owned(), pause);
    }

    /// The rest of the pause. None if the operation may be tried.
    pub(super) fn left(&self, operation: &Object) -> Option<Duration> {
        let pauses = self.lock();
        let pause = pauses.get(meta::name(operation))?;
        let is_its = pause.uid == meta::uid(operation) && pause.generation == meta::generation(operation);
        let left = pause.end.saturating_duration_since(Instant::now());
        (is_its && !left.is_zero()).then_some(left)
    }

    pub(super) fn forget(&self, name: &str) {
        self.lock().remove(name);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Pause>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn operation(uid: &str, generation: i64) -> Object {
        let operation = json!({"metadata": {"name": "o", "uid": uid, "generation": generation}});
        operation.as_object().unwrap().clone()
    }

    #[tokio::test(start_paused = true)]
    async fn operation_is_left_alone_until_its_pause_is_over_or_its_spec_is_changed() {
        let pauses = Pauses::default();
        let it = operation("u", 1);
        assert_eq!(pauses.left(&it), None);
        pauses.begin(&it, Duration::from_secs(4));
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(pauses.left(&it), Some(Duration::from_secs(3)));
        assert_eq!(pauses.left(&operation("u", 2)), None, "somebody may have corrected it");
        assert_eq!(pauses.left(&operation("v", 1)), None, "another one of the same name");
        tokio::time::advance(Duration::from_secs(3)).await;
        assert_eq!(pauses.left(&it), None);
        pauses.begin(&it, Duration::from_secs(4));
        pauses.forget("o");
        assert_eq!(pauses.left(&it), None);
    }
}
