//! Finds words in what was said.

/// What stands between two texts, the first time that both are there.
pub(crate) fn between<'a>(text: &'a str, before: &str, after: &str) -> Option<&'a str> {
    let start = text.find(before)? + before.len();
    let length = text[start..].find(after)?;
    Some(&text[start..start + length])
}

/// What stands behind a text.
pub(crate) fn behind<'a>(text: &'a str, before: &str) -> Option<&'a str> {
    text.find(before).map(|start| &text[start + before.len()..])
}

/// Whether one of these is there.
pub(crate) fn has_any(text: &str, words: &[&str]) -> bool {
    words.iter().any(|word| text.contains(word))
}

/// The step that a text blames, in our words or in Crossplane's.
pub(crate) fn step_in(text: &str) -> Option<&str> {
    between(text, "step `", "`").or_else(|| between(text, "step \"", "\""))
}

/// The field that an API server complains about, and what it says about it.
pub(crate) fn field_in(text: &str) -> Option<(&str, &str)> {
    let complaint = behind(text, "is invalid: ")?.trim_start_matches('[');
    let (field, rest) = complaint.split_once(": ")?;
    let is_field = !field.is_empty() && !field.contains(' ');
    is_field.then(|| (field, rest.trim_end_matches(']')))
}

/// One line, not longer than somebody reads.
pub(crate) fn one_line(text: &str) -> String {
    const LONGEST: usize = 400;
    let words: Vec<_> = text.split_whitespace().collect();
    let line = words.join(" ");
    if line.chars().count() <= LONGEST {
        return line;
    }
    line.chars().take(LONGEST).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_in_what_api_servers_say() {
        let one = "Bucket.e.org \"b\" is invalid: spec.size: Invalid value: 9: should be less than 5";
        assert_eq!(field_in(one), Some(("spec.size", "Invalid value: 9: should be less than 5")));
        let many = "X \"b\" is invalid: [spec.a: Required value, spec.b: Required value]";
        assert_eq!(field_in(many), Some(("spec.a", "Required value, spec.b: Required value")));
        assert_eq!(field_in("X \"b\" is invalid: something is wrong: really"), None);
        assert_eq!(field_in("all is well"), None);
    }

    #[test]
    fn steps_are_found_in_both_tongues() {
        assert_eq!(step_in("cannot run pipeline step `a`: x"), Some("a"));
        assert_eq!(step_in("cannot run pipeline step \"a\": x"), Some("a"));
        assert_eq!(step_in("no st\u{e9}p"), None);
    }
}
