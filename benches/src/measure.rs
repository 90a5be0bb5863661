//! Takes times, and prints them.

use std::hint::black_box;
use std::time::{Duration, Instant};

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike as _;

/// Many times the same thing took.
pub(crate) struct Times(Vec<Duration>);

impl Times {
    /// Take the time of something, over and over, for about this long.
    pub(crate) fn of<T>(budget: Duration, mut work: impl FnMut() -> T) -> Self {
        black_box(work());
        let started = Instant::now();
        let mut times = Vec::new();
        while started.elapsed() < budget || times.len() < 20 {
            let before = Instant::now();
            black_box(work());
            times.push(before.elapsed());
        }
        Self::from(times)
    }

    pub(crate) fn best(&self) -> Duration {
        self.0[0]
    }

    pub(crate) fn p50(&self) -> Duration {
        self.0[self.0.len() / 2]
    }

    pub(crate) fn p99(&self) -> Duration {
        self.0[self.0.len() * 99 / 100]
    }

    pub(crate) fn count(&self) -> usize {
        self.0.len()
    }
}

impl From<Vec<Duration>> for Times {
    fn from(mut times: Vec<Duration>) -> Self {
        times.sort_unstable();
        Self(times)
    }
}

/// Counts processor time from when it is made: of this process, or of all its children that have ended.
pub(crate) struct Stopwatch {
    who: UsageWho,
    started: Duration,
}

impl Stopwatch {
    pub(crate) fn start(who: UsageWho) -> Self {
        Self { who, started: processor_time(who) }
    }

    pub(crate) fn read(&self) -> Duration {
        processor_time(self.who).saturating_sub(self.started)
    }
}

fn processor_time(who: UsageWho) -> Duration {
    let usage = getrusage(who).expect("the system counts");
    let micros = usage.user_time().num_microseconds() + usage.system_time().num_microseconds();
    Duration::from_micros(u64::try_from(micros).unwrap_or_default())
}

/// A duration with three digits that matter.
pub(crate) fn pretty(duration: Duration) -> String {
    let micros = duration.as_secs_f64() * 1e6;
    match micros {
        micros if micros < 1000.0 => format!("{micros:.1} µs"),
        micros if micros < 1e6 => format!("{:.2} ms", micros / 1e3),
        micros => format!("{:.2} s", micros / 1e6),
    }
}

/// How many times `one` fits into `other`.
pub(crate) fn ratio(one: Duration, other: Duration) -> String {
    format!("{:.2}", one.as_secs_f64() / other.as_secs_f64())
}

/// What the figures were taken on.
pub(crate) fn describe_machine() {
    let cores = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split(' ').next().unwrap_or("?").to_owned();
    let commit = std::process::Command::new("git").args(["rev-parse", "--short", "HEAD"]).output();
    let commit =
        commit.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned()).unwrap_or_default();
    println!("{cores} cores, load {load} at the start, commit {commit}");
}
