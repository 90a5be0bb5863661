//! The connection Secrets of claims. A claim is reconciled when its Secret changes, so that one that was deleted is written again.
//!
//! Composite resources have the same in `dependencies.rs`. Claims have no other dependencies.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::runtime::queue::Queue;

/// The namespace and name of a Secret.
pub(crate) type SecretName = (String, String);

/// A claim: its definition, and its `namespace/name`.
pub(crate) type ClaimName = (String, String);

/// Secrets that claims have written, or will write.
#[derive(Debug, Default)]
pub(crate) struct ClaimSecrets(Mutex<HashMap<SecretName, FollowedSecret>>);

#[derive(Debug, Default)]
struct FollowedSecret {
    /// Increases whenever the Secret changes, unless its claim has written it.
    epoch: u64,
    /// The known version. Zero if it does not exist.
    version: Option<u64>,
    /// The claims that name it, with their queues.
    claims: BTreeMap<ClaimName, Queue<String>>,
}

impl ClaimSecrets {
    /// Requeue a claim when a Secret changes. Returns the current epoch.
    pub(super) fn follow(&self, secret: &SecretName, claim: ClaimName, queue: &Queue<String>) -> u64 {
        let mut all = self.lock();
        let followed = all.entry(secret.clone()).or_default();
        followed.claims.insert(claim, queue.clone());
        followed.epoch
    }

    /// The claim no longer names the Secret, or is deleted.
    pub(crate) fn unfollow(&self, secret: &SecretName, claim: &ClaimName) {
        let mut all = self.lock();
        let Some(followed) = all.get_mut(secret) else { return };
        followed.claims.remove(claim);
        if followed.claims.is_empty() {
            all.remove(secret);
        }
    }

    /// Record that a claim has read or written this version of a Secret, given the epoch before. Returns the epoch then.
    pub(crate) fn seen(&self, secret: &SecretName, version: u64, before: u64) -> u64 {
        let mut all = self.lock();
        let Some(followed) = all.get_mut(secret) else { return before };
        if followed.epoch == before {
            followed.version = Some(version);
            return before;
        }
        // It changed meanwhile. Either that was the claim's own write, and the watch was faster than the response,
        // or the claim was requeued.
        if followed.version == Some(version) { followed.epoch } else { before }
    }

    /// A Secret has this version now; zero if it was deleted. Requeues its claim, if the version is new.
    pub(super) fn changed(&self, secret: &SecretName, version: u64) {
        let mut all = self.lock();
        let Some(followed) = all.get_mut(secret) else { return };
        // A watch may be older than what was read by name.
        let is_news = followed.version.is_none_or(|known| version == 0 && known != 0 || version > known);
        if !is_news {
            return;
        }
        followed.version = Some(version);
        followed.epoch += 1;
        for ((_, claim), queue) in &followed.claims {
            queue.add(claim.clone());
        }
    }

    /// All Secrets whose version is known.
    pub(super) fn names(&self) -> Vec<SecretName> {
        let all = self.lock();
        all.iter().filter(|(_, it)| it.version.is_some()).map(|(secret, _)| secret.clone()).collect()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<SecretName, FollowedSecret>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
