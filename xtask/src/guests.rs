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
use crate::tools::COMPONENTIZE_PY;

/// The machine that guests are compiled for.
pub(crate) const TARGET: &str = "wasm32-wasip2";

/// The machine that commands of WASI are compiled for.
const COMMANDS: &str = "wasm32-wasip1";

/// Each guest.
const GUESTS: [Guest; 1] = [Guest {
    name: "starlark",
    package: "ferroplane-guest-starlark",
    directory: "guests/starlark",
    machine: TARGET,
}];

struct Guest {
    /// Of what is built.
    name: &'static str,
    package: &'static str,
    directory: &'static str,
    /// What it is compiled for.
    machine: &'static str,
}

/// Functions that show how it is done.
const EXAMPLES: [Guest; 3] = [
    Guest {
        name: "rust-command",
        package: "hello-command",
        directory: "guests/examples/rust-command",
        machine: COMMANDS,
    },
    Guest {
        name: "rust-component",
        package: "hello-component",
        directory: "guests/examples/rust-component",
        machine: TARGET,
    },
    Guest { name: "labelizer", package: LABELIZER, directory: LABELIZER_DIRECTORY, machine: COMMANDS },
];

/// The example that is a program in an image, too.
const LABELIZER: &str = "labelizer";
const LABELIZER_DIRECTORY: &str = "examples/container-functions/rust";

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
        examples.try_for_each(|example| need_target(example.machine))
    }
}

/// The packages of the guests, and their directories.
pub(crate) fn packages(root: &Path) -> impl Iterator<Item = (&'static str, PathBuf)> {
    GUESTS.iter().map(move |guest| (guest.package, root.join(guest.directory)))
}

/// The files of all guests and examples, from the root of the repository.
pub(crate) fn built() -> impl Iterator<Item = String> {
    let names =
        GUESTS.iter().chain(&EXAMPLES).map(|guest| guest.name).chain(["go-command", "python-command"]);
    let code = names.map(|name| format!("{name}.wasm"));
    code.chain([LABELIZER.to_owned()]).map(|name| format!("guests/built/{name}"))
}

/// Build all guests, as `guests/built/NAME.wasm`.
pub(crate) fn build(root: &Path, target: &Path) -> Result<Vec<PathBuf>> {
    GUESTS.iter().map(|guest| build_one(root, target, guest)).collect()
}

/// Build the examples, as `guests/built/NAME.wasm`: those in Go and Python where there is what they need.
fn build_examples(root: &Path, target: &Path) -> Result<Vec<PathBuf>> {
    let build = |example| build_one(root, target, example);
    let mut files = EXAMPLES.iter().map(build).collect::<Result<Vec<_>>>()?;
    files.push(build_program(root, target)?);
    for (name, built) in [("go-command", build_go(root)), ("python-command", build_python(root))] {
        match built {
            Ok(file) => files.push(file),
            Err(error) => println!("skipped: {name}: {error:#}"),
        }
    }
    Ok(files)
}

fn build_go(root: &Path) -> Result<PathBuf> {
    let file = root.join("guests/built/go-command.wasm");
    let mut go = program(Path::new("go"));
    go.args(["build", "-trimpath", "-o"]).arg(&file).arg(".").env("GOOS", "wasip1").env("GOARCH", "wasm");
    go.current_dir(&root.join("guests/examples/go-command")).run()?;
    Ok(file)
}

/// The interpreter of Python is in the component.
fn build_python(root: &Path) -> Result<PathBuf> {
    let file = root.join("guests/built/python-command.wasm");
    let mut componentize = COMPONENTIZE_PY.command(&root.join("guests/examples/python-command"))?;
    componentize.args(["--wit-path", "wit", "--world", "hello", "componentize", "hello", "-o"]);
    componentize.arg(&file).run()?;
    Ok(file)
}

/// Build the example that images hold for this machine, as `guests/built/labelizer`. It needs no libraries, so that the image needs none.
fn build_program(root: &Path, target: &Path) -> Result<PathBuf> {
    let machine = host()?;
    compile(root, target, LABELIZER_DIRECTORY, &machine, "-Ctarget-feature=+crt-static")?;
    take(root, &target.join(machine).join("release").join(LABELIZER), LABELIZER)
}

fn build_one(root: &Path, target: &Path, guest: &Guest) -> Result<PathBuf> {
    need_target(guest.machine)?;
    compile(root, target, guest.directory, guest.machine, "")?;
    // A library has another name than a program.
    let release = target.join(guest.machine).join("release");
    let names = [guest.package.replace('-', "_"), guest.package.to_owned()];
    let files = names.map(|name| release.join(format!("{name}.wasm")));
    let file = files.iter().find(|file| file.is_file()).context("cargo built nothing")?;
    take(root, file, &format!("{}.wasm", guest.name))
}

fn compile(root: &Path, target: &Path, directory: &str, machine: &str, flags: &str) -> Result<()> {
    let mut build = cargo(root, &["build", "--release", "--locked", "--target", machine, "--target-dir"]);
    build.arg(target).current_dir(&root.join(directory));
    let paths = PathMap::of(root, target)?.flags("--remap-path-prefix=");
    build.env("RUSTFLAGS", format!("{paths} {flags}").trim());
    build.run().with_context(|| format!("cannot build `{directory}` for {machine}"))
}

/// Copy what was built to `guests/built`. Only what is new is written: crates that embed it would be compiled again.
fn take(root: &Path, built: &Path, name: &str) -> Result<PathBuf> {
    let code = fs::read(built).with_context(|| format!("cannot read {}", built.display()))?;
    let to = root.join("guests/built").join(name);
    if fs::read(&to).ok().as_deref() != Some(&code) {
        fs::copy(built, &to).with_context(|| format!("cannot write {}", to.display()))?;
    }
    Ok(to)
}

/// The machine that we are on.
fn host() -> Result<String> {
    let output = Command::new("rustc").args(["--print", "host-tuple"]).output();
    let output = output.context("cannot ask rustc for the machine that it runs on")?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
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
