//! The tests, and the chores that are single tests made long: simulations, masses, kills.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::ops::Range;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;

use anyhow::{Result, bail};

use crate::ci::Skipped;
use crate::guests;
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
    skipped.extend(without_guests(root));
    let TestResults { failed, .. } = run_and_list(&mut all_tests(root, heavy))?;
    if failed.is_empty() {
        return Ok(skipped);
    }
    skipped.extend(run_again(root, heavy, &failed)?);
    Ok(skipped)
}

/// What tests lack that was not built for WebAssembly. They pass without it, and test nothing.
fn without_guests(root: &Path) -> Option<String> {
    let missing: Vec<_> = guests::built().filter(|file| !root.join(file).exists()).collect();
    let all = missing.join(", ");
    (!missing.is_empty())
        .then(|| format!("tests that need {all}: `cargo xtask guests --examples` builds what is missing"))
}

/// All tests, with the programs that they need. One that fails does not keep the others from running.
fn all_tests(root: &Path, heavy: bool) -> Shell {
    let mut command = cargo_test(root);
    command.arg("--no-fail-fast");
    // Tests wait for programs, disks and clocks: as many as there are cores leave cores idle. A variable that is set wins.
    if std::env::var_os(TEST_THREADS).is_none() {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        command.env(TEST_THREADS, (cores + cores.div_ceil(2)).to_string());
    }
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

/// How many tests of a program run at the same time.
const TEST_THREADS: &str = "RUST_TEST_THREADS";
/// Makes tests fail that are skipped where there are no containers.
const REQUIRE_CONTAINERS: &str = "FERROPLANE_REQUIRE_CONTAINERS";

/// Whether this machine allows what containers are made of. Our own code is not asked: if it could run no containers any more, all its tests would be skipped.
fn runs_containers() -> bool {
    let namespaces = ["--user", "--map-root-user", "--mount", "--pid", "--net", "--ipc", "--uts", "--cgroup"];
    let mut unshare = Command::new("unshare");
    unshare.args(namespaces).args(["--fork", "--mount-proc", "true"]);
    unshare.stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}

/// The names of tests that were run.
#[derive(Debug, Default, PartialEq)]
struct TestResults {
    passed: BTreeSet<String>,
    failed: BTreeSet<String>,
}

/// Run tests, and return which passed and which failed.
fn run_and_list(tests: &mut Shell) -> Result<TestResults> {
    let (mut results, mut unfinished) = (TestResults::default(), 0_u32);
    let has_passed = tests.run_and_read(|line| {
        results.passed.extend(test_that(" ... ok", line).map(str::to_owned));
        results.failed.extend(test_that(" ... FAILED", line).map(str::to_owned));
        unfinished += u32::from(line.starts_with("running "));
        unfinished = unfinished.saturating_sub(u32::from(line.starts_with("test result: ")));
    })?;
    // A program that crashed names none of the tests that it did not get to.
    if !has_passed && (results.failed.is_empty() || unfinished > 0) {
        bail!("the tests failed, and not all of them say whether they did");
    }
    Ok(results)
}

/// The name of a test in the line about its result, if that is its result.
fn test_that<'l>(result: &str, line: &'l str) -> Option<&'l str> {
    let name = line.strip_prefix("test ")?.strip_suffix(result)?;
    // Filters match names without what is expected of them.
    let modes = [" - should panic", " - compile fail", " - compile"];
    Some(modes.iter().find_map(|mode| name.strip_suffix(*mode)).unwrap_or(name))
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
    check_second_run(failed, &run_and_list(&mut again)?)?;
    Ok(failed.iter().map(|test| format!("FLAKY, to be mended: {test} failed at first")).collect())
}

/// Refuse a second run in which not every test that had failed passed.
fn check_second_run(failed: &BTreeSet<String>, again: &TestResults) -> Result<()> {
    if !again.failed.is_empty() {
        bail!("these tests failed twice: {:?}", again.failed);
    }
    // Programs that run no test succeed: a name that matches none must not pass for one that passed.
    let missing: Vec<_> = failed.difference(&again.passed).collect();
    if !missing.is_empty() {
        bail!("these tests failed and were not found when they were to be run again: {missing:?}");
    }
    Ok(())
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

/// The simulations that take seeds, and which share of all seeds they get: those of rollouts take much longer.
const SIMULATIONS: [(&[&str], u64); 2] = [
    (&["simulation::everything_converges_and_then_stays_still"], 1),
    (
        &[
            "simulation::rollouts::rollouts_end_as_they_should_after_bad_weather",
            "simulation::rollouts::registry_that_loses_images_stops_neither_a_rollout_nor_its_way_back",
            "simulation::rollouts::every_fault_of_a_revision_is_rolled_back_and_deletes_nothing",
        ],
        20,
    ),
];

/// Simulate many seeds, or one with all that happens printed.
pub(crate) fn simulate(root: &Path, seeds: u64, seed: Option<u64>) -> Result<()> {
    let suite = Suite::build(root, CONTROLLERS)?;
    for (tests, share) in SIMULATIONS {
        match seed {
            Some(seed) => simulation(&suite, tests, &seed.to_string()).env("FERROPLANE_TRACE", "1").run()?,
            None => simulate_all(&suite, tests, seeds.div_ceil(share))?,
        }
    }
    Ok(())
}

/// These tests with these seeds.
fn simulation(suite: &Suite, tests: &[&str], seeds: &str) -> Shell {
    let mut command = suite.command();
    command.arg("--nocapture").args(tests).env("FERROPLANE_SEEDS", seeds);
    command
}

fn simulate_all(suite: &Suite, tests: &[&str], seeds: u64) -> Result<()> {
    // A simulation is one thread by design, so that a seed always means the same.
    let processes = thread::available_parallelism().map_or(1, |cores| cores.get() as u64);
    let run = |part: Range<u64>| simulation(suite, tests, &format!("{}..{}", part.start, part.end)).run();
    thread::scope(|scope| {
        let running: Vec<_> = parts(seeds, processes).map(|part| scope.spawn(move || run(part))).collect();
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
    fn guests_that_were_not_built_are_in_the_table() {
        let root = tempfile::tempdir().unwrap();
        let said = without_guests(root.path()).unwrap();
        for name in ["starlark", "rust-command", "go-command", "python-command"] {
            assert!(said.contains(&format!("guests/built/{name}.wasm")), "{said}");
        }
        for file in guests::built() {
            let file = root.path().join(file);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, "").unwrap();
        }
        assert_eq!(without_guests(root.path()), None);
    }

    #[test]
    fn failed_tests_are_known_by_their_lines() {
        let failed_test = |line| test_that(" ... FAILED", line);
        assert_eq!(failed_test("test deadlines::change ... FAILED"), Some("deadlines::change"));
        assert_eq!(failed_test("test deadlines::change ... ok"), None);
        assert_eq!(failed_test("test result: FAILED. 1 passed; 1 failed"), None);
        let document = "test crates/a/src/lib.rs - Name (line 3) ... FAILED";
        assert_eq!(failed_test(document), Some("crates/a/src/lib.rs - Name (line 3)"));
        // The name that finds it again.
        assert_eq!(failed_test("test panics::here - should panic ... FAILED"), Some("panics::here"));
    }

    #[test]
    fn test_passes_when_it_is_run_again_only_if_it_was_run_again() {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>();
        let again = |passed: &[&str], failed: &[&str]| {
            let again = TestResults { passed: names(passed), failed: names(failed) };
            check_second_run(&names(&["a", "b"]), &again)
        };
        assert!(again(&["a", "b"], &[]).is_ok());
        assert!(again(&["a"], &["b"]).is_err());
        assert!(again(&["a"], &[]).is_err(), "no test is named b");
        assert!(again(&[], &[]).is_err());
    }

    #[test]
    fn every_seed_is_in_one_part() {
        for (count, among) in [(1000, 2), (7, 3), (1, 4), (0, 2)] {
            let seeds: Vec<_> = parts(count, among).flatten().collect();
            assert_eq!(seeds, (0..count).collect::<Vec<_>>());
        }
    }

    /// What a program that prints these lines and ends with this code says of its tests.
    fn listed(lines: &str, code: u8) -> Result<TestResults> {
        let mut shell = crate::shell::program(Path::new("sh"));
        run_and_list(shell.args(["-c", &format!("printf '{lines}'; exit {code}")]))
    }

    #[test]
    fn tests_are_run_again_only_if_all_that_failed_are_named() {
        let a = || BTreeSet::from(["a".to_owned()]);
        let results = listed("running 1 test\ntest a ... ok\ntest result: ok\n", 0).unwrap();
        assert_eq!(results, TestResults { passed: a(), ..TestResults::default() });
        let results = listed("running 1 test\ntest a ... FAILED\ntest result: FAILED\n", 101).unwrap();
        assert_eq!(results, TestResults { failed: a(), ..TestResults::default() });
        assert!(listed("", 1).is_err(), "nothing was compiled");
        let crash =
            "running 1 test\ntest a ... FAILED\ntest result: FAILED\nrunning 2 tests\ntest b ... ok\n";
        assert!(listed(crash, 101).is_err(), "a program crashed");
    }
}
