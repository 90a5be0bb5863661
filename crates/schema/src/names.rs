//! Names, and what is wrong with them in Kubernetes' words.
//!
//! Follows apimachinery 0.36.4, `pkg/util/validation/validation.go`, `pkg/api/validate/content`.

use std::sync::LazyLock;

use regex::Regex;

const LABEL: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";
const SUBDOMAIN: &str = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";
const OLD_LABEL: &str = "[a-z]([-a-z0-9]*[a-z0-9])?";
const LABEL_KEY: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";
const LABEL_VALUE: &str = "(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?";

static LABEL_MATCHER: LazyLock<Regex> = LazyLock::new(|| whole(LABEL));
static SUBDOMAIN_MATCHER: LazyLock<Regex> = LazyLock::new(|| whole(SUBDOMAIN));
static OLD_LABEL_MATCHER: LazyLock<Regex> = LazyLock::new(|| whole(OLD_LABEL));
static LABEL_KEY_MATCHER: LazyLock<Regex> = LazyLock::new(|| whole(LABEL_KEY));

fn whole(pattern: &str) -> Regex {
    Regex::new(&format!("^(?:{pattern})$")).expect("the expressions are fixed")
}

/// Older rules count in characters, though they mean bytes.
fn too_many_characters(most: usize) -> String {
    format!("must be no more than {most} characters")
}

fn too_many_bytes(most: usize) -> String {
    format!("must be no more than {most} bytes")
}

fn mismatch(words: &str, pattern: &str, examples: &[&str]) -> String {
    let examples: Vec<_> = examples.iter().map(|example| format!("'{example}', ")).collect();
    format!("{words} (e.g. {}regex used for validation is '{pattern}')", examples.join(" or "))
}

/// Whether the text is a label of DNS, RFC 1123.
pub fn is_label(text: &str) -> bool {
    text.len() <= 63 && LABEL_MATCHER.is_match(text)
}

/// Whether the text is a subdomain of DNS, RFC 1123.
pub fn is_subdomain(text: &str) -> bool {
    text.len() <= 253 && SUBDOMAIN_MATCHER.is_match(text)
}

/// What keeps the text from being a subdomain of DNS, RFC 1123.
pub fn subdomain(text: &str) -> Vec<String> {
    subdomain_problems(text, too_many_characters)
}

fn subdomain_problems(text: &str, too_many: fn(usize) -> String) -> Vec<String> {
    let mut problems = Vec::new();
    if text.len() > 253 {
        problems.push(too_many(253));
    }
    if !SUBDOMAIN_MATCHER.is_match(text) {
        problems.push(mismatch(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must \
             start and end with an alphanumeric character",
            SUBDOMAIN,
            &["example.com"],
        ));
    }
    problems
}

/// What keeps the text from being a label of DNS, RFC 1123.
pub fn label(text: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if text.len() > 63 {
        problems.push(too_many_characters(63));
    }
    if !LABEL_MATCHER.is_match(text) {
        // Kubernetes says it shorter if dots are all that is wrong.
        problems.push(if SUBDOMAIN_MATCHER.is_match(text) {
            "must not contain dots".to_owned()
        } else {
            mismatch(
                "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start \
                 and end with an alphanumeric character",
                LABEL,
                &["my-name", "123-abc"],
            )
        });
    }
    problems
}

/// What keeps the text from being a label of DNS, RFC 1035.
pub fn old_label(text: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if text.len() > 63 {
        problems.push(too_many_characters(63));
    }
    if !OLD_LABEL_MATCHER.is_match(text) {
        problems.push(mismatch(
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic \
             character, and end with an alphanumeric character",
            OLD_LABEL,
            &["my-name", "abc-123"],
        ));
    }
    problems
}

/// What keeps the text from being a qualified name: the key of a label or annotation, a finalizer.
pub fn qualified(text: &str) -> Vec<String> {
    let explain = || {
        mismatch(
            "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric \
             character",
            LABEL_KEY,
            &["MyName", "my.name", "123-abc"],
        )
    };
    let mut problems = Vec::new();
    let parts: Vec<_> = text.split('/').collect();
    let name = match parts.as_slice() {
        [name] => *name,
        [prefix, name] => {
            if prefix.is_empty() {
                problems.push("prefix part must be non-empty".to_owned());
            } else {
                problems.extend(
                    subdomain_problems(prefix, too_many_bytes)
                        .into_iter()
                        .map(|problem| format!("prefix part {problem}")),
                );
            }
            *name
        }
        _ => {
            // Only this: it is not known which part would be the name.
            return vec![format!(
                "a valid label key {} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')",
                explain()
            )];
        }
    };
    if name.is_empty() {
        problems.push("name part must be non-empty".to_owned());
    } else if name.len() > 63 {
        problems.push(format!("name part {}", too_many_bytes(63)));
    }
    if !LABEL_KEY_MATCHER.is_match(name) {
        problems.push(format!("name part {}", explain()));
    }
    problems
}

/// What keeps the text from being the value of a label.
pub fn label_value(text: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if text.len() > 63 {
        problems.push(too_many_bytes(63));
    }
    if !text.is_empty() && !LABEL_KEY_MATCHER.is_match(text) {
        problems.push(mismatch(
            "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must \
             start and end with an alphanumeric character",
            LABEL_VALUE,
            &["MyValue", "my_value", "12345"],
        ));
    }
    problems
}

/// What keeps the text from being a part of a path of the API.
pub fn path_segment(text: &str, is_prefix: bool) -> Vec<String> {
    if !is_prefix && (text == "." || text == "..") {
        return vec![format!("may not be '{text}'")];
    }
    let contained = ["/", "%"].into_iter().filter(|part| text.contains(part));
    contained.map(|part| format!("may not contain '{part}'")).collect()
}

/// A prefix for generated names may end in what a name may not end in.
pub fn mask_trailing_dash(prefix: &str) -> String {
    // Kubernetes takes the byte before the dash away with it, and what is left of a longer character is no text.
    match prefix.strip_suffix('-') {
        Some(rest) if !rest.is_empty() => {
            let last = rest.chars().next_back().filter(|last| !last.is_ascii());
            let kept = rest.char_indices().next_back().map_or(0, |(start, _)| start);
            format!("{}{}a", &rest[..kept], if last.is_some() { "\u{fffd}" } else { "" })
        }
        _ => prefix.to_owned(),
    }
}
