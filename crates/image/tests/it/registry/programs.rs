//! Programs that Debian has.

use std::path::Path;

/// Run a program to its end. Returns what it printed.
pub(crate) fn run(program: &Path, arguments: &[&str]) -> String {
    let output = std::process::Command::new(program).args(arguments).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{} {arguments:?}: {errors}", program.display());
    String::from_utf8(output.stdout).unwrap()
}
