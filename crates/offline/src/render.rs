//! Renders composite resources from files, or from a request of upstream's tools.
//!
//! [`InputFiles`] names the files, [`Renderer::load`] reads and checks all of them, [`Renderer::render_all`] renders
//! every composite resource among them. [`seam`] is the other way in. Both go through the same [`render`].

mod batch;
mod cluster_state;
mod composite;
mod defaults;
mod from_recording;
mod functions;
mod input_files;
mod observed;
mod output;
mod recorded_responses;
mod renderer;
mod rest;
mod runtimes;
mod scopes;
pub mod seam;

use std::collections::BTreeMap;
use std::sync::Arc;

use ferroplane_api::{Composition, Condition, Object, Status, keys, meta, set_condition};
use ferroplane_engine::{
    Event, Failure, Inputs, Layout, Observed, Outcome, Pipeline, Plan, Settlement, Want, settle,
};
use ferroplane_runner::{Directory, drive};
use ferroplane_wire::Struct;
use serde_json::{Map, Value};

use cluster_state::ClusterState;
use composite::Composite;
use rest::Rest;

pub use batch::PrintedComposite;
pub use from_recording::{WrittenTest, write_test};
pub use input_files::InputFiles;
pub use output::{Format, PrintOptions};
pub use renderer::Renderer;

/// One composite resource to render, and what it is rendered with.
#[derive(Debug)]
pub(crate) struct RenderInput {
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
    /// What functions, or the composition for them, asked to see.
    pub(crate) asked: Vec<Want>,
    pub(crate) context: Option<Struct>,
    pub(crate) failure: Option<Failure>,
}

impl Rendered {
    /// What a function said that gave up, if one did. Any other failure is an error.
    pub(crate) fn take_fatal_result(&mut self) -> anyhow::Result<Option<Failure>> {
        match self.failure.take() {
            Some(failure) if !failure.is_fatal_result() => Err(failure.into()),
            failure => Ok(failure),
        }
    }
}

/// Render a composite resource.
pub(crate) async fn render(
    input: RenderInput,
    functions: &Directory,
    cluster: &ClusterState,
) -> anyhow::Result<Rendered> {
    if let Some(rest) = Rest::of(input.composite.object()) {
        return Ok(rest::rendered(input, rest));
    }
    let observed = observe(&input, cluster)?;
    let inputs = Inputs {
        composite: Struct::try_from(input.composite.object().clone())?,
        layout: input.composite.layout(),
        connection_details: match input.composite.layout() {
            Layout::Legacy => cluster.connection_details(input.composite.object())?,
            Layout::Modern => BTreeMap::new(),
        },
        observed,
        pipeline: input.pipeline.clone(),
        remembered: Vec::new(),
        context: input.context.clone(),
    };
    let outcome = drive(inputs, functions, cluster).await;
    let settlement = settle(&outcome, what_is_known(&input, outcome.result.is_ok()));
    Ok(conclude(input, outcome, settlement, cluster.asked()))
}

fn observe(input: &RenderInput, cluster: &ClusterState) -> anyhow::Result<BTreeMap<String, Observed>> {
    let observed = input.observed.iter().map(|(name, object)| {
        let connection_details = cluster.connection_details(object)?;
        Ok((name.clone(), Observed { object: Struct::try_from(object.clone())?, connection_details }))
    });
    observed.collect()
}

/// What settling needs to know: every apply succeeds here. What is applied has no generation, so that the
/// conditions that follow from it have none.
fn what_is_known(input: &RenderInput, is_applied: bool) -> ferroplane_engine::SettleFacts {
    ferroplane_engine::SettleFacts {
        conditions: decided_before(input),
        generation: if is_applied { 0 } else { meta::generation(input.composite.object()) },
        now: input.now.clone(),
        ..Default::default()
    }
}

/// The conditions there are before anything is composed: nothing here watches too much.
fn decided_before(input: &RenderInput) -> Vec<Condition> {
    let mut conditions = input.composite.conditions();
    let responsive = Condition {
        last_transition_time: input.now.clone(),
        observed_generation: meta::generation(input.composite.object()),
        ..Condition::new("Responsive", Status::True, "WatchCircuitClosed")
    };
    set_condition(&mut conditions, responsive);
    conditions
}

fn conclude(input: RenderInput, outcome: Outcome, settlement: Settlement, asked: Vec<Want>) -> Rendered {
    let layout = input.composite.layout();
    let mut events: Vec<_> = input.composite.requested().into_iter().collect();
    events.extend(input.composite.selected(&input.composition));
    events.extend(settlement.events);
    let (plan, failure) = match outcome.result {
        Ok(plan) => (Some(plan), None),
        Err(failure) => (None, Some(failure)),
    };
    let mut xr = match &plan {
        Some(plan) => input.composite.applied(&plan.references),
        None => input.composite.into_object(),
    };
    set_status(&mut xr, settlement.status, plan.is_none());
    if layout == Layout::Legacy {
        add_claim_conditions(&mut xr, settlement.claim_conditions);
    }
    let (composed, deleted) = plan.map(split).unwrap_or_default();
    Rendered { xr, composed, deleted, events, asked, context: outcome.context, failure }
}

/// A run that failed says nothing about the status but its conditions: what was there stays.
fn set_status(xr: &mut Object, status: Object, is_failed: bool) {
    if is_failed {
        meta::child(xr, "status").extend(status);
    } else if !status.is_empty() {
        xr.insert("status".to_owned(), Value::Object(status));
    }
}

/// The claim gets the conditions that it had, and those that functions want it to have too.
fn add_claim_conditions(xr: &mut Object, wanted: Vec<String>) {
    if wanted.is_empty() {
        return;
    }
    let status = meta::child(xr, "status");
    let mut types = status.get("claimConditionTypes").and_then(Value::as_array).cloned().unwrap_or_default();
    for kind in wanted.into_iter().map(Value::String) {
        if !types.contains(&kind) {
            types.push(kind);
        }
    }
    status.insert("claimConditionTypes".to_owned(), Value::Array(types));
}

fn split(plan: Plan) -> (Vec<Object>, Vec<(String, Object)>) {
    let deleted = plan.delete.into_iter().map(|deletion| {
        let mut object = deletion.object.into_json().unwrap_or_else(|_| Map::new());
        disown(&mut object);
        (deletion.resource, object)
    });
    (plan.apply.into_iter().map(|wanted| wanted.object).collect(), deleted.collect())
}

/// What is to be deleted first loses the labels that say whose it is.
fn disown(object: &mut Object) {
    let metadata = object.get_mut("metadata").and_then(Value::as_object_mut);
    let labels = metadata.and_then(|metadata| metadata.get_mut("labels")?.as_object_mut());
    if let Some(labels) = labels {
        labels.retain(|key, _| {
            ![keys::COMPOSITE, keys::CLAIM_NAME, keys::CLAIM_NAMESPACE].contains(&key.as_str())
        });
    }
}
