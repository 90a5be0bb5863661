//! Triggers one after the other: how long it takes from each to the first call of its function.

use std::time::{Duration, Instant};

use http::Method;
use serde_json::Value;

use super::calls::{Call, Calls};
use super::{MAPS, OPS, cron, map, object, pipeline, print_delays, watch};
use crate::composition::plane::Plane;

/// How many triggers are timed one after the other.
const SINGLE: usize = 300;
/// How many schedules are due every second, and how many of their calls are timed.
const SCHEDULES: usize = 10;
const SCHEDULED: usize = 100;
/// The same of a schedule that is due alone.
const SCHEDULED_ALONE: usize = 30;

pub(super) async fn measure(plane: &Plane, calls: &Calls) {
    println!("| trigger, to the first call | calls | best | p50 | p99 |\n|---|---|---|---|---|");
    print_delays("an Operation is created", operations(plane, calls).await);
    print_delays("an object is created that a WatchOperation selects", objects(plane, calls).await);
    let alone = seconds(plane, calls, 1, SCHEDULED_ALONE).await;
    print_delays("the second comes for which one CronOperation is scheduled", alone);
    let together = seconds(plane, calls, SCHEDULES, SCHEDULED).await;
    print_delays(&format!("the second comes for which {SCHEDULES} CronOperations are scheduled"), together);
}

async fn operations(plane: &Plane, calls: &Calls) -> Vec<Duration> {
    let mut delays = Vec::new();
    for number in 0..SINGLE {
        let name = format!("single-{number}");
        let before = Instant::now();
        plane.post(&format!("{OPS}/operations"), &object("Operation", &name, &pipeline(&name))).await;
        delays.push(first(calls).await.at - before);
    }
    delays
}

async fn objects(plane: &Plane, calls: &Calls) -> Vec<Duration> {
    plane.post(&format!("{OPS}/watchoperations"), &watch("few")).await;
    plane.until(&format!("{OPS}/watchoperations/few"), |it| it["status"]["conditions"].is_array()).await;
    let mut delays = Vec::new();
    for number in 0..SINGLE {
        let before = Instant::now();
        plane.post(MAPS, &map(&format!("few-{number}"), "few")).await;
        delays.push(first(calls).await.at - before);
    }
    delays
}

/// Wait for the next call.
async fn first(calls: &Calls) -> Call {
    calls.wait_for(1).await;
    calls.take().swap_remove(0)
}

/// Create schedules that are due every second, until so many calls were made.
async fn seconds(plane: &Plane, calls: &Calls, schedules: usize, count: usize) -> Vec<Duration> {
    let name = |number: usize| format!("every-{schedules}-{number}");
    for number in 0..schedules {
        plane.post(&format!("{OPS}/cronoperations"), &cron(&name(number), "@every 1s")).await;
    }
    calls.wait_for(count).await;
    let user = plane.user();
    for number in 0..schedules {
        let path = format!("{OPS}/cronoperations/{}", name(number));
        let (code, answer) = user.send(Method::DELETE, &path, &Value::Null).await;
        assert_eq!(code, 200, "{answer}");
    }
    // Each is due at a full second.
    let delay =
        |call: Call| Duration::from_nanos(u64::try_from(call.time.subsec_nanosecond()).unwrap_or_default());
    calls.take().into_iter().map(delay).collect()
}
