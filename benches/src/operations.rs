//! Operations on the embedded plane, all in this process: from a trigger to the first call of a function, many schedules that are due in the
//! same minute, and a watch whose objects all change at once. Everything durable.
#![expect(clippy::similar_names, reason = "it reads better here as it is")]

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use ferroplane_functions::Implementation;
use ferroplane_wire::v1::{RunFunctionRequest, RunFunctionResponse};
use http::Method;
use jiff::Timestamp;
use nix::sys::resource::UsageWho;
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::composition::plane::{Functions, Plane};
use crate::measure::{Stopwatch, Times, for_all, pretty, resident};

const OPS: &str = "/apis/ops.crossplane.io/v1alpha1";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const FUNCTION: &str = "function-measured";
const WATCHED: &str = "ops.crossplane.io/watched-resource";
/// How many triggers are timed one after the other.
const SINGLE: usize = 300;
/// How many schedules there are, and how many objects are watched.
const MANY: usize = 10_000;
const IDLE: Duration = Duration::from_secs(10);
/// How long it may take until nothing happens any more.
const PATIENCE: Duration = Duration::from_mins(5);

/// When the function was called, by the name of the object that it was called for.
#[derive(Clone, Default)]
struct Calls(Arc<Mutex<Vec<(String, Instant)>>>);

impl Calls {
    fn function(&self) -> (String, Implementation) {
        let calls = self.clone();
        let answer = move |request: &RunFunctionRequest| {
            calls.0.lock().expect("nobody panics").push((name_of(request), Instant::now()));
            RunFunctionResponse::default()
        };
        (FUNCTION.to_owned(), Implementation::new(answer))
    }

    fn len(&self) -> usize {
        self.0.lock().expect("nobody panics").len()
    }

    fn take(&self) -> Vec<(String, Instant)> {
        std::mem::take(&mut self.0.lock().expect("nobody panics"))
    }

    /// Wait until there were so many.
    async fn wait_for(&self, count: usize) {
        let deadline = Instant::now() + PATIENCE;
        while self.len() < count {
            assert!(Instant::now() < deadline, "{} of {count} calls", self.len());
            tokio::time::sleep(Duration::from_micros(200)).await;
        }
    }
}

/// The name of the object that an operation was made for, or what its input says.
fn name_of(request: &RunFunctionRequest) -> String {
    let watched = request.required_resources.get(WATCHED).and_then(|found| found.items.first());
    let object = watched.and_then(|item| item.resource.as_ref()?.json().ok());
    let input = || request.input.as_ref().and_then(|input| input.json().ok());
    let name =
        object.map(|object| &object["metadata"]["name"]).or_else(|| input().map(|input| &input["name"]));
    name.and_then(Value::as_str).unwrap_or_default().to_owned()
}

pub(crate) fn run() {
    let runtime = Runtime::new().expect("there is a runtime");
    runtime.block_on(async {
        let directory = tempfile::tempdir().expect("there is room");
        let calls = Calls::default();
        let plane = Plane::start_calling(directory.path(), &Functions::built_in(), &[calls.function()]).await;
        one_by_one(&plane, &calls).await;
        many_schedules(&plane, &calls).await;
        many_changes(&plane, &calls).await;
        plane.stop().await;
    });
}

fn object(kind: &str, name: &str, spec: &Value) -> Value {
    json!({"apiVersion": "ops.crossplane.io/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec})
}

fn pipeline(name: &str) -> Value {
    let input = json!({"name": name});
    json!({"mode": "Pipeline", "pipeline": [{"step": "work", "functionRef": {"name": FUNCTION}, "input": input}]})
}

fn map(name: &str, labels: &Value, value: usize) -> Value {
    let metadata = json!({"name": name, "labels": labels});
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"value": value.to_string()}})
}

fn watch(name: &str) -> Value {
    let selected = json!({"apiVersion": "v1", "kind": "ConfigMap", "namespace": "default", "matchLabels": {"watch": name}});
    object("WatchOperation", name, &json!({"watch": selected, "operationTemplate": {"spec": pipeline("")}}))
}

/// Print how long it took from each trigger to its call.
fn print_delays(what: &str, delays: Vec<Duration>) {
    let times = Times::from(delays);
    println!("| {what} | {} | {} | {} |", pretty(times.best()), pretty(times.p50()), pretty(times.p99()));
}

async fn one_by_one(plane: &Plane, calls: &Calls) {
    println!("| {SINGLE} triggers, one after the other | best | p50 | p99 |\n|---|---|---|---|");
    let mut delays = Vec::new();
    for number in 0..SINGLE {
        let name = format!("single-{number}");
        let before = Instant::now();
        plane.post(&format!("{OPS}/operations"), &object("Operation", &name, &pipeline(&name))).await;
        calls.wait_for(1).await;
        delays.push(calls.take()[0].1 - before);
    }
    print_delays("an Operation is created, to the first call", delays);
    plane.post(&format!("{OPS}/watchoperations"), &watch("few")).await;
    plane.until(&format!("{OPS}/watchoperations/few"), |it| it["status"]["conditions"].is_array()).await;
    let mut delays = Vec::new();
    for number in 0..SINGLE {
        let before = Instant::now();
        plane.post(MAPS, &map(&format!("few-{number}"), &json!({"watch": "few"}), 0)).await;
        calls.wait_for(1).await;
        delays.push(calls.take()[0].1 - before);
    }
    print_delays("an object is created that a WatchOperation selects, to the first call", delays);
}

/// Measure what nothing costs.
async fn idle() -> Duration {
    tokio::time::sleep(Duration::from_secs(2)).await;
    let processor = Stopwatch::start(UsageWho::RUSAGE_SELF);
    tokio::time::sleep(IDLE).await;
    processor.read()
}

async fn many_schedules(plane: &Plane, calls: &Calls) {
    let before = resident();
    // So that all of them are there before they are due, with some seconds in which nothing happens.
    let due = Timestamp::now().as_second() / 60 * 60 + 240;
    let (hour, minute) = (due / 3600 % 24, due / 60 % 60);
    let (started, user) = (Instant::now(), plane.user());
    for_all(MANY, move |number| {
        let user = user.clone();
        async move {
            let name = format!("cron-{number}");
            let spec = json!({
                "schedule": format!("{minute} {hour} * * *"), "operationTemplate": {"spec": pipeline(&name)},
            });
            user.post(&format!("{OPS}/cronoperations"), &object("CronOperation", &name, &spec)).await;
        }
    })
    .await;
    let made = started.elapsed();
    let left = due - Timestamp::now().as_second();
    assert!(left > 20, "creating all schedules took too long");
    let resting = idle().await;
    let processor = Stopwatch::start(UsageWho::RUSAGE_SELF);
    let left = Timestamp::from_second(due).expect("it is near").duration_since(Timestamp::now());
    tokio::time::sleep(Duration::try_from(left).unwrap_or_default()).await;
    let began_at = Instant::now();
    calls.wait_for(MANY).await;
    let took = began_at.elapsed();
    let resting_after = idle().await;
    let delays = calls.take().into_iter().map(|(_, at)| at.saturating_duration_since(began_at)).collect();
    println!("\n{MANY} CronOperations, created in {}, due in the same minute:\n", pretty(made));
    println!("| what | |\n|---|---|");
    println!("| CPU in {} s while none is due | {} |", IDLE.as_secs(), pretty(resting));
    println!("| all functions called after | {} |", pretty(took));
    println!("| CPU for all of them | {} |", pretty(processor.read()));
    println!("| CPU in {} s afterwards | {} |", IDLE.as_secs(), pretty(resting_after));
    println!("| memory before and after | {} MB, {} MB |", before / 1_000_000, resident() / 1_000_000);
    println!("\n| delay after the minute | best | p50 | p99 |\n|---|---|---|---|");
    print_delays("to the call of the function", delays);
}

async fn many_changes(plane: &Plane, calls: &Calls) {
    let user = plane.user();
    for_all(MANY, {
        let user = user.clone();
        move |number| {
            let user = user.clone();
            async move { user.post(MAPS, &map(&format!("many-{number}"), &json!({"watch": "many"}), 0)).await }
        }
    })
    .await;
    plane.post(&format!("{OPS}/watchoperations"), &watch("many")).await;
    calls.wait_for(MANY).await;
    let resting = idle().await;
    calls.take();
    let before = resident();
    let (processor, started) = (Stopwatch::start(UsageWho::RUSAGE_SELF), Instant::now());
    let changing = tokio::spawn(for_all(MANY, move |number| {
        let user = user.clone();
        async move {
            let path = format!("{MAPS}/many-{number}");
            let (code, answer) = user.send(Method::PATCH, &path, &json!({"data": {"value": "1"}})).await;
            assert_eq!(code, 200, "{answer}");
        }
    }));
    let others = others(plane, calls).await;
    changing.await.expect("all are changed");
    let changed = started.elapsed();
    calls.wait_for(MANY + others.len()).await;
    let took = started.elapsed();
    let resting_after = idle().await;
    let used = processor.read();
    let mut counts = HashMap::<_, usize>::new();
    for (name, _) in calls.take() {
        *counts.entry(name).or_default() += 1;
    }
    let handled = counts.iter().filter(|(name, _)| name.starts_with("many-"));
    let (objects, twice) =
        handled.fold((0, 0), |(objects, twice), (_, count)| (objects + 1, twice + usize::from(*count > 1)));
    println!("\nOne WatchOperation, {MANY} objects that all change at once:\n");
    println!("| what | |\n|---|---|");
    println!(
        "| CPU in {} s before and after | {}, {} |",
        IDLE.as_secs(),
        pretty(resting),
        pretty(resting_after)
    );
    println!(
        "| all objects changed after, all functions called after | {}, {} |",
        pretty(changed),
        pretty(took)
    );
    println!("| objects handled, of them more than once | {objects}, {twice} |");
    println!("| CPU for all of them, changes included | {} |", pretty(used));
    println!("| memory before and after | {} MB, {} MB |", before / 1_000_000, resident() / 1_000_000);
    println!("\n| other Operations meanwhile | best | p50 | p99 |\n|---|---|---|---|");
    print_delays("created, to the first call", others);
}

/// Create operations while others are busy. Returns how long each took to its first call.
async fn others(plane: &Plane, calls: &Calls) -> Vec<Duration> {
    let mut delays = Vec::new();
    for number in 0..50 {
        let name = format!("other-{number}");
        let before = Instant::now();
        plane.post(&format!("{OPS}/operations"), &object("Operation", &name, &pipeline(&name))).await;
        loop {
            let called = calls
                .0
                .lock()
                .expect("nobody panics")
                .iter()
                .rev()
                .find(|(it, _)| *it == name)
                .map(|it| it.1);
            if let Some(called) = called {
                delays.push(called - before);
                break;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    delays
}
