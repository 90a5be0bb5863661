//! The reasons of conditions in the code, those that are no text where the condition is made included.

use std::collections::BTreeSet;

use super::calls::{argument, is_name, text_of};

/// How a condition is made.
const NEW: &str = "Condition::new(";

/// Where reasons stand: the file, and what is before a text, or before a block in braces whose words are reasons.
type Origin = (&'static str, &'static str);

/// Reasons that are no text where the condition is made: the file, the code of the reason there, and where they stand.
const COMPUTED: [(&str, &str, &[Origin]); 12] = [
    (
        "crates/controllers/src/apiextensions/definition/report.rs",
        "S::WORDS.watching",
        &[
            ("crates/controllers/src/apiextensions/definition.rs", "watching: "),
            ("crates/controllers/src/apiextensions/claim_definition.rs", "watching: "),
        ],
    ),
    (
        "crates/controllers/src/apiextensions/definition/report.rs",
        "S::WORDS.terminating",
        &[
            ("crates/controllers/src/apiextensions/definition.rs", "terminating: "),
            ("crates/controllers/src/apiextensions/claim_definition.rs", "terminating: "),
        ],
    ),
    (
        "crates/controllers/src/rollout/controller.rs",
        "status.state.as_str()",
        &[("crates/api/src/rollout.rs", "impl RolloutState ")],
    ),
    (
        "crates/controllers/src/unsupported.rs",
        "NOT_SUPPORTED",
        &[("crates/api/src/unsupported.rs", "const NOT_SUPPORTED: &str = ")],
    ),
    (
        "crates/engine/src/advice.rs",
        "first.reason",
        &[
            ("crates/engine/src/versions/resolve.rs", "fn reason(&self) -> &'static str "),
            ("crates/engine/src/versions/resolve.rs", "Self::EndOfSupport { .. } => "),
        ],
    ),
    (
        "crates/engine/src/function_standing.rs",
        "self.reason()",
        &[("crates/engine/src/function_standing.rs", "fn reason(&self) -> &'static str ")],
    ),
    ("crates/engine/src/intercept.rs", "reason", &[("crates/engine/src/intercept.rs", "pub fn standing(")]),
    (
        "crates/engine/src/packages/health.rs",
        "reason",
        &[("crates/engine/src/packages/health.rs", "pub fn unpacking(")],
    ),
    (
        "crates/engine/src/packages/managed_kinds.rs",
        "reason",
        &[("crates/engine/src/packages/managed_kinds.rs", "pub fn managed_kind_condition(")],
    ),
    (
        "crates/engine/src/packages/managed_kinds.rs",
        "AWAITING_ACTIVATION",
        &[("crates/engine/src/packages/health.rs", "const AWAITING_ACTIVATION: &str = ")],
    ),
    (
        "crates/engine/src/rollout/acceptance.rs",
        "reason",
        &[("crates/engine/src/rollout/acceptance.rs", "pub fn accept(")],
    ),
    (
        "crates/engine/src/validity.rs",
        "reason",
        &[("crates/engine/src/validity.rs", "pub fn pipeline_condition")],
    ),
];
/// The reason of a condition of a function, which chooses it.
const OF_FUNCTIONS: &str = "&condition.reason";

/// All reasons in these sources. Complains about code whose reasons cannot be found.
pub(super) fn reasons(sources: &[(String, String)], complaints: &mut Vec<String>) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut computed = Vec::new();
    for (name, source) in sources {
        for (line, reason) in reasons_in_calls(source) {
            match text_of(source, reason) {
                Some(text) => {
                    found.insert(text);
                }
                None if reason == OF_FUNCTIONS => {}
                None => computed.push((name.as_str(), line, reason)),
            }
        }
    }
    for (name, line, reason) in &computed {
        if !COMPUTED.iter().any(|(file, code, _)| (file, code) == (name, reason)) {
            complaints.push(format!(
                "{name}:{line}: the reason `{reason}` of the condition is no text; say in xtask/src/tidy/reasons.rs where its texts are"
            ));
        }
    }
    for (file, code, origins) in COMPUTED {
        if !computed.iter().any(|(name, _, reason)| (*name, *reason) == (file, code)) {
            complaints.push(format!(
                "{file} has no condition with the reason `{code}` any more (xtask/src/tidy/reasons.rs)"
            ));
        }
        for (origin, before) in origins {
            let source = sources.iter().find(|(name, _)| name == origin);
            let texts = source.map(|(_, source)| texts_after(source, before)).unwrap_or_default();
            if texts.is_empty() {
                complaints.push(format!("{origin} has no reasons after `{before}` (see tidy/reasons.rs)"));
            }
            found.extend(texts.into_iter().map(str::to_owned));
        }
    }
    found.retain(|reason| is_name(reason));
    found
}

/// The lines and the code of the reasons of all conditions that are made.
fn reasons_in_calls(source: &str) -> impl Iterator<Item = (usize, &str)> {
    source.match_indices(NEW).map(move |(at, _)| {
        let line = source[..at].matches('\n').count() + 1;
        (line, argument(&source[at + NEW.len()..], 2))
    })
}

/// The text that stands behind these words, or the words in camel case in the block behind them.
fn texts_after<'s>(source: &'s str, before: &str) -> Vec<&'s str> {
    let Some((_, rest)) = source.split_once(before) else { return Vec::new() };
    match rest.strip_prefix('"') {
        Some(text) => text.split('"').take(1).collect(),
        None => block(rest).split('"').skip(1).step_by(2).filter(|text| is_name(text)).collect(),
    }
}

/// The first block in braces. Braces in texts come in pairs, too.
fn block(code: &str) -> &str {
    let mut depth = 0_usize;
    let begin = code.find('{').unwrap_or(code.len());
    for (at, letter) in code[begin..].char_indices() {
        match letter {
            '{' => depth += 1,
            '}' if depth == 1 => return &code[begin..begin + at],
            '}' => depth -= 1,
            _ => {}
        }
    }
    &code[begin..]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_the_third_arguments_of_conditions() {
        let source = "Condition::new(\"Ready\", Status::True, \"Available\")\nCondition::new(\n    A,\n    status(1, 2),\n    self.reason(),\n)";
        let found: Vec<_> = reasons_in_calls(source).collect();
        assert_eq!(found, [(1, "\"Available\""), (2, "self.reason()")]);
    }

    #[test]
    fn texts_stand_behind_words_or_in_the_block_behind_them() {
        let source = "fn a() -> T { \"No\" }\nfn reason(&self) -> T {\n    match self {\n        A { .. } => \"One\",\n        B => { \"Two\" }\n    }\n}\nfn b() { \"Three\" }\nc: \"Four\", \"Five\"";
        assert_eq!(texts_after(source, "fn reason(&self) -> T "), ["One", "Two"]);
        assert_eq!(texts_after(source, "c: "), ["Four"]);
        assert_eq!(texts_after(source, "gone"), [""; 0]);
    }

    #[test]
    fn reason_that_cannot_be_found_is_a_complaint() {
        let source = "Condition::new(A, status, REASON)\nCondition::new(A, status, choose(b))\nconst REASON: &str = \"Late\";";
        let mut complaints = Vec::new();
        let found = reasons(&[("a.rs".to_owned(), source.to_owned())], &mut complaints);
        assert_eq!(found, ["Late".to_owned()].into());
        assert!(complaints[0].starts_with("a.rs:2: the reason `choose(b)`"), "{complaints:?}");
    }
}
