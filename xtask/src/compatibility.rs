//! `cargo xtask compatibility`: compares the built-in functions with the upstream functions that they reproduce.
//!
//! Builds nothing but what the Go module proxy has, which the ordinary tests need anyway. Every other upstream function comes
//! as an executable that the user has already.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

use crate::peers;
use crate::shell::{cargo, step};

/// What to compare, and how much.
#[derive(Debug, clap::Args)]
pub(crate) struct Compatibility {
    /// Compare only functions whose name contains this, and write no page
    filter: Option<String>,
    /// How many generated cases per function
    #[arg(long, default_value_t = 3000)]
    cases: u32,
    /// Where the generator starts
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// A directory of upstream functions as executables, named as in `function-sequencer@v0.6.0`. Without it, only the
    /// functions from the Go module proxy are compared, one version of each, and no page is written
    #[arg(long, value_name = "DIR")]
    originals: Option<PathBuf>,
}

/// The upstream functions that are both peers and reproduced, and their versions.
const PEERS: &[(&str, &str)] = &[
    ("function-auto-ready", "v0.6.0"),
    ("function-go-templating", "v0.4.1"),
    ("function-patch-and-transform", "v0.5.0"),
];

/// An upstream function that does more when it is started with a flag is compared with and without the flag.
const GATED: (&str, &str) =
    ("function-auto-ready@v0.7.0", "--feature-gates=CELHealthcheckCustomizations=true");

impl Compatibility {
    pub(crate) fn run(&self, root: &Path) -> Result<()> {
        peers::ensure_default()?;
        let gathered = tempfile::tempdir().context("cannot create a directory for the originals")?;
        gather(self.originals.as_deref(), &peers::directory(), gathered.path())?;
        let mut program =
            cargo(root, &["run", "--release", "--quiet", "--package", "compatibility", "--", "--originals"]);
        program.arg(gathered.path());
        program.arg(format!("--cases={}", self.cases)).arg(format!("--seed={}", self.seed));
        match (&self.filter, &self.originals) {
            (Some(filter), _) => program.arg(filter),
            // The page lists every function. A run with one of them would shorten it.
            (None, None) => &mut program,
            (None, Some(_)) => program.arg("--write").arg(root.join("docs/compatibility.md")),
        };
        step("compare", || program.run())
    }
}

/// Link everything that is compared into one directory, under names that the comparison reads.
fn gather(originals: Option<&Path>, peers: &Path, target: &Path) -> Result<()> {
    if let Some(originals) = originals {
        link_originals(originals, target)?;
    }
    for (name, version) in PEERS {
        let peer = target.join(format!("{name}@{version}"));
        if !peer.exists() {
            link(&peers.join(name), &peer)?;
        }
    }
    let (name, flag) = GATED;
    if target.join(name).exists() {
        write_launcher(&target.join(format!("{name}+cel")), &target.join(name), flag)?;
    }
    Ok(())
}

fn link_originals(originals: &Path, target: &Path) -> Result<()> {
    let originals =
        originals.canonicalize().with_context(|| format!("cannot find {}", originals.display()))?;
    let entries = fs::read_dir(&originals).with_context(|| format!("cannot list {}", originals.display()))?;
    let mut linked = 0;
    for entry in entries {
        let path = entry?.path();
        let Some(name) = path.file_name().and_then(|name| name.to_str()) else { continue };
        if name.starts_with("function-") && name.contains('@') && !name.contains('+') && is_executable(&path)
        {
            link(&path, &target.join(name))?;
            linked += 1;
        }
    }
    if linked == 0 {
        bail!("{} has no executable that is named as in `function-sequencer@v0.6.0`", originals.display());
    }
    Ok(())
}

fn is_executable(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
}

fn link(from: &Path, to: &Path) -> Result<()> {
    symlink(from, to).with_context(|| format!("cannot link {} to {}", to.display(), from.display()))
}

fn write_launcher(launcher: &Path, program: &Path, flag: &str) -> Result<()> {
    let script = format!("#!/bin/sh\nexec '{}' {flag} \"$@\"\n", program.display());
    fs::write(launcher, script)
        .and_then(|()| fs::set_permissions(launcher, fs::Permissions::from_mode(0o755)))
        .with_context(|| format!("cannot write {}", launcher.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn executables_named_with_a_version_are_compared_beside_the_peers() {
        let given = directory(&[
            ("function-sequencer@v0.6.0", 0o755),
            ("function-auto-ready@v0.7.0", 0o755),
            ("function-tag-manager@v0.9.0", 0o644),
            ("function-sequencer", 0o755),
            ("README.md", 0o644),
        ]);
        let target = tempfile::tempdir().unwrap();
        gather(Some(given.path()), Path::new("/peers"), target.path()).unwrap();
        assert_eq!(
            names(target.path()),
            [
                "function-auto-ready@v0.6.0",
                "function-auto-ready@v0.7.0",
                "function-auto-ready@v0.7.0+cel",
                "function-go-templating@v0.4.1",
                "function-patch-and-transform@v0.5.0",
                "function-sequencer@v0.6.0"
            ]
        );
    }

    #[test]
    fn without_a_directory_the_peers_alone_are_compared() {
        let target = tempfile::tempdir().unwrap();
        gather(None, Path::new("/peers"), target.path()).unwrap();
        let expected = [
            "function-auto-ready@v0.6.0",
            "function-go-templating@v0.4.1",
            "function-patch-and-transform@v0.5.0",
        ];
        assert_eq!(names(target.path()), expected);
    }

    #[test]
    fn versions_that_are_compared_are_those_that_peers_are_built_from() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        for (name, version) in PEERS {
            let path = root.join("tests/peers/oracles").join(name).join("go.mod");
            let module = fs::read_to_string(path).unwrap();
            let required = format!("/{name} {version}");
            let is_pinned = |line: &str| line.trim_end_matches(" // indirect").ends_with(&required);
            assert!(module.lines().any(is_pinned), "{name} is not {version}: {module}");
        }
    }

    #[test]
    fn directory_without_originals_is_refused() {
        let given = directory(&[("function-sequencer", 0o755)]);
        let target = tempfile::tempdir().unwrap();
        let error = gather(Some(given.path()), Path::new("/peers"), target.path()).unwrap_err();
        assert!(error.to_string().ends_with("named as in `function-sequencer@v0.6.0`"), "{error}");
    }

    fn directory(files: &[(&str, u32)]) -> tempfile::TempDir {
        let directory = tempfile::tempdir().unwrap();
        for (name, mode) in files {
            let path = directory.path().join(name);
            fs::write(&path, "").unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(*mode)).unwrap();
        }
        directory
    }

    fn names(directory: &Path) -> Vec<String> {
        let entries = fs::read_dir(directory).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}
