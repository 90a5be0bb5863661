//! Programs that Debian has.

use std::path::{Path, PathBuf};

/// Where a program is. Nothing if it is not installed, and nobody insists.
pub(crate) fn program(name: &str) -> Option<PathBuf> {
    let directories = std::env::var_os("PATH").unwrap_or_default();
    let mut candidates = std::env::split_paths(&directories).chain([PathBuf::from("/usr/bin")]);
    let found = candidates.find_map(|directory| Some(directory.join(name)).filter(|path| path.is_file()));
    if found.is_none() {
        let insists = std::env::var_os("FERROPLANE_REQUIRE_PEERS").is_some();
        assert!(!insists, "{name} is not installed; `cargo xtask test` installs it");
        eprintln!("skipped: {name} is not installed; on Debian, install the package `{name}`");
    }
    found
}

/// Run a program to its end. Returns what it printed.
pub(crate) fn run(program: &Path, arguments: &[&str]) -> String {
    let output = std::process::Command::new(program).args(arguments).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{} {arguments:?}: {errors}", program.display());
    String::from_utf8(output.stdout).unwrap()
}
