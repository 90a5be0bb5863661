//! What nothing costs, and how much memory something takes at most.

use std::time::{Duration, Instant};

use crate::measure::{at_rest, resident};

/// How long an idle process is measured.
pub(super) const IDLE: Duration = Duration::from_secs(5);
/// A process that uses less than this in a window has come to rest.
const WINDOW: Duration = Duration::from_millis(500);
const NEARLY_NOTHING: Duration = Duration::from_millis(10);
/// How long to wait for that. A machine is never quite still.
pub(super) const LONGEST_WAIT: Duration = Duration::from_secs(20);

/// Wait until the process has come to rest, and measure what it costs then.
pub(super) async fn idle() -> Duration {
    let deadline = Instant::now() + LONGEST_WAIT;
    loop {
        if at_rest(WINDOW).await < NEARLY_NOTHING || Instant::now() >= deadline {
            break;
        }
    }
    at_rest(IDLE).await
}

/// The most memory that this process takes from now on. The kernel keeps the number: a task that looks again and again would be part
/// of what an idle process costs.
#[derive(Debug)]
pub(super) struct PeakMemory {
    before: usize,
}

impl PeakMemory {
    pub(super) fn follow() -> Self {
        // Documented in proc(5): from here on, `VmHWM` counts anew.
        std::fs::write("/proc/self/clear_refs", "5").expect("a process may reset its own peak");
        Self { before: resident() }
    }

    /// A row of a table: before, at most, and now.
    pub(super) fn print(&self) {
        let [before, most, now] = [self.before, peak(), resident()].map(|bytes| bytes / 1_000_000);
        println!("| memory before, at most, after | {before} MB, {most} MB, {now} MB |");
    }
}

/// The high-water mark of the resident memory, in bytes.
fn peak() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").expect("there is a /proc");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("the kernel counts it");
    let kilobytes = line.trim().trim_end_matches(" kB").parse::<usize>().expect("it is a number");
    kilobytes * 1024
}
