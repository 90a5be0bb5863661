//! Whether the diagram in ARCHITECTURE.md has every crate.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};

const PAGE: &str = "ARCHITECTURE.md";
const CRATES: &str = "crates";

/// Complain about every crate that the diagram does not have.
pub(super) fn check(root: &Path, complaints: &mut Vec<String>) -> Result<()> {
    let page = fs::read_to_string(root.join(PAGE)).with_context(|| format!("cannot read {PAGE}"))?;
    let mut crates = BTreeSet::new();
    for entry in fs::read_dir(root.join(CRATES)).with_context(|| format!("cannot list {CRATES}/"))? {
        let entry = entry?;
        if entry.path().join("Cargo.toml").exists() {
            crates.insert(entry.file_name().to_string_lossy().into_owned());
        }
    }
    let names = names_in(&page);
    let missing = crates.iter().filter(|name| !names.contains(name.as_str()));
    complaints.extend(missing.map(|name| format!("the diagram in {PAGE} does not have the crate `{name}`")));
    Ok(())
}

/// The words in the first block of code of a page.
fn names_in(page: &str) -> BTreeSet<&str> {
    let diagram = page.split("```").nth(1).unwrap_or_default();
    diagram.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '-').collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_first_block_is_the_diagram() {
        let page = "text\n```text\ncli ─▶ wire, remote-templates:\n```\n`schema`\n```\ngolang\n```\n";
        let names = names_in(page);
        for name in ["cli", "wire", "remote-templates"] {
            assert!(names.contains(name), "{names:?}");
        }
        for name in ["schema", "golang", "remote"] {
            assert!(!names.contains(name), "{names:?}");
        }
    }
}
