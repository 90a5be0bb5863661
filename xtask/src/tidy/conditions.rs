//! Whether docs/reference/conditions.md has every type and reason of conditions in the code, and no other, and whether every condition that
//! reports a failure has the code of its cause.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};

use super::calls::{argument, arguments, is_name, methods, names_on, sources, text_of};
use super::reasons::reasons;

const PAGE: &str = "docs/reference/conditions.md";

/// The kinds and codes that the page names, beside types and reasons.
const OTHER_NAMES: [&str; 1] = ["KindNotSupported"];

/// Conditions that are `False` and report no failure, or whose type and reason are enough (docs/causes.md), by file and by the reason as it
/// stands in the code. All others need a code.
const WITHOUT_CAUSE: [(&str, &str); 21] = [
    // Waits, is paused, or is being deleted.
    ("crates/controllers/src/apiextensions/claim/settle.rs", "ReconcilePaused"),
    ("crates/controllers/src/apiextensions/claim/settle.rs", "Waiting"),
    ("crates/controllers/src/apiextensions/claim/settle.rs", "Deleting"),
    ("crates/controllers/src/apiextensions/definition/report.rs", "S::WORDS.terminating"),
    ("crates/controllers/src/ops/cron_operation.rs", "SchedulePaused"),
    ("crates/controllers/src/ops/cron_operation.rs", "ReconcilePaused"),
    ("crates/controllers/src/ops/watch_operation.rs", "WatchPaused"),
    ("crates/controllers/src/ops/watch_operation.rs", "ReconcilePaused"),
    ("crates/controllers/src/pkg/status.rs", "ReconcilePaused"),
    ("crates/controllers/src/rollout/controller.rs", "WaitingForDefinition"),
    ("crates/engine/src/composite/conclude.rs", "ReconcilePaused"),
    ("crates/engine/src/composite/conclude.rs", "Deleting"),
    ("crates/engine/src/settle.rs", "Creating"),
    ("crates/engine/src/packages/managed_kinds.rs", "PendingManagedResource"),
    // The program is being started, or its pods are not available yet.
    ("crates/engine/src/packages/health.rs", "UnhealthyPackageRevision"),
    // A user or an author of a package has decided so.
    ("crates/engine/src/packages/health.rs", "InactivePackageRevision"),
    ("crates/engine/src/packages/managed_kinds.rs", "InactiveManagedResource"),
    ("crates/engine/src/packages/managed_kinds.rs", "AWAITING_ACTIVATION"),
    // The command that renews an intercept has ended, as it does when its user stops it.
    ("crates/engine/src/intercept.rs", "LeaseExpired"),
    // `Responsive`, `Uncontested`: type and reason are enough.
    ("crates/engine/src/composite/conclude.rs", "WatchCircuitOpen"),
    ("crates/engine/src/fights.rs", "FieldConflict"),
];
/// The only reason of `FunctionVersionsCurrent` that is a value.
const VERSION_WARNING: &str = "first.reason";

/// How a call continues that makes a condition which is not true.
const FALSE: &str = "Status::False,";

/// Complain about every name that only the page or only the code has, and about failures without a cause.
pub(super) fn check(root: &Path, complaints: &mut Vec<String>) -> Result<()> {
    let page = fs::read_to_string(root.join(PAGE)).with_context(|| format!("cannot read {PAGE}"))?;
    let sources = sources(root)?;
    let mut names = reasons(&sources, complaints);
    let mut without_cause = BTreeSet::new();
    for (name, source) in &sources {
        names.extend(types_in(source));
        names.extend(reasons_in(source));
        let uncoded = uncoded_in(source).into_iter();
        without_cause.extend(uncoded.map(|(line, reason)| (name.as_str(), line, reason)));
    }
    let missing = names.iter().filter(|name| !page.contains(&format!("`{name}`")));
    complaints.extend(missing.map(|name| format!("{PAGE} does not have the condition or reason `{name}`")));
    let is_in_code = |name: &str| sources.iter().any(|(_, source)| source.contains(&format!("\"{name}\"")));
    let unknown = names_on(&page).filter(|name| !OTHER_NAMES.contains(name) && !is_in_code(name));
    complaints.extend(unknown.map(|name| format!("{PAGE} has `{name}`, which no code writes")));
    let is_exempt =
        |name: &str, reason: &str| reason == VERSION_WARNING || WITHOUT_CAUSE.contains(&(name, reason));
    let uncoded = without_cause.iter().filter(|(name, _, reason)| !is_exempt(name, reason));
    complaints.extend(uncoded.map(|(name, line, reason)| {
        format!("{name}:{line}: the condition with the reason `{reason}` is false and has no cause (`with_failure`)")
    }));
    let is_used = |(name, reason): &(&str, &str)| {
        without_cause.iter().any(|(other, _, uncoded)| (other, uncoded.as_str()) == (name, *reason))
    };
    let unused = WITHOUT_CAUSE.iter().filter(|exempt| !is_used(exempt));
    complaints.extend(unused.map(|(name, reason)| {
        format!("{name} has no condition `{reason}` without a cause any more (xtask/src/tidy/conditions.rs)")
    }));
    Ok(())
}

/// The types in `Condition::new("Type", …)` and in `Condition::new(TYPE, …)` with a constant of the same file.
fn types_in(source: &str) -> BTreeSet<String> {
    let calls = source.split("Condition::new(").skip(1).map(str::trim_start);
    calls.filter_map(|call| text_of(source, call)).collect()
}

/// The reasons in all calls that have a status, of functions that make conditions, too: `…(…, Status::True, "Reason")`.
fn reasons_in(source: &str) -> BTreeSet<String> {
    let after = |status: &str| source.split(status).skip(1).map(str::trim_start).collect::<Vec<_>>();
    let calls = ["Status::True,", FALSE, "Status::Unknown,"].into_iter().flat_map(after);
    calls.filter_map(|call| text_of(source, call)).filter(|text| is_name(text)).collect()
}

/// The lines and reasons of conditions that are false and get no cause where they are made, nor in the rest of the function.
fn uncoded_in(source: &str) -> Vec<(usize, String)> {
    let mut uncoded = Vec::new();
    for (at, _) in source.match_indices(FALSE) {
        let rest = source[at + FALSE.len()..].trim_start();
        let inner = arguments(rest);
        let reason = argument(rest, 0);
        // An arm of a match, or a list: no condition is made here.
        if reason.is_empty() || reason.contains("=>") || begins_tuple(source, at) {
            continue;
        }
        let after = rest[inner.len()..].strip_prefix(')').unwrap_or_default();
        let has_cause = methods(after).contains(&"with_failure")
            || variable(source, at).is_some_and(|variable| gets_cause(after, variable));
        if !has_cause {
            let reason = text_of(source, reason).unwrap_or_else(|| reason.to_owned());
            uncoded.push((source[..at].matches('\n').count() + 1, reason));
        }
    }
    uncoded
}

/// Whether the code at this place is the first value of a tuple, and not of a call.
fn begins_tuple(source: &str, at: usize) -> bool {
    let before = source[..at].trim_end().strip_suffix('(');
    before.is_some_and(|before| !before.ends_with(|letter: char| letter.is_alphanumeric()))
}

/// The variable that the statement at this place defines, if it does: `let ready = …`.
fn variable(source: &str, at: usize) -> Option<&str> {
    let statement = &source[source[..at].rfind("let ")? + "let ".len()..at];
    let (name, value) = statement.split_once(" =")?;
    (!value.contains([';', '{', '}'])).then(|| name.trim_start_matches("mut "))
}

/// Whether the variable gets a cause in the rest of the function.
fn gets_cause(rest: &str, variable: &str) -> bool {
    let redefined = format!("let {variable} = Condition::");
    let end = ["\n    }\n", "\n}\n", redefined.as_str()].iter().filter_map(|end| rest.find(end)).min();
    let rest = &rest[..end.unwrap_or(rest.len())];
    let assigned = format!("{variable}.code =");
    let uses = rest.match_indices(variable).map(|(at, _)| &rest[at + variable.len()..]);
    rest.contains(&assigned) || uses.into_iter().any(|usage| methods(usage).contains(&"with_failure"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_and_code_agree() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let mut complaints = Vec::new();
        super::check(&root, &mut complaints).unwrap();
        assert!(complaints.is_empty(), "{complaints:#?}");
    }

    #[test]
    fn types_of_conditions_are_found() {
        let source = "a(Condition::new(\"Ready\", Status::True, \"Available\"));\nCondition::new(\n    \"Synced\",\n)\nCondition::new(kind)\nconst DONE: &str = \"Succeeded\";\nCondition::new(DONE, status)\n";
        assert_eq!(types_in(source), ["Ready", "Succeeded", "Synced"].map(str::to_owned).into());
    }

    #[test]
    fn reasons_of_conditions_are_found() {
        let source = "const LATE: &str = \"Late\";\nestablished(Status::False, \"Blocked\");\nCondition::new(A, Status::True, LATE);\n[(Status::True, \"True\")]; f(Status::Unknown,\n    reason)";
        assert_eq!(reasons_in(source), ["Blocked", "Late", "True"].map(str::to_owned).into());
    }

    #[track_caller]
    fn check(source: &str, expected: &[&str]) {
        let found = uncoded_in(source);
        assert_eq!(found.iter().map(|(_, reason)| reason.as_str()).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn condition_without_a_cause_is_found() {
        check("f(Condition::new(\"Ready\", Status::False, \"Failed\").with_message(why));", &["Failed"]);
        check(
            "let a = Condition::new(\"Ready\", Status::False, \"Failed\");\n    g(a);\n}\nfn other() { a.with_failure(c) }",
            &["Failed"],
        );
        check("Condition::new(\"Ready\", Status::False, S::WORDS.ending)", &["S::WORDS.ending"]);
    }

    #[test]
    fn condition_that_gets_a_cause_is_fine() {
        check(
            "Condition::new(\"Ready\", Status::False, \"Failed\")\n    .with_message(why)\n    .with_failure(cause.into())",
            &[],
        );
        check(
            "let mut a = Condition::new(A, Status::False, B).with_message(why);\n    a.code = code;\n    a\n}\n",
            &[],
        );
        check(
            "let a = Condition::new(A, Status::False, B);\n    g(a.with_message(why).with_failure(point));\n}\n",
            &[],
        );
    }

    #[test]
    fn status_that_is_no_condition_is_ignored() {
        check("match a {\n    A => Status::False,\n    _ => Status::True,\n}", &[]);
        check("[(Status::False, \"False\"), (Status::True, \"True\")]", &[]);
    }
}
