//! Says what came of it: conditions, events, when to look again. The only writer of a composite resource's status.

use std::time::Duration;

use ferroplane_api::{Object, keys, meta};
use ferroplane_engine::composite::{COMPOSE, Circuit, Conclusion, Ending, Facts, conclude};
use ferroplane_engine::{Event, Target, conditions_in};
use ferroplane_recorder::Tape;
use ferroplane_schema::managed::{extract, holds};
use serde_json::Value;

use super::apply::name_of;
use super::controller::Controller;
use super::memory::Name;
use super::problem::{Problem, Report};
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
        let ending = Ending::Composed {
            outcome: &composed.outcome,
            unsynced: composed.unsynced.clone(),
            published: composed.published,
        };
        let told = std::mem::take(&mut composed.events);
        let conclusion = conclude(ending, told, self.facts(name, live));
        self.write(live, conclusion, tape).await
    }

    /// It could not be composed, for a reason that the user should know.
    pub(super) async fn settle_problem(
        &self,
        name: &Name,
        live: &Object,
        report: &mut Report,
        tape: &mut Tape,
    ) -> Result<Written, Problem> {
        let ending = Ending::Failed {
            trouble: &report.trouble,
            outcome: report.outcome.as_deref(),
            denied: report.denied.as_deref(),
        };
        let facts = Facts { kept_status: kept_status(live), ..self.facts(name, live) };
        let conclusion = conclude(ending, std::mem::take(&mut report.events), facts);
        self.write(live, conclusion, tape).await
    }

    /// Nothing was done: say why, and leave everything else as it is.
    pub(super) async fn settle_rest(
        &self,
        name: &Name,
        live: &Object,
        ending: Ending<'_>,
    ) -> Result<Written, Problem> {
        let facts = Facts { kept_status: kept_status(live), ..self.facts(name, live) };
        self.write(live, conclude(ending, Vec::new(), facts), &mut Tape::off()).await
    }

    /// What is known of a composite resource besides how its reconcile ended.
    fn facts<'a>(&self, name: &Name, live: &'a Object) -> Facts<'a> {
        let held_status = live.get("status").and_then(Value::as_object);
        let conditions = held_status.and_then(|status| status.get("conditions"));
        let conditions = conditions.map(conditions_in).unwrap_or_default();
        let circuit = self.memory.unrest(name).map_or(Circuit::Closed, |source| Circuit::Open { source });
        Facts {
            composite: live,
            layout: self.layout,
            generation: meta::generation(live),
            held_status,
            kept_status: Object::new(),
            circuit,
            contested: self.memory.contested(name, &conditions),
            records_requests: true,
            now: self.shared.context.clock.now(),
        }
    }

    /// Write the status, unless it is so already, and tell what happened.
    async fn write(
        &self,
        live: &Object,
        conclusion: Conclusion,
        tape: &mut Tape,
    ) -> Result<Written, Problem> {
        tape.conclude(&conclusion);
        self.tell(live, &conclusion.events).await;
        let mut body = identity(live);
        meta::set_field(&mut body, "uid", meta::uid(live));
        body.insert("status".to_owned(), Value::Object(conclusion.status));
        let look_again_in = conclusion.requeue_after;
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

/// As much of the status as the plane has said itself.
fn kept_status(live: &Object) -> Object {
    match extract(live, keys::COMPOSITE_MANAGER, "status").remove("status") {
        Some(Value::Object(status)) => status,
        _ => Object::new(),
    }
}

/// What an object is.
fn identity(object: &Object) -> Object {
    let mut identity = Object::new();
    identity.insert("apiVersion".to_owned(), meta::api_version(object).into());
    identity.insert("kind".to_owned(), meta::kind(object).into());
    meta::set_field(&mut identity, "name", meta::name(object));
    meta::set_field(&mut identity, "namespace", meta::namespace(object));
    identity
}
