//! Patterns of paths, as Go's `path/filepath.Match` reads them.

use super::SourceError;

/// A pattern, checked.
#[derive(Debug, Clone)]
pub(super) struct Pattern(Vec<char>);

impl Pattern {
    /// A pattern relative to the source. `./` in front says nothing.
    pub(super) fn parse(text: &str) -> Result<Self, SourceError> {
        let pattern: Vec<char> = text.trim_start_matches("./").trim_end_matches('/').chars().collect();
        let is_open = class_is_open(&pattern);
        if is_open { Err(SourceError::Pattern { pattern: text.to_owned() }) } else { Ok(Self(pattern)) }
    }

    pub(super) fn matches(&self, path: &str) -> bool {
        let path: Vec<char> = path.chars().collect();
        is_match(&self.0, &path)
    }
}

fn class_is_open(pattern: &[char]) -> bool {
    let mut at = 0;
    while at < pattern.len() {
        match pattern[at] {
            '\\' => at += 2,
            '[' => match class_end(&pattern[at..]) {
                Some(length) => at += length,
                None => return true,
            },
            _ => at += 1,
        }
    }
    false
}

/// How long the class at the beginning is, brackets included.
fn class_end(pattern: &[char]) -> Option<usize> {
    let start = if pattern.get(1) == Some(&'^') { 2 } else { 1 };
    let mut at = start;
    while at < pattern.len() {
        match pattern[at] {
            '\\' => at += 1,
            ']' if at > start => return Some(at + 1),
            _ => {}
        }
        at += 1;
    }
    None
}

/// Goes back to the last star when the rest does not match. Only the last counts, so time does not explode.
fn is_match(pattern: &[char], path: &[char]) -> bool {
    let (mut at, mut seen) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    loop {
        let step = match (pattern.get(at), path.get(seen)) {
            (None, None) => return true,
            (Some('*'), _) => {
                star = Some((at + 1, seen));
                at += 1;
                continue;
            }
            (Some(_), Some(character)) => one(&pattern[at..], *character),
            _ => None,
        };
        match (step, star) {
            (Some(length), _) => (at, seen) = (at + length, seen + 1),
            (None, Some((after, from))) if path.get(from).is_some_and(|character| *character != '/') => {
                star = Some((after, from + 1));
                (at, seen) = (after, from + 1);
            }
            _ => return false,
        }
    }
}

/// How much of the pattern one character takes, if it matches.
fn one(pattern: &[char], character: char) -> Option<usize> {
    match pattern[0] {
        '?' => (character != '/').then_some(1),
        '[' => {
            let length = class_end(pattern)?;
            (character != '/' && is_in_class(&pattern[1..length - 1], character)).then_some(length)
        }
        '\\' => (pattern.get(1) == Some(&character)).then_some(2),
        plain => (plain == character).then_some(1),
    }
}

fn is_in_class(class: &[char], character: char) -> bool {
    let (is_negated, class) = match class {
        ['^', rest @ ..] => (true, rest),
        class => (false, class),
    };
    let mut found = false;
    let mut rest = class;
    while let [first, after @ ..] = rest {
        let (low, after) = match (first, after) {
            ('\\', [escaped, after @ ..]) => (*escaped, after),
            _ => (*first, after),
        };
        let (high, after) = match after {
            ['-', high, after @ ..] => (*high, after),
            _ => (low, after),
        };
        found |= (low..=high).contains(&character);
        rest = after;
    }
    found != is_negated
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_stand_for_parts_of_one_name() {
        for (pattern, path, expected) in [
            ("a.yaml", "a.yaml", true),
            ("./a.yaml", "a.yaml", true),
            ("*.yaml", "a.yaml", true),
            ("*.yaml", "b/a.yaml", false),
            ("b/*.yaml", "b/a.yaml", true),
            ("*/*.yaml", "b/a.yaml", true),
            ("?.yaml", "a.yaml", true),
            ("?.yaml", "ab.yaml", false),
            ("[a-c]x", "bx", true),
            ("[^a-c]x", "bx", false),
            ("[^a-c]x", "dx", true),
            ("a\\*", "a*", true),
            ("a\\*", "ab", false),
            ("*a*b", "xaxab", true),
            ("*a*b", "xaxac", false),
            ("dir/", "dir", true),
        ] {
            assert_eq!(Pattern::parse(pattern).unwrap().matches(path), expected, "{pattern} {path}");
        }
        assert!(Pattern::parse("[a-").is_err());
        let many = Pattern::parse(&"*a".repeat(200)).unwrap();
        assert!(!many.matches(&"b".repeat(5000)));
    }
}
