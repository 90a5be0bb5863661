//! Development tasks of this repository. `cargo xtask help` lists them.

mod bench;
mod catalogue;
mod ci;
mod codegen;
mod compare;
mod compatibility;
mod crds;
mod deploy;
mod dist;
mod fuzz;
mod guests;
mod kinds;
mod lint;
mod oracle;
mod peers;
mod reference;
mod shell;
mod site;
mod size;
mod suite;
mod test;
mod tidy;
mod tools;

use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::Parser;

/// Development tasks of this repository
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
enum Chore {
    /// Install the programs that tests need, and run all tests
    Test {
        /// Also install the peers that take minutes to build, and run the tests that need them
        #[arg(long)]
        heavy: bool,
        /// Run the tests of controllers on a real Kubernetes API server instead (takes minutes)
        #[arg(long, conflicts_with = "heavy")]
        kubernetes: bool,
    },
    /// Run all checks that must pass before a change is merged
    Ci,
    /// Check dependencies between crates, first lines of files, words, links and paths in documents, and generated
    /// files
    Tidy,
    /// Check spelling, unused dependencies, licences and sources of dependencies, and the documentation of the code
    Lint,
    /// Install the programs that `lint` runs
    Checkers,
    /// Count the lines, the comments and the long functions of each crate
    Size,
    /// Write the generated code
    Codegen,
    /// Write docs/reference: kinds, commands and flags
    Reference,
    /// Build the documentation as a web site that works from disk (builds mdBook the first time, which takes minutes)
    Site,
    /// Write the tables of Kubernetes' own kinds (takes minutes the first time)
    Kinds,
    /// Install the programs that tests run against
    Peers {
        /// Also install those that take minutes to build
        #[arg(long)]
        heavy: bool,
    },
    /// Compare Crossplane with Ferroplane: `internal render` on generated cases, or the controllers
    Compare(compare::Compare),
    /// Compare the built-in functions with their originals, and write docs/compatibility.md
    Compatibility(compatibility::Compatibility),
    /// Start a real Kubernetes API server on loopback: until Ctrl-C, for one command (after `--`), or to compare with
    Oracle(oracle::Oracle),
    /// Build a release: the program, a bill of materials (`CycloneDX`), and the licences of all dependencies
    Dist(dist::Dist),
    /// Build the released program twice, in different directories, and compare (takes half an hour)
    Reproduce(dist::Reproduce),
    /// Build the WebAssembly programs of the release (needs the target wasm32-wasip2)
    Guests(guests::Guests),
    /// Run the benchmarks, and print a table
    Bench {
        /// Run only benchmarks whose names contain this
        filter: Option<String>,
    },
    /// Kill the store during writes, again and again, and check the remaining data
    Kill {
        /// Number of kills
        #[arg(long, default_value_t = 500)]
        times: u32,
    },
    /// Simulate a control plane with random faults, with many seeds or, to reproduce a failure, with one
    Simulate {
        /// Number of seeds
        #[arg(long, default_value_t = test::SEEDS)]
        seeds: u64,
        /// Run only this seed, and print all events
        #[arg(long, conflicts_with = "seeds")]
        seed: Option<u64>,
    },
    /// Delete many composite resources at the same time, and create as many during a rollout
    Masses {
        /// Number of composite resources
        #[arg(long, default_value_t = 10_000)]
        count: u32,
    },
    /// Run the fuzz targets, each for some seconds (needs a nightly toolchain and cargo-fuzz)
    Fuzz {
        /// Seconds for each target
        #[arg(long, default_value_t = 60)]
        seconds: u32,
    },
}

fn main() -> Result<()> {
    let root = root();
    match Chore::parse() {
        Chore::Test { kubernetes: true, .. } => test::run_on_kubernetes(&root),
        Chore::Test { heavy, .. } => {
            let skipped = test::run(&root, heavy)?;
            for reason in skipped {
                eprintln!("skipped: {reason}");
            }
            Ok(())
        }
        Chore::Ci => ci::run(&root),
        Chore::Tidy => tidy::run(&root),
        Chore::Lint => lint::run(&root),
        Chore::Checkers => tools::ensure_all(),
        Chore::Size => size::run(&root),
        Chore::Codegen => codegen::run(&root, false),
        Chore::Reference => reference::run(&root),
        Chore::Site => site::run(&root),
        Chore::Kinds => kinds::run(&root),
        Chore::Peers { heavy } => peers::ensure(heavy),
        Chore::Compare(compare) => compare.run(&root),
        Chore::Compatibility(compatibility) => compatibility.run(&root),
        Chore::Oracle(oracle) => oracle.run(&root),
        Chore::Dist(dist) => dist.run(&root),
        Chore::Reproduce(reproduce) => reproduce.run(&root),
        Chore::Guests(guests) => guests.run(&root),
        Chore::Bench { filter } => bench::run(&root, filter.as_deref()),
        Chore::Kill { times } => test::kill(&root, times),
        Chore::Simulate { seeds, seed } => test::simulate(&root, seeds, seed),
        Chore::Masses { count } => test::masses(&root, count),
        Chore::Fuzz { seconds } => fuzz::run(&root, seconds),
    }
}

/// The root of the repository.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lives in the repository").to_owned()
}
