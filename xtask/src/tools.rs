//! Checkers that we did not write, at pinned versions, each installed once.
//!
//! Each lies in a directory of [`directory`] that is named after it and its version, so that a new version is installed beside
//! the old one. Nothing is installed outside that directory.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use anyhow::{Context as _, Result, ensure};

use crate::peers;
use crate::shell::{Shell, program};

/// Finds misspelt words. `PyPI` has it ready-made; building it takes two CPU-minutes.
pub(crate) const TYPOS: Checker = Checker {
    name: "typos",
    version: "1.51.1",
    source: Source::Wheel { requirements: include_str!("tools/typos.txt") },
};

/// Finds dependencies that nothing uses.
pub(crate) const MACHETE: Checker =
    Checker { name: "cargo-machete", version: "0.9.2", source: Source::Crate };

/// Judges the licences, sources and versions of dependencies.
pub(crate) const DENY: Checker = Checker { name: "cargo-deny", version: "0.20.2", source: Source::Crate };

/// Makes a web site of Markdown. No checker: only `cargo xtask site` needs it, so `ensure_all` leaves it out.
pub(crate) const MDBOOK: Checker =
    Checker { name: "mdbook", version: "0.5.4", source: Source::CrateWith { features: "search" } };

/// Makes WebAssembly of Python. No checker: only examples need it.
pub(crate) const COMPONENTIZE_PY: Checker = Checker {
    name: "componentize-py",
    version: "0.25.1",
    source: Source::PythonProgram { requirements: include_str!("tools/componentize-py.txt") },
};

/// A program, and where to get it.
#[derive(Debug)]
pub(crate) struct Checker {
    name: &'static str,
    version: &'static str,
    source: Source,
}

#[derive(Debug)]
enum Source {
    /// A package of crates.io, which is built.
    Crate,
    /// The same, with these features instead of the default ones.
    CrateWith { features: &'static str },
    /// A ready-made executable of `PyPI`. The requirements pin it by its checksums.
    Wheel { requirements: &'static str },
    /// A program in Python, which stays in an environment of its own. The requirements pin it and all that it needs.
    PythonProgram { requirements: &'static str },
}

/// Install every checker that is not there yet.
pub(crate) fn ensure_all() -> Result<()> {
    for checker in [TYPOS, MACHETE, DENY] {
        checker.ensure()?;
    }
    Ok(())
}

impl Checker {
    /// A command that runs the checker in the root of the repository. Installs it first if it is not there.
    pub(crate) fn command(&self, root: &Path) -> Result<Shell> {
        let mut command = program(&self.ensure()?);
        command.current_dir(root);
        Ok(command)
    }

    /// The same, ended after so many seconds with everything that it has started.
    pub(crate) fn command_within(&self, root: &Path, seconds: u32) -> Result<Shell> {
        let mut command = program(Path::new("timeout"));
        command.args(["--kill-after=5", &seconds.to_string()]).arg(self.ensure()?).current_dir(root);
        Ok(command)
    }

    fn ensure(&self) -> Result<PathBuf> {
        let target = directory().join(format!("{}-{}", self.name, self.version));
        let programs = if matches!(self.source, Source::PythonProgram { .. }) { "venv/bin" } else { "bin" };
        let executable = target.join(programs).join(self.name);
        if !executable.exists() {
            eprintln!("installing {} {}…", self.name, self.version);
            self.install(&target).with_context(|| format!("cannot install {}", self.name))?;
            ensure!(executable.exists(), "{} is not there after its installation", executable.display());
        }
        Ok(executable)
    }

    fn install(&self, target: &Path) -> Result<()> {
        fs::create_dir_all(target).with_context(|| format!("cannot create {}", target.display()))?;
        match self.source {
            Source::Crate => self.install_crate(target, &[]),
            Source::CrateWith { features } => {
                self.install_crate(target, &["--no-default-features", "--features", features])
            }
            Source::Wheel { requirements } => {
                pip_install(target, requirements)?.arg("--prefix").arg(target).run()
            }
            Source::PythonProgram { requirements } => pip_install(target, requirements)?.run(),
        }
    }

    fn install_crate(&self, target: &Path, selection: &[&str]) -> Result<()> {
        let mut cargo = Command::new(env::var_os("CARGO").unwrap_or("cargo".into()));
        cargo.args(["install", "--quiet", "--locked", "--version", self.version, self.name]);
        cargo.args(selection).arg("--root").arg(target);
        // Each runs for seconds, and optimising it would take minutes.
        cargo
            .args(["--profile", "dev"])
            .env("CARGO_PROFILE_DEV_DEBUG", "false")
            .env("CARGO_INCREMENTAL", "0");
        // Or it would be built among our own crates, whose flags may be others.
        cargo.env("CARGO_TARGET_DIR", target.join("build")).env_remove("RUSTFLAGS");
        peers::run(&mut cargo)?;
        fs::remove_dir_all(target.join("build")).context("cannot remove what was built on the way")
    }
}

/// A command that installs what is required into a new environment, unless it is given another place.
fn pip_install(target: &Path, requirements: &str) -> Result<Shell> {
    peers::ensure_python()?;
    let list = target.join("requirements.txt");
    fs::write(&list, requirements).with_context(|| format!("cannot write {}", list.display()))?;
    peers::run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(target.join("venv")))?;
    let mut pip = program(&target.join("venv/bin/python"));
    pip.args(["-m", "pip", "install", "--quiet", "--require-hashes", "--no-deps", "--only-binary=:all:"]);
    pip.arg("--requirement").arg(&list);
    Ok(pip)
}

/// Where checkers lie: beside the peers.
fn directory() -> PathBuf {
    peers::directory().with_file_name("tools")
}
