//! Classes of characters, as Go's `unicode` has them.
//!
//! The standard library cannot tell them: its letters include numerals such as `Ⅷ` and vowel signs, its numbers include
//! `½`, and it knows a newer Unicode than Go.
//!
//! Follows Go 1.26, `unicode/letter.go`, `unicode/digit.go`.

mod category_ranges;

use std::cmp::Ordering;

use category_ranges::{DIGITS, LETTERS};

/// Whether Go's `unicode.IsLetter` holds.
pub fn is_letter(character: char) -> bool {
    if character.is_ascii() { character.is_ascii_alphabetic() } else { is_within(LETTERS, character) }
}

/// Whether Go's `unicode.IsDigit` holds: decimal digits of all scripts, and no other numbers.
pub fn is_digit(character: char) -> bool {
    if character.is_ascii() { character.is_ascii_digit() } else { is_within(DIGITS, character) }
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
