//! Whether docs/reference/events.md has every reason of events in the code, and no other.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};

use super::calls::{arguments, is_name, names_on, sources, without_tests};

const PAGE: &str = "docs/reference/events.md";
/// Words that the page explains: the types of events.
const OTHER_NAMES: [&str; 2] = ["Normal", "Warning"];

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

/// Complain about every reason that only the page or only the code has.
pub(super) fn check(root: &Path, complaints: &mut Vec<String>) -> Result<()> {
    let page = fs::read_to_string(root.join(PAGE)).with_context(|| format!("cannot read {PAGE}"))?;
    let sources = sources(root)?;
    let reasons: BTreeSet<_> = sources.iter().flat_map(|(_, source)| reasons_in(source)).collect();
    let missing = reasons.iter().filter(|reason| !page.contains(&format!("`{reason}`")));
    complaints.extend(missing.map(|reason| format!("{PAGE} does not have the reason `{reason}`")));
    // Code puts some reasons together, so that any text in the code counts.
    let is_in_code = |name: &str| sources.iter().any(|(_, source)| source.contains(&format!("\"{name}\"")));
    let unknown = names_on(&page).filter(|name| !OTHER_NAMES.contains(name) && !is_in_code(name));
    complaints.extend(unknown.map(|name| format!("{PAGE} has the reason `{name}`, which no code writes")));
    Ok(())
}

/// The reasons in calls and constants, outside of tests. Those that code puts together are not found.
fn reasons_in(source: &str) -> BTreeSet<String> {
    let source = without_tests(source);
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

/// The first text that is one word in camel case.
fn reason_in(code: &str) -> Option<String> {
    code.split('"').skip(1).step_by(2).find(|text| is_name(text)).map(str::to_owned)
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
    fn page_and_code_agree() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let mut complaints = Vec::new();
        super::check(&root, &mut complaints).unwrap();
        assert!(complaints.is_empty(), "{complaints:#?}");
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
