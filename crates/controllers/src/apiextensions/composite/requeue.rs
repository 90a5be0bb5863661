//! Decides when a composite resource is reconciled next, and whether it has to be at all.

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
use crate::runtime::backoff::{LONGEST_DELAY, after, pause};
use crate::runtime::queue::Next;

/// The first pause after a failure.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// How many reconciles in a row may change their own inputs before the next one has to wait, and the first wait.
const PATIENT_ROUNDS: u32 = 8;
const RESTLESS_PAUSE: Duration = Duration::from_millis(100);

/// The parts of a failure that decide when to try again.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Failed {
    /// A user has changed the composite resource since.
    pub(super) is_overtaken: bool,
    /// A function could not be called.
    pub(super) is_function_missing: bool,
    /// A function was not given what it asks for.
    pub(super) is_unanswered: bool,
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

    /// When to reconcile again, if nothing changed since the last reconcile.
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
        // An object that was changed back has the same content, but its conditions need the new generation.
        if last.generation != meta::generation(live) {
            return None;
        }
        let basis = self.current_basis(live, &selection.identity, &last.requirements).await?;
        if basis.fingerprint(live) != last.fingerprint {
            return None;
        }
        Some(rest.map_or(Next::Rest, Next::After))
    }

    /// Whether a user has made a change that does not have to wait.
    fn admits_user(&self, name: &Name, live: &Object) -> bool {
        let asked = meta::annotation(live, keys::RECONCILE_REQUESTED_AT);
        let handled = live.get("status").and_then(|status| status.get("lastHandledReconcileAt")?.as_str());
        let is_asked_for = !asked.is_empty() && handled != Some(asked);
        self.memory.admits_user(name, meta::generation(live), is_asked_for)
    }

    /// The inputs of a reconcile now. None if they are not all cached.
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

    /// When to reconcile after a success.
    pub(super) fn requeue_composed(
        &self,
        it: &Reconciliation<'_>,
        composed: Composed,
        settled: Settled,
    ) -> Next {
        let is_same = is_same_to_functions(&composed.composite, &it.live, self.layout);
        if composed.has_news || !is_same || settled.is_overtaken {
            // The composite resource has changed since functions saw it.
            return self.requeue_restless(it, composed);
        }
        let failures = self.memory.last(&it.name).map_or(0, |last| last.failures);
        // A refused resource may be accepted later, without a change of anything that we watch.
        let retry = (!composed.unsynced.is_empty()).then(|| pause_after(failures));
        let expiry = settled.requeue_after.map(|delay| jittered(delay, &it.name));
        // The condition has to be updated when the circuit closes.
        let requeue_after = expiry.into_iter().chain(retry).chain(self.memory.calm_in(&it.name)).min();
        let last = LastReconcile {
            fingerprint: composed.basis.fingerprint(&it.live),
            requeue_at: requeue_after.map(after),
            failures: if retry.is_some() { failures.saturating_add(1) } else { 0 },
            ..self.last_reconcile(it, composed.outcome.requirements)
        };
        let mut seen = composed.basis.versions;
        seen.push(version_of(&it.live));
        self.memory.remember(&it.name, last, seen);
        self.unless_outdated(it, requeue_after.map_or(Next::Rest, Next::After))
    }

    /// When to reconcile after a run that changed its own inputs. The pause grows: a function that never settles would be called without
    /// end.
    fn requeue_restless(&self, it: &Reconciliation<'_>, composed: Composed) -> Next {
        let restlessness = self.memory.last(&it.name).map_or(0, |last| last.restlessness);
        let delay = match restlessness.checked_sub(PATIENT_ROUNDS) {
            None => Duration::ZERO,
            Some(excess) => pause(RESTLESS_PAUSE, LONGEST_PAUSE, excess),
        };
        let last = LastReconcile {
            requeue_at: Some(after(delay)),
            restlessness: restlessness.saturating_add(1),
            is_resting: !delay.is_zero(),
            ..self.last_reconcile(it, composed.outcome.requirements)
        };
        self.memory.remember(&it.name, last, Vec::new());
        Next::After(delay)
    }

    /// When to reconcile after a failure: when an input changes or after a pause, but not before.
    pub(super) async fn requeue_failed(
        &self,
        it: &Reconciliation<'_>,
        requirements: Vec<Requirement>,
        failed: Failed,
    ) -> Next {
        let before = self.memory.last(&it.name);
        // If a user has changed the object since, the next failure is the first one.
        let is_same = |last: &&LastReconcile| last.generation == meta::generation(&it.live);
        let failures = before.as_ref().filter(is_same).map_or(0, |last| last.failures);
        // A function that asks for something else each time has to wait like others.
        let restlessness = before.as_ref().filter(is_same).map_or(0, |last| last.restlessness);
        let is_answered_next = failed.is_unanswered && restlessness < PATIENT_ROUNDS;
        let asked_before = before.map(|last| last.requirements).unwrap_or_default();
        self.shared.dependencies.follow(&self.kind.definition, &it.name, &asked_before, &requirements);
        // A user's change may be the solution. And a function may have become reachable before this composite
        // resource was known to wait for it.
        let is_back = failed.is_function_missing && self.shared.functions.returns() != it.returns;
        let is_hopeful = failed.is_overtaken || is_back || is_answered_next;
        let delay = if is_hopeful { Duration::ZERO } else { pause_after(failures) };
        let basis = self.current_basis(&it.live, &it.identity, &requirements).await;
        let last = LastReconcile {
            fingerprint: basis.map(|basis| basis.fingerprint(&it.live)).unwrap_or_default(),
            requeue_at: Some(after(delay)),
            failures: failures.saturating_add(1),
            restlessness: if failed.is_unanswered { restlessness.saturating_add(1) } else { 0 },
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

    /// Reconcile again at once if a dependency changed before it was registered.
    fn unless_outdated(&self, it: &Reconciliation<'_>, next: Next) -> Next {
        if self.selection_epoch() == it.epoch { next } else { Next::After(Duration::ZERO) }
    }
}

/// The pause after so many failures.
fn pause_after(failures: u32) -> Duration {
    pause(FIRST_PAUSE, LONGEST_PAUSE, failures)
}

/// Vary a delay by a tenth, so that not all are reconciled at the same time.
fn jittered(delay: Duration, name: &Name) -> Duration {
    let hash = Sha256::digest(name.as_bytes());
    let fraction = f64::from(hash[0]) / 255.0;
    delay.min(LONGEST_DELAY).mul_f64(0.9 + 0.2 * fraction)
}

/// The version of an object.
fn version_of(object: &Object) -> u64 {
    meta::resource_version(object).parse().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_to_live_of_any_length_can_be_waited_for() {
        for delay in
            [Duration::from_secs(u64::MAX), Duration::from_secs(i64::MAX.unsigned_abs()), Duration::MAX]
        {
            assert!(jittered(delay, &Name::from("default/blog")) >= LONGEST_DELAY / 2);
        }
    }
}
