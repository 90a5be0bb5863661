//! Whether the files and folders exist that documents name.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};

use crate::shell::git;

/// The folders at the root. What begins with one of them is a path.
const ROOTS: [&str; 9] =
    ["benches/", "compatibility/", "crates/", "deploy/", "docs/", "examples/", "fuzz/", "tests/", "xtask/"];

/// Complain about every path in a document that leads nowhere.
pub(super) fn check(root: &Path, complaints: &mut Vec<String>) -> Result<()> {
    let documents =
        git(root, &["ls-files", "--cached", "--others", "--exclude-standard", "*.md"]).output()?;
    for document in documents.lines().filter(|document| root.join(document).exists()) {
        let text =
            fs::read_to_string(root.join(document)).with_context(|| format!("cannot read {document}"))?;
        let exists = |path: &str| root.join(path).exists() || root.join(format!("{path}.rs")).exists();
        for path in dead_paths(&text, exists) {
            complaints.push(format!("{document} names `{path}`, which does not exist"));
        }
    }
    Ok(())
}

/// The paths in backticks that lead nowhere. `names.rs` after `crates/engine/src/plan.rs` in the same line lies beside it.
fn dead_paths(text: &str, exists: impl Fn(&str) -> bool) -> Vec<String> {
    let mut dead = Vec::new();
    for line in text.lines() {
        let mut folder = None;
        // Every second part is between two backticks.
        for word in line.split('`').skip(1).step_by(2) {
            let Some(path) = to_path(word, folder.as_deref()) else { continue };
            if ROOTS.iter().any(|top| word.starts_with(top)) {
                let path = path.trim_end_matches('/');
                folder = Some(if word.ends_with('/') { path } else { parent(path) }.to_owned());
            }
            if !exists(&path) {
                dead.push(path);
            }
        }
    }
    dead
}

/// A path from the root, if a word is one. A placeholder or a command is none.
fn to_path(word: &str, folder: Option<&str>) -> Option<String> {
    if word.contains([' ', '<', '*', '{', '…', '$', ':']) {
        return None;
    }
    if ROOTS.iter().any(|top| word.starts_with(top)) {
        return Some(word.to_owned());
    }
    let is_source = Path::new(word).extension().is_some_and(|extension| extension == "rs");
    let is_beside = is_source || word.ends_with('/') && !word.starts_with('/');
    is_beside.then(|| folder.map(|folder| format!("{folder}/{word}"))).flatten()
}

fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(parent, _)| parent)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, dead: &[&str]) {
        let there =
            ["crates/engine/src/plan.rs", "crates/engine/src/names.rs", "crates/engine/src/versions/"];
        assert_eq!(dead_paths(text, |path| there.contains(&path)), dead);
    }

    #[test]
    fn path_that_exists_is_fine() {
        check("| wrong name | `crates/engine/src/plan.rs`, `names.rs`, `versions/` |", &[]);
    }

    #[test]
    fn path_that_does_not_exist_is_found() {
        check("see `crates/engine/src/gone.rs`", &["crates/engine/src/gone.rs"]);
        check("`crates/engine/src/plan.rs`, `gone.rs`", &["crates/engine/src/gone.rs"]);
        check("`crates/engine/src/plan.rs`, `gone/`", &["crates/engine/src/gone/"]);
    }

    #[test]
    fn word_without_a_folder_before_it_is_no_path() {
        check("`names.rs` and `cargo xtask tidy` and `spec/`", &[]);
        check("`crates/functions/src/<function>.rs`", &[]);
    }
}
