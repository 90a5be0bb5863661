//! The tests, and the chores that are single tests made long: simulations, masses, kills.

use std::ffi::OsString;
use std::path::Path;

use anyhow::Result;

use crate::ci::Skipped;
use crate::oracle::Oracle;
use crate::peers;
use crate::suite::{Suite, cargo_test};

/// How many seeds are simulated before a change lands: a few minutes' worth on two cores.
pub(crate) const SEEDS: u64 = 1000;

const CONTROLLERS: &str = "crates/controllers";
const CLI: &str = "crates/cli";
const API_SERVER: &str = "crates/apiserver";

/// Compile the tests, and run none.
pub(crate) fn build(root: &Path) -> Result<()> {
    cargo_test(root).arg("--no-run").run()
}

/// Set up what the tests need, and run them all. Returns what was skipped.
pub(crate) fn run(root: &Path, heavy: bool) -> Result<Skipped> {
    peers::ensure(heavy)?;
    let mut skipped = Vec::new();
    let mut command = cargo_test(root);
    command.env("FERROPLANE_PEERS", peers::directory()).env("FERROPLANE_REQUIRE_PEERS", "1");
    if heavy {
        command.env("FERROPLANE_REQUIRE_HEAVY_PEERS", "1");
    } else if !peers::directory().join("crossplane").exists() {
        skipped.push("the comparison with Crossplane; `cargo xtask test --heavy` builds it".to_owned());
    }
    command.run()?;
    Ok(skipped)
}

/// Run the tests on a real API server if its programs are there. They take long to build.
pub(crate) fn run_on_kubernetes_if_there(root: &Path) -> Result<Skipped> {
    if peers::has_oracle() {
        return run_on_kubernetes(root).map(|()| Vec::new());
    }
    Ok(vec!["there is no API server; `cargo xtask test --kubernetes` builds it".to_owned()])
}

/// What controllers do on the embedded API server, they do on a real one; so does what is made for clusters, with no more
/// rights than the chart gives.
pub(crate) fn run_on_kubernetes(root: &Path) -> Result<()> {
    peers::ensure(false)?;
    let suites: [(&str, &[&str]); 3] = [
        (CONTROLLERS, &[]),
        // One after the other: each starts controllers, of which only one at a time leads.
        (CLI, &["--test-threads=1", "start::", "why::", "warnings::", "scenarios::"]),
        (CLI, &["deploy::rights"]),
    ];
    for (folder, filters) in suites {
        // First, or the servers wait for the compiler.
        let suite = Suite::build(root, folder)?;
        let mut command: Vec<OsString> = vec!["env".into(), "--chdir".into(), suite.directory.into()];
        command.push([OsString::from("FERROPLANE_PEERS="), peers::directory().into()].into_iter().collect());
        command.push(suite.executable.into());
        command.extend(filters.iter().map(OsString::from));
        // Its log says which rights were used.
        Oracle::audited(command).run(root)?;
    }
    Ok(())
}

/// Simulate many seeds, or one with all that happens printed.
pub(crate) fn simulate(root: &Path, seeds: u64, seed: Option<u64>) -> Result<()> {
    let mut tests = Suite::build(root, CONTROLLERS)?.command();
    tests.args(["--nocapture", "simulation::everything_converges_and_then_stays_still"]);
    match seed {
        Some(seed) => tests.env("FERROPLANE_SEEDS", seed.to_string()).env("FERROPLANE_TRACE", "1"),
        None => tests.env("FERROPLANE_SEEDS", format!("0..{seeds}")),
    };
    tests.run()
}

/// Make and delete very many composite resources.
pub(crate) fn masses(root: &Path, count: u32) -> Result<()> {
    let mut tests = Suite::build(root, CONTROLLERS)?.command();
    tests.args(["--nocapture", "masses::"]).env("FERROPLANE_MASSES", count.to_string()).run()
}

/// Kill the store while it is written to.
pub(crate) fn kill(root: &Path, times: u32) -> Result<()> {
    let mut tests = Suite::build(root, API_SERVER)?.command();
    tests.args(["--nocapture", "store::kill"]).env("FERROPLANE_KILLS", times.to_string()).run()
}
