//! Escapes control characters in text that is printed to a terminal.
//!
//! Messages of functions, names of objects and words of API servers are printed, and a user who writes them could otherwise move the
//! cursor, set the title of the window or its clipboard, hide words, or print over those of others. Messages may have several lines, so
//! that a line by itself does not say who wrote it.

use std::borrow::Cow;
use std::fmt::Write as _;

/// What the commands themselves print: the end of colours, bold, and the colours of marks and labels. Others could hide text.
const COLOURS: [&str; 6] = ["0", "1", "31", "32", "33", "36"];

/// The text with control characters shown instead of obeyed. Line breaks, tabs and our own colours stay.
pub(crate) fn harmless(text: &str) -> Cow<'_, str> {
    if !text.contains(is_obeyed) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(is_obeyed) {
        shown.push_str(&rest[..at]);
        rest = &rest[at..];
        let colour = colour_length(rest);
        if colour > 0 {
            shown.push_str(&rest[..colour]);
            rest = &rest[colour..];
        } else if let Some(character) = rest.chars().next() {
            // The form that JSON has for it, so that JSON stays what it is.
            let _ = write!(shown, "\\u{:04x}", u32::from(character));
            rest = &rest[character.len_utf8()..];
        }
    }
    shown.push_str(rest);
    Cow::Owned(shown)
}

/// Control characters of both ranges, and those that turn the direction of what follows.
fn is_obeyed(character: char) -> bool {
    let turns = matches!(character, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    (character.is_control() && !matches!(character, '\n' | '\t')) || turns
}

/// How long the escape sequence at the beginning is, if it does nothing but choose colours of ours.
fn colour_length(text: &str) -> usize {
    let Some(parameters) = text.strip_prefix("\x1b[") else { return 0 };
    let end = parameters.find(|character: char| !character.is_ascii_digit() && character != ';');
    let Some((colours, rest)) = end.map(|end| parameters.split_at(end)) else { return 0 };
    let is_ours = rest.starts_with('m') && colours.split(';').all(|colour| COLOURS.contains(&colour));
    if is_ours { "\x1b[".len() + colours.len() + "m".len() } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_would_obey_is_shown() {
        for (text, shown) in [
            ("plain\twords\n", "plain\twords\n"),
            ("\x1b[1;31mred\x1b[0m", "\x1b[1;31mred\x1b[0m"),
            ("\x1b[8mhidden\x1b[0m", "\\u001b[8mhidden\x1b[0m"),
            ("\x1b[1;30;40mblack on black\x1b[m", "\\u001b[1;30;40mblack on black\\u001b[m"),
            ("a\x1b]0;title\x07b", "a\\u001b]0;title\\u0007b"),
            ("\x1b[2Jgone\x1b[H", "\\u001b[2Jgone\\u001b[H"),
            ("over\rwritten", "over\\u000dwritten"),
            ("\u{9b}31m", "\\u009b31m"),
            ("\u{202e}txt.exe", "\\u202etxt.exe"),
            ("\x1b", "\\u001b"),
            ("\x1b[31", "\\u001b[31"),
        ] {
            assert_eq!(harmless(text), shown);
        }
    }
}
