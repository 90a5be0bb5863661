//! Many renders in one process.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::resource::UsageWho;
use serde_json::json;

use crate::functions::{composition, xr};
use crate::measure::{Stopwatch, Times, pretty};
use crate::process::ferroplane;

const XRS: u32 = 2000;
const ROUNDS: u32 = 5;

pub(crate) fn run() {
    println!("{XRS} XRs in one process, 3 built-in steps, 20 composed resources each, printed as JSON\n");
    println!("| what | best | p50 | per second at p50 | processor per render |\n|---|---|---|---|---|");
    let directory = tempfile::tempdir().expect("there is room");
    let xrs: Vec<_> = (0..XRS)
        .map(|number| {
            let mut xr = xr();
            xr["metadata"] = json!({"name": format!("store-{number}"), "namespace": "team-a"});
            format!("---\n{xr}\n")
        })
        .collect();
    std::fs::write(directory.path().join("xrs.yaml"), xrs.concat()).expect("there is room");
    std::fs::write(directory.path().join("composition.yaml"), composition().to_string())
        .expect("there is room");

    let mut times = Vec::new();
    let stopwatch = Stopwatch::start(UsageWho::RUSAGE_CHILDREN);
    for _ in 0..ROUNDS {
        let started = Instant::now();
        let status = Command::new(ferroplane())
            .args(["render", "xrs.yaml", "composition.yaml", "--output", "json"])
            .current_dir(directory.path())
            .stdout(Stdio::null())
            .status()
            .expect("the program is there");
        assert!(status.success());
        times.push(started.elapsed());
    }
    let processor = stopwatch.read() / (XRS * ROUNDS);
    let times = Times::from(times);
    let per_second = |time: Duration| f64::from(XRS) / time.as_secs_f64();
    println!(
        "| ferroplane render | {} | {} | {:.0} | {} |",
        pretty(times.best()),
        pretty(times.p50()),
        per_second(times.p50()),
        pretty(processor)
    );
}
