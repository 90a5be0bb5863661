//! The operations whose attempts this process has begun: an attempt that another one has begun was interrupted with it.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use ferroplane_api::{Object, meta};

/// The UIDs of operations, by name.
#[derive(Debug, Default)]
pub(super) struct Begun(Mutex<HashMap<String, String>>);

impl Begun {
    pub(super) fn note(&self, operation: &Object) {
        self.lock().insert(meta::name(operation).to_owned(), meta::uid(operation).to_owned());
    }

    pub(super) fn has(&self, operation: &Object) -> bool {
        self.lock().get(meta::name(operation)).is_some_and(|uid| uid == meta::uid(operation))
    }

    pub(super) fn forget(&self, name: &str) {
        self.lock().remove(name);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
