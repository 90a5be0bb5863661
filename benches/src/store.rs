//! The store against the disk it stands on: what one durable write costs, what many cost together, how soon watchers know, and
//! how much memory an object takes.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use ferroplane_apiserver::store::{Collection, Draft, Expect, Operation, Options, Store, Watcher, Window};
use serde_json::{Map, Value, json};
use tokio::runtime::Runtime;
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinSet;

use crate::measure::{Times, pretty, ratio};

const COLLECTION: &str = "example.org/things";
/// Asks this program to open a store and say what that took, in a process of its own.
const CHILD: &str = "FERROPLANE_BENCH_STORE";
/// How many events it should remember.
const EVENTS: &str = "FERROPLANE_BENCH_EVENTS";

pub(crate) fn run() {
    if let Some(directory) = std::env::var_os(CHILD) {
        return open_and_tell(directory.as_ref());
    }
    let runtime = Runtime::new().expect("tokio starts");
    let directory = tempfile::tempdir().expect("there is room");
    println!("An object has {} bytes.\n", draft(0).size());
    one_writer(&runtime, directory.path());
    many_writers(&runtime, directory.path());
    delivery(&runtime, directory.path());
    size(&runtime, directory.path());
}

/// An object of 1 KiB, with the metadata that custom resources have.
fn object(number: usize) -> Map<String, Value> {
    let name = format!("thing-{number:08}");
    let object = json!({
        "apiVersion": "example.org/v1",
        "kind": "Thing",
        "metadata": {
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "generation": 1,
            "labels": {"app.kubernetes.io/name": "thing", "example.org/owner": format!("owner-{}", number % 100)},
            "name": name,
            "namespace": "default",
            "ownerReferences": [{
                "apiVersion": "example.org/v1", "kind": "Owner", "name": "owner", "controller": true,
                "uid": format!("00000000-0000-4000-8000-{:012x}", number % 100),
            }],
            "uid": format!("00000000-0000-4000-9000-{number:012x}"),
        },
        "spec": {"number": number, "text": "x".repeat(541)},
    });
    let Value::Object(object) = object else { unreachable!("it is written above") };
    object
}

fn draft(number: usize) -> Draft {
    Draft::new(&object(number)).expect("it has metadata")
}

fn create(collection: &Collection, number: usize) -> Operation {
    Operation::create(collection.key("default", &format!("thing-{number:08}")), draft(number))
}

fn open(directory: &Path) -> (Store, Collection) {
    let store = Store::open(directory, Options::default()).expect("it is not locked");
    let collection = store.collection(COLLECTION);
    (store, collection)
}

fn one_writer(runtime: &Runtime, directory: &Path) {
    let (store, collection) = open(&directory.join("one"));
    let raw = directory.join("raw");
    let mut file = OpenOptions::new().create(true).append(true).open(raw).expect("there is room");
    let bytes = draft(0).at(1);
    let (mut plain, mut stored) = (Vec::new(), Vec::new());
    // In turns, because the disk has moods.
    for round in 0..8 {
        for _ in 0..500 {
            let before = Instant::now();
            file.write_all(&bytes).and_then(|()| file.sync_data()).expect("there is room");
            plain.push(before.elapsed());
        }
        for number in 0..500 {
            let operations = vec![create(&collection, round * 500 + number)];
            let before = Instant::now();
            runtime.block_on(store.submit(operations)).expect("there is room");
            stored.push(before.elapsed());
        }
    }
    runtime.block_on(store.close());
    let (plain, stored) = (Times::from(plain), Times::from(stored));
    println!("| one writer, {} each | best | p50 | p99 | p50 against raw |", plain.count());
    println!("|---|---|---|---|---|");
    for (name, times) in [("append + fdatasync", &plain), ("store", &stored)] {
        let against = ratio(times.p50(), plain.p50());
        println!(
            "| {name} | {} | {} | {} | {against} |",
            pretty(times.best()),
            pretty(times.p50()),
            pretty(times.p99())
        );
    }
}

fn many_writers(runtime: &Runtime, directory: &Path) {
    println!("\n| writers | creates/s | p50 | p99 |\n|---|---|---|---|");
    for writers in [1, 8, 64, 256] {
        let (store, collection) = open(&directory.join(format!("many-{writers}")));
        let started = Instant::now();
        let times = runtime.block_on(async {
            let mut running = JoinSet::new();
            for writer in 0..writers {
                running.spawn(write_for(store.clone(), collection.clone(), writer, Duration::from_secs(3)));
            }
            running.join_all().await
        });
        let elapsed = started.elapsed();
        runtime.block_on(store.close());
        let times = Times::from(times.concat());
        let each = elapsed / u32::try_from(times.count()).unwrap_or(u32::MAX);
        let rate = 1.0 / each.as_secs_f64();
        println!("| {writers} | {rate:.0} | {} | {} |", pretty(times.p50()), pretty(times.p99()));
    }
}

async fn write_for(store: Store, collection: Collection, writer: usize, budget: Duration) -> Vec<Duration> {
    let started = Instant::now();
    let mut times = Vec::new();
    while started.elapsed() < budget {
        let operations = vec![create(&collection, writer * 1_000_000 + times.len())];
        let before = Instant::now();
        store.submit(operations).await.expect("there is room");
        times.push(before.elapsed());
    }
    times
}

fn delivery(runtime: &Runtime, directory: &Path) {
    println!("\n| watchers | first knows, p50 | p99 | all know, p50 | p99 |\n|---|---|---|---|---|");
    for watchers in [1, 100, 1000] {
        let (store, collection) = open(&directory.join(format!("delivery-{watchers}")));
        let (first, all) = runtime.block_on(deliver(&store, &collection, watchers));
        runtime.block_on(store.close());
        let figures = [first.p50(), first.p99(), all.p50(), all.p99()].map(pretty);
        println!("| {watchers} | {} |", figures.join(" | "));
    }
}

/// How long after a write was submitted the first watcher knows, and all do.
async fn deliver(store: &Store, collection: &Collection, watchers: usize) -> (Times, Times) {
    let told = Arc::new(AtomicUsize::new(0));
    let everyone = Arc::new(Notify::new());
    let (sender, mut receiver) = mpsc::unbounded_channel();
    let mut running = JoinSet::new();
    for _ in 0..watchers {
        let watcher = store.watch(collection, store.revision()).expect("this is the present");
        running.spawn(follow(watcher, watchers, told.clone(), everyone.clone(), sender.clone()));
    }
    let (mut first, mut all) = (Vec::new(), Vec::new());
    for number in 0..1000 {
        told.store(0, Ordering::SeqCst);
        let operations = vec![create(collection, number)];
        let before = Instant::now();
        store.submit(operations).await.expect("there is room");
        everyone.notified().await;
        all.push(before.elapsed());
        let at: Instant = receiver.recv().await.expect("the first has told");
        first.push(at - before);
    }
    running.shutdown().await;
    (Times::from(first), Times::from(all))
}

async fn follow(
    mut watcher: Watcher,
    watchers: usize,
    told: Arc<AtomicUsize>,
    everyone: Arc<Notify>,
    first: mpsc::UnboundedSender<Instant>,
) {
    while watcher.next().await.is_ok() {
        let before = told.fetch_add(1, Ordering::SeqCst);
        if before == 0 {
            let _ = first.send(Instant::now());
        }
        if before + 1 == watchers {
            everyone.notify_one();
        }
    }
}

fn size(runtime: &Runtime, directory: &Path) {
    println!("\n| objects | history | open | list all | memory per object | of its JSON |");
    println!("|---|---|---|---|---|---|");
    for objects in [10_000, 100_000] {
        let directory = directory.join(format!("size-{objects}"));
        runtime.block_on(fill(&directory, objects));
        for events in [objects, 0] {
            let program = std::env::current_exe().expect("it runs");
            let mut again = Command::new(program);
            again.arg("store").env(CHILD, &directory).env(EVENTS, events.to_string());
            let output = again.output().expect("it runs again");
            let output = String::from_utf8_lossy(&output.stdout);
            println!("| {objects} | {events} | {} |", output.lines().last().unwrap_or_default());
        }
    }
}

async fn fill(directory: &Path, objects: usize) {
    let (store, collection) = open(directory);
    for start in (0..objects).step_by(500) {
        let operations = (start..start + 500).map(|number| create(&collection, number));
        let operations = operations.map(|operation| Operation { expect: Expect::Any, ..operation }).collect();
        store.submit(operations).await.expect("there is room");
    }
    store.close().await;
}

/// In a process of its own: open a store, list it, and print what that took.
fn open_and_tell(directory: &Path) {
    let events = std::env::var(EVENTS).ok().and_then(|events| events.parse().ok()).unwrap_or(0);
    let window = Window { events, ..Window::default() };
    let before = resident();
    let started = Instant::now();
    let store = Store::open(directory, Options { window, ..Options::default() }).expect("it is not locked");
    let opened = started.elapsed();
    let started = Instant::now();
    let snapshot = store.snapshot(&store.collection(COLLECTION));
    let bodies: Vec<_> = snapshot.iter().map(|entry| entry.bytes().clone()).collect();
    let listed = started.elapsed();
    let count = bodies.len();
    drop(bodies);
    let each = resident().saturating_sub(before) / count;
    let percent = each * 100 / draft(0).at(100_000).len();
    println!("{} | {} | {each} B | {percent} %", pretty(opened), pretty(listed));
}

/// How many bytes of memory this process has.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap_or_default();
    let kilobytes: usize = line.split_whitespace().nth(1).and_then(|number| number.parse().ok()).unwrap_or(0);
    kilobytes * 1024
}
