//! Operations at the seam: what one would do, and which one a `CronOperation` or `WatchOperation` would make.

use std::sync::Arc;

use anyhow::Context as _;
use ferroplane_api::{Object, Step, meta};
use ferroplane_engine::operation::{operation_of_cron, operation_of_watch, watch_operation_name};
use ferroplane_engine::{Failure, Pipeline};
use ferroplane_runner::grpc;
use ferroplane_wire::Struct;
use ferroplane_wire::render::render_response::Output;
use ferroplane_wire::render::{
    CronOperationInput, CronOperationOutput, OperationInput, OperationOutput, WatchOperationInput,
    WatchOperationOutput,
};
use jiff::Timestamp;
use serde_json::Value;

use super::{asked, connect, events_of, object, shared_state};
use crate::render::cluster_state::{ClusterState, CompositeScope};
use crate::render::operation::{self, render_operation};

pub(super) async fn render(
    input: OperationInput,
    options: &grpc::Options,
    now: &str,
) -> anyhow::Result<(Output, Option<Failure>)> {
    let functions = connect(&input.functions, options)?;
    let operation = object(input.operation.unwrap_or_default(), "operation")?;
    let shared = shared_state(input.required_resources, input.credentials, input.required_schemas)?;
    let mut cluster = ClusterState::new(Arc::new(shared));
    cluster.set_composite_scope(CompositeScope::Cluster);
    let pipeline = Arc::new(pipeline_of(&operation)?);
    let input = operation::OperationInput { operation: &operation, pipeline, context: None, now };
    let mut rendered = render_operation(input, &functions, &cluster).await?;
    // An attempt always changes the status. Callers take an operation that is returned for one that was written.
    let is_written = rendered.xr != operation;
    let failure = rendered.take_fatal_result()?;
    let events = events_of(&rendered);
    let (required_resources, required_schemas) = asked(&rendered.asked)?;
    let output = OperationOutput {
        operation: is_written.then(|| Struct::try_from(rendered.xr)).transpose()?,
        applied_resources: rendered.composed.into_iter().map(Struct::try_from).collect::<Result<_, _>>()?,
        events,
        required_resources,
        required_schemas,
    };
    Ok((Output::Operation(output), failure))
}

fn pipeline_of(operation: &Object) -> anyhow::Result<Pipeline> {
    let steps = operation.get("spec").and_then(|spec| spec.get("pipeline")).cloned().unwrap_or(Value::Null);
    let steps: Vec<Step> =
        serde_json::from_value(steps).context("cannot read the pipeline of the operation")?;
    Ok(Pipeline::new(&steps)?)
}

/// The operation that a `CronOperation` makes at the time of the request, or now.
pub(super) fn of_cron(input: CronOperationInput, now: &str) -> anyhow::Result<Output> {
    let cron = object(input.cron_operation.unwrap_or_default(), "CronOperation")?;
    let due = match input.scheduled_time {
        Some(time) => time.seconds,
        None => now.parse::<Timestamp>().context("cannot read the current time")?.as_second(),
    };
    let operation = Some(Struct::try_from(operation_of_cron(&cron, due))?);
    Ok(Output::CronOperation(CronOperationOutput { operation }))
}

/// The operation that a `WatchOperation` makes for an object.
pub(super) fn of_watch(input: WatchOperationInput) -> anyhow::Result<Output> {
    let watch = object(input.watch_operation.unwrap_or_default(), "WatchOperation")?;
    let watched = object(input.watched_resource.unwrap_or_default(), "watched resource")?;
    let name = watch_operation_name(meta::name(&watch), &watched);
    let operation = Some(Struct::try_from(operation_of_watch(&watch, &watched, &name))?);
    Ok(Output::WatchOperation(WatchOperationOutput { operation }))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn structure(json: &Value) -> Struct {
        Struct::try_from(json.as_object().unwrap().clone()).unwrap()
    }

    fn parent(kind: &str) -> Value {
        json!({
            "apiVersion": "ops.crossplane.io/v1alpha1", "kind": kind, "metadata": {"name": "test-watch", "uid": "u"},
            "spec": {"operationTemplate": {"spec": {"mode": "Pipeline", "pipeline": [{"step": "a"}]}}},
        })
    }

    fn name(operation: Option<Struct>) -> String {
        meta::name(operation.unwrap().json().unwrap()).to_owned()
    }

    #[test]
    fn schedule_makes_the_operation_of_its_time_or_of_now() {
        let cron = |seconds: Option<i64>| {
            let mut input = CronOperationInput {
                cron_operation: Some(structure(&parent("CronOperation"))),
                scheduled_time: None,
            };
            if let Some(seconds) = seconds {
                input.scheduled_time.get_or_insert_default().seconds = seconds;
            }
            match of_cron(input, "1970-01-01T00:01:00Z") {
                Ok(Output::CronOperation(output)) => name(output.operation),
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(cron(None), "test-watch-60");
        assert_eq!(cron(Some(1_609_459_200)), "test-watch-1609459200");
    }

    #[tokio::test]
    async fn returns_an_operation_only_when_it_would_be_written() {
        let returned = async |status: Value| {
            let operation = json!({
                "apiVersion": "ops.crossplane.io/v1alpha1", "kind": "Operation", "metadata": {"name": "a"},
                "spec": {"mode": "Pipeline", "pipeline": [{"step": "one", "functionRef": {"name": "f"}}]}, "status": status,
            });
            let input = OperationInput { operation: Some(structure(&operation)), ..Default::default() };
            match render(input, &grpc::Options::default(), "2026-01-01T00:00:00Z").await {
                Ok((Output::Operation(output), None)) => output.operation.is_some(),
                other => panic!("{other:?}"),
            }
        };
        let ended = |status: &str| json!({"conditions": [{"type": "Succeeded", "status": status}]});
        assert!(!returned(ended("True")).await);
        assert!(!returned(ended("False")).await);
        assert!(returned(json!({"failures": 100})).await, "it is given up");
    }

    #[test]
    fn watch_makes_the_operation_that_crossplane_names() {
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {
            "name": "test-pod", "namespace": "default", "uid": "test-uid", "resourceVersion": "123",
        }});
        let input = WatchOperationInput {
            watch_operation: Some(structure(&parent("WatchOperation"))),
            watched_resource: Some(structure(&pod)),
        };
        let Ok(Output::WatchOperation(output)) = of_watch(input) else { panic!("it is a watch") };
        assert_eq!(name(output.operation), "test-watch-2ae9bd3");
    }
}
