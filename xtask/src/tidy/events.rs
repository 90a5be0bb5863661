//! Whether docs/reference/events.md has every reason of events in the code.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};

use crate::shell::git;

const PAGE: &str = "docs/reference/events.md";
const SOURCES: [&str; 2] = ["crates/controllers/src/*.rs", "crates/engine/src/*.rs"];

/// Calls that are given the reason of an event as text.
const CALLS: [&str; 10] = [
    ".normal(",
    ".warning(",
    ".failure(",
    ".tell(",
    ".failed(",
    "Event::new(",
    "Event::failure(",
    "Failure::new(",
    "Failure::api(",
    "Problem::refused(",
];
/// How the comment of a constant begins that is a reason of events. The same line says that it is about events.
const COMMENT: &str = "/// The reason of ";

/// Complain about every reason that the page does not have.
pub(super) fn check(root: &Path, complaints: &mut Vec<String>) -> Result<()> {
    let page = fs::read_to_string(root.join(PAGE)).with_context(|| format!("cannot read {PAGE}"))?;
    let listed = git(root, &["ls-files", "--cached", "--", SOURCES[0], SOURCES[1]]).output()?;
    let mut reasons = BTreeSet::new();
    for name in listed.lines().filter(|name| !name.ends_with("/tests.rs") && root.join(name).exists()) {
        let source = fs::read_to_string(root.join(name)).with_context(|| format!("cannot read {name}"))?;
        reasons.extend(reasons_in(&source));
    }
    let missing = reasons.iter().filter(|reason| !page.contains(&format!("`{reason}`")));
    complaints.extend(missing.map(|reason| format!("{PAGE} does not have the reason `{reason}`")));
    Ok(())
}

/// The reasons in calls and constants, outside of tests. Those that code puts together are not found.
fn reasons_in(source: &str) -> BTreeSet<String> {
    let source = source.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let mut reasons = BTreeSet::new();
    for call in CALLS {
        reasons.extend(source.split(call).skip(1).filter_map(|rest| reason_in(arguments(rest))));
    }
    let mut is_reason = false;
    for line in source.lines().map(str::trim) {
        if line.contains("const REASON: ") || is_reason && line.contains("const ") {
            reasons.extend(reason_in(line));
        }
        let is_about_events = line.starts_with(COMMENT) && line.contains("event");
        is_reason = is_about_events || is_reason && line.starts_with("///");
    }
    reasons
}

/// What stands before the parenthesis that closes a call.
fn arguments(rest: &str) -> &str {
    let mut depth = 1_usize;
    for (at, letter) in rest.char_indices() {
        match letter {
            '(' => depth += 1,
            ')' if depth == 1 => return &rest[..at],
            ')' => depth -= 1,
            _ => {}
        }
    }
    rest
}

/// The first text that is one word in camel case.
fn reason_in(code: &str) -> Option<String> {
    let is_reason = |text: &&str| {
        text.starts_with(|letter: char| letter.is_ascii_uppercase())
            && text.len() > 1
            && text.chars().all(|letter| letter.is_ascii_alphabetic())
    };
    code.split('"').skip(1).step_by(2).find(is_reason).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(source: &str, expected: &[&str]) {
        let expected: BTreeSet<_> = expected.iter().map(|reason| (*reason).to_owned()).collect();
        assert_eq!(reasons_in(source), expected);
    }

    #[test]
    fn reasons_in_calls_are_found() {
        check("self.recorder.normal(&a, \"Made\", f(\"It is\"));", &["Made"]);
        check("Event::failure(\n    \"Failed\",\n    message,\n)", &["Failed"]);
        check("self.recorder.normal(&a, reason, \"Made it\"); other(\"Made\")", &[]);
    }

    #[test]
    fn constants_that_are_reasons_are_found() {
        check("const REASON: &str = \"Made\";\nconst KIND: &str = \"Thing\";", &["Made"]);
        check("/// The reason of events\n/// about things.\npub const THING: &str = \"Made\";", &["Made"]);
        check("/// The reason of an answer.\npub const LARGE: &str = \"Large\";", &[]);
    }

    #[test]
    fn reasons_of_tests_are_not_documented() {
        check("a();\n#[cfg(test)]\nmod tests {\n    b.normal(&c, \"Made\", d);\n}", &[]);
    }
}
