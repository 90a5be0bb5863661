//! `ActionSet`s on the embedded plane, all in this process: three phases with the API server alone from create to complete, and thousands that wait.
//! Everything durable.

mod stored;

use std::path::Path;
use std::time::{Duration, Instant};

use http::Method;
use nix::sys::resource::UsageWho;
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::composition::plane::{Functions, Plane};
use crate::measure::{Stopwatch, ThreadTimes, Times, at_rest, for_all, pretty, resident, settle};
use stored::Footprint;
pub(crate) use stored::plays_a_part;

const BLUEPRINTS: &str = "/apis/cr.kanister.io/v1alpha1/namespaces/default/blueprints";
const ACTION_SETS: &str = "/apis/cr.kanister.io/v1alpha1/namespaces/default/actionsets";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const EVENTS: &str = "/api/v1/namespaces/default/events";
/// How many run one after the other.
const SINGLE: usize = 300;
/// How many wait at the same time.
const WAITING: usize = 5_000;
const IDLE: Duration = Duration::from_secs(10);

pub(crate) fn run() {
    let runtime = Runtime::new().expect("there is a runtime");
    runtime.block_on(async {
        // First, so that nothing that was there before is taken for memory that they do not need.
        let directory = tempfile::tempdir().expect("there is room");
        let plane = start(directory.path()).await;
        waiting(&plane).await;
        plane.stop().await;
        let directory = tempfile::tempdir().expect("there is room");
        let plane = start(directory.path()).await;
        one_by_one(&plane).await;
        plane.stop().await;
    });
}

async fn start(directory: &Path) -> Plane {
    Plane::start_calling(directory, &Functions::built_in(), &[]).await
}

fn blueprint(name: &str, phases: &Value) -> Value {
    json!({
        "apiVersion": "cr.kanister.io/v1alpha1", "kind": "Blueprint", "metadata": {"name": name},
        "actions": {"backup": {"phases": phases}},
    })
}

fn action_set(name: &str, blueprint: &str) -> Value {
    json!({
        "apiVersion": "cr.kanister.io/v1alpha1", "kind": "ActionSet", "metadata": {"name": name},
        "spec": {"actions": [{"name": "backup", "blueprint": blueprint, "options": {"name": name}}]},
    })
}

/// A map whose name an option has.
fn map_text() -> String {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "{{ .Options.name }}", "namespace": "default"},
        "data": {"k": "v"},
    })
    .to_string()
}

fn wait(condition: &str) -> Value {
    let gate = json!({"apiVersion": "v1", "resource": "configmaps", "name": "gate", "namespace": "default"});
    let any = json!([{"condition": condition, "objectReference": gate}]);
    json!({"func": "WaitV2", "name": "wait", "args": {"timeout": "1h", "conditions": {"anyOf": any}}})
}

/// Create, wait for what holds already, delete.
fn three_phases() -> Value {
    let reference = json!({
        "apiVersion": "v1", "group": "", "resource": "configmaps", "name": "{{ .Options.name }}", "namespace": "default",
    });
    json!([
        {"func": "KubeOps", "name": "create", "args": {"operation": "create", "spec": map_text()}},
        wait("{{ eq .data.open \"yes\" }}"),
        {"func": "KubeOps", "name": "delete", "args": {"operation": "delete", "objectReference": reference}},
    ])
}

fn gate(open: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "gate"}, "data": {"open": open}})
}

async fn one_by_one(plane: &Plane) {
    plane.post(MAPS, &gate("yes")).await;
    plane.post(BLUEPRINTS, &blueprint("three", &three_phases())).await;
    let mut taken = Vec::new();
    for number in 0..SINGLE {
        let name = format!("single-{number}");
        let before = Instant::now();
        plane.post(ACTION_SETS, &action_set(&name, "three")).await;
        complete(plane, &name).await;
        taken.push(before.elapsed());
    }
    let times = Times::from(taken);
    println!(
        "| {SINGLE} ActionSets of three phases, one after the other | best | p50 | p99 |\n|---|---|---|---|"
    );
    println!(
        "| create to complete | {} | {} | {} |",
        pretty(times.best()),
        pretty(times.p50()),
        pretty(times.p99())
    );
}

/// Wait until an `ActionSet` is complete. Asking is part of what is measured, so it is asked often.
async fn complete(plane: &Plane, name: &str) {
    let path = format!("{ACTION_SETS}/{name}");
    loop {
        let (_, found) = plane.user().send(Method::GET, &path, &Value::Null).await;
        match found["status"]["state"].as_str() {
            Some("complete") => return,
            Some("failed") => panic!("{}", found["status"]["error"]),
            _ => tokio::time::sleep(Duration::from_micros(500)).await,
        }
    }
}

async fn waiting(plane: &Plane) {
    plane.post(MAPS, &gate("no")).await;
    plane.post(BLUEPRINTS, &blueprint("waiting", &json!([wait("{{ eq .data.open \"yes\" }}")]))).await;
    // What the first one makes (compiled schemas, parsed templates, threads) is there once, however many follow.
    plane.post(ACTION_SETS, &action_set("first", "waiting")).await;
    plane.until(&format!("{ACTION_SETS}/first"), |it| it["status"]["state"] == "running").await;
    settle().await;
    let (before, written, started) = (resident(), revision(plane).await, Instant::now());
    let maker = plane.user();
    for_all(WAITING, move |number| {
        let user = maker.clone();
        async move { user.post(ACTION_SETS, &action_set(&format!("waiting-{number}"), "waiting")).await }
    })
    .await;
    for number in 0..WAITING {
        let path = format!("{ACTION_SETS}/waiting-{number}");
        plane.until(&path, |it| it["status"]["state"] == "running").await;
    }
    let made = started.elapsed();
    settle().await;
    let memory = resident().saturating_sub(before) / WAITING;
    let threads = ThreadTimes::read();
    let resting = at_rest(IDLE).await;
    let busy = ThreadTimes::read().since(&threads);
    let footprint = footprint(plane, revision(plane).await - written).await;
    println!("{WAITING} ActionSets that wait for one object:\n\n| what | |\n|---|---|");
    println!("| all created and waiting after | {} |", pretty(made));
    tell_rest(footprint, memory, resting);
    println!("| CPU while they wait, by thread | {busy} |");
    woken(plane).await;
}

/// Print what it costs that they wait, beside what storing as much costs.
fn tell_rest(footprint: Footprint, memory: usize, processor: Duration) {
    let Footprint { stored, writes, events, .. } = footprint;
    let plain = stored::measure(footprint);
    let seconds = IDLE.as_secs();
    println!("| CPU in {seconds} s while they wait | {} |", pretty(processor));
    println!("| CPU in {seconds} s with as many plain objects | {} |", pretty(plain.processor));
    println!("| size of the stored object, writes of it, Events | {stored} bytes, {writes}, {events} |");
    println!("| memory for each | {memory} bytes |");
    println!("| memory for plain objects, as many, as large and written as often | {} bytes |", plain.memory);
    println!("| memory for each beside what is stored | {} bytes |", memory.saturating_sub(plain.memory));
}

/// Let all of them go on.
async fn woken(plane: &Plane) {
    let (processor, started) = (Stopwatch::start(UsageWho::RUSAGE_SELF), Instant::now());
    let (code, answer) =
        plane.user().send(Method::PATCH, &format!("{MAPS}/gate"), &json!({"data": {"open": "yes"}})).await;
    assert_eq!(code, 200, "{answer}");
    for number in 0..WAITING {
        complete(plane, &format!("waiting-{number}")).await;
    }
    println!("| all complete after the object has changed | {} |", pretty(started.elapsed()));
    println!("| CPU for that | {} |\n", pretty(processor.read()));
}

/// What one of them has stored, of so many writes of all.
async fn footprint(plane: &Plane, writes: u64) -> Footprint {
    let user = plane.user();
    let (_, found) = user.send(Method::GET, &format!("{ACTION_SETS}/waiting-0"), &Value::Null).await;
    let mut created = found.clone();
    if let Some(created) = created.as_object_mut() {
        created.remove("status");
    }
    let (_, list) = user.send(Method::GET, EVENTS, &Value::Null).await;
    let sizes: Vec<_> =
        list["items"].as_array().into_iter().flatten().map(|it| it.to_string().len()).collect();
    // The plane writes some of its own; and when there are too many Events, some are lost.
    let events = sizes.len().div_ceil(WAITING);
    let all = usize::try_from(writes).unwrap_or(usize::MAX) / WAITING;
    Footprint {
        created: created.to_string().len(),
        stored: found.to_string().len(),
        writes: all.saturating_sub(sizes.len() / WAITING).max(1),
        events,
        event: sizes.iter().sum::<usize>() / (events * WAITING).max(1),
    }
}

/// How much has been written.
async fn revision(plane: &Plane) -> u64 {
    let (_, list) = plane.user().send(Method::GET, &format!("{MAPS}?limit=1"), &Value::Null).await;
    let revision = list["metadata"]["resourceVersion"].as_str();
    revision.and_then(|revision| revision.parse().ok()).unwrap_or_default()
}
