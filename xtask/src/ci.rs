//! `cargo xtask ci`: everything that has to hold before a change lands, stage by stage.
//!
//! # Invariants
//! * The run ends with a table of all stages, whether it passes or not.
//! * Every stage that compiles selects the whole workspace with all features. Any other selection gives some dependency other
//!   features, and cargo then compiles that dependency, and everything above it, once more.

mod table;

use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, Instant};
use std::{env, mem};

use anyhow::{Context as _, Result, bail};

use crate::shell::cargo;
use crate::{dist, fuzz, lint, test, tidy};
use table::{Cost, Table};

/// One stage of the run.
struct Stage {
    name: &'static str,
    work: Work,
    /// The chore in the background that has to end before this stage begins.
    after: Option<&'static str>,
    /// Whether the stage is left out of a run that has taken long already.
    only_if_time_is_left: bool,
}

/// After this time a run begins no stage that can be left out. The goal of a run on a bare machine with two cores is 40 minutes, and with such
/// a stage it may take longer.
const LEAVES_OUT_AFTER: Duration = Duration::from_mins(30);

enum Work {
    /// Ends before the next stage begins. Returns what it skipped.
    Now(fn(&Path) -> Result<Skipped>),
    /// A chore of this program, which runs beside the stages that follow.
    Beside { chore: &'static str, priority: Priority },
}

/// How a chore in the background shares the processors with the stages.
#[derive(Debug, Clone, Copy)]
enum Priority {
    /// Like the stages.
    Normal,
    /// It gets what the stages leave.
    Lowest,
}

/// What a stage left out, and why.
pub(crate) type Skipped = Vec<String>;

/// In this order. What fails often and quickly comes first.
const STAGES: &[Stage] = &[
    // What the tests are built with comes first.
    Stage::beside("guests", "guests --examples --if-possible"),
    Stage::beside("peers", "peers"),
    Stage::now("format", |root| done(cargo(root, &["fmt", "--all", "--check"]).run())),
    Stage::now("clippy", clippy),
    Stage::now("tidy", |root| done(tidy::run(root))),
    // Not at once: two builds of Go and Rust keep two cores busy.
    Stage::beside("checkers", "checkers"),
    Stage::now("documentation", |root| done(lint::documentation(root))),
    Stage::now("build tests", |root| done(test::build(root))).after("guests"),
    Stage::now("spelling", |root| done(lint::spelling(root))).after("checkers"),
    Stage::now("unused dependencies", |root| done(lint::unused_dependencies(root))),
    Stage::now("licences and sources", lint::dependencies),
    Stage::now("bill of materials", |root| done(dist::describe(root))),
    // Tests wait for programs, disks and clocks, and leave almost half of two cores idle.
    Stage::beside_if_idle("simulation", "simulate"),
    Stage::now("test", |root| test::run(root, false)).after("peers"),
    Stage::now("fuzz targets", |root| done(fuzz::check(root))).only_if_time_is_left(),
    Stage::now("test on Kubernetes", test::run_on_kubernetes_if_there).only_if_time_is_left(),
];

/// Run all stages, up to the first that fails.
pub(crate) fn run(root: &Path) -> Result<()> {
    let mut run = Run { root, table: Table::new(), background: Vec::new() };
    let result = run.stages();
    run.table.print();
    result
}

impl Stage {
    const fn now(name: &'static str, work: fn(&Path) -> Result<Skipped>) -> Self {
        Self { name, work: Work::Now(work), after: None, only_if_time_is_left: false }
    }

    const fn beside(name: &'static str, chore: &'static str) -> Self {
        let work = Work::Beside { chore, priority: Priority::Normal };
        Self { name, work, after: None, only_if_time_is_left: false }
    }

    const fn beside_if_idle(name: &'static str, chore: &'static str) -> Self {
        let work = Work::Beside { chore, priority: Priority::Lowest };
        Self { name, work, after: None, only_if_time_is_left: false }
    }

    const fn after(mut self, name: &'static str) -> Self {
        self.after = Some(name);
        self
    }

    const fn only_if_time_is_left(mut self) -> Self {
        self.only_if_time_is_left = true;
        self
    }
}

/// A run, as far as it has come.
struct Run<'a> {
    root: &'a Path,
    table: Table,
    background: Vec<Background>,
}

/// A chore that runs beside the stages.
struct Background {
    name: &'static str,
    child: Child,
    started: Instant,
}

impl Run<'_> {
    fn stages(&mut self) -> Result<()> {
        let mut outcome = Ok(());
        for stage in STAGES {
            match outcome {
                Ok(()) => {
                    outcome = self.stage(stage).with_context(|| format!("stage `{}` failed", stage.name));
                }
                Err(_) => self.table.not_run(stage.name),
            }
        }
        // Also after a failure: what they have made is there for the next run.
        for background in mem::take(&mut self.background) {
            let ended = self.wait(background);
            outcome = outcome.and(ended);
        }
        outcome
    }

    fn stage(&mut self, stage: &Stage) -> Result<()> {
        while let Some(at) =
            self.background.iter().position(|background| Some(background.name) == stage.after)
        {
            let background = self.background.remove(at);
            self.wait(background)?;
        }
        if stage.only_if_time_is_left && self.table.elapsed() > LEAVES_OUT_AFTER {
            self.table.left_out(stage.name);
            return Ok(());
        }
        eprintln!("=== {}", stage.name);
        let started = Instant::now();
        let work = match stage.work {
            Work::Now(work) => work,
            Work::Beside { chore, priority } => {
                let child = spawn(chore, priority)?;
                self.background.push(Background { name: stage.name, child, started });
                return Ok(());
            }
        };
        let (result, cost) = Cost::of(|| work(self.root));
        match &result {
            Ok(skipped) => self.table.done(stage.name, cost, skipped),
            Err(_) => self.table.failed(stage.name, cost),
        }
        result.map(drop)
    }

    /// Wait for a chore in the background. A process is charged for its children when it waits for them: what is charged
    /// here is what this chore has cost.
    fn wait(&mut self, mut background: Background) -> Result<()> {
        let name = background.name;
        let (status, cost) = Cost::of(|| background.child.wait());
        let cost = Cost { wall: background.started.elapsed(), ..cost };
        let name_in_table = format!("{name} (beside)");
        let status = status.with_context(|| format!("cannot wait for stage `{name}`"))?;
        if status.success() {
            self.table.done(&name_in_table, cost, &[]);
            return Ok(());
        }
        self.table.failed(&name_in_table, cost);
        bail!("stage `{name}` failed: {status}")
    }
}

/// Start a chore of this program.
fn spawn(chore: &str, priority: Priority) -> Result<Child> {
    let program = env::current_exe().context("cannot find this program")?;
    let mut command = match priority {
        Priority::Normal => Command::new(program),
        Priority::Lowest => {
            let mut nice = Command::new("nice");
            nice.args(["-n", "19"]).arg(program);
            nice
        }
    };
    command.args(chore.split(' ')).spawn().with_context(|| format!("cannot start the chore `{chore}`"))
}

fn clippy(root: &Path) -> Result<Skipped> {
    let arguments =
        ["clippy", "--workspace", "--all-targets", "--all-features", "--quiet", "--", "-Dwarnings"];
    done(cargo(root, &arguments).run())
}

/// A stage that skips nothing.
fn done(result: Result<()>) -> Result<Skipped> {
    result.map(|()| Vec::new())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stage_waits_only_for_a_chore_that_was_started_before() {
        for (at, stage) in STAGES.iter().enumerate() {
            let Some(awaited) = stage.after else { continue };
            let is_chore = |other: &Stage| other.name == awaited && matches!(other.work, Work::Beside { .. });
            assert!(STAGES[..at].iter().any(is_chore), "{} waits for {awaited}", stage.name);
        }
    }
}
