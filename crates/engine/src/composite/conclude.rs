//! Decides the status and events of a composite resource when a reconcile ends, and when it is reconciled again.

use std::collections::BTreeSet;
use std::time::Duration;

use ferroplane_api::{Condition, Object, Status, keys, meta, set_condition};
use ferroplane_golang::time::duration;
use serde_json::{Value, json};

use super::OWN_STATUS;
use super::events::{PAUSED_CONDITION, paused_event, reconcile_request, request_event};
use crate::inputs::Layout;
use crate::outcome::{Event, Outcome};
use crate::settle::{
    SettleFacts, Settlement, Trouble, conditions_in, conditions_to_json, settle, settle_trouble,
};

/// The shortest poll interval that a user can set.
const SHORTEST_POLL_INTERVAL: Duration = Duration::from_secs(1);

/// How a reconcile ended.
#[derive(Debug)]
pub enum Ending<'a> {
    Paused,
    Deleting,
    /// It failed before or after its pipeline. Results of functions up to then are kept.
    Failed {
        trouble: &'a Trouble,
        outcome: Option<&'a Outcome>,
        /// The right that the plane lacks, if that is why it failed.
        denied: Option<&'a str>,
    },
    /// The pipeline ran, and its plan was applied. If the run failed, there was nothing to apply.
    Composed {
        outcome: &'a Outcome,
        /// Composed resources that the API server refused, by resource name.
        unsynced: BTreeSet<String>,
        published: Published,
    },
}

/// Whether connection details were written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Published {
    Now,
    Before,
}

/// Facts about a composite resource, besides how the reconcile ended.
#[derive(Debug)]
pub struct Facts<'a> {
    /// The composite resource, with its current conditions.
    pub composite: &'a Object,
    pub layout: Layout,
    /// The generation for the conditions that follow from a run.
    pub generation: i64,
    /// The status on the API server, if there is one.
    pub held_status: Option<&'a Object>,
    /// The part of that status that the plane has written. It stays if nothing new is known.
    pub kept_status: Object,
    pub circuit: Circuit,
    /// The condition about other field managers that keep changing composed resources.
    pub contested: Option<Condition>,
    /// Whether the status has fields for the last handled request and for the functions that ran. Crossplane's definitions have none, so
    /// that its `render` prints none either.
    pub has_own_fields: bool,
    /// The time, in RFC 3339.
    pub now: String,
}

/// Whether composed resources change too often.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Circuit {
    Closed,
    Open {
        /// The resource that changes most often.
        source: String,
    },
}

/// The status to write, and the events to record.
#[derive(Debug, Clone, PartialEq)]
pub struct Conclusion {
    /// The whole status, conditions included.
    pub status: Object,
    /// In the order in which they are recorded.
    pub events: Vec<Event>,
    /// When to reconcile again if nothing changes before.
    pub requeue_after: Option<Duration>,
}

/// Conclude a reconcile. `told` are the events so far.
pub fn conclude(ending: Ending<'_>, told: Vec<Event>, facts: Facts<'_>) -> Conclusion {
    let mut events: Vec<_> =
        // While a composite resource is paused, a request is not handled, and must not be reported as handled.
        request_event(facts.composite).filter(|_| !matches!(ending, Ending::Paused)).into_iter().collect();
    events.extend(told);
    match ending {
        Ending::Paused => {
            let paused =
                Condition::new("Synced", Status::False, "ReconcilePaused").with_message(PAUSED_CONDITION);
            events.push(paused_event());
            rest([paused], events, facts)
        }
        Ending::Deleting => {
            let deleting = Condition::new("Ready", Status::False, "Deleting");
            rest([deleting, Condition::new("Synced", Status::True, "ReconcileSuccess")], events, facts)
        }
        Ending::Failed { trouble, outcome, denied } => fail(trouble, outcome, denied, events, facts),
        Ending::Composed { outcome, unsynced, published } => match &outcome.result {
            Ok(_) => succeed(outcome, unsynced, published, events, &facts),
            Err(failure) => fail(&Trouble::of(failure), Some(outcome), None, events, facts),
        },
    }
}

/// Nothing was done: set conditions, and leave everything else as it is.
fn rest(decided: impl IntoIterator<Item = Condition>, events: Vec<Event>, facts: Facts<'_>) -> Conclusion {
    let mut conditions = conditions_before(&facts);
    for condition in decided {
        set_condition(&mut conditions, dated(condition, &facts));
    }
    let mut status = facts.kept_status;
    status.insert("conditions".to_owned(), Value::Array(conditions_to_json(&conditions)));
    Conclusion { status, events, requeue_after: None }
}

fn fail(
    trouble: &Trouble,
    outcome: Option<&Outcome>,
    denied: Option<&str>,
    mut events: Vec<Event>,
    mut facts: Facts<'_>,
) -> Conclusion {
    let mut trouble = trouble.clone();
    if let Some(denied) = denied {
        // The denial is only in the condition, because it has an event of its own.
        let Trouble { message, stable_message, .. } = &mut trouble;
        *stable_message = Some(format!("{}: {denied}", stable_message.as_ref().unwrap_or(message)));
    }
    let settlement = settle_trouble(&trouble, outcome, settle_facts(&facts, BTreeSet::new()));
    // Conditions of functions still hold as long as functions have not set them again.
    let mut status = std::mem::take(&mut facts.kept_status);
    status.extend(settlement.status);
    add_legacy_status(&mut status, &settlement.claim_conditions, Published::Before, &facts);
    events.extend(settlement.events);
    let denial = |denied| Event::failure("RoleBasedAccessControl", denied, trouble.failure.clone());
    events.extend(denied.map(denial));
    Conclusion { status, events, requeue_after: None }
}

fn succeed(
    outcome: &Outcome,
    unsynced: BTreeSet<String>,
    published: Published,
    mut events: Vec<Event>,
    facts: &Facts<'_>,
) -> Conclusion {
    let Settlement { mut status, events: settled, claim_conditions, requeue_after } =
        settle(outcome, settle_facts(facts, unsynced));
    add_legacy_status(&mut status, &claim_conditions, published, facts);
    // Only after success: the user who requested the reconcile waits for that.
    if let (true, Some((token, _))) = (facts.has_own_fields, reconcile_request(facts.composite)) {
        status.insert("lastHandledReconcileAt".to_owned(), token.into());
    }
    if facts.has_own_fields {
        add_functions(&mut status, outcome);
    }
    events.extend(settled);
    Conclusion { status, events, requeue_after: requeue_after.or_else(|| poll_interval(facts.composite)) }
}

/// Set which revisions of which functions composed the resources. After a failure it stays as it was: so do the resources.
fn add_functions(status: &mut Object, outcome: &Outcome) {
    let functions = outcome.ran.iter().map(|ran| {
        let mut entry = json!({"step": ran.step, "function": ran.function});
        // A function without versions has none to report, and its name changes whenever its program is started.
        if let Some(callee) = ran.callee.as_ref().filter(|callee| !callee.is_unversioned()) {
            entry["revision"] = callee.revision.as_str().into();
            if let Some(version) = &callee.version {
                entry["version"] = version.to_string().into();
            }
        }
        entry
    });
    let functions: Vec<_> = functions.collect();
    if functions.is_empty() {
        // A function may have set a field of this name, which would be taken for ours.
        status.remove(OWN_STATUS);
    } else {
        status.insert(OWN_STATUS.to_owned(), json!({"functions": functions}));
    }
}

fn settle_facts(facts: &Facts<'_>, unsynced: BTreeSet<String>) -> SettleFacts {
    SettleFacts {
        conditions: conditions_before(facts),
        unsynced,
        generation: facts.generation,
        now: facts.now.clone(),
    }
}

/// The current conditions, and those that do not depend on how the reconcile ended.
fn conditions_before(facts: &Facts<'_>) -> Vec<Condition> {
    let conditions = facts.composite.get("status").and_then(|status| status.get("conditions"));
    let mut conditions = conditions.map(conditions_in).unwrap_or_default();
    let responsive = match &facts.circuit {
        Circuit::Closed => Condition::new("Responsive", Status::True, "WatchCircuitClosed"),
        Circuit::Open { source } => Condition::new("Responsive", Status::False, "WatchCircuitOpen")
            .with_message(format!(
                "Too many changes to composed resources, mostly {source}; reconciling every 30s only"
            )),
    };
    for condition in std::iter::once(responsive).chain(facts.contested.clone()) {
        set_condition(&mut conditions, dated(condition, facts));
    }
    conditions
}

/// A new condition about the composite resource, with the generation that was read.
fn dated(condition: Condition, facts: &Facts<'_>) -> Condition {
    Condition {
        last_transition_time: facts.now.clone(),
        observed_generation: meta::generation(facts.composite),
        ..condition
    }
}

/// Fields that only legacy composite resources have: the conditions to copy to their claim, and when connection details were written.
fn add_legacy_status(
    status: &mut Object,
    claim_conditions: &[String],
    published: Published,
    facts: &Facts<'_>,
) {
    if facts.layout != Layout::Legacy {
        return;
    }
    let held = |field: &str| facts.held_status.and_then(|held| held.get(field));
    let types = |list: Option<&Value>| list.and_then(Value::as_array).cloned().unwrap_or_default();
    let mut kinds = types(status.get("claimConditionTypes"));
    let wanted = claim_conditions.iter().map(|kind| Value::from(kind.as_str()));
    // Types are only ever added: otherwise the claim would keep a condition that no controller updates any more.
    for kind in types(held("claimConditionTypes")).into_iter().chain(wanted) {
        if !kinds.contains(&kind) {
            kinds.push(kind);
        }
    }
    if !kinds.is_empty() {
        status.insert("claimConditionTypes".to_owned(), Value::Array(kinds));
    }
    let details = match published {
        Published::Now => Some(json!({"lastPublishedTime": facts.now})),
        Published::Before => held("connectionDetails").cloned(),
    };
    if let Some(details) = details {
        status.insert("connectionDetails".to_owned(), details);
    }
}

/// The poll interval that the user set.
fn poll_interval(composite: &Object) -> Option<Duration> {
    let interval = duration::parse_positive(meta::annotation(composite, keys::POLL_INTERVAL))?;
    (!interval.is_zero()).then_some(interval.max(SHORTEST_POLL_INTERVAL))
}

#[cfg(test)]
mod tests;
