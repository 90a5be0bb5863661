//! Many schedules: what they cost while none is due, and how long it takes when all are due in the same minute, while other work continues.

use std::time::{Duration, Instant};

use jiff::Timestamp;
use nix::sys::resource::UsageWho;

use super::calls::{Calls, handled, last};
use super::idle::{IDLE, LONGEST_WAIT, PeakMemory, idle};
use super::others::{composites, others};
use super::{MANY, OPS, cron, print_delays};
use crate::composition::plane::Plane;
use crate::measure::{Stopwatch, for_all, pretty};

/// How many schedules are created first, to learn how long all of them take. They are never due.
const SAMPLE: usize = 500;
const PREFIX: &str = "cron-";

pub(super) async fn measure(plane: &Plane, calls: &Calls) {
    let without = idle().await;
    // What is left of measurements before.
    calls.take();
    let sampled = create(plane, "sample", SAMPLE, "0 0 31 12 *".to_owned()).await;
    let due = due_after(sampled);
    let (hour, minute) = (due / 3600 % 24, due / 60 % 60);
    let created = create(plane, "cron", MANY, format!("{minute} {hour} * * *")).await;
    let with = idle().await;
    assert!(Timestamp::now().as_second() < due, "creating all schedules took too long: {}", pretty(created));
    let left = Timestamp::from_second(due).expect("it is near").duration_since(Timestamp::now());
    // The schedules are there already: what they take is part of the memory before.
    let memory = PeakMemory::follow();
    tokio::time::sleep(Duration::try_from(left).unwrap_or_default()).await;
    let (processor, began_at) = (Stopwatch::start(UsageWho::RUSAGE_SELF), Instant::now());
    let mut ready = Vec::new();
    let others = tokio::select! {
        others = others(plane, calls, "beside-schedules") => others,
        never = composites(plane, &mut ready) => match never {},
    };
    let afterwards = idle().await;
    let used = processor.read();
    let calls = calls.take();
    let took = last(&calls, PREFIX).map(|at| at.saturating_duration_since(began_at)).unwrap_or_default();
    let (due, twice) = handled(&calls, PREFIX);
    println!("\n{MANY} CronOperations, created in {}, due in the same minute:\n", pretty(created));
    println!("| what | |\n|---|---|");
    let seconds = IDLE.as_secs();
    println!("| CPU in {seconds} s without them | {} |", pretty(without));
    println!("| CPU in {seconds} s while none is due | {} |", pretty(with));
    println!("| all functions called after | {} |", pretty(took));
    println!("| schedules handled, of them more than once | {due}, {twice} |");
    println!("| CPU for all of them, other work included | {} |", pretty(used));
    println!("| CPU in {seconds} s afterwards | {} |", pretty(afterwards));
    memory.print();
    println!("\n| delay after the minute | calls | best | p50 | p99 |\n|---|---|---|---|---|");
    let scheduled = calls.iter().filter(|call| call.name.starts_with(PREFIX));
    let delays = scheduled.map(|call| call.at.saturating_duration_since(began_at)).collect();
    print_delays("to the call of the function", delays);
    println!("\n| other work meanwhile | count | best | p50 | p99 |\n|---|---|---|---|---|");
    print_delays("an Operation created, to the first call", others);
    print_delays("a composite resource created, to ready", ready);
}

/// The next minute, in seconds since 1970, before which all schedules can be created and be at rest for a while.
fn due_after(sampled: Duration) -> i64 {
    let times = u32::try_from(MANY / SAMPLE).unwrap_or(u32::MAX);
    // Half as long again, for the time that a machine takes now and then.
    let lead = sampled * times * 3 / 2 + LONGEST_WAIT + IDLE;
    let earliest = Timestamp::now().as_second() + i64::try_from(lead.as_secs()).unwrap_or_default();
    (earliest + 59) / 60 * 60
}

/// Create so many schedules. Returns how long that took.
async fn create(plane: &Plane, prefix: &'static str, count: usize, schedule: String) -> Duration {
    let (started, user) = (Instant::now(), plane.user());
    for_all(count, move |number| {
        let (user, schedule) = (user.clone(), schedule.clone());
        async move {
            let cron = cron(&format!("{prefix}-{number}"), &schedule);
            user.post(&format!("{OPS}/cronoperations"), &cron).await;
        }
    })
    .await;
    started.elapsed()
}
