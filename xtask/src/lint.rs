//! Checks by programs that we did not write: spelling, unused dependencies, licences and sources of dependencies; and
//! whether the documentation of the code builds without a warning.

use std::path::{Path, PathBuf};
use std::{env, fs};

use anyhow::Result;

use crate::ci::Skipped;
use crate::shell::{cargo, step};
use crate::tools;

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
    let mut deny = tools::DENY.command(root)?;
    deny.args(["--all-features", "--locked", "check", "--hide-inclusion-graph"]);
    // Where the database of advisories comes from cannot be reached from everywhere. Who has it finds it checked.
    if has_advisories() {
        deny.args(["--disable-fetch", "advisories"]);
    }
    deny.args(["bans", "licenses", "sources"]).run()?;
    if has_advisories() {
        return Ok(Vec::new());
    }
    let reason = format!("advisories: there is no database in {}", advisories().display());
    Ok(vec![reason])
}

/// Private items too: most readers of the documentation are those who change the code.
pub(crate) fn documentation(root: &Path) -> Result<()> {
    let arguments =
        ["doc", "--workspace", "--all-features", "--no-deps", "--document-private-items", "--quiet"];
    cargo(root, &arguments).env("RUSTDOCFLAGS", "-Dwarnings").run()
}

fn has_advisories() -> bool {
    fs::read_dir(advisories()).is_ok_and(|mut entries| entries.next().is_some())
}

/// Where cargo-deny keeps the database, unless `deny.toml` says otherwise.
fn advisories() -> PathBuf {
    let home = || env::home_dir().unwrap_or_else(env::temp_dir).join(".cargo");
    env::var_os("CARGO_HOME").map_or_else(home, PathBuf::from).join("advisory-dbs")
}
