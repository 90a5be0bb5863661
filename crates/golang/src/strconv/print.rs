//! Which characters Go prints as they are.
//!
//! Follows Go 1.26, `strconv/quote.go`.

use super::print_ranges::RANGES;
use crate::unicode::is_within;

/// Whether a quoted string shows the character as it is: letters, marks, numbers, punctuation, symbols, and of all
/// spaces only the one of ASCII.
pub fn is_print(character: char) -> bool {
    if character.is_ascii() {
        return !character.is_ascii_control();
    }
    // Neither the standard library nor a regular expression can decide that: they know a newer Unicode than Go.
    is_within(RANGES, character)
}
