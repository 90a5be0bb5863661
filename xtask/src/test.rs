//! The tests, and the chores that are single tests made long: simulations, masses, kills.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::ops::Range;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;

use anyhow::{Result, bail};

use crate::ci::Skipped;
use crate::oracle::Oracle;
use crate::peers;
use crate::shell::Shell;
use crate::suite::{Suite, cargo_test};

/// How many seeds are simulated before a change lands: a few minutes' worth on two cores.
pub(crate) const SEEDS: u64 = 1000;

pub(crate) const CONTROLLERS: &str = "crates/controllers";
pub(crate) const CLI: &str = "crates/cli";
const API_SERVER: &str = "crates/apiserver";

/// Compile the tests, and run none.
pub(crate) fn build(root: &Path) -> Result<()> {
    cargo_test(root).arg("--no-run").run()
}

/// If more tests than this fail, something is broken, and to run them again would only take time.
const MOST_RUN_AGAIN: usize = 5;

/// Set up what the tests need, and run them all. Returns what was skipped, and which tests passed only when they were run again.
pub(crate) fn run(root: &Path, heavy: bool) -> Result<Skipped> {
    peers::ensure(heavy)?;
    let mut skipped = Vec::new();
    if !heavy && !peers::directory().join("crossplane").exists() {
        skipped.push("the comparison with Crossplane; `cargo xtask test --heavy` builds it".to_owned());
    }
    if !runs_containers() {
        skipped.push("tests that need containers: this machine does not allow user namespaces".to_owned());
    }
    let failed = run_and_list_failed(&mut all_tests(root, heavy))?;
    if failed.is_empty() {
        return Ok(skipped);
    }
    skipped.extend(run_again(root, heavy, &failed)?);
    Ok(skipped)
}

/// All tests, with the programs that they need. One that fails does not keep the others from running.
fn all_tests(root: &Path, heavy: bool) -> Shell {
    let mut command = cargo_test(root);
    command.arg("--no-fail-fast");
    command.env("FERROPLANE_PEERS", peers::directory()).env("FERROPLANE_REQUIRE_PEERS", "1");
    if heavy {
        command.env("FERROPLANE_REQUIRE_HEAVY_PEERS", "1");
    }
    // Who knows better sets the variable; an empty one requires nothing.
    if std::env::var_os(REQUIRE_CONTAINERS).is_none() && runs_containers() {
        command.env(REQUIRE_CONTAINERS, "1");
    }
    command
}

/// Makes tests fail that are skipped where there are no containers.
const REQUIRE_CONTAINERS: &str = "FERROPLANE_REQUIRE_CONTAINERS";

/// Whether this machine allows what containers are made of. Our own code is not asked: if it could run no containers any more, all its tests would be skipped.
fn runs_containers() -> bool {
    let namespaces = ["--user", "--map-root-user", "--mount", "--pid", "--net", "--ipc", "--uts", "--cgroup"];
    let mut unshare = Command::new("unshare");
    unshare.args(namespaces).args(["--fork", "--mount-proc", "true"]);
    unshare.stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}

/// Run tests, and return the names of those that failed.
fn run_and_list_failed(tests: &mut Shell) -> Result<BTreeSet<String>> {
    let (mut failed, mut unfinished) = (BTreeSet::new(), 0_u32);
    let has_passed = tests.run_and_read(|line| {
        failed.extend(failed_test(line).map(str::to_owned));
        unfinished += u32::from(line.starts_with("running "));
        unfinished = unfinished.saturating_sub(u32::from(line.starts_with("test result: ")));
    })?;
    // A program that crashed names none of the tests that it did not get to.
    if !has_passed && (failed.is_empty() || unfinished > 0) {
        bail!("the tests failed, and not all of them say whether they did");
    }
    Ok(failed)
}

/// The name of a test in the line that says that it failed.
fn failed_test(line: &str) -> Option<&str> {
    line.strip_prefix("test ")?.strip_suffix(" ... FAILED")
}

/// Run the tests that failed once more, by themselves. One that passes now is named in the table of the run: thousands of tests share the
/// machine with programs in four languages, and one that missed its moment is a fault of the test, to be mended, and no reason to refuse a change.
fn run_again(root: &Path, heavy: bool, failed: &BTreeSet<String>) -> Result<Vec<String>> {
    if failed.len() > MOST_RUN_AGAIN {
        bail!("{} tests failed", failed.len());
    }
    eprintln!("=== these tests failed and are run again: {failed:?}");
    let mut again = all_tests(root, heavy);
    again.args(["--", "--exact"]).args(failed);
    let still = run_and_list_failed(&mut again)?;
    if !still.is_empty() {
        bail!("these tests failed twice: {still:?}");
    }
    Ok(failed.iter().map(|test| format!("FLAKY, to be mended: {test} failed at first")).collect())
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
    let suites: [(&str, &[&str]); 4] = [
        (CONTROLLERS, &[]),
        // One after the other: each starts controllers, of which only one at a time leads. Those of `kubectl::` are not among them: they start
        // `up`, which has an API server of its own.
        (
            CLI,
            &["--test-threads=1", "start::", "why::", "warnings::", "who_can::", "scenarios::", "day_two::"],
        ),
        (CLI, &["deploy::rights"]),
        (CLI, &["deploy::package_rights"]),
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
    let suite = Suite::build(root, CONTROLLERS)?;
    let simulation = |seeds: String| {
        let mut tests = suite.command();
        tests.args(["--nocapture", "simulation::everything_converges_and_then_stays_still"]);
        tests.env("FERROPLANE_SEEDS", seeds);
        tests
    };
    if let Some(seed) = seed {
        return simulation(seed.to_string()).env("FERROPLANE_TRACE", "1").run();
    }
    // A simulation is one thread by design, so that a seed always means the same.
    let processes = thread::available_parallelism().map_or(1, |cores| cores.get() as u64);
    thread::scope(|scope| {
        let running: Vec<_> = parts(seeds, processes)
            .map(|part| scope.spawn(move || simulation(format!("{}..{}", part.start, part.end)).run()))
            .collect();
        running.into_iter().try_for_each(|part| match part.join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        })
    })
}

/// The numbers below `count`, in as many parts of about the same size.
fn parts(count: u64, parts: u64) -> impl Iterator<Item = Range<u64>> {
    (0..parts)
        .map(move |part| count * part / parts..count * (part + 1) / parts)
        .filter(|part| !part.is_empty())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_tests_are_known_by_their_lines() {
        assert_eq!(failed_test("test deadlines::change ... FAILED"), Some("deadlines::change"));
        assert_eq!(failed_test("test deadlines::change ... ok"), None);
        assert_eq!(failed_test("test result: FAILED. 1 passed; 1 failed"), None);
        let document = "test crates/a/src/lib.rs - Name (line 3) ... FAILED";
        assert_eq!(failed_test(document), Some("crates/a/src/lib.rs - Name (line 3)"));
    }

    #[test]
    fn every_seed_is_in_one_part() {
        for (count, among) in [(1000, 2), (7, 3), (1, 4), (0, 2)] {
            let seeds: Vec<_> = parts(count, among).flatten().collect();
            assert_eq!(seeds, (0..count).collect::<Vec<_>>());
        }
    }

    /// What a program that prints these lines and ends with this code says of its tests.
    fn listed(lines: &str, code: u8) -> Result<BTreeSet<String>> {
        let mut shell = crate::shell::program(Path::new("sh"));
        run_and_list_failed(shell.args(["-c", &format!("printf '{lines}'; exit {code}")]))
    }

    #[test]
    fn tests_are_run_again_only_if_all_that_failed_are_named() {
        assert!(listed("running 1 test\ntest a ... ok\ntest result: ok\n", 0).unwrap().is_empty());
        let failed = listed("running 1 test\ntest a ... FAILED\ntest result: FAILED\n", 101).unwrap();
        assert_eq!(failed, BTreeSet::from(["a".to_owned()]));
        assert!(listed("", 1).is_err(), "nothing was compiled");
        let crash =
            "running 1 test\ntest a ... FAILED\ntest result: FAILED\nrunning 2 tests\ntest b ... ok\n";
        assert!(listed(crash, 101).is_err(), "a program crashed");
    }
}
