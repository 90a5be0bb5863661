//! Chores of this repository. `cargo xtask help` lists them.

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
    /// Check what no compiler checks: which crate may depend on which, how files start, words, links and paths in
    /// documents, generated files
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
    /// Build what is shipped: the program, a bill of materials (`CycloneDX`), and the licences of what it contains
    Dist(dist::Dist),
    /// Build the shipped program twice, in different directories, and compare (takes half an hour)
    Reproduce(dist::Reproduce),
    /// Build what we ship as WebAssembly (needs the target wasm32-wasip2)
    Guests(guests::Guests),
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
        #[arg(long, default_value_t = test::SEEDS)]
        seeds: u64,
        /// Only this one, and print what happens
        #[arg(long, conflicts_with = "seeds")]
        seed: Option<u64>,
    },
    /// Make very many composite resources: delete them at once, and create them during a rollout
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
