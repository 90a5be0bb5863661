//! What it costs to record: the same composite resources on planes that record and on planes that do not, in turns.

use std::time::{Duration, Instant};

use ferroplane_metrics::Exposition;
use ferroplane_recorder::Recorder;
use nix::sys::resource::UsageWho;
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

use super::CLIENTS;
use super::plane::{Functions, Plane, site};
use crate::measure::{Stopwatch, Times, pretty};

/// How many composite resources a plane gets, unless `FERROPLANE_BENCH_XRS` says otherwise.
const XRS: usize = 2_000;
/// How often both are measured.
const ROUNDS: usize = 5;
const RING: u64 = 64 << 20;
const SETTLING: Duration = Duration::from_millis(500);

/// What one plane cost.
struct Cost {
    processor: Duration,
    elapsed: Duration,
}

pub(crate) fn run() {
    let count =
        std::env::var("FERROPLANE_BENCH_XRS").ok().and_then(|count| count.parse().ok()).unwrap_or(XRS);
    let runtime = Runtime::new().expect("there is a runtime");
    let mut costs = [Vec::new(), Vec::new()];
    let mut report = String::new();
    for round in 0..ROUNDS {
        // Who comes first is not always the same.
        for is_on in [round % 2 == 0, round % 2 != 0] {
            let (cost, metrics) = runtime.block_on(measure(count, is_on));
            costs[usize::from(is_on)].push(cost);
            if is_on {
                report = metrics;
            }
        }
    }
    let count = u32::try_from(count).expect("it is small");
    let processor =
        |costs: &[Cost]| Times::from(costs.iter().map(|cost| cost.processor / count).collect::<Vec<_>>());
    let elapsed = |costs: &[Cost]| Times::from(costs.iter().map(|cost| cost.elapsed).collect::<Vec<_>>());
    let [without, with] = &costs;
    println!("{count} XRs on each of {ROUNDS} planes that record and {ROUNDS} that do not, in turns:\n");
    println!("| recorder | CPU per XR, best | p50 | ready per second, best |\n|---|---|---|---|");
    for (name, costs) in [("off", without), ("on", with)] {
        let rate = f64::from(count) / elapsed(costs).best().as_secs_f64();
        println!(
            "| {name} | {} | {} | {rate:.0} |",
            pretty(processor(costs).best()),
            pretty(processor(costs).p50())
        );
    }
    let ratio = |pick: fn(&Times) -> Duration| {
        pick(&processor(with)).as_secs_f64() / pick(&processor(without)).as_secs_f64()
    };
    println!("\non/off: {:.3} at best, {:.3} p50", ratio(Times::best), ratio(Times::p50));
    println!("\nof the last plane that records:\n{report}");
}

async fn measure(count: usize, is_on: bool) -> (Cost, String) {
    let directory = tempfile::tempdir().expect("there is room");
    let recorder = if is_on {
        Recorder::open(&directory.path().join("recordings"), RING, &[]).expect("there is room")
    } else {
        Recorder::off()
    };
    let functions = Functions::built_in();
    let plane = Plane::start_with(directory.path(), &functions, recorder.clone()).await;
    plane.define(&functions).await;
    let (processor, started) = (Stopwatch::start(UsageWho::RUSAGE_SELF), Instant::now());
    let mut clients = JoinSet::new();
    for client in 0..CLIENTS {
        let user = plane.user();
        clients.spawn(async move {
            for number in (client..count).step_by(CLIENTS) {
                user.make(&site(&format!("site-{number}"))).await;
            }
        });
    }
    clients.join_all().await;
    plane.ready(count).await;
    let elapsed = started.elapsed();
    // Who is ready may still be on its way to the recorder; and what waits there is part of the cost.
    tokio::time::sleep(SETTLING).await;
    recorder.stop();
    let cost = Cost { processor: processor.read(), elapsed };
    plane.stop().await;
    let mut page = Exposition::default();
    recorder.write_metrics(&mut page);
    let metrics = page.into_text();
    let lines = metrics.lines().filter(|line| !line.starts_with('#'));
    (cost, lines.collect::<Vec<_>>().join("\n"))
}
