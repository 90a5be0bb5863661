//! Tells whether anything changed since a composite resource was last looked at, and remembers that it was.

use std::sync::Arc;
use std::time::Duration;

use ferroplane_api::{Condition, Object, keys, meta};
use ferroplane_engine::composite::{Machinery, without_references};
use ferroplane_engine::{Layout, Requirement};
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use tokio::time::Instant;

use super::controller::Controller;
use super::memory::{Fingerprint, Name, Settled};
use super::problem::Problem;
use super::reconcile::Composed;
use super::settle::{Written, version_of};
use crate::runtime::backoff::pause;
use crate::runtime::queue::Next;

/// How soon to try again what did not work.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// How often something may change its own inputs before it has to wait, and how long at first.
const PATIENT_ROUNDS: u32 = 8;
const RESTLESS_PAUSE: Duration = Duration::from_millis(100);

impl Controller {
    /// Remember that it has to be looked at once more, and sooner or later not at once: a function that changes its mind each
    /// time would never let it rest.
    pub(super) fn remember_restless(&self, name: &Name, live: &Object, composed: Composed) -> Next {
        let restlessness = self.memory.recall(name).map_or(0, |settled| settled.restlessness);
        let delay = match restlessness.checked_sub(PATIENT_ROUNDS) {
            None => Duration::ZERO,
            Some(excess) => pause(RESTLESS_PAUSE, LONGEST_PAUSE, excess),
        };
        let settled = Settled {
            fingerprint: Fingerprint::default(),
            generation: meta::generation(live),
            composition: composition_of(live, self.layout),
            requirements: composed.outcome.requirements.into(),
            look_again_at: Some(Instant::now() + delay),
            failures: 0,
            restlessness: restlessness.saturating_add(1),
            is_resting: !delay.is_zero(),
        };
        self.memory.remember(name, settled, Vec::new());
        Next::After(delay)
    }

    /// Remember what did not work, so that it is tried again when something changes, or after a while, but not before.
    pub(super) async fn remember_failure(
        &self,
        name: &Name,
        live: &Object,
        written: Written,
        requirements: Vec<Requirement>,
        identity: &str,
    ) -> Next {
        let before = self.memory.recall(name);
        let failures = before.as_ref().map_or(0, |settled| settled.failures);
        let asked_before = before.map(|settled| settled.requirements).unwrap_or_default();
        self.shared.dependencies.follow(&self.kind.definition, name, &asked_before, &requirements);
        let is_overtaken =
            written.composite.as_ref().is_some_and(|it| meta::generation(it) != meta::generation(live));
        let live = written.composite.as_ref().unwrap_or(live);
        // What the user has changed meanwhile may be what helps.
        let delay = if is_overtaken { Duration::ZERO } else { pause_after(failures) };
        let fingerprint = self.current_fingerprint(live, &requirements).await.unwrap_or_default();
        let settled = Settled {
            fingerprint,
            generation: meta::generation(live),
            composition: composition_of(live, self.layout),
            requirements: requirements.into(),
            look_again_at: Some(Instant::now() + delay),
            failures: failures.saturating_add(1),
            restlessness: 0,
            is_resting: false,
        };
        self.memory.remember(name, settled, vec![version_of(live)]);
        // What it follows may have changed meanwhile: that it failed says nothing about what it would follow now.
        if self.identity(live) != identity {
            self.memory.unsettle(name);
            return Next::After(Duration::ZERO);
        }
        Next::After(delay)
    }

    /// Whether nothing changed since it was last looked at; then, when to look again.
    pub(super) async fn is_settled(&self, name: &Name, live: &Object) -> Option<Next> {
        let settled = self.memory.recall(name)?;
        let rest = settled.look_again_at.map(|time| time.saturating_duration_since(Instant::now()));
        if rest == Some(Duration::ZERO) {
            return None;
        }
        if let (true, Some(rest)) = (settled.is_resting, rest) {
            return (!self.lets_user_pass(name, live)).then_some(Next::After(rest));
        }
        // What was changed and changed back is as it was, but its conditions have to say that they know.
        if settled.generation != meta::generation(live) {
            return None;
        }
        let current = self.current_fingerprint(live, &settled.requirements).await?;
        if current != settled.fingerprint {
            return None;
        }
        Some(rest.map_or(Next::Rest, Next::After))
    }

    /// For how long to leave it alone because too much happens to it, if its user wants nothing of it.
    pub(super) fn wait_for_calm(&self, name: &Name, live: &Object) -> Option<Duration> {
        let wait = self.memory.wait_for_calm(name)?;
        (!self.lets_user_pass(name, live)).then_some(wait)
    }

    /// Whether its user wants something that has not been looked at, and need not wait.
    fn lets_user_pass(&self, name: &Name, live: &Object) -> bool {
        let asked = meta::annotation(live, keys::RECONCILE_REQUESTED_AT);
        let handled = live.get("status").and_then(|status| status.get("lastHandledReconcileAt")?.as_str());
        let is_asked_for = !asked.is_empty() && handled != Some(asked);
        self.memory.lets_user_pass(name, meta::generation(live), is_asked_for)
    }

    /// What it follows now, or why it follows nothing.
    pub(super) fn identity(&self, live: &Object) -> String {
        match self.choose(live) {
            Ok(choice) => choice.identity(),
            Err(Problem::Trouble(report)) => report.trouble.message,
            Err(_) => String::new(),
        }
    }

    /// What would be composed from, if it were composed now. Nothing if that cannot be told without trying.
    pub(super) async fn current_fingerprint(
        &self,
        live: &Object,
        requirements: &[Requirement],
    ) -> Option<Fingerprint> {
        let identity = self.identity(live);
        let versions = self.known_versions(live).await?;
        let dependencies = &self.shared.dependencies;
        let epochs: Vec<_> =
            requirements.iter().map(|requirement| dependencies.epoch(&requirement.selector)).collect();
        Some(fingerprint(live, &identity, &versions, &epochs))
    }
}

/// How long to wait before trying again what did not work so often.
pub(super) fn pause_after(failures: u32) -> Duration {
    pause(FIRST_PAUSE, LONGEST_PAUSE, failures)
}

/// Of everything that a run is made from.
pub(super) fn fingerprint(live: &Object, identity: &str, versions: &[u64], epochs: &[u64]) -> Fingerprint {
    let mut hash = Sha256::new();
    hash.update(content(live, |_| true));
    hash.update(identity);
    for number in versions.iter().chain([&u64::MAX]).chain(epochs) {
        hash.update(number.to_le_bytes());
    }
    hash.finalize().into()
}

/// What functions may go by: everything but what the plane itself writes down.
pub(super) fn essence(composite: &Object, layout: Layout) -> [u8; 32] {
    let composite = without_references(composite.clone(), layout);
    content(&composite, |condition| {
        let kind = condition.get("type").and_then(Value::as_str).unwrap_or_default();
        !Condition::SYSTEM.contains(&kind)
    })
}

/// What an object says, apart from what changes with every write.
fn content(object: &Object, counts: impl Fn(&Value) -> bool) -> [u8; 32] {
    let mut hash = Sha256::new();
    let mut add = |key: &str, value: &Value| {
        hash.update(key);
        hash.update(serde_json::to_vec(value).unwrap_or_default());
    };
    for (key, value) in object {
        match (key.as_str(), value) {
            ("metadata", Value::Object(metadata)) => {
                let said = metadata.iter().filter(|(key, _)| {
                    !["resourceVersion", "managedFields", "generation"].contains(&key.as_str())
                });
                said.for_each(|(key, value)| add(key, value));
            }
            ("status", Value::Object(status)) => {
                for (key, value) in status {
                    match value {
                        Value::Array(conditions) if key == "conditions" => {
                            conditions
                                .iter()
                                .filter(|condition| counts(condition))
                                .for_each(|condition| add(key, condition));
                        }
                        value => add(key, value),
                    }
                }
            }
            (key, value) => add(key, value),
        }
    }
    hash.finalize().into()
}

pub(super) fn composition_of(live: &Object, layout: Layout) -> Arc<str> {
    Machinery::of(live, layout).composition().unwrap_or_default().into()
}
