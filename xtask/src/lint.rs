//! Checks by programs that we did not write: spelling, unused dependencies, licences, sources and advisories of dependencies;
//! and whether the documentation of the code builds without a warning.

use std::path::{Path, PathBuf};
use std::{env, fs};

use anyhow::Result;

use crate::ci::Skipped;
use crate::shell::{cargo, step};
use crate::tools;

/// How many seconds the database of advisories may take. It is a shallow clone of a few megabytes.
const PATIENCE: u32 = 20;

/// All of them.
pub(crate) fn run(root: &Path) -> Result<()> {
    step("spelling", || spelling(root))?;
    step("unused dependencies", || unused_dependencies(root))?;
    step("licences and sources", || {
        for reason in dependencies(root)? {
            eprintln!("skipped: {reason}");
        }
        Ok(())
    })?;
    step("documentation", || documentation(root))
}

/// Exceptions are in `typos.toml`.
pub(crate) fn spelling(root: &Path) -> Result<()> {
    tools::TYPOS.command(root)?.run()
}

/// Exceptions are in the manifests, under `package.metadata.cargo-machete`.
pub(crate) fn unused_dependencies(root: &Path) -> Result<()> {
    tools::MACHETE.command(root)?.run()
}

/// What dependencies may be is in `deny.toml`.
pub(crate) fn dependencies(root: &Path) -> Result<Skipped> {
    let deny = |network: &[&str], checks: &[&str]| {
        let mut deny = tools::DENY.command(root)?;
        deny.args(["--all-features", "--locked"]).args(network);
        deny.args(["check", "--hide-inclusion-graph"]).args(checks).run()
    };
    deny(&[], &["bans", "licenses", "sources"])?;
    if let Err(error) = fetch_advisories(root) {
        // The host that has the database cannot be reached from everywhere. An older copy is better than none.
        eprintln!("cannot fetch the database of advisories: {error:#}");
        if !has_advisories(&advisories()) {
            let reason = format!("advisories: their database cannot be fetched within {PATIENCE} s");
            return Ok(vec![reason]);
        }
    }
    // Offline, or the database would be fetched once more, without a limit. The check before has fetched the crates.
    deny(&["--offline"], &["advisories"])?;
    Ok(Vec::new())
}

fn fetch_advisories(root: &Path) -> Result<()> {
    let mut fetch = tools::DENY.command_within(root, PATIENCE)?;
    // Git would wait for a name and a password on the terminal.
    fetch.args(["fetch", "db"]).env("GIT_TERMINAL_PROMPT", "0").output().map(drop)
}

/// Private items too: most readers of the documentation are those who change the code.
pub(crate) fn documentation(root: &Path) -> Result<()> {
    let arguments =
        ["doc", "--workspace", "--all-features", "--no-deps", "--document-private-items", "--quiet"];
    cargo(root, &arguments).env("RUSTDOCFLAGS", "-Dwarnings").run()
}

/// Whether there is a whole database. A fetch that failed leaves other files.
fn has_advisories(directory: &Path) -> bool {
    let Ok(entries) = fs::read_dir(directory) else { return false };
    entries.flatten().any(|entry| entry.path().join("crates").is_dir())
}

/// Where cargo-deny keeps the database, unless `deny.toml` says otherwise.
fn advisories() -> PathBuf {
    let home = || env::home_dir().unwrap_or_else(env::temp_dir).join(".cargo");
    env::var_os("CARGO_HOME").map_or_else(home, PathBuf::from).join("advisory-dbs")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leftovers_of_a_fetch_that_failed_are_no_database_of_advisories() {
        let directory = tempfile::tempdir().unwrap();
        assert!(!has_advisories(&directory.path().join("not-there")));
        fs::write(directory.path().join("db.lock"), "").unwrap();
        fs::create_dir_all(directory.path().join("advisory-db-1/.git")).unwrap();
        assert!(!has_advisories(directory.path()));
        fs::create_dir_all(directory.path().join("advisory-db-1/crates/time")).unwrap();
        assert!(has_advisories(directory.path()));
    }
}
