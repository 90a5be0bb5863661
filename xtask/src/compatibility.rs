//! `cargo xtask compatibility`: compares the built-in functions with their originals.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use crate::peers;
use crate::shell::{cargo, step};

/// What to compare, and how much.
#[derive(Debug, clap::Args)]
pub(crate) struct Compatibility {
    /// Only functions whose name contains this. Nothing is written down then
    filter: Option<String>,
    /// How many generated cases per function
    #[arg(long, default_value_t = 3000)]
    cases: u32,
    /// Where the generator starts
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// A directory of Git clones of originals, as in `function-sequencer`: each is built, at its newest tag and at the
    /// tags given with --tag. Without it, what was built before is used
    #[arg(long, value_name = "DIR")]
    clones: Option<PathBuf>,
    /// Another tag to build, as in `function-auto-ready@v0.6.7`
    #[arg(long, value_name = "NAME@TAG")]
    tag: Vec<String>,
}

impl Compatibility {
    pub(crate) fn run(&self, root: &Path) -> Result<()> {
        let originals = directory();
        fs::create_dir_all(&originals).with_context(|| format!("cannot create {}", originals.display()))?;
        if let Some(clones) = &self.clones {
            self.build(clones, &originals)?;
        }
        take_peer(&originals)?;
        switch_features_on(&originals)?;
        let mut program =
            cargo(root, &["run", "--release", "--quiet", "--package", "compatibility", "--", "--originals"]);
        program.arg(&originals);
        program.arg(format!("--cases={}", self.cases)).arg(format!("--seed={}", self.seed));
        match &self.filter {
            Some(filter) => program.arg(filter),
            None => program.arg("--write").arg(root.join("docs/compatibility.md")),
        };
        step("compare", || program.run())
    }

    fn build(&self, clones: &Path, originals: &Path) -> Result<()> {
        let entries = fs::read_dir(clones).with_context(|| format!("cannot list {}", clones.display()))?;
        let mut found: Vec<_> = entries.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
        found.sort();
        for clone in found {
            let name = clone.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            if !name.starts_with("function-") {
                continue;
            }
            let named = self.tag.iter().filter_map(|tag| tag.strip_prefix(name)?.strip_prefix('@'));
            for tag in [newest_tag(&clone)?.as_str()].into_iter().chain(named) {
                step(&format!("build {name}@{tag}"), || {
                    build(&clone, tag, &originals.join(format!("{name}@{tag}")))
                })?;
            }
        }
        Ok(())
    }
}

/// Where originals lie: beside the peers.
fn directory() -> PathBuf {
    peers::directory().with_file_name("originals").join("bin")
}

/// An original that the ordinary tests need anyway stands for itself.
fn take_peer(originals: &Path) -> Result<()> {
    peers::ensure_default()?;
    let target = originals.join("function-auto-ready@v0.6.0");
    if !target.exists() {
        fs::copy(peers::directory().join("function-auto-ready"), &target)
            .with_context(|| format!("cannot write {}", target.display()))?;
    }
    Ok(())
}

/// An original that does more if it is started with a flag is compared with and without it.
fn switch_features_on(originals: &Path) -> Result<()> {
    let (name, flag) = ("function-auto-ready@v0.7.0", "--feature-gates=CELHealthcheckCustomizations=true");
    let script = originals.join(format!("{name}+cel"));
    if !originals.join(name).exists() || script.exists() {
        return Ok(());
    }
    fs::write(&script, format!("#!/bin/sh\nexec \"$(dirname \"$0\")/{name}\" {flag} \"$@\"\n"))
        .with_context(|| format!("cannot write {}", script.display()))?;
    run(Command::new("chmod").arg("+x").arg(&script))
}

fn newest_tag(clone: &Path) -> Result<String> {
    let tags = git(clone, &["tag", "--sort=v:refname", "--list", "v*"])?;
    let newest = tags.lines().rfind(|tag| !tag.contains('-')).map(str::to_owned);
    newest.with_context(|| format!("{} has no tags", clone.display()))
}

/// Build one tag, unless that was done before. The clone itself is left as it is.
fn build(clone: &Path, tag: &str, target: &Path) -> Result<()> {
    if target.exists() {
        return Ok(());
    }
    let source = tempfile::tempdir()?;
    let archive = source.path().join("source.tar");
    git(clone, &["archive", "--output", &archive.to_string_lossy(), tag])?;
    run(Command::new("tar").arg("xf").arg(&archive).current_dir(source.path()))?;
    run(Command::new("go")
        .args(["build", "-buildvcs=false", "-o"])
        .arg(target)
        .arg(".")
        .current_dir(source.path()))
}

fn git(clone: &Path, arguments: &[&str]) -> Result<String> {
    let output = Command::new("git").args(arguments).current_dir(clone).output().context("cannot run git")?;
    if !output.status.success() {
        bail!("git {arguments:?} in {}: {}", clone.display(), String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn run(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("cannot run {command:?}"))?;
    if status.success() { Ok(()) } else { bail!("{command:?} failed: {status}") }
}
