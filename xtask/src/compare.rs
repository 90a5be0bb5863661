//! `cargo xtask compare`: what we do, beside what Crossplane and Kanister do.

mod packages;

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use crate::oracle::Oracle;
use crate::peers;
use crate::shell::{cargo, step};
use crate::suite::Suite;
use crate::test::CONTROLLERS;

/// What to compare, and how much.
#[derive(Debug, clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "flags are what they are")]
pub(crate) struct Compare {
    /// How many cases
    #[arg(long, default_value_t = 1000)]
    cases: u32,
    /// Where the generator starts
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Run both beside a real API server instead, and compare what becomes of the same manifests (takes minutes)
    #[arg(long)]
    controllers: bool,
    /// Only these chapters, as in `claims,using`
    #[arg(long, requires = "controllers", value_name = "NAMES")]
    chapters: Option<String>,
    /// Measure instead, built as it is shipped, what so many composite resources cost
    #[arg(long, requires = "controllers", conflicts_with = "chapters", value_name = "XRS")]
    measure: Option<u32>,
    /// Measure instead, built as it is shipped, what so many operations, watched objects and schedules cost
    #[arg(long, requires = "controllers", conflicts_with_all = ["chapters", "measure"], value_name = "OPERATIONS")]
    measure_operations: Option<u32>,
    /// Install packages with both instead, hand a cluster over and back, and compare what becomes of them (takes minutes)
    #[arg(long, conflicts_with = "controllers")]
    packages: bool,
    /// Write the figures to docs/differences.md, too
    #[arg(long, requires = "packages")]
    write: bool,
    /// Run Kanister's controller and ours beside a real API server instead, and compare how the same ActionSets end
    #[arg(long, conflicts_with_all = ["controllers", "packages"])]
    actions: bool,
}

impl Compare {
    pub(crate) fn run(self, root: &Path) -> Result<()> {
        peers::ensure(true)?;
        if self.packages {
            packages::compare(root, self.write)
        } else if self.actions {
            compare_actions(root)
        } else if self.controllers {
            self.compare_controllers(root)
        } else {
            self.compare_render(root)
        }
    }

    fn compare_render(&self, root: &Path) -> Result<()> {
        cargo(
            root,
            &[
                "test",
                "--package",
                "ferroplane",
                "--test",
                "upstream",
                "--",
                "--nocapture",
                "--test-threads=1",
            ],
        )
        .env("FERROPLANE_PEERS", peers::directory())
        .env("FERROPLANE_REQUIRE_HEAVY_PEERS", "1")
        .env("FERROPLANE_CASES", self.cases.to_string())
        .env("FERROPLANE_SEED", self.seed.to_string())
        .run()
    }

    fn compare_controllers(&self, root: &Path) -> Result<()> {
        let measurement = self.measurement();
        // First, or the servers wait for the compiler.
        let program = match &measurement {
            Some(_) => build_as_shipped(root)?,
            None => TestProgram::from(Suite::build(root, CONTROLLERS)?),
        };
        let stage = Stage::prepare(root)?;
        let mut variables = Vec::new();
        if let Some(chapters) = &self.chapters {
            variables.push(variable("FERROPLANE_COMPARE_CHAPTERS", Path::new(chapters)));
        }
        if let Some(Measurement { variable: name, count, .. }) = &measurement {
            variables.push(variable(name, Path::new(&count.to_string())));
        }
        let test = |name: &str, side: &str| stage.test(&program, name, side, &variables);
        let play = measurement.as_ref().map_or("comparison::chapters_are_played", |it| it.test);
        for side in ["crossplane", "ferroplane"] {
            step(side, || Oracle::beside(test(play, side)).run(root))?;
        }
        if measurement.is_some() {
            return Ok(());
        }
        let verdict = test("comparison::both_sides_end_the_same_way", "");
        step("compare", || run(root, &verdict))
    }

    /// What is measured, if anything is.
    fn measurement(&self) -> Option<Measurement> {
        let composing = self.measure.map(|count| Measurement {
            test: "comparison::measure::composing_is_measured",
            variable: "FERROPLANE_MEASURE",
            count,
        });
        let operations = self.measure_operations.map(|count| Measurement {
            test: "comparison::measure::operations::operations_are_measured",
            variable: "FERROPLANE_MEASURE_OPERATIONS",
            count,
        });
        composing.or(operations)
    }
}

/// A test that measures instead of comparing, and with how many of what.
#[derive(Debug)]
struct Measurement {
    test: &'static str,
    variable: &'static str,
    count: u32,
}

/// Where both sides are recorded, and what Crossplane is installed from.
#[derive(Debug)]
struct Stage {
    directory: PathBuf,
    source: PathBuf,
}

impl Stage {
    fn prepare(root: &Path) -> Result<Self> {
        let source = crossplane_source(root)?;
        let directory = peers::directory().with_file_name("comparison");
        std::fs::create_dir_all(&directory)
            .with_context(|| format!("cannot create {}", directory.display()))?;
        Ok(Self { directory, source })
    }

    /// A command that runs one test of a program, for one side of the comparison.
    fn test(&self, program: &TestProgram, name: &str, side: &str, variables: &[OsString]) -> Vec<OsString> {
        let mut all = vec![
            variable("FERROPLANE_COMPARE", &self.directory),
            variable("FERROPLANE_COMPARE_SIDE", Path::new(side)),
            variable("FERROPLANE_PEERS", &peers::directory()),
            variable("FERROPLANE_CROSSPLANE_SOURCE", &self.source),
        ];
        all.extend_from_slice(variables);
        program.test(name, &all)
    }
}

/// A program of tests, and how it is started.
#[derive(Debug)]
struct TestProgram {
    directory: PathBuf,
    command: Vec<OsString>,
}

impl From<Suite> for TestProgram {
    fn from(Suite { executable, directory }: Suite) -> Self {
        Self { directory, command: vec![executable.into()] }
    }
}

impl TestProgram {
    /// A command that runs one test with these variables.
    fn test(&self, name: &str, variables: &[OsString]) -> Vec<OsString> {
        let mut command: Vec<OsString> = vec!["env".into(), "--chdir".into(), self.directory.clone().into()];
        command.extend_from_slice(variables);
        command.extend_from_slice(&self.command);
        command.extend(["--nocapture", name].map(OsString::from));
        command
    }
}

/// The tests of controllers, optimised as what is shipped is.
fn build_as_shipped(root: &Path) -> Result<TestProgram> {
    let build = ["test", "--package", "ferroplane-controllers", "--test", "it", "--profile=dist"];
    cargo(root, &build).arg("--no-run").run()?;
    let mut command = vec![env::var_os("CARGO").unwrap_or("cargo".into())];
    command.extend(build.iter().chain(&["--quiet", "--"]).map(OsString::from));
    Ok(TestProgram { directory: root.to_owned(), command })
}

/// Run ActionSets with Kanister's controller and with ours, beside one API server.
fn compare_actions(root: &Path) -> Result<()> {
    // First, or the servers wait for the compiler.
    let program = TestProgram::from(Suite::build(root, CONTROLLERS)?);
    let variables = [
        variable("FERROPLANE_COMPARE_ACTIONS", Path::new("1")),
        variable("FERROPLANE_PEERS", &peers::directory()),
    ];
    let command = program.test("kanister::action_sets_end_as_with_kanister", &variables);
    step("actions", || Oracle::beside(command).run(root))
}

fn variable(name: &str, value: &Path) -> OsString {
    let mut assignment = OsString::from(name);
    assignment.push("=");
    assignment.push(value);
    assignment
}

/// The sources that the peer was built from: they hold its definitions. Fetched if they are gone, since the peer may be older than Go's
/// cache of modules.
fn crossplane_source(root: &Path) -> Result<PathBuf> {
    let module = "github.com/crossplane/crossplane/v2";
    let mut command = Command::new("go");
    command.args(["mod", "download", "-json", module]);
    command.current_dir(root.join("tests/peers/oracles/crossplane"));
    let output = command.output().context("cannot run go")?;
    let answer: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    match answer["Dir"].as_str() {
        Some(path) if output.status.success() => Ok(path.into()),
        _ => {
            bail!("cannot find the sources of Crossplane: {}", String::from_utf8_lossy(&output.stderr).trim())
        }
    }
}

fn run(root: &Path, command: &[OsString]) -> Result<()> {
    let (program, arguments) = command.split_first().context("there is nothing to run")?;
    let status = Command::new(program).args(arguments).current_dir(root).status();
    let status = status.with_context(|| format!("cannot run {}", program.display()))?;
    if status.success() { Ok(()) } else { bail!("both sides differ") }
}
