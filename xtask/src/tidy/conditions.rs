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

/// The types that stand as text in `Condition::new("Type", …)`, outside of tests.
fn types_in(source: &str) -> BTreeSet<String> {
    let source = source.split("#[cfg(test)]").next().unwrap_or_default();
    let calls = source.split("Condition::new(").skip(1);
    let text = |call: &str| Some(call.trim_start().strip_prefix('"')?.split('"').next()?.to_owned());
    calls.filter_map(text).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_of_conditions_are_found() {
        let source = "a(Condition::new(\"Ready\", Status::True, \"Available\"));\nCondition::new(\n    \"Synced\",\n)\nCondition::new(kind)\n#[cfg(test)]\nmod tests { Condition::new(\"Mine\") }";
        assert_eq!(types_in(source), ["Ready", "Synced"].map(str::to_owned).into());
    }
}
