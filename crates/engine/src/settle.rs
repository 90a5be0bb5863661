//! Computes the status of a composite resource after a run: its conditions, its events, and when to reconcile it again.

use std::collections::BTreeSet;
use std::time::Duration;

use ferroplane_api::{Cause, Condition, FailurePoint, Object, Status, set_condition};
use serde_json::Value;

use crate::advice::{versions_condition, warnings_of};
use crate::composite::COMPOSE;
use crate::failure::{Failure, chain};
use crate::outcome::{Event, EventKind, FunctionCondition, Outcome, Target};
use crate::plan::Plan;
use crate::wording::{CANNOT_COMPOSE, UNREADY_RESOURCES, UNSYNCED_RESOURCES};

/// How many names a condition lists before it only counts.
const NAMES_LISTED: usize = 3;

/// Facts besides the outcome of the run.
#[derive(Debug, Clone, Default)]
pub struct SettleFacts {
    /// The current conditions, and those that were decided before the run.
    pub conditions: Vec<Condition>,
    /// Composed resources that the API server refused, by resource name.
    pub unsynced: BTreeSet<String>,
    /// The generation of the composite resource.
    pub generation: i64,
    /// The time, in RFC 3339.
    pub now: String,
}

/// The status to write, and the events to record.
#[derive(Debug, Clone, PartialEq)]
pub struct Settlement {
    /// The whole status, conditions included.
    pub status: Object,
    pub events: Vec<Event>,
    /// The conditions to copy to the claim, in the order in which functions first set them.
    pub claim_conditions: Vec<String>,
    /// When to reconcile again if nothing changes before.
    pub requeue_after: Option<Duration>,
}

/// Compute the status from the outcome of a run, and from the facts about applying it.
pub fn settle(outcome: &Outcome, facts: SettleFacts) -> Settlement {
    let mut settling = Settling { conditions: Vec::new(), events: Vec::new(), facts };
    let status = match &outcome.result {
        Ok(plan) => settling.success(outcome, plan),
        Err(failure) => {
            settling.trouble(&Trouble::of(failure), Some(outcome));
            Object::new()
        }
    };
    settling.into_settlement(Some(outcome), status)
}

/// Why nothing was composed, or not all of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trouble {
    /// One word, for the event.
    pub reason: &'static str,
    /// For the event.
    pub message: String,
    /// For the condition, if the message of the event changes every time.
    pub stable_message: Option<String>,
    /// The cause, for programs.
    pub failure: FailurePoint,
}

impl Trouble {
    pub fn new(reason: &'static str, message: impl Into<String>, failure: impl Into<FailurePoint>) -> Self {
        Self { reason, message: message.into(), stable_message: None, failure: failure.into() }
    }

    /// The trouble of a failed run.
    pub fn of(failure: &Failure) -> Self {
        let message = format!("{CANNOT_COMPOSE}: {}", chain(failure));
        Self::new(COMPOSE, message, failure.point())
    }
}

/// Compute the status after a failure before or after the pipeline. With an outcome, conditions of functions that were not set again
/// become unknown.
pub fn settle_trouble(trouble: &Trouble, outcome: Option<&Outcome>, facts: SettleFacts) -> Settlement {
    let mut settling = Settling { conditions: Vec::new(), events: Vec::new(), facts };
    settling.trouble(trouble, outcome);
    let mut settlement = settling.into_settlement(None, Object::new());
    settlement.claim_conditions = outcome.map(claim_conditions).unwrap_or_default();
    settlement
}

struct Settling {
    conditions: Vec<Condition>,
    events: Vec<Event>,
    facts: SettleFacts,
}

impl Settling {
    fn success(&mut self, outcome: &Outcome, plan: &Plan) -> Object {
        let mut status = plan.status.clone().unwrap_or_default();
        // Functions may write conditions into the status directly. They are merged, so that there is only one of
        // each type.
        self.conditions = status.remove("conditions").as_ref().map(conditions_in).unwrap_or_default();
        for condition in std::mem::take(&mut self.facts.conditions) {
            set_condition(&mut self.conditions, condition);
        }
        self.events.extend(outcome.events.iter().cloned());
        // After the earlier ones and before ours: a function's condition replaces its old one and never ours.
        self.function_conditions(outcome);

        let unsynced: Vec<_> = self.facts.unsynced.iter().map(String::as_str).collect();
        let unready: Vec<_> = plan
            .apply
            .iter()
            .filter(|wanted| !wanted.is_ready)
            .map(|wanted| wanted.resource.as_str())
            .collect();
        let versions = versions_condition(&warnings_of(&outcome.ran), &self.conditions);
        let synced = synced(&unsynced);
        let ready = ready(plan.is_ready, &unready);
        self.complain(plan);
        if let Some(condition) = versions {
            self.set(condition);
        }
        self.set(synced);
        self.set(ready);
        status
    }

    /// Record one event for each composed resource that is not synced or not ready.
    fn complain(&mut self, plan: &Plan) {
        for wanted in &plan.apply {
            let is_unsynced = self.facts.unsynced.contains(&wanted.resource);
            for (applies, problem) in [(is_unsynced, "valid"), (!wanted.is_ready, "ready")] {
                if applies {
                    let message = format!("Composed resource \"{}\" is not yet {problem}", wanted.resource);
                    self.events.push(Event::new(EventKind::Normal, COMPOSE, message));
                }
            }
        }
    }

    fn trouble(&mut self, trouble: &Trouble, outcome: Option<&Outcome>) {
        self.conditions = std::mem::take(&mut self.facts.conditions);
        let failure = trouble.failure.clone();
        // The failure first, then the results of functions before it.
        self.events.push(Event::failure(trouble.reason, &trouble.message, failure.clone()));
        let message = trouble.stable_message.as_ref().unwrap_or(&trouble.message);
        let synced = Condition::new("Synced", Status::False, "ReconcileError").with_message(message);
        self.set(synced.with_failure(failure));
        let Some(outcome) = outcome else { return };
        self.events.extend(outcome.events.iter().cloned());
        let seen = self.function_conditions(outcome);
        // Crossplane does the same: a condition that was not set again is neither true nor false any more.
        let unseen = self.conditions.iter().filter(|condition| !condition.is_system());
        let unseen: Vec<_> =
            unseen.map(|condition| condition.kind.clone()).filter(|kind| !seen.contains(kind)).collect();
        for kind in unseen {
            self.set(Condition::new(&kind, Status::Unknown, "FatalError").with_message(
                "A fatal error occurred before the status of this condition could be determined.",
            ));
        }
    }

    fn function_conditions(&mut self, outcome: &Outcome) -> BTreeSet<String> {
        let mut seen = BTreeSet::new();
        for function in &outcome.conditions {
            // Crossplane ignores what functions set as Ready and Synced: they would overwrite those of the plane
            // every time.
            if !function.condition.is_system() {
                seen.insert(function.condition.kind.clone());
                let last_transition_time = self.facts.now.clone();
                let condition = Condition { last_transition_time, ..function.condition.clone() };
                set_condition(&mut self.conditions, condition);
            }
        }
        seen
    }

    /// Set one of the plane's own conditions.
    fn set(&mut self, mut condition: Condition) {
        condition.last_transition_time.clone_from(&self.facts.now);
        condition.observed_generation = self.facts.generation;
        set_condition(&mut self.conditions, condition);
    }

    fn into_settlement(self, outcome: Option<&Outcome>, mut status: Object) -> Settlement {
        if !self.conditions.is_empty() {
            status.insert("conditions".to_owned(), Value::Array(conditions_to_json(&self.conditions)));
        }
        Settlement {
            status,
            events: self.events,
            claim_conditions: outcome.map(claim_conditions).unwrap_or_default(),
            // After a failure the controller retries with its own backoff, which is shorter.
            requeue_after: outcome.filter(|outcome| outcome.result.is_ok()).and_then(|outcome| outcome.ttl),
        }
    }
}

fn claim_conditions(outcome: &Outcome) -> Vec<String> {
    let mut kinds = Vec::new();
    for FunctionCondition { condition, target } in &outcome.conditions {
        if *target == Target::CompositeAndClaim && !condition.is_system() && !kinds.contains(&condition.kind)
        {
            kinds.push(condition.kind.clone());
        }
    }
    kinds
}

fn synced(unsynced: &[&str]) -> Condition {
    if unsynced.is_empty() {
        return Condition::new("Synced", Status::True, "ReconcileSuccess");
    }
    Condition::new("Synced", Status::False, "ReconcileError")
        .with_message(format!("{UNSYNCED_RESOURCES}{}", list(unsynced)))
        .with_failure(Cause::ComposedResourcesUnsynced.into())
}

/// Readiness that functions set for the composite resource itself overrides that of the composed ones.
fn ready(explicit: Option<bool>, unready: &[&str]) -> Condition {
    let creating = Condition::new("Ready", Status::False, "Creating");
    match explicit {
        // Without a list of resources: the function has its own reason, and the list would name the wrong one.
        Some(false) => creating,
        None if !unready.is_empty() => creating.with_message(format!("{UNREADY_RESOURCES}{}", list(unready))),
        Some(true) | None => Condition::new("Ready", Status::True, "Available"),
    }
}

/// The first few names, sorted, and how many more there are: the text stays stable when a hundred resources change.
fn list(names: &[&str]) -> String {
    let mut names = names.to_vec();
    names.sort_unstable();
    match names.as_slice() {
        // The form of Crossplane's `StableNAndSomeMore`: programs match conditions with it.
        [first, second, third] => format!("{first}, {second}, and {third}"),
        names if names.len() > NAMES_LISTED => {
            format!("{}, and {} more", names[..NAMES_LISTED].join(", "), names.len() - NAMES_LISTED)
        }
        names => names.join(", "),
    }
}

/// Read a list of conditions. Invalid ones are dropped, and `null` counts as empty.
pub fn conditions_in(list: &Value) -> Vec<Condition> {
    let conditions = list.as_array().into_iter().flatten().filter_map(|item| {
        let mut object = item.as_object()?.clone();
        // Go writes optional fields of conditions as null, and serde would refuse a null where a text is expected.
        object.retain(|_, value| !value.is_null());
        serde_json::from_value(Value::Object(object)).ok()
    });
    conditions.collect()
}

/// Conditions as they are written to a status. A missing time becomes null: an empty text is no valid time.
pub fn conditions_to_json(conditions: &[Condition]) -> Vec<Value> {
    let conditions = conditions.iter().filter_map(|condition| {
        let mut json = serde_json::to_value(condition).ok()?;
        if condition.last_transition_time.is_empty() {
            json["lastTransitionTime"] = Value::Null;
        }
        Some(json)
    });
    conditions.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_lists_are_short_and_stable() {
        let cases = [
            (vec!["a"], "a"),
            (vec!["b", "a"], "a, b"),
            (vec!["c", "b", "a"], "a, b, and c"),
            (vec!["elephant", "cow", "cat", "snake"], "cat, cow, elephant, and 1 more"),
        ];
        for (names, text) in cases {
            assert_eq!(list(&names), text);
        }
    }
}
