//! In-memory state of revisions. Losing it costs another read of the package, and no write.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ferroplane_package::PackageManifest;

use crate::pkg::caches::PackageKey;

/// The state of all revisions.
#[derive(Debug, Default)]
pub(super) struct Memory(Mutex<HashMap<PackageKey, (String, Known)>>);

/// The state of a revision.
#[derive(Debug, Clone)]
pub(super) struct Known {
    /// The image whose digest this is.
    pub(super) image: String,
    pub(super) digest: String,
    pub(super) manifest: Arc<PackageManifest>,
    pub(super) is_webassembly: bool,
    /// The generation for which its objects were written, and whether it controls them.
    pub(super) established: Option<(i64, bool)>,
}

impl Memory {
    /// The state of this very revision, if its image is still the same: by its digest or, if that is not known, by its name. A revision that
    /// Crossplane made does not have the digest, and its registry is asked for it once.
    pub(super) fn get(
        &self,
        key: &PackageKey,
        uid: &str,
        image: &str,
        digest: Option<&str>,
    ) -> Option<Known> {
        let all = self.lock();
        let (of, known) = all.get(key)?;
        let is_same = digest.map_or(known.image == image, |digest| known.digest == digest);
        (of == uid && is_same).then(|| known.clone())
    }

    pub(super) fn set(&self, key: &PackageKey, uid: &str, known: Known) {
        self.lock().insert(key.clone(), (uid.to_owned(), known));
    }

    pub(super) fn forget(&self, key: &PackageKey) {
        self.lock().remove(key);
    }

    /// Its objects may have been deleted.
    pub(super) fn forget_objects(&self, key: &PackageKey) {
        if let Some((_, known)) = self.lock().get_mut(key) {
            known.established = None;
        }
    }

    /// Revisions with dependencies.
    pub(super) fn dependents(&self) -> Vec<PackageKey> {
        let all = self.lock();
        let depends = |known: &Known| !known.manifest.dependencies.is_empty();
        let mut keys: Vec<_> =
            all.iter().filter(|(_, (_, known))| depends(known)).map(|(key, _)| key.clone()).collect();
        // The order of a map differs each time.
        keys.sort();
        keys
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<PackageKey, (String, Known)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
