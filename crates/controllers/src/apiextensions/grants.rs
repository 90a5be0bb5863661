//! A cache of the `AccessGrant`s of administrators.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use ferroplane_api::{ANY, AccessGrantSpec, Object};
use ferroplane_client::{CachedObject, Change, Informer};
use ferroplane_engine::{Grants, chain};
use tracing::warn;

/// All grants.
#[derive(Debug, Default)]
pub(crate) struct GrantCache {
    current: RwLock<Arc<Grants>>,
    epoch: AtomicU64,
}

impl GrantCache {
    /// A cache that follows the informer.
    pub(crate) fn new(grants: &Informer) -> Arc<Self> {
        let cache = Arc::new(Self::default());
        let follower = Arc::downgrade(&cache);
        grants.listen(move |_, change| {
            if let Some(cache) = follower.upgrade() {
                cache.changed(change);
            }
        });
        cache
    }

    pub(crate) fn current(&self) -> Arc<Grants> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Increases with every change.
    pub(crate) fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }

    fn changed(&self, change: Change<'_>) {
        let name = &change.header().metadata.name;
        {
            let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
            let grants = Arc::make_mut(&mut *current);
            match (change, read(change.object())) {
                (Change::Applied { .. }, Some(object)) => {
                    // The API server validates grants. An invalid one was stored before it had the schema.
                    if let Err(error) = grants.add(&object) {
                        warn!(name = %name, error = chain(&error), "an AccessGrant grants nothing");
                    }
                }
                _ => grants.remove(name),
            }
        }
        self.epoch.fetch_add(1, Ordering::AcqRel);
    }
}

/// The namespaces whose composite resources a change may affect: all if it is none.
pub(crate) fn namespaces_concerned(change: Change<'_>) -> Option<BTreeSet<String>> {
    let before = match change {
        Change::Applied { before, .. } => before,
        Change::Deleted { .. } => None,
    };
    let mut namespaces = BTreeSet::new();
    for object in before.into_iter().chain([change.object()]) {
        let spec = read(object).and_then(|mut object| object.remove("spec"));
        let spec: AccessGrantSpec = serde_json::from_value(spec?).ok()?;
        namespaces.extend(spec.to.namespaces);
    }
    (!namespaces.contains(ANY)).then_some(namespaces)
}

fn read(object: &CachedObject) -> Option<Object> {
    serde_json::from_slice(&object.bytes).ok()
}
