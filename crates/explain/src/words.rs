//! Finds words in messages.

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

/// One line of a readable length.
pub(crate) fn one_line(text: &str) -> String {
    const LONGEST: usize = 400;
    let words: Vec<_> = text.split_whitespace().collect();
    let line = words.join(" ");
    if line.chars().count() <= LONGEST {
        return line;
    }
    line.chars().take(LONGEST).chain(['…']).collect()
}
