//! `ActionSet`s on the embedded plane, all in this process: three phases with the API server alone from create to complete, and thousands that wait.
//! Everything durable.

use std::time::{Duration, Instant};

use http::Method;
use nix::sys::resource::UsageWho;
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::composition::plane::{Functions, Plane};
use crate::measure::{Stopwatch, Times, for_all, pretty, resident};

const BLUEPRINTS: &str = "/apis/cr.kanister.io/v1alpha1/namespaces/default/blueprints";
const ACTION_SETS: &str = "/apis/cr.kanister.io/v1alpha1/namespaces/default/actionsets";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";
/// How many run one after the other.
const SINGLE: usize = 300;
/// How many wait at the same time.
const WAITING: usize = 5_000;
const IDLE: Duration = Duration::from_secs(10);

pub(crate) fn run() {
    let runtime = Runtime::new().expect("there is a runtime");
    runtime.block_on(async {
        let directory = tempfile::tempdir().expect("there is room");
        let plane = Plane::start_calling(directory.path(), &Functions::built_in(), &[]).await;
        one_by_one(&plane).await;
        waiting(&plane).await;
        plane.stop().await;
    });
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
    let user = plane.user();
    user.send(Method::PATCH, &format!("{MAPS}/gate"), &json!({"data": {"open": "no"}})).await;
    plane.post(BLUEPRINTS, &blueprint("waiting", &json!([wait("{{ eq .data.open \"yes\" }}")]))).await;
    let (before, started) = (resident(), Instant::now());
    let maker = user.clone();
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
    tokio::time::sleep(Duration::from_secs(5)).await;
    let stored = size_of_one(plane).await;
    let each = resident().saturating_sub(before) / WAITING;
    let processor = Stopwatch::start(UsageWho::RUSAGE_SELF);
    tokio::time::sleep(IDLE).await;
    let resting = processor.read();
    let (processor, started) = (Stopwatch::start(UsageWho::RUSAGE_SELF), Instant::now());
    user.send(Method::PATCH, &format!("{MAPS}/gate"), &json!({"data": {"open": "yes"}})).await;
    for number in 0..WAITING {
        complete(plane, &format!("waiting-{number}")).await;
    }
    println!("\n{WAITING} ActionSets that wait for one object:\n\n| what | |\n|---|---|");
    println!("| all created and waiting after | {} |", pretty(made));
    println!("| CPU in {} s while they wait | {} |", IDLE.as_secs(), pretty(resting));
    println!("| memory for each, and the size of the stored object | {each} bytes, {stored} bytes |");
    println!("| all complete after the object has changed | {} |", pretty(started.elapsed()));
    println!("| CPU for that | {} |", pretty(processor.read()));
}

async fn size_of_one(plane: &Plane) -> usize {
    let (_, found) = plane.user().send(Method::GET, &format!("{ACTION_SETS}/waiting-0"), &Value::Null).await;
    found.to_string().len()
}
