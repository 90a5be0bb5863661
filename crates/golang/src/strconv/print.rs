//! Which characters Go prints as they are.
//!
//! Follows Go 1.26, `strconv/quote.go`.

use std::cmp::Ordering;

use super::print_ranges::RANGES;

/// Whether a quoted string shows the character as it is: letters, marks, numbers, punctuation, symbols, and of all
/// spaces only the one of ASCII.
pub fn is_print(character: char) -> bool {
    if character.is_ascii() {
        return !character.is_ascii_control();
    }
    // Neither the standard library nor a regular expression can decide that: they know a newer Unicode than Go.
    let position = RANGES.binary_search_by(|(first, last)| {
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
