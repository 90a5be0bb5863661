//! Whether docs/reference/events.md has every reason of events in the code, and no other, and whether every warning that reports a failure
//! has the code of its cause.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};

use super::calls::{argument, arguments, is_name, names_on, sources, text_of, without_tests};

const PAGE: &str = "docs/reference/events.md";
/// The page that says which warnings have no code.
const CAUSES: &str = "docs/causes.md";
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
/// Warnings without a cause: the file, the reason as it stands in the code, and the reasons as [`CAUSES`] has them. All others are made with
/// `failure`, which takes a cause.
const WITHOUT_CAUSE: [(&str, &str, &[&str]); 16] = [
    // The recorder itself: `warning`, and `failure`, which has a cause.
    ("crates/controllers/src/runtime/events.rs", "reason: reason.to_owned()", &[]),
    ("crates/engine/src/outcome.rs", "reason", &[]),
    // Events of the engine that are passed on: those with a cause are passed on as failures.
    ("crates/controllers/src/blueprints/action_set.rs", "&event.reason", &[]),
    ("crates/controllers/src/ops/operation.rs", "&event.reason", &[]),
    // Warnings that functions return.
    ("crates/engine/src/run.rs", "Ok(Severity::Warning) => EventKind::Warning,", &[]),
    ("crates/engine/src/run.rs", "reason.as_deref().unwrap_or(COMPOSE)", &[]),
    // Advice: everything works.
    ("crates/engine/src/run.rs", "advisory.reason()", &VERSION_WARNINGS),
    ("crates/engine/src/action/status.rs", "&it.reason", &VERSION_WARNINGS),
    ("crates/controllers/src/apiextensions/revision.rs", "warning.reason", &VERSION_WARNINGS),
    ("crates/controllers/src/pkg/revision.rs", "LintPackage", &["LintPackage"]),
    // Another decision than the one that was asked for, which the message explains.
    ("crates/engine/src/plan.rs", "NamespaceOverridden", &["NamespaceOverridden"]),
    ("crates/controllers/src/function_registry/listing.rs", "DevelopmentIgnored", &["DevelopmentIgnored"]),
    ("crates/controllers/src/unsupported.rs", "CommandNotRun", &["CommandNotRun"]),
    // A developer's process answers, as its user wishes, or does so no more.
    (
        "crates/controllers/src/apiextensions/composite/intercept.rs",
        "FunctionIntercepted",
        &["FunctionIntercepted"],
    ),
    ("crates/controllers/src/rollout/intercept_controller.rs", "&reason", &["LeaseExpired"]),
    // The reason is enough, as in the condition `Uncontested`.
    ("crates/engine/src/fights.rs", "FieldConflict", &["FieldConflict"]),
];
const VERSION_WARNINGS: [&str; 2] = ["FunctionVersionDeprecated", "FunctionVersionFallback"];
/// The type of events that warn, and the method of the recorder that writes them without a cause.
const WARNINGS: [&str; 2] = ["EventKind::Warning", ".warning("];

/// How the comment of a constant begins that is a reason of events. The same line says that it is about events.
const COMMENT: &str = "/// The reason of ";

/// Complain about every reason that only the page or only the code has, and about warnings without a cause.
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
    let causes = fs::read_to_string(root.join(CAUSES)).with_context(|| format!("cannot read {CAUSES}"))?;
    check_warnings(&sources, &causes, complaints);
    Ok(())
}

/// Complain about warnings without a cause that are no exception, about exceptions that no code needs, and about those that the page of the
/// causes does not name.
fn check_warnings(sources: &[(String, String)], causes: &str, complaints: &mut Vec<String>) {
    let found = |(name, source): &(String, String)| {
        let warnings = uncoded_in(source).into_iter();
        warnings.map(|(line, reason)| (name.clone(), line, reason)).collect::<Vec<_>>()
    };
    let found: Vec<_> = sources.iter().flat_map(found).collect();
    let is_exempt = |name: &str, reason: &str| {
        WITHOUT_CAUSE.iter().any(|(file, exempt, _)| (*file, *exempt) == (name, reason))
    };
    let uncoded = found.iter().filter(|(name, _, reason)| !is_exempt(name, reason));
    complaints.extend(uncoded.map(|(name, line, reason)| {
        format!("{name}:{line}: the warning with the reason `{reason}` has no cause (`failure`)")
    }));
    for (file, exempt, documented) in WITHOUT_CAUSE {
        if !found.iter().any(|(name, _, reason)| (name.as_str(), reason.as_str()) == (file, exempt)) {
            complaints.push(format!(
                "{file} has no warning `{exempt}` without a cause any more (xtask/src/tidy/events.rs)"
            ));
        }
        let missing = documented.iter().filter(|reason| !causes.contains(&format!("`{reason}`")));
        complaints.extend(missing.map(|reason| {
            format!("{CAUSES} does not say that events with the reason `{reason}` have no code")
        }));
    }
}

/// The lines and reasons of warnings that are made without a cause. The reason is the argument after the type or the object, and the line
/// of code where there is none.
fn uncoded_in(source: &str) -> Vec<(usize, String)> {
    let mut uncoded = Vec::new();
    for warning in WARNINGS {
        for (at, _) in source.match_indices(warning) {
            let rest = &source[at + warning.len()..];
            let before = &source[..at];
            // A pattern of a match decides about a warning that was made elsewhere.
            if rest.trim_start_matches(')').trim_start().starts_with("=>") {
                continue;
            }
            let begin = before.rfind('\n').map_or(0, |end| end + 1);
            let is_value_of_arm = before.trim_end().ends_with("=>");
            let reason = if is_value_of_arm {
                source[begin..].lines().next().unwrap_or_default().trim()
            } else {
                argument(rest, 1)
            };
            let line = before.matches('\n').count() + 1;
            uncoded.push((line, text_of(source, reason).unwrap_or_else(|| reason.to_owned())));
        }
    }
    uncoded
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

    #[track_caller]
    fn check_uncoded(source: &str, expected: &[(usize, &str)]) {
        let found = uncoded_in(source);
        let found: Vec<_> = found.iter().map(|(line, reason)| (*line, reason.as_str())).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn warning_without_a_cause_is_found() {
        check_uncoded("a();\nself.recorder.warning(f(&a, 1), \"Odd\", why);", &[(2, "Odd")]);
        check_uncoded("Event::new(\n    EventKind::Warning,\n    REASON,\n    f(a),\n)", &[(2, "REASON")]);
        check_uncoded(
            "const ODD: &str = \"Odd\";\nEvent { message, ..Event::new(EventKind::Warning, ODD, message) }",
            &[(2, "Odd")],
        );
        check_uncoded("Event { kind: EventKind::Warning, reason: a(b), message }", &[(1, "reason: a(b)")]);
        check_uncoded(
            "let kind = match it {\n    A => EventKind::Warning,\n};",
            &[(2, "A => EventKind::Warning,")],
        );
    }

    #[test]
    fn warning_that_is_passed_on_or_has_a_cause_is_fine() {
        check_uncoded(
            "match kind {\n    (None, EventKind::Warning) => a(),\n    EventKind::Warning => b(),\n}",
            &[],
        );
        check_uncoded("self.recorder.failure(&a, \"Odd\", why, cause);", &[]);
    }

    #[test]
    fn warning_that_is_no_exception_is_complained_about() {
        let code = "self.recorder.warning(&a, \"Odd\", why);";
        let mut complaints = Vec::new();
        check_warnings(&[("crates/engine/src/plan.rs".to_owned(), code.to_owned())], "", &mut complaints);
        let has = |words: &str| complaints.iter().any(|complaint| complaint.contains(words));
        assert!(has("crates/engine/src/plan.rs:1: the warning with the reason `Odd` has no cause"));
        assert!(has(
            "crates/engine/src/plan.rs has no warning `NamespaceOverridden` without a cause any more"
        ));
        assert!(has("docs/causes.md does not say that events with the reason `LeaseExpired` have no code"));
    }
}
