//! Takes times, and prints them.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::time::{Duration, Instant};

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike as _;
use tokio::task::JoinSet;

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

/// Times, and what one run asked of the allocator.
pub(crate) struct Measured {
    times: Times,
    count: u64,
    bytes: u64,
}

impl Measured {
    /// Measures work, but neither what it is given nor throwing away what it gives.
    pub(crate) fn of<I, O>(
        budget: Duration,
        mut given: impl FnMut() -> I,
        mut work: impl FnMut(I) -> O,
    ) -> Self {
        let input = given();
        let (count, bytes) = allocations(|| work(input));
        let started = Instant::now();
        let mut times = Vec::new();
        while started.elapsed() < budget || times.len() < 20 {
            let input = given();
            let before = Instant::now();
            let output = black_box(work(black_box(input)));
            times.push(before.elapsed());
            drop(output);
        }
        Self { times: Times::from(times), count, bytes }
    }

    /// A row of a table under [`HEAD`], about an object of a size.
    pub(crate) fn print(&self, what: &str, size: usize) {
        #[expect(clippy::cast_precision_loss, reason = "sizes are small")]
        let ratio = self.bytes as f64 / size as f64;
        println!(
            "| {what} | {:.1} kB | {} | {} | {} | {ratio:.1} × |",
            f64::from(u32::try_from(size).unwrap_or(u32::MAX)) / 1000.0,
            pretty(self.times.best()),
            pretty(self.times.p50()),
            self.count
        );
    }
}

/// Allocated are the bytes asked for, as multiples of the size of the object; 0 if they were not counted.
pub(crate) const HEAD: &str =
    "| what | object | best | p50 | allocations | allocated |\n|---|---|---|---|---|---|";

/// How often the work asks for memory, and for how many bytes. Counting slows everything down, so it is done only if it
/// is asked for.
#[cfg(feature = "allocations")]
fn allocations<O>(work: impl FnOnce() -> O) -> (u64, u64) {
    let mut output = None;
    let info = allocation_counter::measure(|| output = Some(work()));
    drop(output);
    (info.count_total, info.bytes_total)
}

#[cfg(not(feature = "allocations"))]
fn allocations<O>(work: impl FnOnce() -> O) -> (u64, u64) {
    drop(work());
    (0, 0)
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

/// The runtime keeps threads that have nothing to do for ten seconds. The allocator learns then what they had kept for themselves, checks
/// every ten seconds whether pages can be returned, and returns those that were free for ten seconds.
pub(crate) async fn settle() {
    tokio::time::sleep(Duration::from_secs(45)).await;
}

/// What this process costs while nothing happens.
pub(crate) async fn at_rest(window: Duration) -> Duration {
    let processor = Stopwatch::start(UsageWho::RUSAGE_SELF);
    tokio::time::sleep(window).await;
    processor.read()
}

/// Which threads of this process need the processor, and for how long.
pub(crate) struct ThreadTimes(BTreeMap<String, Duration>);

impl ThreadTimes {
    /// From when they began.
    pub(crate) fn read() -> Self {
        let mut times = BTreeMap::<_, Duration>::new();
        for thread in std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten() {
            let read = |file: &str| std::fs::read_to_string(thread.path().join(file)).unwrap_or_default();
            let nanos = read("schedstat").split(' ').next().and_then(|text| text.parse::<u64>().ok());
            *times.entry(read("comm").trim().to_owned()).or_default() +=
                Duration::from_nanos(nanos.unwrap_or_default());
        }
        Self(times)
    }

    /// What was needed since these were read, by the names of threads.
    pub(crate) fn since(&self, before: &Self) -> String {
        let differences = self
            .0
            .iter()
            .map(|(name, time)| (name, time.saturating_sub(before.0.get(name).copied().unwrap_or_default())));
        let busy = differences.filter(|(_, time)| !time.is_zero());
        busy.map(|(name, time)| format!("{name} {}", pretty(time))).collect::<Vec<_>>().join(", ")
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

/// The resident memory of this process, in bytes.
pub(crate) fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    line.and_then(|line| line.split_ascii_whitespace().nth(1)?.parse::<usize>().ok()).unwrap_or_default()
        * 1024
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

/// How many clients do something at the same time.
const CLIENTS: usize = 32;

/// Do something for every number, with as many clients as there are.
pub(crate) async fn for_all<F>(count: usize, work: impl Fn(usize) -> F + Clone + Send + 'static)
where
    F: Future<Output = ()> + Send,
{
    let mut clients = JoinSet::new();
    for client in 0..CLIENTS {
        let work = work.clone();
        clients.spawn(async move {
            for number in (client..count).step_by(CLIENTS) {
                work(number).await;
            }
        });
    }
    clients.join_all().await;
}
