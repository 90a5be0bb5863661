//! Classes of characters, as Go's `unicode` has them.
//!
//! The standard library cannot tell them: its letters include numerals such as `Ⅷ` and vowel signs, its numbers include
//! `½`, and it knows a newer Unicode than Go.
//!
//! Follows Go 1.26, `unicode/letter.go`, `unicode/digit.go`, `unicode/graphic.go`.

mod case_ranges;
mod category_ranges;

use std::cmp::Ordering;

use case_ranges::{ALTERNATING, CASES, LOWER, NUMBERS, PUNCTUATION, TITLE, UPPER};
use category_ranges::{DIGITS, LETTERS};

/// Whether Go's `unicode.IsLetter` holds.
pub fn is_letter(character: char) -> bool {
    if character.is_ascii() { character.is_ascii_alphabetic() } else { is_within(LETTERS, character) }
}

/// Whether Go's `unicode.IsDigit` holds: decimal digits of all scripts, and no other numbers.
pub fn is_digit(character: char) -> bool {
    if character.is_ascii() { character.is_ascii_digit() } else { is_within(DIGITS, character) }
}

/// Whether Go's `unicode.IsNumber` holds: digits, fractions, numerals.
pub fn is_number(character: char) -> bool {
    if character.is_ascii() { character.is_ascii_digit() } else { is_within(NUMBERS, character) }
}

/// Whether Go's `unicode.IsPunct` holds. Of ASCII, those that have to do with numbers are symbols.
pub fn is_punctuation(character: char) -> bool {
    if character.is_ascii() {
        return character.is_ascii_punctuation() && !"$+<=>^`|~".contains(character);
    }
    is_within(PUNCTUATION, character)
}

/// Whether Go's `unicode.IsUpper` holds.
pub fn is_upper(character: char) -> bool {
    if character.is_ascii() { character.is_ascii_uppercase() } else { is_within(UPPER, character) }
}

/// Whether Go's `unicode.IsLower` holds.
pub fn is_lower(character: char) -> bool {
    if character.is_ascii() { character.is_ascii_lowercase() } else { is_within(LOWER, character) }
}

/// Whether Go's `unicode.IsTitle` holds, as for `ǅ`.
pub fn is_title(character: char) -> bool {
    is_within(TITLE, character)
}

/// What Go's `unicode.ToUpper` gives: always one character, so that `ß` stays.
pub fn to_upper(character: char) -> char {
    if character.is_ascii() { character.to_ascii_uppercase() } else { to_case(character, 0) }
}

/// What Go's `unicode.ToLower` gives.
pub fn to_lower(character: char) -> char {
    if character.is_ascii() { character.to_ascii_lowercase() } else { to_case(character, 1) }
}

/// What Go's `unicode.ToTitle` gives.
pub fn to_title(character: char) -> char {
    if character.is_ascii() { character.to_ascii_uppercase() } else { to_case(character, 2) }
}

/// The character in upper (0), lower (1) or title case (2).
fn to_case(character: char, case: usize) -> char {
    let code = u32::from(character);
    let position = CASES.binary_search_by(|(first, last, _)| {
        if *last < code {
            Ordering::Less
        } else if *first > code {
            Ordering::Greater
        } else {
            Ordering::Equal
        }
    });
    let Ok(position) = position else { return character };
    let (first, _, deltas) = CASES[position];
    let changed = match deltas[case] {
        // The first of such a range is in upper case, the second is its lower case, and so on.
        ALTERNATING => Some(first + ((code - first) & !1 | u32::from(case == 1))),
        delta => code.checked_add_signed(delta),
    };
    changed.and_then(char::from_u32).unwrap_or(character)
}

/// Whether one of these ranges, which are in order, has the character.
pub(crate) fn is_within(ranges: &[(char, char)], character: char) -> bool {
    let position = ranges.binary_search_by(|(first, last)| {
        if *last < character {
            Ordering::Less
        } else if *first > character {
            Ordering::Greater
        } else {
            Ordering::Equal
        }
    });
    position.is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn case_changes_one_character_into_one() {
        for (character, upper, lower, title) in [
            ('a', 'A', 'a', 'A'),
            ('ß', 'ß', 'ß', 'ß'),
            ('ẞ', 'ẞ', 'ß', 'ẞ'),
            ('ǆ', 'Ǆ', 'ǆ', 'ǅ'),
            ('ǅ', 'Ǆ', 'ǆ', 'ǅ'),
            ('ᾀ', 'ᾈ', 'ᾀ', 'ᾈ'),
            ('İ', 'İ', 'i', 'İ'),
            ('Ā', 'Ā', 'ā', 'Ā'),
            ('ā', 'Ā', 'ā', 'Ā'),
            ('漢', '漢', '漢', '漢'),
        ] {
            assert_eq!(
                (to_upper(character), to_lower(character), to_title(character)),
                (upper, lower, title)
            );
        }
        assert!(is_title('ǅ') && !is_upper('ǅ') && is_upper('Ā') && is_lower('ß') && !is_lower('漢'));
        assert!(is_punctuation('¿') && is_punctuation('_') && !is_punctuation('+') && is_number('½'));
    }

    #[test]
    fn letters_and_digits_are_those_of_go() {
        for letter in ['a', 'Z', 'é', 'ß', 'ª', 'ǅ', 'ʰ', '漢', '\u{1d400}'] {
            assert!(is_letter(letter) && !is_digit(letter), "{letter}");
        }
        for digit in ['0', '9', '٣', '３', '\u{1d7d8}'] {
            assert!(is_digit(digit) && !is_letter(digit), "{digit}");
        }
        // A fraction, a superscript, a Roman numeral, a vowel sign, and a letter of a newer Unicode.
        for neither in ['½', '²', 'Ⅷ', '\u{93e}', '_', '-', '\u{2ebf0}'] {
            assert!(!is_letter(neither) && !is_digit(neither), "{neither}");
        }
    }
}
