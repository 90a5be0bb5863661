//! In-memory state of revisions. Losing it costs another read of the package, and no write.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ferroplane_api::Object;
use ferroplane_package::PackageManifest;
use tokio::time::Instant;

use crate::pkg::ImageProgram;
use crate::pkg::caches::PackageKey;

/// How often the objects of a revision are compared with its package, as Crossplane does when it resynchronizes.
pub(super) const LOOK_AGAIN: Duration = Duration::from_hours(1);

/// The state of all revisions.
#[derive(Debug, Default)]
pub(super) struct Memory(Mutex<All>);

#[derive(Debug, Default)]
struct All {
    known: HashMap<PackageKey, (String, Known)>,
    /// How many objects of a revision were deleted.
    deletions: HashMap<PackageKey, u64>,
}

/// The state of a revision.
#[derive(Debug, Clone)]
pub(super) struct Known {
    /// The image whose digest this is.
    pub(super) image: String,
    pub(super) digest: String,
    pub(super) manifest: Arc<PackageManifest>,
    pub(super) program: ImageProgram,
    /// What its objects were written for, and when.
    pub(super) established: Option<(Establishment, Instant)>,
}

/// What the objects of a revision are written for. They are written again if any of it changes.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Establishment {
    pub(super) generation: i64,
    /// Whether the revision controls them.
    pub(super) control: bool,
    /// The Service of its pods: webhooks lead to it.
    pub(super) service: Option<Object>,
}

impl Known {
    /// Whether the objects were written for this, and not long ago: users may have edited or deleted some.
    pub(super) fn is_established(&self, wanted: &Establishment) -> bool {
        let is_same =
            |(written, at): &(Establishment, Instant)| written == wanted && at.elapsed() < LOOK_AGAIN;
        self.established.as_ref().is_some_and(is_same)
    }
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
        let (of, known) = all.known.get(key)?;
        let is_same = digest.map_or(known.image == image, |digest| known.digest == digest);
        (of == uid && is_same).then(|| known.clone())
    }

    pub(super) fn set(&self, key: &PackageKey, uid: &str, known: Known) {
        self.lock().known.insert(key.clone(), (uid.to_owned(), known));
    }

    /// The objects of a revision were written, for what was wanted when there had been so many deletions. One that came meanwhile has them
    /// written again.
    pub(super) fn set_established(
        &self,
        key: &PackageKey,
        uid: &str,
        known: &Known,
        wanted: Establishment,
        deletions: u64,
    ) {
        let mut all = self.lock();
        let is_complete = all.deletions.get(key).copied().unwrap_or_default() == deletions;
        let established = is_complete.then(|| (wanted, Instant::now()));
        all.known.insert(key.clone(), (uid.to_owned(), Known { established, ..known.clone() }));
    }

    /// How many objects of a revision were deleted.
    pub(super) fn deletions(&self, key: &PackageKey) -> u64 {
        self.lock().deletions.get(key).copied().unwrap_or_default()
    }

    /// Forget a revision. Only the one who reconciles it may: a deletion that others still compare would be lost.
    pub(super) fn forget(&self, key: &PackageKey) {
        let mut all = self.lock();
        all.known.remove(key);
        all.deletions.remove(key);
    }

    /// Its objects may have been deleted.
    pub(super) fn forget_objects(&self, key: &PackageKey) {
        let mut all = self.lock();
        *all.deletions.entry(key.clone()).or_default() += 1;
        if let Some((_, known)) = all.known.get_mut(key) {
            known.established = None;
        }
    }

    /// Revisions with dependencies.
    pub(super) fn dependents(&self) -> Vec<PackageKey> {
        let all = self.lock();
        let depends = |known: &Known| !known.manifest.dependencies.is_empty();
        let mut keys: Vec<_> =
            all.known.iter().filter(|(_, (_, known))| depends(known)).map(|(key, _)| key.clone()).collect();
        // The order of a map differs each time.
        keys.sort();
        keys
    }

    fn lock(&self) -> MutexGuard<'_, All> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use ferroplane_api::PackageKind;
    use serde_json::json;

    use super::*;

    fn known() -> Known {
        let manifest = PackageManifest::read(PackageKind::Configuration, &Object::new()).unwrap();
        Known {
            image: "registry.example.org/acme/platform:v1".to_owned(),
            digest: "sha256:one".to_owned(),
            manifest: Arc::new(manifest),
            program: ImageProgram::default(),
            established: None,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn objects_are_compared_again_after_a_change_and_after_an_hour() {
        let wanted = Establishment { generation: 1, control: true, service: None };
        let mut known = known();
        assert!(!known.is_established(&wanted));
        known.established = Some((wanted.clone(), Instant::now()));
        assert!(known.is_established(&wanted));
        let service = json!({"metadata": {"name": "front"}}).as_object().cloned();
        assert!(!known.is_established(&Establishment { service, ..wanted.clone() }));
        tokio::time::advance(LOOK_AGAIN).await;
        assert!(!known.is_established(&wanted));
    }

    #[tokio::test]
    async fn object_that_is_deleted_while_others_are_written_is_written_again() {
        let (memory, key) = (Memory::default(), (PackageKind::Configuration, "platform-1".to_owned()));
        let wanted = || Establishment { generation: 1, control: true, service: None };
        let is_established =
            || memory.get(&key, "uid", "", Some("sha256:one")).unwrap().is_established(&wanted());
        // The revision is reconciled for the first time, so that nothing is known of it.
        let before = memory.deletions(&key);
        memory.forget_objects(&key);
        memory.set_established(&key, "uid", &known(), wanted(), before);
        assert!(!is_established(), "what was deleted would be missed for an hour");

        let before = memory.deletions(&key);
        memory.set_established(&key, "uid", &known(), wanted(), before);
        assert!(is_established());
        memory.forget_objects(&key);
        assert!(!is_established());
    }
}
