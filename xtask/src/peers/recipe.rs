//! How a peer is made from its sources: one function per language.
//!
//! Every edit of this file makes all peers again, because it is part of their fingerprints.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::tool::Tool;
use super::{files, run};

/// A variable of a program, and the version that it is set to.
type Version = (&'static str, &'static str);

/// A way to turn a directory of `tests/peers/` into a program.
#[derive(Debug, Hash)]
pub(super) enum Recipe {
    /// A package of the Go module in `source`, or of a module that it requires. Its version is a variable and a text.
    Go { source: &'static str, package: &'static str, version: Option<Version> },
    /// `main.py` in a virtual environment with `requirements.txt`.
    Python { source: &'static str },
    /// `main.js` beside the packages of `package-lock.json`.
    Node { source: &'static str },
}

impl Recipe {
    /// The directory with the sources, relative to `tests/peers/`.
    pub(super) fn source(&self) -> &'static str {
        match self {
            Self::Go { source, .. } | Self::Python { source } | Self::Node { source } => source,
        }
    }

    /// Makes the executable file `name` in `directory`, with what it needs under `lib/`.
    pub(super) fn install(&self, source: &Path, directory: &Path, name: &str) -> Result<()> {
        match self {
            Self::Go { package, version, .. } => install_go(source, package, *version, &directory.join(name)),
            Self::Python { .. } => install_python(source, directory, name),
            Self::Node { .. } => install_node(source, directory, name),
        }
    }
}

fn install_go(source: &Path, package: &str, version: Option<Version>, executable: &Path) -> Result<()> {
    Tool::GO.ensure()?;
    let stamped = version.map(|(variable, version)| format!(" -X {variable}={version}")).unwrap_or_default();
    let build = ["build", "-mod=readonly", "-trimpath", "-buildvcs=false"];
    let mut go = Command::new("go");
    go.current_dir(source).args(build).arg(format!("-ldflags=-s -w{stamped}"));
    run(go.arg("-o").arg(executable).arg(package).env("CGO_ENABLED", "0"))
}

fn install_python(source: &Path, directory: &Path, name: &str) -> Result<()> {
    Tool::PYTHON.ensure()?;
    let library = copy_sources(source, directory, name)?;
    let environment = library.join("venv");
    run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&environment))?;
    let install = ["-m", "pip", "install", "--require-hashes", "--no-deps", "--only-binary=:all:"];
    let mut pip = Command::new(environment.join("bin/python"));
    run(pip.current_dir(&library).args(install).args(["--requirement", "requirements.txt"]))?;
    write_launcher(directory, name, "\"$lib/venv/bin/python\" \"$lib/main.py\"")
}

fn install_node(source: &Path, directory: &Path, name: &str) -> Result<()> {
    Tool::NODE.ensure()?;
    let library = copy_sources(source, directory, name)?;
    let install = ["ci", "--omit=dev", "--ignore-scripts", "--no-audit", "--no-fund"];
    run(Command::new("npm").current_dir(&library).args(install))?;
    write_launcher(directory, name, "node \"$lib/main.js\"")
}

/// Copies the sources, so that a peer runs the code it was made from while the repository is edited.
fn copy_sources(source: &Path, directory: &Path, name: &str) -> Result<PathBuf> {
    let library = directory.join("lib").join(name);
    fs::create_dir_all(&library).with_context(|| format!("cannot create {}", library.display()))?;
    for file in files(source)? {
        let copy = library.join(file.file_name().expect("a listed file has a name"));
        fs::copy(&file, &copy).with_context(|| format!("cannot write {}", copy.display()))?;
    }
    Ok(library)
}

/// Writes a script that becomes the program, so that the signals meant for one reach the other.
fn write_launcher(directory: &Path, name: &str, program: &str) -> Result<()> {
    let launcher = directory.join(name);
    let script = format!("#!/bin/sh\nlib=\"${{0%/*}}/lib/{name}\"\nexec {program} \"$@\"\n");
    fs::write(&launcher, script)
        .and_then(|()| fs::set_permissions(&launcher, fs::Permissions::from_mode(0o755)))
        .with_context(|| format!("cannot write {}", launcher.display()))
}
