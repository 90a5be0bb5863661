//! Functions that look at words and letters.
//!
//! Several work on bytes where they should work on characters, and so do we: what they give is part of names that exist.
//!
//! Follows goutils 1.1.1, `wordutils.go`, xstrings 1.5.0, `convert.go`, and Go 1.26, `strings/strings.go` (`Title`).

use ferroplane_golang::unicode;

use super::arguments::{characters, text};
use super::{case, function};
use crate::{Context, Failure, Function, Type, Value};

use Type::String;

pub(super) const FUNCTIONS: &[Function] = &[
    function("title", &[String], String, title),
    function("untitle", &[String], String, untitle),
    function("swapcase", &[String], String, swapcase),
    function("snakecase", &[String], String, |_, args| Ok(Value::text(case::separated(text(args, 0), '_')))),
    function("kebabcase", &[String], String, |_, args| Ok(Value::text(case::separated(text(args, 0), '-')))),
    function("camelcase", &[String], String, |_, args| Ok(Value::text(case::pascal(&characters(args, 0))))),
    function("initials", &[String], String, initials),
    function("nospace", &[String], String, nospace),
];

/// Every word begins with a title letter.
fn title(_: &mut Context<'_>, args: &[Value]) -> Result<Value, Failure> {
    let mut before = ' ';
    let titled: std::string::String = characters(args, 0)
        .chars()
        .map(|character| {
            let begins = is_separator(before);
            before = character;
            if begins { unicode::to_title(character) } else { character }
        })
        .collect();
    Ok(Value::text(titled))
}

/// What stands between words for Go's `strings.Title`.
fn is_separator(character: char) -> bool {
    if character.is_ascii() {
        return !character.is_ascii_alphanumeric() && character != '_';
    }
    // Outside of ASCII only spaces separate words, so that `a–b` is one word.
    !unicode::is_letter(character) && !unicode::is_digit(character) && character.is_whitespace()
}

/// Every word begins with a letter in lower case.
fn untitle(_: &mut Context<'_>, args: &[Value]) -> Result<Value, Failure> {
    let mut begins = true;
    let untitled: std::string::String = characters(args, 0)
        .chars()
        .map(|character| {
            let is_first = begins && !character.is_whitespace();
            begins = character.is_whitespace();
            if is_first { unicode::to_lower(character) } else { character }
        })
        .collect();
    Ok(Value::text(untitled))
}

fn swapcase(_: &mut Context<'_>, args: &[Value]) -> Result<Value, Failure> {
    let mut is_after_space = true;
    let swapped: std::string::String = characters(args, 0)
        .chars()
        .map(|character| {
            if unicode::is_upper(character) || unicode::is_title(character) {
                is_after_space = false;
                unicode::to_lower(character)
            } else if unicode::is_lower(character) {
                let begins = std::mem::take(&mut is_after_space);
                if begins { unicode::to_title(character) } else { unicode::to_upper(character) }
            } else {
                is_after_space = character.is_whitespace();
                character
            }
        })
        .collect();
    Ok(Value::text(swapped))
}

/// The first byte of each word, taken for a character.
fn initials(_: &mut Context<'_>, args: &[Value]) -> Result<Value, Failure> {
    let mut initials = std::string::String::new();
    let mut begins = true;
    for character in text(args, 0).iter().map(|byte| char::from(*byte)) {
        if begins && !character.is_whitespace() {
            initials.push(character);
        }
        begins = character.is_whitespace();
    }
    Ok(Value::text(initials))
}

/// Without spaces. If there is one, every byte is taken for a character.
fn nospace(_: &mut Context<'_>, args: &[Value]) -> Result<Value, Failure> {
    let whole = text(args, 0);
    let is_space = |byte: &u8| char::from(*byte).is_whitespace();
    if !whole.iter().any(is_space) {
        return Ok(args[0].clone());
    }
    let kept: std::string::String =
        whole.iter().filter(|byte| !is_space(byte)).map(|byte| char::from(*byte)).collect();
    Ok(Value::text(kept))
}
