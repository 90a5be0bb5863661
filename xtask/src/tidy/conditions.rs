//! Whether docs/reference/conditions.md has every type of condition that the code writes.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};

use crate::shell::git;

const PAGE: &str = "docs/reference/conditions.md";
const SOURCES: [&str; 2] = ["crates/controllers/src/*.rs", "crates/engine/src/*.rs"];

/// Complain about every type of condition that the page does not have.
pub(super) fn check(root: &Path, complaints: &mut Vec<String>) -> Result<()> {
    let page = fs::read_to_string(root.join(PAGE)).with_context(|| format!("cannot read {PAGE}"))?;
    let listed = git(root, &["ls-files", "--cached", "--", SOURCES[0], SOURCES[1]]).output()?;
    let mut types = BTreeSet::new();
    for name in listed.lines().filter(|name| root.join(name).exists()) {
        let source = fs::read_to_string(root.join(name)).with_context(|| format!("cannot read {name}"))?;
        types.extend(types_in(&source));
    }
    let missing = types.iter().filter(|kind| !page.contains(&format!("`{kind}`")));
    complaints.extend(missing.map(|kind| format!("{PAGE} does not have the condition `{kind}`")));
    Ok(())
}

/// The types in `Condition::new("Type", …)` and in `Condition::new(TYPE, …)` with a constant of the same file, outside of tests.
fn types_in(source: &str) -> BTreeSet<String> {
    let source = source.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let calls = source.split("Condition::new(").skip(1).map(str::trim_start);
    let kind = |call: &str| match call.strip_prefix('"') {
        Some(text) => text.split('"').next().map(str::to_owned),
        None => constant(source, call),
    };
    calls.filter_map(kind).collect()
}

/// The text of the constant whose name stands at the beginning of a call.
fn constant(source: &str, call: &str) -> Option<String> {
    let name = call.split(|letter: char| !letter.is_ascii_uppercase() && letter != '_').next()?;
    let value = source.split(&format!("const {name}: &str = \"")).nth(1)?;
    value.split('"').next().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_of_conditions_are_found() {
        let source = "a(Condition::new(\"Ready\", Status::True, \"Available\"));\nCondition::new(\n    \"Synced\",\n)\nCondition::new(kind)\nconst DONE: &str = \"Succeeded\";\nCondition::new(DONE, status)\n#[cfg(test)]\nmod tests { Condition::new(\"Mine\") }";
        assert_eq!(types_in(source), ["Ready", "Succeeded", "Synced"].map(str::to_owned).into());
    }
}
