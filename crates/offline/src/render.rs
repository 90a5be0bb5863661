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
mod image_functions;
mod input_files;
mod observed;
mod operation;
mod output;
mod recorded_responses;
mod renderer;
mod runtimes;
pub(crate) mod scripts;
pub mod seam;
pub(crate) mod templates;
mod wasm;

use std::collections::BTreeSet;
use std::sync::Arc;

use ferroplane_api::{Object, meta};
use ferroplane_engine::composite::{
    Begin, Circuit, Conclusion, Ending, Facts, Published, conclude, disown, selection_events,
};
use ferroplane_engine::{CompositeSubject, Event, Failure, Inputs, Outcome, Pipeline, Plan, Subject, Want};
use ferroplane_runner::{Directory, drive};
use ferroplane_wire::Struct;
use serde_json::{Map, Value};

use cluster_state::ClusterState;
use composite::Composite;
use observed::{observe, own_connection_details};

pub use batch::PrintedComposite;
pub use from_recording::{WrittenTest, write_test};
pub use input_files::InputFiles;
pub use output::{Format, PrintOptions};
pub use renderer::{Callers, Renderer};

/// One composite resource to render, and what it is rendered with.
#[derive(Debug)]
pub(crate) struct RenderInput {
    pub(crate) composite: Composite,
    pub(crate) pipeline: Arc<Pipeline>,
    pub(crate) context: Option<Struct>,
    /// The time, in RFC 3339.
    pub(crate) now: String,
}

/// What a composite resource would become.
#[derive(Debug)]
pub struct Rendered {
    pub xr: Object,
    pub composed: Vec<Object>,
    /// The name the composition knew it by, and the resource.
    pub deleted: Vec<(String, Object)>,
    pub events: Vec<Event>,
    /// What functions, or the composition for them, asked to see.
    pub asked: Vec<Want>,
    pub context: Option<Struct>,
    pub failure: Option<Failure>,
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
    match input.composite.begin {
        Begin::Paused => return Ok(rest(input, Ending::Paused)),
        Begin::Deleting => return Ok(rest(input, Ending::Deleting)),
        Begin::Run => {}
    }
    let Composite { object, layout, .. } = &input.composite;
    let (observed, observing) = observe(&input.composite, cluster)?;
    let inputs = Inputs {
        subject: Subject::Composite(CompositeSubject {
            object: Struct::try_from(object.clone())?,
            layout: *layout,
            connection_details: own_connection_details(&input.composite, cluster)?,
            observed,
        }),
        pipeline: input.pipeline.clone(),
        // Rendering has no last time: a function asks for everything anew.
        remembered: Vec::new(),
        context: input.context.clone(),
        grants: Arc::new(cluster.grants().about(object)),
    };
    let outcome = drive(inputs, functions, cluster).await;
    Ok(finish(input, outcome, observing, cluster.asked()))
}

/// What a composite resource to which nothing is done becomes: itself, with conditions that say so.
fn rest(input: RenderInput, ending: Ending<'_>) -> Rendered {
    let Conclusion { status, events, .. } = conclude(ending, Vec::new(), facts_as_read(&input));
    let mut xr = input.composite.object;
    xr.insert("status".to_owned(), Value::Object(status));
    let (composed, deleted, asked) = Default::default();
    Rendered { xr, composed, deleted, events, asked, context: input.context, failure: None }
}

/// What a composite resource becomes when its pipeline has run: every apply succeeds here. Observing it caused the given events.
fn finish(input: RenderInput, outcome: Outcome, observing: Vec<Event>, asked: Vec<Want>) -> Rendered {
    // On failure nothing was applied, so that the status which was read stands; on success only what we applied is shown.
    let facts = if outcome.result.is_ok() { facts_as_applied(&input) } else { facts_as_read(&input) };
    let unsynced = BTreeSet::new();
    // `Before`: no connection details are written here, so that the status must not say when they were.
    let ending = Ending::Composed { outcome: &outcome, unsynced, published: Published::Before };
    let mut told = selection_events(&input.composite.selected, None);
    told.extend(observing);
    let Conclusion { status, events, .. } = conclude(ending, told, facts);
    let (mut xr, (composed, deleted), failure) = match outcome.result {
        Ok(plan) => (input.composite.applied(&plan.references), split(plan), None),
        Err(failure) => (input.composite.object, Default::default(), Some(failure)),
    };
    if !status.is_empty() {
        xr.insert("status".to_owned(), Value::Object(status));
    }
    Rendered { xr, composed, deleted, events, asked, context: outcome.context, failure }
}

/// What is known of a composite resource that stays as it was read. Nothing here watches it, so that nothing can be too much.
fn facts_as_read(input: &RenderInput) -> Facts<'_> {
    let Composite { object, layout, .. } = &input.composite;
    let status = object.get("status").and_then(Value::as_object);
    Facts {
        composite: object,
        layout: *layout,
        generation: meta::generation(object),
        held_status: status,
        kept_status: status.cloned().unwrap_or_default(),
        circuit: Circuit::Closed,
        contested: None,
        has_own_fields: false,
        now: input.now.clone(),
    }
}

/// What is known of one that was applied. No API server holds what was applied before: it has no status, and no generation that the
/// conditions could speak of.
fn facts_as_applied(input: &RenderInput) -> Facts<'_> {
    Facts { generation: 0, held_status: None, kept_status: Object::new(), ..facts_as_read(input) }
}

fn split(plan: Plan) -> (Vec<Object>, Vec<(String, Object)>) {
    let deleted = plan.delete.into_iter().map(|deletion| {
        let mut object = deletion.object.into_json().unwrap_or_else(|_| Map::new());
        disown(&mut object);
        (deletion.resource, object)
    });
    (plan.apply.into_iter().map(|wanted| wanted.object).collect(), deleted.collect())
}
