//! A watch over many objects that all change at once, while other operations continue.

use std::time::{Duration, Instant};

use http::Method;
use nix::sys::resource::UsageWho;
use serde_json::json;
use tokio::task::JoinHandle;

use super::calls::{Calls, handled, last};
use super::idle::{IDLE, PeakMemory, idle};
use super::others::others;
use super::{MANY, MAPS, OPS, map, print_delays, watch};
use crate::composition::plane::{Plane, User};
use crate::measure::{Stopwatch, for_all, pretty};

const PREFIX: &str = "many-";

pub(super) async fn measure(plane: &Plane, calls: &Calls) {
    let created = create(plane).await;
    let started = Instant::now();
    plane.post(&format!("{OPS}/watchoperations"), &watch("many")).await;
    calls.wait_for(MANY).await;
    let listed = started.elapsed();
    let before = idle().await;
    calls.take();
    let memory = PeakMemory::follow();
    let (processor, started) = (Stopwatch::start(UsageWho::RUSAGE_SELF), Instant::now());
    let changing = change_all(plane.user());
    let others = others(plane, calls, "beside-changes").await;
    let changed = changing.await.expect("all are changed");
    let after = idle().await;
    let used = processor.read();
    let calls = calls.take();
    let (objects, twice) = handled(&calls, PREFIX);
    println!(
        "\nOne WatchOperation over {MANY} objects, created in {}, that all change at once:\n",
        pretty(created)
    );
    println!("| what | |\n|---|---|");
    println!("| the WatchOperation created, to the calls for all objects that exist | {} |", pretty(listed));
    println!("| CPU in {} s before and after | {}, {} |", IDLE.as_secs(), pretty(before), pretty(after));
    let took = last(&calls, PREFIX).map(|at| at.duration_since(started)).unwrap_or_default();
    println!(
        "| all objects changed after, all functions called after | {}, {} |",
        pretty(changed),
        pretty(took)
    );
    println!("| objects handled, of them more than once | {objects}, {twice} |");
    println!("| CPU for all of them, changes included | {} |", pretty(used));
    memory.print();
    println!("\n| other Operations meanwhile | calls | best | p50 | p99 |\n|---|---|---|---|---|");
    print_delays("created, to the first call", others);
}

/// Create all objects. Returns how long that took.
async fn create(plane: &Plane) -> Duration {
    let (started, user) = (Instant::now(), plane.user());
    for_all(MANY, move |number| {
        let user = user.clone();
        async move { user.post(MAPS, &map(&format!("{PREFIX}{number}"), "many")).await }
    })
    .await;
    started.elapsed()
}

/// Change all objects. Returns how long that took.
fn change_all(user: User) -> JoinHandle<Duration> {
    tokio::spawn(async move {
        let started = Instant::now();
        for_all(MANY, move |number| {
            let user = user.clone();
            async move {
                let path = format!("{MAPS}/{PREFIX}{number}");
                let (code, answer) = user.send(Method::PATCH, &path, &json!({"data": {"value": "1"}})).await;
                assert_eq!(code, 200, "{answer}");
            }
        })
        .await;
        started.elapsed()
    })
}
