//! Runs other programs, and says what they were when they fail.

use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context as _, Result, bail};

/// A command that is described by what it runs.
#[derive(Debug)]
pub(crate) struct Shell(Command);

/// Cargo, in the root of the repository.
pub(crate) fn cargo(root: &Path, arguments: &[&str]) -> Shell {
    let is_toolchain = arguments.first().is_some_and(|first| first.starts_with('+'));
    // The cargo that runs us knows no other toolchain than its own.
    let program =
        if is_toolchain { "cargo".into() } else { std::env::var_os("CARGO").unwrap_or("cargo".into()) };
    let mut command = Command::new(program);
    command.args(arguments).current_dir(root);
    if is_toolchain {
        command.env_remove("RUSTUP_TOOLCHAIN").env_remove("CARGO").env_remove("RUSTC");
    }
    Shell(command)
}

/// Git, in the root of the repository.
pub(crate) fn git(root: &Path, arguments: &[&str]) -> Shell {
    let mut command = Command::new("git");
    command.args(arguments).current_dir(root);
    Shell(command)
}

/// A program that is not on the path.
pub(crate) fn program(path: &Path) -> Shell {
    Shell(Command::new(path))
}

impl Shell {
    pub(crate) fn arg(&mut self, argument: impl AsRef<OsStr>) -> &mut Self {
        self.0.arg(argument);
        self
    }

    pub(crate) fn args(&mut self, arguments: impl IntoIterator<Item: AsRef<OsStr>>) -> &mut Self {
        self.0.args(arguments);
        self
    }

    pub(crate) fn current_dir(&mut self, directory: &Path) -> &mut Self {
        self.0.current_dir(directory);
        self
    }

    pub(crate) fn env(&mut self, key: &str, value: impl AsRef<OsStr>) -> &mut Self {
        self.0.env(key, value);
        self
    }

    /// Run it. An error if it fails.
    pub(crate) fn run(&mut self) -> Result<()> {
        let status = self.0.status().with_context(|| format!("cannot run {:?}", self.0))?;
        if !status.success() {
            bail!("{:?} failed: {status}", self.0);
        }
        Ok(())
    }

    /// Run it, and hand on what it prints on standard output line by line. Says whether it succeeded.
    pub(crate) fn run_and_read(&mut self, mut read: impl FnMut(&str)) -> Result<bool> {
        let mut child =
            self.0.stdout(Stdio::piped()).spawn().with_context(|| format!("cannot run {:?}", self.0))?;
        let output = child.stdout.take().context("its output was asked for")?;
        for line in BufReader::new(output).split(b'\n') {
            let line = line.with_context(|| format!("cannot read what {:?} prints", self.0))?;
            let line = String::from_utf8_lossy(&line);
            println!("{line}");
            read(&line);
        }
        Ok(child.wait().with_context(|| format!("cannot wait for {:?}", self.0))?.success())
    }

    /// What it prints on standard output, while its standard error is ours.
    pub(crate) fn standard_output(&mut self) -> Result<String> {
        self.0.stderr(Stdio::inherit());
        self.output()
    }

    /// What it prints.
    pub(crate) fn output(&mut self) -> Result<String> {
        let output = self.0.output().with_context(|| format!("cannot run {:?}", self.0))?;
        if !output.status.success() {
            bail!("{:?} failed: {}\n{}", self.0, output.status, String::from_utf8_lossy(&output.stderr));
        }
        String::from_utf8(output.stdout).with_context(|| format!("{:?} prints no text", self.0))
    }
}

/// One part of a longer chore, with its name and how long it took.
pub(crate) fn step(name: &str, work: impl FnOnce() -> Result<()>) -> Result<()> {
    eprintln!("=== {name}");
    let started = Instant::now();
    work().with_context(|| format!("{name} failed"))?;
    eprintln!("=== {name}: {:.1} s", started.elapsed().as_secs_f64());
    Ok(())
}
