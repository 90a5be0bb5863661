//! Says what came of it: conditions, events, when to look again. The only writer of a composite resource's status.

use std::time::Duration;

use ferroplane_api::{Condition, Object, Status, keys, meta, set_condition};
use ferroplane_engine::{
    Event, EventKind, Settlement, Target, Trouble, World, conditions_in, conditions_to_json, settle,
    settle_trouble,
};
use ferroplane_recorder::Tape;
use ferroplane_schema::managed::{extract, holds};
use serde_json::{Value, json};

use super::apply::name_of;
use super::controller::Controller;
use super::machinery::identity;
use super::memory::Name;
use super::problem::{COMPOSE, Problem, Report};
use super::reconcile::Composed;
use crate::cluster::{Error, Part, Place};
use crate::runtime::events::{About, Event as Said};
use crate::takeover::take_over;

/// What was written, and when to look again.
#[derive(Debug, Default)]
pub(super) struct Written {
    /// The composite resource as it is now, if it was written.
    pub(super) composite: Option<Object>,
    pub(super) look_again_in: Option<Duration>,
}

impl Controller {
    /// It was composed.
    pub(super) async fn settle_success(
        &self,
        name: &Name,
        live: &Object,
        composed: &mut Composed,
        tape: &mut Tape,
    ) -> Result<Written, Problem> {
        let mut world = self.world(name, live);
        world.unsynced.clone_from(&composed.unsynced);
        let mut settlement = settle(&composed.outcome, world);
        let before = std::mem::take(&mut composed.events);
        settlement.events.splice(0..0, before);
        self.add_legacy_status(live, &mut settlement, composed.has_published);
        remember_request(live, &mut settlement);
        self.write(live, settlement, tape).await
    }

    /// It could not be composed, for a reason that the user should know.
    pub(super) async fn settle_problem(
        &self,
        name: &Name,
        live: &Object,
        report: &mut Report,
        tape: &mut Tape,
    ) -> Result<Written, Problem> {
        let mut events = Vec::new();
        if let Some(denied) = &report.denied {
            events.push(Event::new(EventKind::Warning, "RoleBasedAccessControl", denied));
            let Trouble { message, stable_message, .. } = &mut report.trouble;
            *stable_message = Some(format!("{}: {denied}", stable_message.as_ref().unwrap_or(message)));
        }
        let mut settlement =
            settle_trouble(&report.trouble, report.outcome.as_deref(), self.world(name, live));
        settlement.events.extend(events);
        settlement.events.splice(0..0, std::mem::take(&mut report.events));
        keep_status(live, &mut settlement);
        self.add_legacy_status(live, &mut settlement, false);
        self.write(live, settlement, tape).await
    }

    /// Set conditions, and leave everything else as it is.
    pub(super) async fn settle_conditions(
        &self,
        name: &Name,
        live: &Object,
        conditions: impl IntoIterator<Item = Condition>,
        events: Vec<Event>,
    ) -> Result<Written, Problem> {
        let world = self.world(name, live);
        let mut all = world.conditions.clone();
        for mut condition in conditions {
            condition.last_transition_time.clone_from(&world.now);
            condition.observed_generation = world.generation;
            set_condition(&mut all, condition);
        }
        let mut status = Object::new();
        status.insert("conditions".to_owned(), Value::Array(conditions_to_json(&all)));
        let mut settlement = Settlement { status, events, claim_conditions: Vec::new(), look_again_in: None };
        keep_status(live, &mut settlement);
        self.write(live, settlement, &mut Tape::off()).await
    }

    /// What is known of a composite resource besides what came of composing it.
    fn world(&self, name: &Name, live: &Object) -> World {
        let now = self.shared.context.clock.now();
        let conditions = live.get("status").and_then(|status| status.get("conditions"));
        let mut conditions = conditions.map(conditions_in).unwrap_or_default();
        let mut responsive = match self.memory.unrest(name) {
            None => Condition::new("Responsive", Status::True, "WatchCircuitClosed"),
            Some(source) => Condition::new("Responsive", Status::False, "WatchCircuitOpen").with_message(format!(
                "too much happens to what it composes, most of it to {source}; it is looked at every 30 seconds only"
            )),
        };
        responsive.last_transition_time.clone_from(&now);
        responsive.observed_generation = meta::generation(live);
        set_condition(&mut conditions, responsive);
        if let Some(mut contested) = self.memory.contested(name, &conditions) {
            contested.last_transition_time.clone_from(&now);
            contested.observed_generation = meta::generation(live);
            set_condition(&mut conditions, contested);
        }
        World {
            conditions,
            unsynced: std::collections::BTreeSet::new(),
            generation: meta::generation(live),
            now,
        }
    }

    /// What only legacy composite resources have.
    fn add_legacy_status(&self, live: &Object, settlement: &mut Settlement, has_published: bool) {
        if self.layout != ferroplane_engine::Layout::Legacy {
            return;
        }
        let before = live.get("status").and_then(|status| status.get("claimConditionTypes")?.as_array());
        let mut kinds: Vec<Value> = before.cloned().unwrap_or_default();
        for kind in &settlement.claim_conditions {
            if !kinds.iter().any(|known| known == kind) {
                kinds.push(kind.as_str().into());
            }
        }
        if !kinds.is_empty() {
            settlement.status.insert("claimConditionTypes".to_owned(), Value::Array(kinds));
        }
        let published = live.get("status").and_then(|status| status.get("connectionDetails"));
        if has_published {
            let now = self.shared.context.clock.now();
            settlement.status.insert("connectionDetails".to_owned(), json!({"lastPublishedTime": now}));
        } else if let Some(published) = published {
            settlement.status.insert("connectionDetails".to_owned(), published.clone());
        }
    }

    /// Write the status, unless it is so already, and tell what happened.
    async fn write(
        &self,
        live: &Object,
        settlement: Settlement,
        tape: &mut Tape,
    ) -> Result<Written, Problem> {
        tape.settle(&settlement);
        self.tell(live, &settlement.events).await;
        let mut body = identity(live);
        meta::set_field(&mut body, "uid", meta::uid(live));
        body.insert("status".to_owned(), Value::Object(settlement.status));
        let look_again_in = settlement.look_again_in;
        if holds(&body, live, keys::COMPOSITE_MANAGER, "status") {
            return Ok(Written { composite: None, look_again_in });
        }
        let composite = self.write_self(live, Part::Status, &body).await;
        match composite {
            Ok(composite) => {
                tape.wrote();
                Ok(Written { composite: Some(composite), look_again_in })
            }
            Err(error) if error.is_not_found() => Err(Problem::Gone),
            Err(error) => Err(Problem::refused(COMPOSE, "cannot write the status", &error)),
        }
    }

    /// What Crossplane wrote before it applied is nobody's from now on. Returns whether there was such a thing.
    pub(super) async fn take_over_self(&self, live: &Object) -> Result<bool, Error> {
        let place =
            Place { resource: &self.kind.resource, namespace: meta::namespace(live), name: meta::name(live) };
        let is_ours = |manager: &str| manager == keys::COMPOSITE_MANAGER;
        let taken_over = take_over(&self.shared.context.cluster, place, live, is_ours).await?;
        if let Some(bytes) = &taken_over {
            self.mirror.learn(bytes);
        }
        Ok(taken_over.is_some())
    }

    /// Apply something to the composite resource itself. Returns what it is then.
    pub(super) async fn write_self(&self, live: &Object, part: Part, body: &Object) -> Result<Object, Error> {
        let place =
            Place { resource: &self.kind.resource, namespace: meta::namespace(live), name: meta::name(live) };
        let bytes = self.shared.context.cluster.apply(place, part, keys::COMPOSITE_MANAGER, body).await?;
        self.mirror.learn(&bytes);
        let written = serde_json::from_slice(&bytes).map_err(Error::garbled)?;
        self.tally.set(&name_of(live), &written);
        Ok(written)
    }

    /// Tell the composite resource, and its claim if it is meant to know.
    async fn tell(&self, live: &Object, events: &[Event]) {
        let say = |about: About, event: &Event, message: String| {
            self.recorder.say(Said { about, kind: event.kind, reason: event.reason.clone(), message });
        };
        for event in events {
            say(About::new(live), event, event.detailed());
        }
        let for_claim: Vec<_> =
            events.iter().filter(|event| event.target == Target::CompositeAndClaim).collect();
        if for_claim.is_empty() {
            return;
        }
        if let Some(claim) = self.claim_of(live).await {
            for event in for_claim {
                say(About::new(&claim), event, event.message.clone());
            }
        }
    }

    async fn claim_of(&self, live: &Object) -> Option<Object> {
        let reference = live.get("spec")?.get("claimRef")?;
        let text = |field: &str| reference.get(field).and_then(Value::as_str);
        let cluster = &self.shared.context.cluster;
        let resource = cluster.resource(text("apiVersion")?, text("kind")?).await.ok()??;
        let place = Place { resource: &resource, namespace: text("namespace")?, name: text("name")? };
        cluster.get_object(place).await.ok()?
    }
}

/// The version of an object.
pub(super) fn version_of(object: &Object) -> u64 {
    meta::resource_version(object).parse().unwrap_or_default()
}

/// What functions said before still holds as long as they have not said otherwise.
fn keep_status(live: &Object, settlement: &mut Settlement) {
    let applied = extract(live, keys::COMPOSITE_MANAGER, "status");
    let Some(Value::Object(mut status)) = applied.get("status").cloned() else { return };
    status.extend(std::mem::take(&mut settlement.status));
    settlement.status = status;
}

/// A user who asked for a look is told that there was one.
fn remember_request(live: &Object, settlement: &mut Settlement) {
    let asked = meta::annotation(live, keys::RECONCILE_REQUESTED_AT);
    if asked.is_empty() {
        return;
    }
    let handled = live.get("status").and_then(|status| status.get("lastHandledReconcileAt")?.as_str());
    if handled != Some(asked) {
        let message = format!("looked at it as asked at {asked}");
        settlement.events.push(Event::new(EventKind::Normal, "ReconcileRequestHandled", message));
    }
    settlement.status.insert("lastHandledReconcileAt".to_owned(), asked.into());
}
