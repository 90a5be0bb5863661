//! Chores of this repository. `cargo xtask help` lists them.

mod bench;
mod codegen;
mod compare;
mod compatibility;
mod crds;
mod deploy;
mod kinds;
mod oracle;
mod peers;
mod shell;
mod tidy;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use clap::Parser;

use shell::{cargo, step};

/// Chores of this repository
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
enum Chore {
    /// Set up what the tests need, and run them all
    Test {
        /// Also set up the peers that take minutes to build, and run what needs them
        #[arg(long)]
        heavy: bool,
        /// Run what controllers do on a real Kubernetes API server instead (takes minutes)
        #[arg(long, conflicts_with = "heavy")]
        kubernetes: bool,
    },
    /// Everything that has to hold before a change lands
    Ci,
    /// Check what no compiler checks: which crate may depend on which, how files start, generated code
    Tidy,
    /// Write the generated code
    Codegen,
    /// Write the tables of Kubernetes' own kinds (takes minutes the first time)
    Kinds,
    /// Set up the programs that tests run against
    Peers {
        /// Also those that take minutes to build
        #[arg(long)]
        heavy: bool,
    },
    /// Compare what Crossplane does with what we do: `internal render` on generated cases, or the controllers
    Compare(compare::Compare),
    /// Compare the built-in functions with their originals, and write docs/compatibility.md
    Compatibility(compatibility::Compatibility),
    /// Start a real Kubernetes API server on loopback: for a person, for one command (after `--`), or to compare with
    Oracle(oracle::Oracle),
    /// Measure, and print a table
    Bench {
        /// Only what contains this
        filter: Option<String>,
    },
    /// Kill the store while it is written to, again and again, and look at what is left
    Kill {
        /// How often
        #[arg(long, default_value_t = 500)]
        times: u32,
    },
    /// Simulate a plane in bad weather, by many seeds or, to repeat what was found, by one
    Simulate {
        /// How many seeds
        #[arg(long, default_value_t = SEEDS)]
        seeds: u64,
        /// Only this one, and print what happens
        #[arg(long, conflicts_with = "seeds")]
        seed: Option<u64>,
    },
    /// Make very many composite resources, delete them at once, and look at what is left
    Masses {
        /// How many
        #[arg(long, default_value_t = 10_000)]
        count: u32,
    },
    /// Run the fuzz targets, each for some seconds (needs a nightly toolchain and cargo-fuzz)
    Fuzz {
        /// How long to run each
        #[arg(long, default_value_t = 60)]
        seconds: u32,
    },
}

/// How many seeds are simulated before a change lands: a few minutes' worth on two cores.
const SEEDS: u64 = 2000;

fn main() -> Result<()> {
    let root = root();
    match Chore::parse() {
        Chore::Test { kubernetes: true, .. } => test_on_kubernetes(&root),
        Chore::Test { heavy, .. } => test(&root, heavy),
        Chore::Ci => ci(&root),
        Chore::Tidy => tidy::run(&root),
        Chore::Codegen => codegen::run(&root, false),
        Chore::Kinds => kinds::run(&root),
        Chore::Peers { heavy } => ensure_peers(heavy),
        Chore::Compare(compare) => compare.run(&root),
        Chore::Compatibility(compatibility) => compatibility.run(&root),
        Chore::Oracle(oracle) => oracle.run(&root),
        Chore::Bench { filter } => bench::run(&root, filter.as_deref()),
        Chore::Kill { times } => kill(&root, times),
        Chore::Simulate { seeds, seed } => simulate(&root, seeds, seed),
        Chore::Masses { count } => masses(&root, count),
        Chore::Fuzz { seconds } => fuzz(&root, seconds),
    }
}

fn ci(root: &Path) -> Result<()> {
    step("format", || cargo(root, &["fmt", "--all", "--check"]).run())?;
    step("clippy", || {
        cargo(root, &["clippy", "--workspace", "--all-targets", "--all-features", "--quiet"])
            .arg("--")
            .arg("-Dwarnings")
            .run()
    })?;
    step("tidy", || tidy::run(root))?;
    step("test", || test(root, false))?;
    step("simulate", || simulate(root, SEEDS, None))?;
    if peers::has_oracle() {
        return step("test on Kubernetes", || test_on_kubernetes(root));
    }
    eprintln!("skipped: controllers on a real API server; `cargo xtask test --kubernetes` builds it");
    Ok(())
}

fn test(root: &Path, heavy: bool) -> Result<()> {
    ensure_peers(heavy)?;
    let mut command = cargo(root, &["test", "--workspace", "--all-features"]);
    command.env("FERROPLANE_PEERS", peers::directory()).env("FERROPLANE_REQUIRE_PEERS", "1");
    if heavy {
        command.env("FERROPLANE_REQUIRE_HEAVY_PEERS", "1");
    } else if !peers::directory().join("crossplane").exists() {
        eprintln!("skipped: the comparison with Crossplane itself; `cargo xtask test --heavy` builds it");
    }
    command.run()
}

/// What controllers do on the embedded API server, they do on a real one; so does what is made for clusters, with no more
/// rights than the chart gives.
fn test_on_kubernetes(root: &Path) -> Result<()> {
    ensure_peers(false)?;
    let suites: [(&str, &[&str]); 3] = [
        ("ferroplane-controllers", &[]),
        ("ferroplane", &["--test-threads=1", "start::", "why::"]),
        ("ferroplane", &["deploy::rights"]),
    ];
    // First, or the servers wait for the compiler.
    for (package, _) in suites {
        cargo(root, &["test", "--package", package, "--test", "it", "--no-run"]).run()?;
    }
    for (package, filters) in suites {
        let cargo = std::env::var_os("CARGO").unwrap_or("cargo".into());
        let peers = [OsString::from("FERROPLANE_PEERS="), peers::directory().into()].into_iter().collect();
        let mut command: Vec<OsString> = vec!["env".into(), peers, cargo];
        command.extend(["test", "--package", package, "--test", "it", "--"].map(OsString::from));
        command.extend(filters.iter().map(OsString::from));
        // Which rights were used, its log says.
        oracle::Oracle::audited(command).run(root)?;
    }
    Ok(())
}

fn ensure_peers(heavy: bool) -> Result<()> {
    peers::ensure_default()?;
    if heavy { peers::ensure_heavy() } else { Ok(()) }
}

fn simulate(root: &Path, seeds: u64, seed: Option<u64>) -> Result<()> {
    let test = "simulation::everything_converges_and_then_stays_still";
    let mut tests =
        cargo(root, &["test", "--package=ferroplane-controllers", "--test=it", "--", "--nocapture", test]);
    // What simulations spend their time in is our own code, which is not optimised otherwise. What it depends on always is.
    tests.env("CARGO_PROFILE_DEV_OPT_LEVEL", "1");
    match seed {
        Some(seed) => tests.env("FERROPLANE_SEEDS", seed.to_string()).env("FERROPLANE_TRACE", "1"),
        None => tests.env("FERROPLANE_SEEDS", format!("0..{seeds}")),
    };
    tests.run()
}

fn masses(root: &Path, count: u32) -> Result<()> {
    cargo(root, &["test", "--package=ferroplane-controllers", "--test=it", "--", "--nocapture", "masses::"])
        .env("FERROPLANE_MASSES", count.to_string())
        .run()
}

fn kill(root: &Path, times: u32) -> Result<()> {
    cargo(
        root,
        &["test", "--package", "ferroplane-apiserver", "--test", "it", "--", "store::kill", "--nocapture"],
    )
    .env("FERROPLANE_KILLS", times.to_string())
    .run()
}

fn fuzz(root: &Path, seconds: u32) -> Result<()> {
    let entries =
        std::fs::read_dir(root.join("fuzz/fuzz_targets")).context("cannot list the fuzz targets")?;
    let mut targets = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    targets.sort();
    for target in targets.iter().filter_map(|path| path.file_stem()?.to_str()) {
        let limit = format!("-max_total_time={seconds}");
        step(&format!("fuzz {target}"), || {
            cargo(root, &["+nightly", "fuzz", "run", target, "--", &limit, "-rss_limit_mb=2048"]).run()
        })?;
    }
    Ok(())
}

/// The root of the repository.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lives in the repository").to_owned()
}
