//! Calls in Rust code: their arguments, and the methods that are called on their result.
//!
//! Not a parser of Rust: it counts parentheses, which is enough for our own code.

use std::path::Path;

use anyhow::{Context as _, Result};

use crate::shell::git;

/// The code that decides about conditions and events, and writes them.
const SOURCES: [&str; 3] = ["crates/api/src/*.rs", "crates/controllers/src/*.rs", "crates/engine/src/*.rs"];

/// The names and the code of these sources, without their tests.
pub(super) fn sources(root: &Path) -> Result<Vec<(String, String)>> {
    let listed = git(root, &["ls-files", "--cached", "--"]).args(SOURCES).output()?;
    let is_code = |name: &&str| !name.ends_with("/tests.rs") && root.join(name).exists();
    let read = |name: &str| {
        let code = std::fs::read_to_string(root.join(name)).with_context(|| format!("cannot read {name}"))?;
        Ok((name.to_owned(), without_tests(&code).to_owned()))
    };
    listed.lines().filter(is_code).map(read).collect()
}

/// Code without the tests at its end.
pub(super) fn without_tests(source: &str) -> &str {
    source.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default()
}

/// What stands before the parenthesis that closes a call, given what follows the one that opens it.
pub(super) fn arguments(rest: &str) -> &str {
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

/// The argument of a call with this index, given what follows the parenthesis that opens it. Empty if there are fewer.
pub(super) fn argument(rest: &str, index: usize) -> &str {
    let (mut depth, mut begin, mut count) = (0_usize, 0, 0);
    let all = arguments(rest);
    for (at, letter) in all.char_indices() {
        match letter {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' if depth == 0 => return if count == index { all[begin..at].trim() } else { "" },
            ')' | ']' | '}' => depth -= 1,
            ',' if depth == 0 => {
                if count == index {
                    return all[begin..at].trim();
                }
                (begin, count) = (at + 1, count + 1);
            }
            _ => {}
        }
    }
    if count == index { all[begin..].trim() } else { "" }
}

/// The text or the value of the constant that stands at the beginning of the code.
pub(super) fn text_of(source: &str, code: &str) -> Option<String> {
    match code.strip_prefix('"') {
        Some(text) => text.split('"').next().map(str::to_owned),
        None => constant(source, code),
    }
}

/// The text of the constant whose name stands at the beginning of a call.
fn constant(source: &str, call: &str) -> Option<String> {
    let name = call.split(|letter: char| !letter.is_ascii_uppercase() && letter != '_').next()?;
    let value = source.split(&format!("const {name}: &str = \"")).nth(1)?;
    value.split('"').next().map(str::to_owned)
}

/// The names of the methods that are called one after the other, such as `a` and `b` in `.a(1).b()`.
pub(super) fn methods(mut rest: &str) -> Vec<&str> {
    let mut methods = Vec::new();
    while let Some((name, after)) = rest.trim_start().strip_prefix('.').and_then(|call| call.split_once('('))
    {
        if !name.chars().all(|letter| letter.is_alphanumeric() || letter == '_') {
            break;
        }
        methods.push(name);
        rest = after[arguments(after).len()..].strip_prefix(')').unwrap_or_default();
    }
    methods
}

/// The words in backticks that are in camel case, such as types and reasons.
pub(super) fn names_on(page: &str) -> impl Iterator<Item = &str> {
    page.split('`').skip(1).step_by(2).filter(|text| is_name(text))
}

/// Whether a text is one word in camel case.
pub(super) fn is_name(text: &str) -> bool {
    text.starts_with(|letter: char| letter.is_ascii_uppercase())
        && text.len() > 1
        && text.chars().all(|letter| letter.is_ascii_alphabetic())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn methods_of_a_chain_are_found() {
        assert_eq!(methods(".a(f(1))\n    .with_b(\"c\").d()?;\n.e()"), ["a", "with_b", "d"]);
        assert_eq!(methods(", other.a()"), [""; 0]);
        assert_eq!(methods(".field == a.b()"), [""; 0]);
    }

    #[test]
    fn arguments_are_counted_outside_of_other_calls() {
        let call = "f(1, 2), [a, b],\n    \"c\"), other";
        assert_eq!(
            (0..4).map(|index| argument(call, index)).collect::<Vec<_>>(),
            ["f(1, 2)", "[a, b]", "\"c\"", ""]
        );
        assert_eq!((argument("a }, b", 0), argument("a }, b", 1)), ("a", ""));
    }

    #[test]
    fn names_on_a_page_are_words_in_backticks() {
        let page = "| `Ready` | it is `Available`, and not Gone; `spec.field`, `docs` |";
        assert_eq!(names_on(page).collect::<Vec<_>>(), ["Ready", "Available"]);
    }
}
