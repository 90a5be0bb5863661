//! Patterns with `*` for any text and `?` for any letter.

/// Whether the pattern matches the whole text. Takes time in proportion to the product of their lengths at worst.
pub(super) fn matches(pattern: &str, text: &str) -> bool {
    let (pattern, text) = (pattern.chars().collect::<Vec<_>>(), text.chars().collect::<Vec<_>>());
    let (mut in_pattern, mut in_text) = (0, 0);
    // Where the last star is, and how much of the text it has taken.
    let mut star = None;
    while in_text < text.len() {
        match pattern.get(in_pattern) {
            Some('*') => {
                star = Some((in_pattern, in_text));
                in_pattern += 1;
            }
            Some(letter) if *letter == '?' || *letter == text[in_text] => {
                in_pattern += 1;
                in_text += 1;
            }
            _ => {
                let Some((at, taken)) = star else { return false };
                // Only the last star is ever tried again: what earlier ones took was enough to get there, and
                // more would not help.
                star = Some((at, taken + 1));
                (in_pattern, in_text) = (at + 1, taken + 1);
            }
        }
    }
    pattern[in_pattern..].iter().all(|letter| *letter == '*')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn stars_and_question_marks_stand_for_others() {
        for (pattern, text) in [
            ("", ""),
            ("a", "a"),
            ("*", ""),
            ("*", "abc"),
            ("db-*", "db-1"),
            ("?b", "äb"),
            ("*a*b", "xaybab"),
            ("a**", "a"),
        ] {
            assert!(matches(pattern, text), "{pattern} {text}");
        }
        for (pattern, text) in
            [("", "a"), ("a", ""), ("db-*", "x-db-1"), ("?", ""), ("*a", "ab"), ("a*b*c", "acb")]
        {
            assert!(!matches(pattern, text), "{pattern} {text}");
        }
    }

    proptest! {
        #[test]
        fn patterns_are_what_expressions_say(pattern in "[ab*?]{0,8}", text in "[ab]{0,8}") {
            let expression = format!("^{}$", pattern.replace('*', ".*").replace('?', "."));
            prop_assert_eq!(matches(&pattern, &text), regex::Regex::new(&expression).unwrap().is_match(&text));
        }
    }
}
