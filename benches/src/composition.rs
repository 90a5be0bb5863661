//! Composite resources on the embedded plane, all in this process: how fast they become ready, what they cost when nothing
//! happens, and after a restart. Three `ConfigMap`s each, two steps, everything durable.

pub(crate) mod plane;
pub(crate) mod recorded;
mod served;

use std::path::Path;
use std::time::{Duration, Instant};

use nix::sys::resource::UsageWho;
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

use crate::measure::{Stopwatch, Times, pretty, resident};
use plane::{Functions, Plane, site};
use served::Served;

/// How many are made one after the other, and how many at once.
const SINGLE: usize = 200;
const CLIENTS: usize = 32;
const IDLE: Duration = Duration::from_secs(10);
/// How many there are at each look.
const SIZES: [usize; 3] = [1_000, 10_000, 100_000];

pub(crate) fn run() {
    let runtime = Runtime::new().expect("there is a runtime");
    println!("Functions that are built in:\n");
    runtime.block_on(compare_sizes(&Functions::built_in(), &SIZES));
}

/// The same, with a template in place of patches.
pub(crate) fn run_templates() {
    let runtime = Runtime::new().expect("there is a runtime");
    println!("\nComposite resources with a step of function-go-templating:\n");
    runtime.block_on(compare_sizes(&Functions::templates(), &SIZES[..2]));
}

/// The same, with functions that are programs of their own.
pub(crate) fn run_served() {
    let Some(served) = Served::start() else {
        println!("(skipped: functions that are not built in; `cargo xtask test` installs them)");
        return;
    };
    let runtime = Runtime::new().expect("there is a runtime");
    println!("The original functions, in Go, over mutual TLS:\n");
    runtime.block_on(compare_sizes(&served.functions(), &SIZES[..1]));
}

async fn compare_sizes(functions: &Functions, sizes: &[usize]) {
    let directory = tempfile::tempdir().expect("there is room");
    let plane = Plane::start(directory.path(), functions).await;
    plane.define(functions).await;
    one_by_one(&plane).await;
    println!(
        "\n| XRs | ready per second | CPU per XR | memory | idle CPU in {} s | idle writes |",
        IDLE.as_secs()
    );
    println!("|---|---|---|---|---|---|");
    let mut made = SINGLE;
    for size in sizes {
        many(&plane, made, *size).await;
        made = *size;
    }
    let plane = restart(plane, directory.path(), functions, made).await;
    plane.stop().await;
}

async fn one_by_one(plane: &Plane) {
    let mut times = Vec::new();
    for number in 0..SINGLE {
        let name = format!("site-{number}");
        let before = Instant::now();
        plane.user().make(&site(&name)).await;
        plane.ready(number + 1).await;
        times.push(plane.ready_since(&name) - before);
    }
    let times = Times::from(times);
    println!("| one after the other | best | p50 | p99 |\n|---|---|---|---|");
    println!(
        "| create to Ready | {} | {} | {} |",
        pretty(times.best()),
        pretty(times.p50()),
        pretty(times.p99())
    );
}

async fn many(plane: &Plane, made: usize, wanted: usize) {
    let processor = Stopwatch::start(UsageWho::RUSAGE_SELF);
    let started = Instant::now();
    let mut clients = JoinSet::new();
    for client in 0..CLIENTS {
        let user = plane.user();
        clients.spawn(async move {
            for number in (made + client..wanted).step_by(CLIENTS) {
                user.make(&site(&format!("site-{number}"))).await;
            }
        });
    }
    clients.join_all().await;
    plane.ready(wanted).await;
    let (elapsed, used) = (started.elapsed(), processor.read());
    let count = u32::try_from(wanted - made).expect("it is small");
    tokio::time::sleep(Duration::from_secs(2)).await;
    let (revision, idle) = (plane.revision().await, Stopwatch::start(UsageWho::RUSAGE_SELF));
    tokio::time::sleep(IDLE).await;
    let idle = idle.read();
    println!(
        "| {wanted} | {:.0} | {} | {} MB | {} | {} |",
        f64::from(count) / elapsed.as_secs_f64(),
        pretty(used / count),
        resident() / 1_000_000,
        pretty(idle),
        plane.revision().await - revision,
    );
}

/// Start again with everything that is there, and see what that costs.
async fn restart(plane: Plane, directory: &Path, functions: &Functions, count: usize) -> Plane {
    plane.stop().await;
    let processor = Stopwatch::start(UsageWho::RUSAGE_SELF);
    let started = Instant::now();
    let plane = Plane::start(directory, functions).await;
    let up = started.elapsed();
    let revision = plane.revision().await;
    let mut used = processor.read();
    // It is done when the processor has nothing to do.
    loop {
        tokio::time::sleep(Duration::from_millis(500)).await;
        let now = processor.read();
        if now.saturating_sub(used) < Duration::from_millis(20) {
            break;
        }
        used = now;
    }
    println!(
        "\nrestart with {count} XRs: up after {}, {} CPU until nothing happens, {} writes, {} MB",
        pretty(up),
        pretty(used),
        plane.revision().await - revision,
        resident() / 1_000_000,
    );
    plane
}
