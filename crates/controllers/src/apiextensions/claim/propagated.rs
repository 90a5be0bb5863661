//! Remembers the connection details that were copied to the Secrets of claims, and watches those Secrets. It is a cache: losing it costs
//! two requests for each claim.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::connection::Propagated;
use super::controller::Name;
use crate::apiextensions::composite::{ClaimName, Composites, SecretName};
use crate::runtime::queue::Queue;

pub(super) struct PropagatedDetails {
    definition: String,
    /// Watches Secrets.
    controllers: Arc<Composites>,
    /// Of the claims.
    queue: Queue<Name>,
    all: Mutex<HashMap<Name, Followed>>,
}

/// The Secret of a claim.
struct Followed {
    secret: SecretName,
    /// The details that were copied, and the epoch of the Secret then.
    copied: Option<(Propagated, u64)>,
}

impl PropagatedDetails {
    pub(super) fn new(definition: &str, controllers: Arc<Composites>, queue: &Queue<Name>) -> Self {
        let (definition, queue) = (definition.to_owned(), queue.clone());
        Self { definition, controllers, queue, all: Mutex::default() }
    }

    /// Watch the Secret of a claim, and no longer one that it named before. Returns the epoch of the Secret.
    pub(super) fn follow(&self, claim: &str, secret: &SecretName) -> u64 {
        let mut all = self.lock();
        if all.get(claim).is_none_or(|known| known.secret != *secret) {
            let followed = Followed { secret: secret.clone(), copied: None };
            if let Some(former) = all.insert(claim.to_owned(), followed) {
                self.controllers.claim_secrets().unfollow(&former.secret, &self.name_of(claim));
            }
        }
        self.controllers.follow_claim_secret(secret, self.name_of(claim), &self.queue)
    }

    /// Whether these details were copied, and the Secret has not changed since.
    pub(super) fn holds(&self, claim: &str, details: &Propagated, epoch: u64) -> bool {
        let all = self.lock();
        let copied = all.get(claim).and_then(|followed| followed.copied.as_ref());
        copied.is_some_and(|(known, at)| known == details && *at == epoch)
    }

    /// The Secret of a claim was read or written, and has this version, given the epoch before. Returns the epoch then.
    pub(super) fn seen(&self, secret: &SecretName, version: u64, before: u64) -> u64 {
        self.controllers.claim_secrets().seen(secret, version, before)
    }

    pub(super) fn remember(&self, claim: &str, details: Propagated, epoch: u64) {
        if let Some(followed) = self.lock().get_mut(claim) {
            followed.copied = Some((details, epoch));
        }
    }

    /// The claim was deleted, or names no Secret any more.
    pub(super) fn forget(&self, claim: &str) {
        if let Some(followed) = self.lock().remove(claim) {
            self.controllers.claim_secrets().unfollow(&followed.secret, &self.name_of(claim));
        }
    }

    /// The controller ends.
    pub(super) fn forget_all(&self) {
        for (claim, followed) in self.lock().drain() {
            self.controllers.claim_secrets().unfollow(&followed.secret, &self.name_of(&claim));
        }
    }

    fn name_of(&self, claim: &str) -> ClaimName {
        (self.definition.clone(), claim.to_owned())
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Name, Followed>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
