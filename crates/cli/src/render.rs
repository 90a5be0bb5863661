//! Renders composite resources: what `ferroplane render` and the render seam have in common.

pub(crate) mod composite;
pub(crate) mod defaults;
pub(crate) mod functions;
pub(crate) mod output;
pub(crate) mod scopes;
pub(crate) mod seam;
pub(crate) mod world;

use std::collections::BTreeMap;
use std::sync::Arc;

use ferroplane_api::{Composition, Condition, Object, Status, meta};
use ferroplane_engine::{
    Event, EventKind, Failure, Inputs, Layout, Observed, Outcome, Pipeline, Plan, Requirement, Settlement, settle,
};
use ferroplane_runner::{Directory, drive};
use ferroplane_wire::v1::SchemaSelector;
use ferroplane_wire::{Struct, StructError};
use serde_json::{Map, Value};

use composite::Composite;
use world::World;

/// One composite resource to render.
#[derive(Debug)]
pub(crate) struct Task {
    pub(crate) composite: Composite,
    pub(crate) composition: Arc<Composition>,
    pub(crate) pipeline: Arc<Pipeline>,
    /// Composed resources that exist, by the name the composition knows them by.
    pub(crate) observed: BTreeMap<String, Object>,
    pub(crate) context: Option<Struct>,
    /// The time, in RFC 3339.
    pub(crate) now: String,
}

/// What a composite resource would become.
#[derive(Debug)]
pub(crate) struct Rendered {
    pub(crate) xr: Object,
    pub(crate) composed: Vec<Object>,
    /// The name the composition knew it by, and the resource.
    pub(crate) deleted: Vec<(String, Object)>,
    pub(crate) events: Vec<Event>,
    pub(crate) requirements: Vec<Requirement>,
    pub(crate) schemas: Vec<SchemaSelector>,
    pub(crate) context: Option<Struct>,
    pub(crate) failure: Option<Failure>,
}

/// Render a composite resource.
pub(crate) async fn render(task: Task, functions: &Directory, world: &World) -> Result<Rendered, StructError> {
    let observed = observe(&task, world)?;
    let inputs = Inputs {
        composite: Struct::try_from(task.composite.object().clone())?,
        layout: task.composite.layout(),
        connection_details: match task.composite.layout() {
            Layout::Legacy => world.connection_details(task.composite.object()),
            Layout::Modern => BTreeMap::new(),
        },
        observed,
        pipeline: task.pipeline.clone(),
        remembered: Vec::new(),
        context: task.context.clone(),
    };
    let outcome = drive(inputs, functions, world).await;
    let settlement = settle(&outcome, what_is_known(&task));
    Ok(conclude(task, outcome, settlement))
}

fn observe(task: &Task, world: &World) -> Result<BTreeMap<String, Observed>, StructError> {
    let observed = task.observed.iter().map(|(name, object)| {
        let connection_details = world.connection_details(object);
        Ok((name.clone(), Observed { object: Struct::try_from(object.clone())?, connection_details }))
    });
    observed.collect()
}

/// What settling needs to know: every apply succeeds here, and nothing watches too much.
fn what_is_known(task: &Task) -> ferroplane_engine::World {
    let generation = meta::generation(task.composite.object());
    let mut conditions = task.composite.conditions();
    let responsive = Condition {
        last_transition_time: task.now.clone(),
        observed_generation: generation,
        ..Condition::new("Responsive", Status::True, "WatchCircuitClosed")
    };
    ferroplane_api::set_condition(&mut conditions, responsive);
    ferroplane_engine::World { conditions, generation, now: task.now.clone(), ..Default::default() }
}

fn conclude(task: Task, outcome: Outcome, settlement: Settlement) -> Rendered {
    let mut events: Vec<_> = task.composite.selected(&task.composition).into_iter().collect();
    events.extend(settlement.events);
    let (plan, failure) = match outcome.result {
        Ok(plan) => (Some(plan), None),
        Err(failure) => (None, Some(failure)),
    };
    let mut xr = match &plan {
        Some(plan) => task.composite.applied(&plan.references),
        None => task.composite.into_object(),
    };
    set_status(&mut xr, settlement.status, plan.is_none());
    if !settlement.claim_conditions.is_empty() {
        let types = settlement.claim_conditions.into_iter().map(Value::String).collect();
        meta::child(&mut xr, "status").insert("claimConditionTypes".to_owned(), Value::Array(types));
    }
    let (composed, deleted) = plan.map(split).unwrap_or_default();
    Rendered {
        xr,
        composed,
        deleted,
        events,
        requirements: outcome.requirements,
        schemas: outcome.schemas,
        context: outcome.context,
        failure,
    }
}

/// A run that failed says nothing about the status but its conditions: what was there stays.
fn set_status(xr: &mut Object, status: Object, is_failed: bool) {
    if is_failed {
        meta::child(xr, "status").extend(status);
    } else if !status.is_empty() {
        xr.insert("status".to_owned(), Value::Object(status));
    }
}

fn split(plan: Plan) -> (Vec<Object>, Vec<(String, Object)>) {
    let deleted = plan.delete.into_iter().map(|deletion| {
        let object = deletion.object.into_json().unwrap_or_else(|_| Map::new());
        (deletion.resource, object)
    });
    (plan.apply.into_iter().map(|wanted| wanted.object).collect(), deleted.collect())
}

/// Something to tell about rendering itself.
fn event(kind: EventKind, reason: &str, message: String) -> Event {
    Event {
        kind,
        reason: reason.to_owned(),
        message,
        detail: None,
        target: ferroplane_engine::Target::Composite,
    }
}
