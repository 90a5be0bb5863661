//! Renders operations: what one would do, and which one a `CronOperation` or `WatchOperation` would make.

use std::sync::Arc;

use anyhow::{Context as _, bail};
use ferroplane_api::{Composition, Object, keys, meta};
use ferroplane_engine::operation::{
    Attempt, AttemptEnding, AttemptFailure, Begin, Concluded, begin, conclude, operation_of_cron,
    operation_of_watch, started, watch_operation_name,
};
use ferroplane_engine::{Inputs, Pipeline, Subject, pipeline_condition};
use ferroplane_runner::{Directory, drive};
use ferroplane_wire::Struct;
use serde_json::{Value, json};

use super::Rendered;
use super::cluster_state::ClusterState;
use crate::manifest::Manifest;

/// When the operation of a `CronOperation` is due that is rendered: the same each time, as all times are.
const DUE: i64 = 1_704_067_200;

/// An operation to render, and what it is rendered with.
pub(crate) struct OperationInput<'a> {
    pub(crate) operation: &'a Object,
    pub(crate) pipeline: Arc<Pipeline>,
    pub(crate) context: Option<Struct>,
    /// The time, in RFC 3339.
    pub(crate) now: &'a str,
}

/// Render an attempt of an operation. Everything that it wants is applied.
pub(crate) async fn render_operation(
    input: OperationInput<'_>,
    functions: &Directory,
    cluster: &ClusterState,
) -> anyhow::Result<Rendered> {
    let OperationInput { operation, pipeline, context, now } = input;
    let mut operation = operation.clone();
    match begin(&operation, now) {
        Begin::Ended | Begin::Paused | Begin::Await => return Ok(rendered(operation, context)),
        Begin::GiveUp => {
            let Concluded { status, events, .. } =
                conclude(&operation, Attempt::new(AttemptEnding::GaveUp), now);
            operation.insert("status".to_owned(), status.into());
            return Ok(Rendered { events, ..rendered(operation, context) });
        }
        Begin::Run => {}
    }
    let status = started(&operation, now);
    operation.insert("status".to_owned(), status.into());
    let inputs = Inputs {
        subject: Subject::Operation { object: Struct::try_from(operation.clone())? },
        pipeline,
        remembered: Vec::new(),
        context,
        grants: Arc::default(),
    };
    let outcome = drive(inputs, functions, cluster).await;
    let (ending, applied) = match &outcome.result {
        Ok(plan) => (AttemptEnding::Succeeded, plan.references.clone()),
        Err(failure) => (AttemptEnding::Failed(AttemptFailure::of_pipeline(failure, &operation)), Vec::new()),
    };
    // Whether functions can be used was seen when they were looked up.
    let validity = Some(pipeline_condition(&Ok(())));
    let attempt = Attempt { validity, outputs: outcome.outputs, applied, ..Attempt::new(ending) };
    let Concluded { status, events, .. } = conclude(&operation, attempt, now);
    operation.insert("status".to_owned(), status.into());
    let (composed, failure) = match outcome.result {
        Ok(plan) => (plan.apply.into_iter().map(|wanted| wanted.object).collect(), None),
        Err(failure) => (Vec::new(), Some(failure)),
    };
    let events = outcome.events.into_iter().chain(events).collect();
    let asked = cluster.asked();
    Ok(Rendered { composed, events, asked, failure, ..rendered(operation, outcome.context) })
}

fn rendered(operation: Object, context: Option<Struct>) -> Rendered {
    let (composed, deleted, events, asked) = Default::default();
    Rendered { xr: operation, composed, deleted, events, asked, context, failure: None }
}

impl Rendered {
    /// The same, with no more of the operation than its name and status.
    pub(super) fn with_identity_only(mut self) -> Self {
        let mut operation = Object::new();
        for field in ["apiVersion", "kind", "status"] {
            if let Some(value) = self.xr.remove(field) {
                operation.insert(field.to_owned(), value);
            }
        }
        meta::set_field(&mut operation, "name", meta::name(&self.xr));
        self.xr = operation;
        self
    }
}

/// Whether something is an operation, or makes one.
pub(super) fn is_operation(object: &Object) -> bool {
    meta::group(meta::api_version(object)) == keys::OPS
}

/// The operation that a manifest is, or would make. `watched` is what has changed.
pub(super) fn operation_in(manifest: Manifest, watched: Option<&Object>) -> anyhow::Result<Manifest> {
    manifest.require_version(&["v1alpha1"])?;
    manifest.require_identity("operation")?;
    let object = manifest.object();
    let kind = meta::kind(object);
    if watched.is_some() && kind != "WatchOperation" {
        bail!("--watched-resource is for WatchOperations; {} `{}` watches nothing", kind, meta::name(object));
    }
    let operation = match kind {
        "Operation" => return Ok(manifest),
        "CronOperation" => operation_of_cron(object, DUE),
        "WatchOperation" => {
            let watched =
                watched.context("a WatchOperation needs --watched-resource: the object that has changed")?;
            check_watched(object, watched)?;
            operation_of_watch(object, watched, &watch_operation_name(meta::name(object), watched))
        }
        _ => bail!("{kind} is not an Operation, CronOperation or WatchOperation"),
    };
    Ok(manifest.with_object(operation))
}

/// Refuse an object that the `WatchOperation` does not watch.
fn check_watched(watch: &Object, watched: &Object) -> anyhow::Result<()> {
    let wanted = watch.get("spec").and_then(|spec| spec.get("watch")).unwrap_or(&Value::Null);
    let (api_version, kind) = (meta::api_version(watched), meta::kind(watched));
    if wanted["apiVersion"] != api_version || wanted["kind"] != kind {
        bail!(
            "the WatchOperation watches {} in {}, but --watched-resource is {kind} in {api_version}",
            wanted["kind"].as_str().unwrap_or_default(),
            wanted["apiVersion"].as_str().unwrap_or_default()
        );
    }
    let labels = wanted["matchLabels"].as_object().into_iter().flatten();
    let labels = labels.filter_map(|(key, value)| Some((key.as_str(), value.as_str()?)));
    if !meta::matches_labels(watched, labels) {
        bail!(
            "the WatchOperation does not watch {kind} `{}`: it does not have its labels",
            meta::name(watched)
        );
    }
    Ok(())
}

/// The steps of an operation, as those of a Composition.
pub(super) fn as_composition(operation: &Manifest) -> anyhow::Result<Composition> {
    let object = operation.object();
    let pipeline =
        object.get("spec").and_then(|spec| spec.get("pipeline")).cloned().unwrap_or_else(|| json!([]));
    let composition = json!({
        "apiVersion": "apiextensions.crossplane.io/v1", "kind": "Composition", "metadata": {"name": meta::name(object)},
        "spec": {
            "compositeTypeRef": {"apiVersion": meta::api_version(object), "kind": meta::kind(object)},
            "mode": "Pipeline", "pipeline": pipeline,
        },
    });
    let read = serde_json::from_value(composition);
    read.map_err(|error| {
        operation.error(&["spec", "pipeline"], format!("cannot read the pipeline: {error}")).into()
    })
}
