//! Writes to composite resources: the selection and the references, and the result of a reconcile. The only writer of their status and of
//! their events.

use std::time::Duration;

use ferroplane_api::{Object, keys, meta};
use ferroplane_client::{Error, ObjectPath, Subresource};
use ferroplane_engine::composite::{
    COMPOSE, Ending, Facts, Selected, conclude, machinery_to_record, remove_own_status,
};
use ferroplane_engine::{Event, Reference, Target, conditions_in};
use ferroplane_ownership::{extract, holds, owns};
use serde_json::Value;

use super::apply::name_of;
use super::controller::Controller;
use super::memory::Name;
use super::problem::Problem;
use super::reconcile::Reconciliation;
use crate::runtime::events::{About, Event as Said};
use crate::takeover::take_over;

/// The result of reporting a reconcile.
#[derive(Debug, Clone, Copy)]
pub(super) struct Settled {
    /// Whether the status had to be written.
    pub(super) is_written: bool,
    /// Whether a user has changed the composite resource since: conditions have the generation that was reconciled, even if a later one
    /// has the same content.
    pub(super) is_overtaken: bool,
    /// When to reconcile again if nothing changes before.
    pub(super) requeue_after: Option<Duration>,
}

impl Controller {
    /// Write the status if it changed, and record events.
    pub(super) async fn settle(
        &self,
        it: &mut Reconciliation<'_>,
        ending: Ending<'_>,
    ) -> Result<Settled, Problem> {
        let told = std::mem::take(&mut it.events);
        let facts = self.facts(&it.name, &it.live, &ending);
        let conclusion = conclude(ending, told, facts);
        it.recording.conclude(&conclusion.status, &conclusion.events);
        self.tell(&it.live, &conclusion.events).await;
        let mut body = identity(&it.live);
        meta::set_field(&mut body, "uid", meta::uid(&it.live));
        body.insert("status".to_owned(), Value::Object(conclusion.status));
        let mut settled =
            Settled { is_written: false, is_overtaken: false, requeue_after: conclusion.requeue_after };
        if holds(&body, &it.live, keys::COMPOSITE_MANAGER, "status") {
            return Ok(settled);
        }
        match self.write_status(&it.live, body).await {
            Ok(written) => {
                it.recording.wrote();
                settled.is_written = true;
                settled.is_overtaken = meta::generation(&written) != meta::generation(&it.live);
                it.live = written;
                Ok(settled)
            }
            Err(error) if error.is_not_found() => Err(Problem::Gone),
            Err(error) => Err(Problem::refused(COMPOSE, "cannot write the status", &error)),
        }
    }

    /// Write the status. A definition that Crossplane made does not have the codes in conditions or the functions that ran, and
    /// server-side apply refuses undeclared fields. Until all API servers have our definition, those fields are left out.
    async fn write_status(&self, live: &Object, mut body: Object) -> Result<Object, Error> {
        match self.write_self(live, Subresource::Status, &body).await {
            Err(error) if is_about_undeclared_field(&error) && remove_own_fields(&mut body) => {
                self.write_self(live, Subresource::Status, &body).await
            }
            result => result,
        }
    }

    /// Facts about a composite resource besides how its reconcile ended.
    pub(super) fn facts<'a>(&self, name: &Name, live: &'a Object, ending: &Ending<'_>) -> Facts<'a> {
        let held_status = live.get("status").and_then(Value::as_object);
        let conditions = held_status.and_then(|status| status.get("conditions"));
        let conditions = conditions.map(conditions_in).unwrap_or_default();
        // After a run, functions have set all of their conditions.
        let is_composed = matches!(ending, Ending::Composed { .. });
        let kept_status = if is_composed { Object::new() } else { kept_status(live) };
        Facts {
            composite: live,
            layout: self.layout,
            generation: meta::generation(live),
            held_status,
            kept_status,
            circuit: self.memory.circuit(name),
            contested: self.memory.contested(name, &conditions),
            has_own_fields: true,
            now: self.shared.context.clock.now(),
        }
    }

    /// Record the selection and the references if they changed. Without references, the existing ones stay.
    pub(super) async fn record(
        &self,
        it: &mut Reconciliation<'_>,
        selected: &Selected,
        references: Option<&[Reference]>,
    ) -> Result<(), Problem> {
        let live = &it.live;
        let is_ours = |path: &[&str]| owns(live, keys::COMPOSITE_MANAGER, "", path);
        let body = machinery_to_record(live, self.layout, selected, references, is_ours);
        // The cached references may be wrong if the result of our last write is unknown.
        let was_uncertain = self.memory.is_record_uncertain(&it.name);
        if !was_uncertain && holds(&body, live, keys::COMPOSITE_MANAGER, "") {
            return Ok(());
        }
        let written = match self.take_over_self(live).await {
            // The object that was read is out of date, and with it the decision. The next reconcile reads our
            // write.
            Ok(true) => return Err(Problem::Conflict),
            Ok(false) => {
                // Before it is sent: this task may be aborted before the response arrives.
                self.memory.mark_record_uncertain(&it.name, true);
                self.write_self(live, Subresource::None, &body).await
            }
            Err(error) => Err(error),
        };
        if let Err(error) = &written
            && !error.is_inconclusive()
        {
            self.memory.mark_record_uncertain(&it.name, was_uncertain);
        }
        match written {
            Ok(written) => {
                self.memory.mark_record_uncertain(&it.name, false);
                it.live = written;
                Ok(())
            }
            Err(error) if error.is_not_found() => Err(Problem::Gone),
            Err(error) => {
                Err(Problem::refused(COMPOSE, "cannot record the references to composed resources", &error))
            }
        }
    }

    /// Release fields that Crossplane wrote by updates. Returns whether there were any.
    pub(super) async fn take_over_self(&self, live: &Object) -> Result<bool, Error> {
        let target = ObjectPath {
            resource: &self.kind.resource,
            namespace: meta::namespace(live),
            name: meta::name(live),
        };
        let is_ours = |manager: &str| manager == keys::COMPOSITE_MANAGER;
        let taken_over = take_over(&self.shared.context.cluster, target, live, is_ours).await?;
        if let Some(bytes) = &taken_over {
            self.informer.insert_written(bytes);
        }
        Ok(taken_over.is_some())
    }

    /// Apply the composite resource itself. Returns the result.
    pub(super) async fn write_self(
        &self,
        live: &Object,
        part: Subresource,
        body: &Object,
    ) -> Result<Object, Error> {
        let target = ObjectPath {
            resource: &self.kind.resource,
            namespace: meta::namespace(live),
            name: meta::name(live),
        };
        let bytes = self.shared.context.cluster.apply(target, part, keys::COMPOSITE_MANAGER, body).await?;
        self.informer.insert_written(&bytes);
        let written = serde_json::from_slice(&bytes).map_err(Error::invalid_answer)?;
        self.tally.set(&name_of(live), &written);
        Ok(written)
    }

    /// Record events on the composite resource, and on its claim if they are meant for it.
    async fn tell(&self, live: &Object, events: &[Event]) {
        let say = |about: About, event: &Event, message: String| {
            let (kind, reason, failure) = (event.kind, event.reason.clone(), event.failure.clone());
            self.recorder.say(Said { about, kind, reason, message, failure });
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
        let target = ObjectPath { resource: &resource, namespace: text("namespace")?, name: text("name")? };
        cluster.get_object(target).await.ok()?
    }
}

/// Whether the API server refused an undeclared field.
pub(super) fn is_about_undeclared_field(error: &Error) -> bool {
    error.status().is_some_and(|status| status.message.contains("field not declared in schema"))
}

/// Remove fields that Crossplane's status does not have. Returns whether there were any.
pub(super) fn remove_own_fields(body: &mut Object) -> bool {
    let before = body.clone();
    remove_own_status(body);
    let conditions = body.get_mut("status").and_then(|status| status.get_mut("conditions")?.as_array_mut());
    let conditions = conditions.into_iter().flatten().filter_map(Value::as_object_mut);
    for condition in conditions {
        condition.retain(|field, _| !["code", "step", "resource"].contains(&field.as_str()));
    }
    *body != before
}

/// The part of the status that the plane has written.
fn kept_status(live: &Object) -> Object {
    match extract(live, keys::COMPOSITE_MANAGER, "status").remove("status") {
        Some(Value::Object(status)) => status,
        _ => Object::new(),
    }
}

/// The identity of an object.
pub(super) fn identity(object: &Object) -> Object {
    let mut identity = Object::new();
    identity.insert("apiVersion".to_owned(), meta::api_version(object).into());
    identity.insert("kind".to_owned(), meta::kind(object).into());
    meta::set_field(&mut identity, "name", meta::name(object));
    meta::set_field(&mut identity, "namespace", meta::namespace(object));
    identity
}
