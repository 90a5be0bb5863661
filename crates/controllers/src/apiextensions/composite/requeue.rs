//! When a composite resource is reconciled next, and whether it has to be at all.

use std::sync::Arc;
use std::time::Duration;

use ferroplane_api::{Object, keys, meta};
use ferroplane_engine::Requirement;
use ferroplane_engine::composite::Machinery;
use sha2::{Digest as _, Sha256};
use tokio::time::Instant;

use super::controller::Controller;
use super::fingerprints::{Basis, LastReconcile, is_same_to_functions};
use super::memory::Name;
use super::reconcile::{Composed, Reconciliation};
use super::select::{Follows, Selection};
use super::settle::Settled;
use super::trial::OnTrial;
use crate::runtime::backoff::pause;
use crate::runtime::queue::Next;

/// How soon to try again what failed.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// How often something may change its own inputs before it has to wait, and how long at first.
const PATIENT_ROUNDS: u32 = 8;
const RESTLESS_PAUSE: Duration = Duration::from_millis(100);

/// What is known of a failure that decides when to try again.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Failed {
    /// Its user has changed the composite resource since.
    pub(super) is_overtaken: bool,
    /// A function could not be reached.
    pub(super) is_function_missing: bool,
}

impl Controller {
    /// When to reconcile, if nothing has to be done now.
    pub(super) async fn leave_alone(
        &self,
        name: &Name,
        live: &Object,
        selection: &Selection,
    ) -> Option<Next> {
        if let Some(next) = self.is_unchanged(name, live, selection).await {
            return Some(next);
        }
        let wait = self.memory.wait_for_circuit(name)?;
        (!self.admits_user(name, live)).then_some(Next::After(wait))
    }

    /// Whether nothing changed since the last reconcile; then, when to reconcile again.
    async fn is_unchanged(&self, name: &Name, live: &Object, selection: &Selection) -> Option<Next> {
        let has_to_run = |follows: &Follows| {
            let is_preview = follows.trial.as_ref().is_some_and(OnTrial::is_preview);
            is_preview || self.is_shadow_due(live, &follows.intercepted)
        };
        if selection.result.as_ref().is_ok_and(has_to_run) {
            return None;
        }
        let last = self.memory.last(name)?;
        let rest = last.requeue_at.map(|time| time.saturating_duration_since(Instant::now()));
        if rest == Some(Duration::ZERO) {
            return None;
        }
        if let (true, Some(rest)) = (last.is_resting, rest) {
            return (!self.admits_user(name, live)).then_some(Next::After(rest));
        }
        // What was changed and changed back is as it was, but its conditions have to say that they know.
        if last.generation != meta::generation(live) {
            return None;
        }
        let basis = self.current_basis(live, &selection.identity, &last.requirements).await?;
        if basis.fingerprint(live) != last.fingerprint {
            return None;
        }
        Some(rest.map_or(Next::Rest, Next::After))
    }

    /// Whether its user wants something that has not been looked at, and need not wait.
    fn admits_user(&self, name: &Name, live: &Object) -> bool {
        let asked = meta::annotation(live, keys::RECONCILE_REQUESTED_AT);
        let handled = live.get("status").and_then(|status| status.get("lastHandledReconcileAt")?.as_str());
        let is_asked_for = !asked.is_empty() && handled != Some(asked);
        self.memory.admits_user(name, meta::generation(live), is_asked_for)
    }

    /// What would be composed from, if it were composed now. Nothing if that cannot be told without trying.
    async fn current_basis(
        &self,
        live: &Object,
        identity: &Arc<str>,
        requirements: &[Requirement],
    ) -> Option<Basis> {
        let versions = self.known_versions(live).await?;
        let dependencies = &self.shared.dependencies;
        let epochs =
            requirements.iter().map(|requirement| dependencies.epoch(&requirement.selector)).collect();
        Some(Basis { identity: identity.clone(), versions, epochs })
    }

    /// It was composed, and that was told.
    pub(super) fn requeue_composed(
        &self,
        it: &Reconciliation<'_>,
        composed: Composed,
        settled: Settled,
    ) -> Next {
        let is_same = is_same_to_functions(&composed.composite, &it.live, self.layout);
        if composed.has_news || !is_same || settled.is_overtaken {
            // What functions would see now is not what they saw.
            return self.requeue_restless(it, composed);
        }
        let failures = self.memory.last(&it.name).map_or(0, |last| last.failures);
        // What was refused may be welcome later, and nothing that we follow has to change for that.
        let retry = (!composed.unsynced.is_empty()).then(|| pause_after(failures));
        let expiry = settled.requeue_after.map(|delay| jittered(delay, &it.name));
        // Somebody has to say that it is calm again.
        let requeue_after = expiry.into_iter().chain(retry).chain(self.memory.calm_in(&it.name)).min();
        let last = LastReconcile {
            fingerprint: composed.basis.fingerprint(&it.live),
            requeue_at: requeue_after.map(|delay| Instant::now() + delay),
            failures: if retry.is_some() { failures.saturating_add(1) } else { 0 },
            ..self.last_reconcile(it, composed.outcome.requirements)
        };
        let mut seen = composed.basis.versions;
        seen.push(version_of(&it.live));
        self.memory.remember(&it.name, last, seen);
        self.unless_outdated(it, requeue_after.map_or(Next::Rest, Next::After))
    }

    /// It has to be reconciled once more, and sooner or later not at once: a function that changes its mind each time would never
    /// let it rest.
    fn requeue_restless(&self, it: &Reconciliation<'_>, composed: Composed) -> Next {
        let restlessness = self.memory.last(&it.name).map_or(0, |last| last.restlessness);
        let delay = match restlessness.checked_sub(PATIENT_ROUNDS) {
            None => Duration::ZERO,
            Some(excess) => pause(RESTLESS_PAUSE, LONGEST_PAUSE, excess),
        };
        let last = LastReconcile {
            requeue_at: Some(Instant::now() + delay),
            restlessness: restlessness.saturating_add(1),
            is_resting: !delay.is_zero(),
            ..self.last_reconcile(it, composed.outcome.requirements)
        };
        self.memory.remember(&it.name, last, Vec::new());
        Next::After(delay)
    }

    /// It failed, so that it is tried again when something changes, or after a while, but not before.
    pub(super) async fn requeue_failed(
        &self,
        it: &Reconciliation<'_>,
        requirements: Vec<Requirement>,
        failed: Failed,
    ) -> Next {
        let before = self.memory.last(&it.name);
        // What its user has changed since fails for the first time, if it fails.
        let is_same = |last: &&LastReconcile| last.generation == meta::generation(&it.live);
        let failures = before.as_ref().filter(is_same).map_or(0, |last| last.failures);
        let asked_before = before.map(|last| last.requirements).unwrap_or_default();
        self.shared.dependencies.follow(&self.kind.definition, &it.name, &asked_before, &requirements);
        // What the user has changed meanwhile may be what helps. And a function that is back was, when nobody knew yet that it is
        // waited for.
        let is_back = failed.is_function_missing && self.shared.functions.returns() != it.returns;
        let delay = if failed.is_overtaken || is_back { Duration::ZERO } else { pause_after(failures) };
        let basis = self.current_basis(&it.live, &it.identity, &requirements).await;
        let last = LastReconcile {
            fingerprint: basis.map(|basis| basis.fingerprint(&it.live)).unwrap_or_default(),
            requeue_at: Some(Instant::now() + delay),
            failures: failures.saturating_add(1),
            is_function_missing: failed.is_function_missing,
            ..self.last_reconcile(it, requirements)
        };
        self.memory.remember(&it.name, last, vec![version_of(&it.live)]);
        self.unless_outdated(it, Next::After(delay))
    }

    fn last_reconcile(&self, it: &Reconciliation<'_>, requirements: Vec<Requirement>) -> LastReconcile {
        LastReconcile {
            generation: meta::generation(&it.live),
            composition: Machinery::of(&it.live, self.layout).composition().unwrap_or_default().into(),
            revision: it.revision.clone(),
            requirements: requirements.into(),
            ..LastReconcile::default()
        }
    }

    /// What it follows may have changed meanwhile, when nobody knew yet that it follows it: then look again at once.
    fn unless_outdated(&self, it: &Reconciliation<'_>, next: Next) -> Next {
        if self.selection_epoch() == it.epoch { next } else { Next::After(Duration::ZERO) }
    }
}

/// How long to wait before trying again what failed so often.
fn pause_after(failures: u32) -> Duration {
    pause(FIRST_PAUSE, LONGEST_PAUSE, failures)
}

/// A tenth more or less, so that not all are reconciled in the same moment.
fn jittered(delay: Duration, name: &Name) -> Duration {
    let hash = Sha256::digest(name.as_bytes());
    let fraction = f64::from(hash[0]) / 255.0;
    delay.mul_f64(0.9 + 0.2 * fraction)
}

/// The version of an object.
fn version_of(object: &Object) -> u64 {
    meta::resource_version(object).parse().unwrap_or_default()
}
