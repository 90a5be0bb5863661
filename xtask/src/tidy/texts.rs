//! The texts in Rust code that users may read (errors, conditions, events, log lines, notes), and its comments.
//!
//! Not a parser of Rust: it knows comments, texts and characters, which is enough for our own code.

/// Where the tests of a file begin.
const TESTS: &str = "#[cfg(test)]\nmod tests {";

/// The texts of several words in a source, with their lines, without those of tests and without reasons of lints.
pub(super) fn texts(source: &str) -> Vec<(usize, String)> {
    let source = source.split(TESTS).next().unwrap_or_default();
    let mut texts = Vec::new();
    let mut rest = source;
    while let Some(at) = rest.find(['"', '\'', '/']) {
        let (before, after) = (&rest[..at], &rest[at + 1..]);
        rest = match rest.as_bytes()[at] {
            b'"' => {
                let (text, below) = literal(before, after);
                if text.contains(' ') && !before.trim_end().ends_with("reason =") {
                    let line = source[..source.len() - after.len()].matches('\n').count() + 1;
                    texts.push((line, words(text)));
                }
                below
            }
            b'\'' => after_character(after),
            _ if after.starts_with('/') => after.split_once('\n').map_or("", |(_, below)| below),
            _ => after,
        };
    }
    texts
}

/// The comments of a source with their first lines, without those of tests. Lines with one marker that follow each other are one comment.
pub(super) fn comments(source: &str) -> Vec<(usize, String)> {
    let source = source.split(TESTS).next().unwrap_or_default();
    let mut comments: Vec<(usize, String)> = Vec::new();
    let mut last = None;
    for (index, line) in source.lines().enumerate() {
        let Some((marker, text)) = comment(line) else {
            last = None;
            continue;
        };
        match comments.last_mut() {
            Some((_, whole)) if last == Some(marker) => {
                whole.push('\n');
                whole.push_str(text);
            }
            _ => comments.push((index + 1, text.to_owned())),
        }
        last = Some(marker);
    }
    comments
}

/// The marker and the text of a line that is a comment.
fn comment(line: &str) -> Option<(&'static str, &str)> {
    let line = line.trim_start();
    let split = |marker: &'static str| Some((marker, line.strip_prefix(marker)?));
    let (marker, text) = ["///", "//!", "//"].into_iter().find_map(split)?;
    Some((marker, text.strip_prefix(' ').unwrap_or(text)))
}

/// A text and what comes after it. It may be raw: `r#"text"#`.
fn literal<'a>(before: &str, after: &'a str) -> (&'a str, &'a str) {
    let hashes = before.len() - before.trim_end_matches('#').len();
    if before.trim_end_matches('#').ends_with('r') && hashes > 0 {
        let end = format!("\"{}", "#".repeat(hashes));
        return after.split_once(end.as_str()).unwrap_or((after, ""));
    }
    let mut is_escaped = false;
    for (at, letter) in after.char_indices() {
        if letter == '"' && !is_escaped {
            return (&after[..at], &after[at + 1..]);
        }
        is_escaped = letter == '\\' && !is_escaped;
    }
    (after, "")
}

/// What comes after a quote that begins a character, such as `'"'`, or a lifetime.
fn after_character(after: &str) -> &str {
    let mut letters = after.chars();
    match (letters.next(), letters.next()) {
        (Some('\\'), Some(escaped)) => {
            let end = after[1 + escaped.len_utf8()..].split_once('\'');
            end.map_or("", |(_, below)| below)
        }
        (Some(letter), Some('\'')) => &after[letter.len_utf8() + 1..],
        _ => after,
    }
}

/// A text without line breaks and without the names of values in it, such as `{name}`.
fn words(text: &str) -> String {
    let text = text.replace("\\n", " ").replace("\\\n", " ");
    let mut parts = text.split('{');
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        out.push_str("value");
        out.push_str(part.split_once('}').map_or(part, |(_, after)| after));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(source: &str, expected: &[(usize, &str)]) {
        let found = texts(source);
        let found: Vec<_> = found.iter().map(|(line, text)| (*line, text.as_str())).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn texts_of_several_words_are_found_with_their_lines() {
        check(
            "#[error(\"cannot read\")]\nA,\nbail!(\"no \\\"b\\\" here\")",
            &[(1, "cannot read"), (3, "no \\\"b\\\" here")],
        );
        check("let a = \"word\"; f(r#\"a \"b\" c\"#, \"d e\")", &[(1, "a \"b\" c"), (1, "d e")]);
    }

    #[test]
    fn comments_of_several_lines_are_one_text() {
        let source = "//! One\n//! two.\n\n/// Three\nfn f() {\n    // four\n    // five\n} // six\n#[cfg(test)]\nmod tests {\n// seven\n}";
        let found = comments(source);
        let found: Vec<_> = found.iter().map(|(line, text)| (*line, text.as_str())).collect();
        assert_eq!(found, [(1, "One\ntwo."), (4, "Three"), (6, "four\nfive")]);
    }

    #[test]
    fn values_and_line_breaks_are_no_words() {
        check(
            "format!(\"cannot read {looked_at}: \\\n    try\\nagain\")",
            &[(1, "cannot read value:      try again")],
        );
    }

    #[test]
    fn comments_characters_lifetimes_reasons_and_tests_are_no_texts() {
        check("// says \"a b\"\nf('\"', '\\'', '\\\\', 'x', &'a str) / 2;", &[]);
        check("#[allow(unused, reason = \"a b\")]", &[]);
        check("f(\"a b\");\n#[cfg(test)]\nmod tests {\n\"c d\"\n}", &[(1, "a b")]);
    }
}
