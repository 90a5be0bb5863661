//! `cargo xtask guests`: builds what we ship as WebAssembly.
//!
//! Guests are compiled for another machine, so they are packages outside of the workspace, under `guests/`. What is built goes to
//! `guests/built/`, from where the runner embeds it, and never into the repository. It does not depend on where it is built.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use crate::dist::PathMap;
use crate::shell::{cargo, program};

/// The machine that guests are compiled for.
pub(crate) const TARGET: &str = "wasm32-wasip2";

/// Each guest.
const GUESTS: [Guest; 1] = [Guest { name: "starlark", package: "ferroplane-guest-starlark" }];

struct Guest {
    /// Of its directory, and of what is built.
    name: &'static str,
    package: &'static str,
}

/// Functions that show how it is done: their directories below `guests/examples`, and what they are compiled for.
const EXAMPLES: [Guest; 2] = [
    Guest { name: "rust-command", package: "hello-command" },
    Guest { name: "rust-component", package: "hello-component" },
];

/// The machine that an example is compiled for.
fn target_of(example: &str) -> &'static str {
    if example.ends_with("command") { "wasm32-wasip1" } else { TARGET }
}

/// What to build.
#[derive(Debug, clap::Args)]
pub(crate) struct Guests {
    /// Build the example functions in guests/examples, too
    #[arg(long)]
    examples: bool,
    /// Say so and go on if this machine cannot build them
    #[arg(long)]
    if_possible: bool,
}

impl Guests {
    pub(crate) fn run(&self, root: &Path) -> Result<()> {
        match self.need_targets() {
            Err(error) if self.if_possible => {
                println!("skipped: {error:#}; what needs a guest is skipped, too");
                return Ok(());
            }
            other => other?,
        }
        let target = root.join("target/guests");
        let mut files = build(root, &target)?;
        if self.examples {
            files.extend(build_examples(root, &target)?);
        }
        for file in files {
            println!("{}", file.display());
        }
        Ok(())
    }

    fn need_targets(&self) -> Result<()> {
        need_target(TARGET)?;
        let mut examples = EXAMPLES.iter().filter(|_| self.examples);
        examples.try_for_each(|example| need_target(target_of(example.name)))
    }
}

/// The packages of the guests, and their directories.
pub(crate) fn packages(root: &Path) -> impl Iterator<Item = (&'static str, PathBuf)> {
    let guests = root.join("guests");
    GUESTS.iter().map(move |guest| (guest.package, guests.join(guest.name)))
}

/// Build all guests, as `guests/built/NAME.wasm`.
pub(crate) fn build(root: &Path, target: &Path) -> Result<Vec<PathBuf>> {
    let guests = GUESTS.iter().map(|guest| build_one(root, target, guest, "guests", TARGET));
    guests.collect()
}

/// Build the examples, as `guests/built/NAME.wasm`: those in Go where there is Go.
fn build_examples(root: &Path, target: &Path) -> Result<Vec<PathBuf>> {
    let build = |example| build_one(root, target, example, "guests/examples", target_of(example.name));
    let mut files = EXAMPLES.iter().map(build).collect::<Result<Vec<_>>>()?;
    let go = root.join("guests/built/go-command.wasm");
    let mut command = program(Path::new("go"));
    command.args(["build", "-trimpath", "-o"]).arg(&go).arg(".").env("GOOS", "wasip1").env("GOARCH", "wasm");
    match command.current_dir(&root.join("guests/examples/go-command")).run() {
        Ok(()) => files.push(go),
        Err(error) => println!("skipped: go-command: {error:#}"),
    }
    Ok(files)
}

fn build_one(root: &Path, target: &Path, guest: &Guest, below: &str, machine: &str) -> Result<PathBuf> {
    need_target(machine)?;
    let mut build = cargo(root, &["build", "--release", "--locked", "--target", machine, "--target-dir"]);
    build.arg(target).current_dir(&root.join(below).join(guest.name));
    build.env("RUSTFLAGS", PathMap::of(root, target)?.flags("--remap-path-prefix="));
    build.run().with_context(|| format!("cannot build the guest `{}`", guest.name))?;
    // A library has another name than a program.
    let release = target.join(machine).join("release");
    let names = [guest.package.replace('-', "_"), guest.package.to_owned()];
    let files = names.map(|name| release.join(format!("{name}.wasm")));
    let file = files.iter().find(|file| file.is_file()).context("cargo built nothing")?;
    let code = fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
    let to = root.join("guests/built").join(format!("{}.wasm", guest.name));
    // Only what is new is written: whoever embeds it would be compiled again.
    if fs::read(&to).ok().as_deref() != Some(&code) {
        fs::write(&to, &code).with_context(|| format!("cannot write {}", to.display()))?;
    }
    Ok(to)
}

/// Have the compiler for a machine, from the internet if need be.
fn need_target(target: &str) -> Result<()> {
    let root = Command::new("rustc").args(["--print", "target-libdir", "--target", target]).output();
    let is_there = root.is_ok_and(|output| {
        let path = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        output.status.success() && Path::new(&path).is_dir()
    });
    if is_there {
        return Ok(());
    }
    let added = program(Path::new("rustup")).args(["target", "add", target]).run();
    if let Err(error) = added {
        bail!(error.context(format!("the Rust target {target} is missing: `rustup target add {target}`")));
    }
    Ok(())
}
