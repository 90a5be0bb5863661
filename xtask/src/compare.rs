//! `cargo xtask compare`: what we do, beside what Crossplane does.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use crate::oracle::Oracle;
use crate::peers;
use crate::shell::{cargo, step};

/// What to compare, and how much.
#[derive(Debug, clap::Args)]
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
}

impl Compare {
    pub(crate) fn run(self, root: &Path) -> Result<()> {
        peers::ensure(true)?;
        if self.controllers { self.compare_controllers(root) } else { self.compare_render(root) }
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
        // First, or the servers wait for the compiler.
        let mut build = vec!["test", "--package", "ferroplane-controllers", "--test", "it"];
        if self.measure.is_some() {
            build.push("--profile=dist");
        }
        cargo(root, &build).arg("--no-run").run()?;
        let source = crossplane_source(root)?;
        let directory = peers::directory().with_file_name("comparison");
        std::fs::create_dir_all(&directory)
            .with_context(|| format!("cannot create {}", directory.display()))?;
        let test = |name: &str, side: &str| {
            let mut command: Vec<OsString> = vec!["env".into()];
            command.push(variable("FERROPLANE_COMPARE", &directory));
            command.push(variable("FERROPLANE_COMPARE_SIDE", Path::new(side)));
            command.push(variable("FERROPLANE_PEERS", &peers::directory()));
            command.push(variable("FERROPLANE_CROSSPLANE_SOURCE", &source));
            if let Some(chapters) = &self.chapters {
                command.push(variable("FERROPLANE_COMPARE_CHAPTERS", Path::new(chapters)));
            }
            if let Some(count) = self.measure {
                command.push(variable("FERROPLANE_MEASURE", Path::new(&count.to_string())));
            }
            command.push(env::var_os("CARGO").unwrap_or("cargo".into()));
            command.extend(build.iter().map(OsString::from));
            command.extend(["--quiet", "--", "--nocapture", name].map(OsString::from));
            command
        };
        let play = match self.measure {
            Some(_) => "comparison::measure::composing_is_measured",
            None => "comparison::chapters_are_played",
        };
        for side in ["crossplane", "ferroplane"] {
            step(side, || Oracle::beside(test(play, side)).run(root))?;
        }
        if self.measure.is_some() {
            return Ok(());
        }
        let verdict = test("comparison::both_sides_end_the_same_way", "");
        step("compare", || run(root, &verdict))
    }
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
