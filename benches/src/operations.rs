//! Operations on the embedded plane, all in this process: from a trigger to the first call of a function, many schedules that are due in the
//! same minute, and a watch whose objects all change at once. Everything durable.

mod calls;
mod changes;
mod idle;
mod others;
mod schedules;
mod single;

use std::time::Duration;

use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::composition::plane::{Functions, Plane};
use crate::measure::{Times, pretty};
use calls::Calls;

const OPS: &str = "/apis/ops.crossplane.io/v1alpha1";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";
/// How many schedules there are, and how many objects are watched.
const MANY: usize = 10_000;
/// How long it may take until nothing happens any more.
const PATIENCE: Duration = Duration::from_mins(5);

pub(crate) fn run() {
    let runtime = Runtime::new().expect("there is a runtime");
    runtime.block_on(async {
        let directory = tempfile::tempdir().expect("there is room");
        let calls = Calls::default();
        let functions = Functions::built_in();
        let plane = Plane::start_calling(directory.path(), &functions, &[calls.function()]).await;
        plane.define(&functions).await;
        single::measure(&plane, &calls).await;
        schedules::measure(&plane, &calls).await;
        changes::measure(&plane, &calls).await;
        plane.stop().await;
    });
}

fn object(kind: &str, name: &str, spec: &Value) -> Value {
    json!({"apiVersion": "ops.crossplane.io/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec})
}

fn pipeline(name: &str) -> Value {
    let input = json!({"name": name});
    let function = json!({"name": calls::FUNCTION});
    json!({"mode": "Pipeline", "pipeline": [{"step": "work", "functionRef": function, "input": input}]})
}

fn cron(name: &str, schedule: &str) -> Value {
    let spec = json!({"schedule": schedule, "operationTemplate": {"spec": pipeline(name)}});
    object("CronOperation", name, &spec)
}

fn watch(name: &str) -> Value {
    let selected = json!({"apiVersion": "v1", "kind": "ConfigMap", "namespace": "default", "matchLabels": {"watch": name}});
    object("WatchOperation", name, &json!({"watch": selected, "operationTemplate": {"spec": pipeline("")}}))
}

fn map(name: &str, watch: &str) -> Value {
    let metadata = json!({"name": name, "labels": {"watch": watch}});
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"value": "0"}})
}

/// Print how long it took from each trigger to its call.
fn print_delays(what: &str, delays: Vec<Duration>) {
    let times = Times::from(delays);
    let [best, middle, worst] = [times.best(), times.p50(), times.p99()].map(pretty);
    println!("| {what} | {} | {best} | {middle} | {worst} |", times.count());
}
