//! Sends calls of a composite resource to a developer's process: its responses are used, or only compared with those of the control plane
//! (a shadow).

use std::sync::Arc;
use std::time::Duration;

use ferroplane_api::{InterceptComparison, Object, RolloutDifference, meta};
use ferroplane_engine::changes::{Change, ObjectName};
use ferroplane_engine::intercept::{Intercept, calls_are_sent, choose, plan_changes};
use ferroplane_engine::rollout::{Comparison, compare};
use ferroplane_engine::{Event, EventKind, Grants, Outcome, Pipeline, chain};
use serde_json::Value;
use tracing::warn;

use super::controller::Controller;
use super::plan::group_kind;
use super::reconcile::{Considered, Reconciliation, Run};
use super::redact::redact;
use super::select::Selection;
use super::trial::{Resolved, Responses, recording_of};
use crate::function_registry::CallableFunctions;

/// How long a process may take whose responses are only compared. Its developer may have stopped it in a debugger.
const PATIENCE: Duration = Duration::from_secs(45);
/// How many changes a comparison lists.
const MOST_CHANGES: usize = 20;
const MOST_FIELDS: usize = 20;
const LONGEST_TEXT: usize = 200;
const LARGEST: usize = 16 << 10;

/// Whether a developer's process gets calls for a composite resource.
#[derive(Debug, Default)]
pub(super) enum Intercepted {
    #[default]
    No,
    /// Its responses are used.
    ForReal(Intercept),
    /// Its responses are compared.
    Shadow(Shadow),
    /// An administrator has not granted it.
    Denied(Intercept, String),
}

impl Intercepted {
    /// How much longer a reconcile may take because of it. The time of a process whose responses are only compared is not part of the
    /// control plane's own, so that it never makes a reconcile fail.
    pub(super) fn allowance(&self) -> Duration {
        if matches!(self, Self::Shadow(_)) { PATIENCE } else { Duration::ZERO }
    }
}

/// A pipeline that calls a developer's process, and whose plan is only compared.
#[derive(Debug, Clone)]
pub(super) struct Shadow {
    intercept: Intercept,
    pipeline: Arc<Pipeline>,
}

impl Controller {
    /// Decide which calls a developer's process gets. If its responses are used, the pipeline calls it. Nothing is recorded, as plans use
    /// this, too.
    pub(super) fn intercept(
        &self,
        live: &Object,
        resolved: &mut Resolved,
        callables: &CallableFunctions,
        grants: &Grants,
    ) -> Intercepted {
        // Most control planes have no intercept.
        if callables.intercepts.is_empty() {
            return Intercepted::No;
        }
        let Ok(pipeline) = &resolved.pipeline else { return Intercepted::No };
        let is_open = self.shared.functions.allows_development();
        let permit = |intercept: &Intercept| if is_open { Ok(()) } else { intercept.permit(live, grants) };
        let (intercept, pipeline) = match choose(&callables.intercepts, live, pipeline, permit) {
            None => return Intercepted::No,
            Some((intercept, Err(denied))) => {
                return Intercepted::Denied(intercept.clone(), denied.to_string());
            }
            Some((intercept, Ok(redirected))) => (intercept.clone(), Arc::new(redirected)),
        };
        if !intercept.is_for_real() {
            return Intercepted::Shadow(Shadow { intercept, pipeline });
        }
        (resolved.pipeline, resolved.trial, resolved.uncallable) = (Ok(pipeline), None, None);
        Intercepted::ForReal(intercept)
    }

    /// Whether a process has to be compared although nothing changed.
    pub(super) fn is_shadow_due(&self, live: &Object, intercepted: &Intercepted) -> bool {
        let Intercepted::Shadow(Shadow { intercept, .. }) = intercepted else { return false };
        !self.shared.functions.interceptions().has(&intercept.uid, meta::uid(live), intercept.spec.round)
    }

    /// Record that calls are not sent to a process because there is no grant.
    pub(super) fn note_denied(&self, live: &Object, selection: &Selection) {
        let Ok(follows) = &selection.result else { return };
        if let Intercepted::Denied(intercept, why) = &follows.intercepted
            && self.shared.functions.interceptions().deny(&intercept.uid, meta::uid(live), why)
        {
            audit("deny", intercept, live, why);
        }
    }

    /// Record that calls are sent to a process, in an event and in the audit log.
    pub(super) fn note_intercepted(&self, it: &mut Reconciliation<'_>, intercept: &Intercept) {
        let interceptions = self.shared.functions.interceptions();
        let is_first = interceptions.note(&intercept.uid, meta::uid(&it.live), intercept.spec.round);
        if !is_first {
            return;
        }
        let is_for_real = intercept.is_for_real();
        let message = format!(
            "Because of FunctionIntercept `{}`, {}",
            intercept.name,
            calls_are_sent(intercept.function(), &intercept.spec.to, is_for_real)
        );
        audit("allow", intercept, &it.live, &message);
        it.events.push(if is_for_real {
            Event::new(EventKind::Warning, "FunctionIntercepted", message)
        } else {
            Event::new(EventKind::Normal, "FunctionIntercepted", message)
        });
    }

    /// Call the process with the same inputs, and compare. The reconcile continues whatever the result is.
    pub(super) async fn run_shadow(
        &self,
        it: &mut Reconciliation<'_>,
        run: &Run,
        shadow: &Shadow,
        considered: &Considered<'_>,
        outcome: &Outcome,
    ) {
        let Shadow { intercept, pipeline } = shadow;
        self.note_intercepted(it, intercept);
        let asking = self.decide_besides(it, run, pipeline, considered, Responses::Cached);
        let (comparison, changes) = match tokio::time::timeout(PATIENCE, asking).await {
            Ok(Ok(answered)) => {
                let answered = answered.outcome;
                (judge(outcome, &answered), self.changes(&it.live, outcome, &answered))
            }
            // An input changed meanwhile, and the composite resource is reconciled again.
            Ok(Err(_)) => return,
            Err(_) => {
                let detail = format!("did not answer within {} seconds", PATIENCE.as_secs());
                (Comparison::new(RolloutDifference::Fails, detail), Vec::new())
            }
        };
        let (changes, more) = bounded(changes);
        let comparison = InterceptComparison {
            number: 0,
            composite: ObjectName::of(&it.live).to_string(),
            difference: comparison.differences.gravest().as_str().to_owned(),
            detail: comparison.detail,
            changes,
            more,
            recording: recording_of(it),
        };
        self.shared.functions.interceptions().compare(&intercept.uid, comparison);
    }

    /// The changes that the process would make instead, with secrets redacted.
    fn changes(&self, live: &Object, own: &Outcome, answered: &Outcome) -> Vec<Change> {
        let (Ok(old), Ok(new)) = (&own.result, &answered.result) else { return Vec::new() };
        let with_status = |status: &Option<Object>| {
            let mut composite = live.clone();
            composite.insert("status".to_owned(), status.clone().unwrap_or_default().into());
            composite
        };
        let composites = self.shared.dependencies.composites();
        let hide = |change: &mut Change, before: Option<&Object>, after: Option<&Object>| {
            let Some(kind) = after.or(before).map(group_kind) else { return };
            if kind == self.group_kind() {
                return redact(change, &self.sensitive, before, after);
            }
            // A composite resource that it composes has sensitive fields of its own.
            if let Some(other) = composites.as_ref().and_then(|all| all.with_schema_of(&kind)) {
                redact(change, &other.sensitive, before, after);
            }
        };
        plan_changes((&with_status(&old.status), old), (&with_status(&new.status), new), hide)
    }
}

/// How the process differs. An improvement is a difference, too.
fn judge(own: &Outcome, answered: &Outcome) -> Comparison {
    match (&own.result, &answered.result) {
        (Err(own), Ok(_)) => {
            let detail = format!("succeeds where the control plane's own revision fails: {}", chain(own));
            Comparison::new(RolloutDifference::Changed, detail)
        }
        (Err(own), Err(answered)) if chain(own) != chain(answered) => {
            let detail = format!("fails in another way: {}; before: {}", chain(answered), chain(own));
            Comparison::new(RolloutDifference::Changed, detail)
        }
        (own, answered) => compare(own, answered),
    }
}

/// The changes that fit into a status, and how many are left out.
fn bounded(changes: Vec<Change>) -> (Vec<Value>, i64) {
    let (mut told, mut size, mut more) = (Vec::new(), 0, 0);
    for mut change in changes {
        more += i64::try_from(change.fields.len().saturating_sub(MOST_FIELDS)).unwrap_or_default();
        change.fields.truncate(MOST_FIELDS);
        for value in
            change.fields.iter_mut().flat_map(|field| [&mut field.before, &mut field.after]).flatten()
        {
            shorten(value);
        }
        let change = serde_json::to_value(&change).unwrap_or_default();
        size += change.to_string().len();
        if told.len() < MOST_CHANGES && size <= LARGEST {
            told.push(change);
        } else {
            more += 1;
        }
    }
    (told, more)
}

fn shorten(value: &mut Value) {
    let text = match &*value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    if text.chars().count() > LONGEST_TEXT {
        let start: String = text.chars().take(LONGEST_TEXT).collect();
        *value = format!("{start}…").into();
    }
}

/// Write to the audit log which process was sent the data of a composite resource, or was denied it.
fn audit(decision: &'static str, intercept: &Intercept, composite: &Object, reason: &str) {
    warn!(
        target: "audit",
        decision,
        intercept = intercept.name,
        function = intercept.function(),
        to = intercept.spec.to,
        mode = intercept.spec.mode.as_str(),
        apiVersion = meta::api_version(composite),
        kind = meta::kind(composite),
        namespace = meta::namespace(composite),
        name = meta::name(composite),
        uid = meta::uid(composite),
        reason,
        "intercepted calls of a function"
    );
}

#[cfg(test)]
mod tests {
    use ferroplane_engine::changes::compare;
    use serde_json::json;

    use super::*;

    #[test]
    fn process_in_the_shadow_takes_no_time_from_a_reconcile() {
        let object = json!({"metadata": {"name": "debug", "uid": "1"}, "spec": {
            "functionRef": {"name": "own"}, "composites": {"kind": "Site", "name": "blog"}, "to": "laptop:9443",
        }});
        let intercept = Intercept::read(object.as_object().unwrap()).unwrap();
        let steps = json!([{"step": "a", "functionRef": {"name": "own"}}]);
        let pipeline = Arc::new(Pipeline::read(&steps, &Value::Null).unwrap());
        let shadow = Shadow { intercept: intercept.clone(), pipeline };
        assert_eq!(Intercepted::Shadow(shadow).allowance(), PATIENCE);
        for other in [Intercepted::No, Intercepted::ForReal(intercept)] {
            assert_eq!(other.allowance(), Duration::ZERO, "{other:?}");
        }
    }

    #[test]
    fn comparison_fits_into_a_status() {
        let data: serde_json::Map<_, _> =
            (0..100).map(|number| (format!("key-{number}"), json!("x".repeat(10_000)))).collect();
        let object = json!({"kind": "ConfigMap", "metadata": {"name": "a"}, "data": data});
        let object = object.as_object().unwrap();
        let change =
            Change { fields: compare(None, Some(object)), ..Change::between(None, Some(object)).unwrap() };
        let (told, more) = bounded(vec![change; 50]);
        let size = serde_json::to_string(&told).unwrap().len();
        assert!(size <= LARGEST + told.len() && !told.is_empty(), "{size} bytes");
        assert!(more > 50, "{more} are left out");
    }
}
