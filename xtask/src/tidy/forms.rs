//! The form of errors and log lines in code: no capital letter at the start and no full stop at the end (docs/contributing/words.md).
//!
//! Reads the texts that stand where an error or a log line is made. Not a parser of Rust, as `texts` is none.

use super::calls::without_tests;

/// What makes an error or a log line of the first text that follows.
const MAKERS: [&str; 9] = [
    "#[error(",
    "bail!(",
    "anyhow!(",
    ".context(",
    ".with_context(|| format!(",
    "warn!(",
    "info!(",
    "error!(",
    "debug!(",
];

/// Code whose errors are those of the Kubernetes API server.
const FOREIGN: &str = "crates/apiserver/src/webhooks/";

/// What is wrong with the errors and log lines of a source, with the lines.
pub(super) fn faults(name: &str, source: &str) -> Vec<(usize, String)> {
    if name.starts_with(FOREIGN) {
        return Vec::new();
    }
    let code = without_tests(source);
    let mut faults = Vec::new();
    for maker in MAKERS {
        for (at, _) in code.match_indices(maker) {
            let Some(text) = first_text(&code[at + maker.len()..]) else { continue };
            let line = code[..at].matches('\n').count() + 1;
            faults.extend(fault(text).map(|fault| (line, format!("the text `{text}` {fault}"))));
        }
    }
    faults.sort();
    faults
}

/// The first text among the arguments of a call, unless it is the value of a field or the argument of another call.
fn first_text(arguments: &str) -> Option<&str> {
    let (before, after) = arguments.split_once('"')?;
    if before.contains([')', ';', '{']) || before.trim_end().ends_with(['=', '(']) {
        return None;
    }
    let mut is_escaped = false;
    let end = after.find(|letter: char| {
        let ends = letter == '"' && !is_escaped;
        is_escaped = letter == '\\' && !is_escaped;
        ends
    })?;
    Some(&after[..end])
}

fn fault(text: &str) -> Option<&'static str> {
    if text.ends_with('.') {
        return Some("ends with a full stop");
    }
    let word = text.split(|letter: char| !letter.is_alphanumeric()).next().unwrap_or_default();
    let inner = || word.chars().skip(1);
    let is_capitalised = word.starts_with(char::is_uppercase) && inner().any(char::is_lowercase);
    // Kinds and their objects, such as `CompositionRevision` and "Operation `nightly`", have capital letters anywhere.
    let is_name = inner().any(char::is_uppercase)
        || [" `", " {"].iter().any(|next| text[word.len()..].starts_with(next));
    (is_capitalised && !is_name).then_some("begins with a capital letter")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(source: &str, expected: &[(usize, &str)]) {
        let found = faults("crates/cli/src/up.rs", source);
        assert_eq!(found.len(), expected.len(), "{found:?}");
        for ((line, fault), (expected_line, expected)) in found.iter().zip(expected) {
            assert!(line == expected_line && fault.ends_with(expected), "{line}: {fault}");
        }
    }

    #[test]
    fn capital_letter_and_full_stop_of_errors_and_log_lines_are_found() {
        check("#[error(\"Cannot read {0}\")]\nA,", &[(1, "begins with a capital letter")]);
        check("let a = 1;\nbail!(\n    \"cannot read \\\"it\\\".\"\n);", &[(2, "ends with a full stop")]);
        check("warn!(kind = %kind, \"Cannot read\");", &[(1, "begins with a capital letter")]);
    }

    #[test]
    fn names_values_of_fields_and_tests_are_fine() {
        check("bail!(\"Operation `{}` still runs\", name)", &[]);
        check("bail!(\"WebAssembly has no network\")", &[]);
        check("#[error(\"HTTP 2 is refused\")]", &[]);
        check("#[error(transparent)]\nA(Error),\nconst B: &str = \"Not an error.\";", &[]);
        check("warn!(code = \"Refused\", \"cannot read\");", &[]);
        check("#[cfg(test)]\nmod tests {\nbail!(\"Cannot.\")", &[]);
        assert!(faults("crates/apiserver/src/webhooks/a.rs", "bail!(\"Unparsable URL\")").is_empty());
    }
}
