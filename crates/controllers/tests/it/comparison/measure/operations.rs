//! What operations cost, with Crossplane and with our controllers, on the same API server and with the same function, which wants nothing:
//! operations that are created, objects that change, and schedules that are due. `cargo xtask compare --controllers --measure-operations 300`
//! prints the figures.

use std::time::{Duration, Instant};

use ferroplane_testkit::plane::{ApiServer, condition, master, send};
use http::Method;
use jiff::Timestamp;
use kube::Client;
use serde_json::{Value, json};

use super::{IDLE, SINGLE, Spent, count, count_of, for_all, get, load_average, resident, timed};
use crate::comparison::functions::Functions;
use crate::comparison::{Troupe, name};

const OPS: &str = "/apis/ops.crossplane.io/v1alpha1";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const FUNCTION: &str = "function-auto-ready";
/// How long anything may take.
const PATIENCE: Duration = Duration::from_mins(15);
/// How many seconds there are at least to create all schedules before they are due.
const LEAD: i64 = 90;
/// History that keeps everything, so that operations can be counted.
const EVERYTHING: u32 = 1_000_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn operations_are_measured() {
    let wanted = count("FERROPLANE_MEASURE_OPERATIONS");
    let (Some(count), false, None) = (wanted, name().is_empty(), std::env::var_os("FERROPLANE_LOAD")) else {
        return;
    };
    let ground = ApiServer::find().await;
    let client = ground.client(&master("user"));
    let mut functions = Functions::prepare();
    let troupe = Troupe::start(&ground, &functions).await;
    functions.install(&client).await;
    let_function_operate(&client).await;
    create_operation(&client, "first").await;
    until_all_succeeded(&client).await;

    let figures = Figures::of(&troupe, count).await;
    troupe.stop().await;
    figures.print(count);
}

/// What was measured. Times are those of the middle and of the last, or until half and until all were made.
struct Figures {
    one: Vec<Duration>,
    many: Vec<Duration>,
    spent: Spent,
    found: Vec<Duration>,
    change: Vec<Duration>,
    changes: Vec<Duration>,
    spent_on_changes: Spent,
    due: Vec<Duration>,
    /// In kB.
    memory: u64,
    idle: Spent,
}

impl Figures {
    async fn of(troupe: &Troupe, count: usize) -> Self {
        let one = timed("operation", SINGLE);
        let (many, spent) = spend(troupe, "operations", count);
        let found = timed("watch", count);
        let change = timed("change", SINGLE);
        let (changes, spent_on_changes) = spend(troupe, "changes", count);
        let due = timed("schedules", count);
        let memory = troupe.processes().iter().map(|process| resident(*process)).sum();
        tokio::time::sleep(Duration::from_secs(10)).await;
        let before = Spent::now(troupe);
        tokio::time::sleep(IDLE).await;
        let idle = Spent::now(troupe).since(&before);
        Self { one, many, spent, found, change, changes, spent_on_changes, due, memory, idle }
    }

    fn print(&self, count: usize) {
        let (side, number) = (name(), count_of(count));
        let per = |spent: &Spent| {
            let [ours, others] = [spent.controllers, spent.servers].map(|seconds| seconds * 1000.0 / number);
            format!("CPU for each {ours:.2} ms, API server and etcd {others:.1} ms")
        };
        let Self { one, many, spent, found, change, changes, spent_on_changes, due, memory, idle } = self;
        let per_second = number / many[0].as_secs_f64();
        println!("{side}: created to succeeded, one after the other: p50 {:?}, worst {:?}", one[0], one[1]);
        println!("{side}: {count} Operations at once: {per_second:.1} succeeded/s; {}", per(spent));
        println!(
            "{side}: changed to operation, one after the other: p50 {:?}, worst {:?}",
            change[0], change[1]
        );
        let cost = per(spent_on_changes);
        println!(
            "{side}: {count} objects changed at once: half {:?}, all {:?}; {cost}",
            changes[0], changes[1]
        );
        println!("{side}: objects that there were: half {:?}, all {:?}", found[0], found[1]);
        println!("{side}: {count} schedules due at once: half {:?}, all {:?}", due[0], due[1]);
        println!(
            "{side}: {} MB; in {} s of rest {:.2} CPU-s; load {}",
            memory / 1024,
            IDLE.as_secs(),
            idle.controllers,
            load_average(),
        );
    }
}

/// What a load took, and what it cost until all operations had ended.
fn spend(troupe: &Troupe, how: &str, count: usize) -> (Vec<Duration>, Spent) {
    let before = Spent::now(troupe);
    let took = timed(how, count);
    (took, Spent::now(troupe).since(&before))
}

/// Its package declares compositions alone, but it answers operations, too.
async fn let_function_operate(client: &Client) {
    let path = format!("/apis/pkg.crossplane.io/v1/functionrevisions/{FUNCTION}-1/status");
    let change = json!({"status": {"capabilities": ["composition", "operation"]}});
    let (code, answer) = send(client, Method::PATCH, &path, "application/merge-patch+json", &change).await;
    assert_eq!(code, 200, "{answer}");
}

/// Do one of these, in a process of its own. Returns the times of [`Figures`].
pub(super) async fn load(how: &str, client: &Client, count: usize) -> Vec<Duration> {
    match how {
        "operation" => one_by_one(client, count).await,
        "operations" => many(client, count).await,
        "watch" => watch(client, count).await,
        "change" => change_one_by_one(client, count).await,
        "changes" => change_many(client, count).await,
        "schedules" => schedules(client, count).await,
        _ => panic!("nobody knows how to make {how}"),
    }
}

async fn one_by_one(client: &Client, count: usize) -> Vec<Duration> {
    let mut times = Vec::new();
    for number in 0..count {
        let (started, name) = (Instant::now(), format!("single-{number}"));
        create_operation(client, &name).await;
        while !has_succeeded(&get(client, &format!("{OPS}/operations/{name}")).await) {
            tokio::time::sleep(Duration::from_millis(3)).await;
        }
        times.push(started.elapsed());
    }
    middle_and_worst(times)
}

async fn many(client: &Client, count: usize) -> Vec<Duration> {
    let (started, user) = (Instant::now(), client.clone());
    for_all(count, move |number| {
        let user = user.clone();
        async move { create_operation(&user, &format!("many-{number}")).await }
    })
    .await;
    until_all_succeeded(client).await;
    vec![started.elapsed()]
}

/// Objects, and then a watch of them. Some are for changes one after the other.
async fn watch(client: &Client, count: usize) -> Vec<Duration> {
    let (all, user) = (SINGLE + count, client.clone());
    for_all(all, move |number| {
        let user = user.clone();
        async move {
            let metadata = json!({"name": format!("watched-{number}"), "labels": {"is": "watched"}});
            let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"value": "0"}});
            create(&user, MAPS, &map).await;
        }
    })
    .await;
    let selected = json!({"apiVersion": "v1", "kind": "ConfigMap", "matchLabels": {"is": "watched"}});
    let template = json!({"spec": pipeline("watched")});
    let spec =
        json!({"watch": selected, "successfulHistoryLimit": EVERYTHING, "operationTemplate": template});
    let (before, started) = (operations(client).await, Instant::now());
    create(client, &format!("{OPS}/watchoperations"), &object("WatchOperation", "watch", &spec)).await;
    let took = until_made(client, before + all, started, all).await;
    until_all_succeeded(client).await;
    took
}

async fn change_one_by_one(client: &Client, count: usize) -> Vec<Duration> {
    let mut times = Vec::new();
    for number in 0..count {
        let (before, started) = (operations(client).await, Instant::now());
        change(client, number).await;
        until_made(client, before + 1, started, 1).await;
        times.push(started.elapsed());
        // What this one takes is not time of the next.
        until_all_succeeded(client).await;
    }
    middle_and_worst(times)
}

async fn change_many(client: &Client, count: usize) -> Vec<Duration> {
    let (before, started, user) = (operations(client).await, Instant::now(), client.clone());
    for_all(count, move |number| {
        let user = user.clone();
        async move { change(&user, SINGLE + number).await }
    })
    .await;
    let took = until_made(client, before + count, started, count).await;
    until_all_succeeded(client).await;
    took
}

/// Schedules that are due in the same minute, once a day.
async fn schedules(client: &Client, count: usize) -> Vec<Duration> {
    let due = (Timestamp::now().as_second() + LEAD + 59) / 60 * 60;
    let schedule = format!("CRON_TZ=UTC {} {} * * *", due / 60 % 60, due / 3600 % 24);
    let user = client.clone();
    for_all(count, move |number| {
        let (user, name) = (user.clone(), format!("cron-{number}"));
        let template = json!({"spec": pipeline(&name)});
        let spec = json!({"schedule": schedule, "operationTemplate": template});
        async move {
            create(&user, &format!("{OPS}/cronoperations"), &object("CronOperation", &name, &spec)).await;
        }
    })
    .await;
    let before = operations(client).await;
    let left = Timestamp::from_second(due).unwrap().duration_since(Timestamp::now());
    tokio::time::sleep(left.try_into().expect("all are created before they are due")).await;
    let took = until_made(client, before + count, Instant::now(), count).await;
    until_all_succeeded(client).await;
    took
}

fn middle_and_worst(mut times: Vec<Duration>) -> Vec<Duration> {
    times.sort();
    vec![times[times.len() / 2], times[times.len() - 1]]
}

fn object(kind: &str, name: &str, spec: &Value) -> Value {
    json!({"apiVersion": "ops.crossplane.io/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec})
}

/// The input is what makes requests differ: an answer to another request could be taken from the cache.
fn pipeline(name: &str) -> Value {
    let input = json!({"apiVersion": "measure.example.org/v1", "kind": "Input", "name": name});
    json!({"mode": "Pipeline", "pipeline": [{"step": "work", "functionRef": {"name": FUNCTION}, "input": input}]})
}

async fn create_operation(client: &Client, name: &str) {
    create(client, &format!("{OPS}/operations"), &object("Operation", name, &pipeline(name))).await;
}

async fn create(client: &Client, path: &str, object: &Value) {
    let (code, answer) = send(client, Method::POST, path, "application/json", object).await;
    assert_eq!(code, 201, "{answer}");
}

async fn change(client: &Client, number: usize) {
    let path = format!("{MAPS}/watched-{number}");
    let change = json!({"data": {"value": "1"}});
    let (code, answer) = send(client, Method::PATCH, &path, "application/merge-patch+json", &change).await;
    assert_eq!(code, 200, "{answer}");
}

/// How many operations there are. The API server counts what a page leaves out.
async fn operations(client: &Client) -> usize {
    let page = get(client, &format!("{OPS}/operations?limit=1")).await;
    let (listed, left_out) = (&page["items"], &page["metadata"]["remainingItemCount"]);
    let is_last = page["metadata"]["continue"].as_str().unwrap_or_default().is_empty();
    assert!(is_last || left_out.is_u64(), "it does not count: {page}");
    listed.as_array().map_or(0, Vec::len) + usize::try_from(left_out.as_u64().unwrap_or_default()).unwrap()
}

/// Wait until there are so many operations, of which `new` are new. Returns how long it took until half of those and until all were made.
async fn until_made(client: &Client, wanted: usize, started: Instant, new: usize) -> Vec<Duration> {
    let mut half = None;
    loop {
        let (there, took) = (operations(client).await, started.elapsed());
        if there >= wanted - new / 2 {
            half = half.or(Some(took));
        }
        if let Some(half) = half.filter(|_| there >= wanted) {
            return vec![half, took];
        }
        assert!(took < PATIENCE, "there are {there} operations, and not {wanted}");
        tokio::time::sleep(Duration::from_millis(3)).await;
    }
}

async fn until_all_succeeded(client: &Client) {
    let started = Instant::now();
    loop {
        let list = get(client, &format!("{OPS}/operations")).await;
        let items = list["items"].as_array().unwrap();
        if items.iter().all(has_succeeded) {
            return;
        }
        assert!(started.elapsed() < PATIENCE, "some operations do not succeed");
        tokio::time::sleep(Duration::from_millis(250)).await;
    }
}

fn has_succeeded(operation: &Value) -> bool {
    condition(operation, "Succeeded").as_deref() == Some("True/PipelineSuccess")
}
