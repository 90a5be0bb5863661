//! The table that ends a run: what each stage cost, and what was skipped.

use std::fmt;
use std::time::{Duration, Instant, SystemTime};

use nix::sys::resource::{UsageWho, getrusage};

/// What something took: time on the wall, and time of processors, which is the same on a busy machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Cost {
    pub(super) wall: Duration,
    pub(super) cpu: Duration,
}

impl Cost {
    /// Do something, and say what it took.
    pub(super) fn of<T>(work: impl FnOnce() -> T) -> (T, Self) {
        let (started, before) = (Instant::now(), cpu_time());
        let result = work();
        (result, Self { wall: started.elapsed(), cpu: cpu_time().saturating_sub(before) })
    }
}

/// What this process and all children that it has waited for took.
fn cpu_time() -> Duration {
    let of = |who| {
        let Ok(usage) = getrusage(who) else { return Duration::ZERO };
        [usage.user_time(), usage.system_time()].into_iter().map(to_duration).sum()
    };
    of(UsageWho::RUSAGE_SELF) + of(UsageWho::RUSAGE_CHILDREN)
}

fn to_duration(time: nix::sys::time::TimeVal) -> Duration {
    let seconds = Duration::from_secs(time.tv_sec().unsigned_abs());
    seconds + Duration::from_micros(time.tv_usec().unsigned_abs())
}

/// The stages of a run.
#[derive(Debug)]
pub(super) struct Table {
    rows: Vec<Row>,
    started: Instant,
    /// What went by before this program began: cargo has built it in the same process.
    before: Cost,
}

#[derive(Debug)]
struct Row {
    name: String,
    verdict: Verdict,
}

#[derive(Debug)]
enum Verdict {
    Passed(Cost),
    Failed(Cost),
    NotRun,
    Skipped,
}

impl Table {
    /// A table whose first row is what it took to build this program.
    pub(super) fn new() -> Self {
        let before = Cost { wall: since_start_of_the_run(), cpu: cpu_time() };
        let mut table = Self { rows: Vec::new(), started: Instant::now(), before };
        table.done("build xtask", before, &[]);
        table
    }

    pub(super) fn done(&mut self, name: &str, cost: Cost, skipped: &[String]) {
        self.push(name, Verdict::Passed(cost));
        for reason in skipped {
            self.push(reason, Verdict::Skipped);
        }
    }

    pub(super) fn failed(&mut self, name: &str, cost: Cost) {
        self.push(name, Verdict::Failed(cost));
    }

    pub(super) fn not_run(&mut self, name: &str) {
        self.push(name, Verdict::NotRun);
    }

    /// Name a stage that was left out because the run has taken long already.
    pub(super) fn left_out(&mut self, name: &str) {
        self.push(&format!("{name}, because the run has taken long"), Verdict::Skipped);
    }

    /// How long the run has taken so far.
    pub(super) fn elapsed(&self) -> Duration {
        self.before.wall + self.started.elapsed()
    }

    pub(super) fn print(&self) {
        eprint!("\n{self}");
    }

    fn push(&mut self, name: &str, verdict: Verdict) {
        self.rows.push(Row { name: name.to_owned(), verdict });
    }
}

impl fmt::Display for Table {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(out, "{:<26} {:>8} {:>8}", "Stage", "Wall", "CPU")?;
        for Row { name, verdict } in &self.rows {
            match verdict {
                Verdict::Passed(cost) => write_cost(out, name, *cost, "")?,
                Verdict::Failed(cost) => write_cost(out, name, *cost, "  failed")?,
                Verdict::NotRun => writeln!(out, "{name:<26} not run")?,
                Verdict::Skipped => writeln!(out, "  skipped: {name}")?,
            }
        }
        let spent = self.rows.iter().filter_map(|row| match row.verdict {
            Verdict::Passed(cost) | Verdict::Failed(cost) => Some(cost.cpu),
            Verdict::NotRun | Verdict::Skipped => None,
        });
        write_cost(out, "all", Cost { wall: self.elapsed(), cpu: spent.sum() }, "")
    }
}

fn write_cost(out: &mut fmt::Formatter<'_>, name: &str, cost: Cost, remark: &str) -> fmt::Result {
    writeln!(out, "{name:<26} {:>8} {:>8}{remark}", in_words(cost.wall), in_words(cost.cpu))
}

fn in_words(duration: Duration) -> String {
    let seconds = duration.as_secs();
    format!("{}:{:02}", seconds / 60, seconds % 60)
}

/// How long ago `.ci/run` was started, if it was.
fn since_start_of_the_run() -> Duration {
    let started = std::env::var("FERROPLANE_CI_STARTED").ok().and_then(|text| text.parse().ok());
    let started = started.map(|seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds));
    started.and_then(|started| started.elapsed().ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_says_what_passed_failed_was_skipped_and_did_not_run() {
        let seconds = |wall, cpu| Cost { wall: Duration::from_secs(wall), cpu: Duration::from_secs(cpu) };
        let mut table = Table { rows: Vec::new(), started: Instant::now(), before: seconds(0, 0) };
        table.done("clippy", seconds(61, 119), &["advisories: there is no database".to_owned()]);
        table.failed("test", seconds(5, 9));
        table.not_run("simulate");
        table.left_out("test on Kubernetes");
        let expected = "\
Stage                          Wall      CPU
clippy                         1:01     1:59
  skipped: advisories: there is no database
test                           0:05     0:09  failed
simulate                   not run
  skipped: test on Kubernetes, because the run has taken long
all                            0:00     2:08
";
        assert_eq!(table.to_string(), expected);
    }

    #[test]
    fn work_of_a_child_is_charged_to_who_waits_for_it() {
        let busy = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done";
        let ((), cost) = Cost::of(|| {
            let status = std::process::Command::new("sh").args(["-c", busy]).status().unwrap();
            assert!(status.success());
        });
        assert!(cost.cpu > Duration::from_millis(5), "{cost:?}");
    }
}
