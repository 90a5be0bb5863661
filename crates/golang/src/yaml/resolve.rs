//! What YAML 1.1 takes a text for that is not quoted.
//!
//! Follows go.yaml.in/yaml 2.4.3 and gopkg.in/yaml.v3 3.0.1, `resolve.go`.

use super::{Library, Node};
use crate::time::calendar::days_in_month;
use crate::time::layout::{self, Parsed};

/// Texts that mean something.
const WORDS: [&str; 38] = [
    "y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON", "n", "N", "no", "No", "NO",
    "false", "False", "FALSE", "off", "Off", "OFF", "null", "Null", "NULL", "~", ".nan", ".NaN", ".NAN",
    ".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF", "-.inf", "-.Inf", "-.INF",
];

/// Whether a text is read as the same text if it is not quoted.
pub(super) fn is_string(text: &str) -> bool {
    let Some(first) = text.bytes().next() else { return false };
    let is_something = match first {
        // Only these first characters can begin a number (the table `resolveTable` in resolve.go);
        // otherwise the rest of the text is not even read.
        b'+' | b'-' | b'0'..=b'9' => {
            is_word(text) || is_timestamp(text) || is_number(&text.replace('_', "")) || is_sexagesimal(text)
        }
        b'.' => is_word(text) || has_tidy_underscores(text) && is_finite(&text.replace('_', "")),
        _ => is_word(text),
    };
    !is_something
}

fn is_word(text: &str) -> bool {
    // The longest word has five letters, so that long texts are not compared 38 times.
    text.len() <= 5 && WORDS.contains(&text)
}

fn is_number(text: &str) -> bool {
    number(text, Library::V2).is_some()
}

/// The number that a text without underscores is.
pub(super) fn number(text: &str, library: Library) -> Option<Node> {
    let (sign, unsigned) = match text.as_bytes().first() {
        Some(b'-') => ("-", &text[1..]),
        Some(b'+') => ("+", &text[1..]),
        _ => ("", text),
    };
    let (digits, radix) = radix(unsigned);
    let integer = magnitude(digits, radix).and_then(|magnitude| signed(sign, magnitude));
    let is_decimal = text.bytes().all(|byte| byte.is_ascii_digit() || b"+-.eE".contains(&byte));
    let float = || text.parse::<f64>().ok().filter(|float| is_decimal && float.is_finite()).map(Node::Float);
    integer.or_else(float).or_else(|| odd_integer(text, library))
}

/// Go tries `ParseInt`, which takes a sign, then `ParseUint`, which takes none.
fn signed(sign: &str, magnitude: u64) -> Option<Node> {
    match sign {
        "-" => 0_i64.checked_sub_unsigned(magnitude).map(Node::Int),
        "+" => i64::try_from(magnitude).ok().map(Node::Int),
        _ => Some(i64::try_from(magnitude).map_or(Node::Uint(magnitude), Node::Int)),
    }
}

/// The originals strip a prefix and read what follows as signed, so that even `0b-1` is a number.
fn odd_integer(text: &str, library: Library) -> Option<Node> {
    let of = |prefix: &str, radix| {
        let digits = text.strip_prefix(prefix)?;
        i64::from_str_radix(digits, radix).ok().map(Node::Int)
    };
    let octal = || (library == Library::V3).then(|| of("0o", 8))?;
    of("0b", 2).or_else(octal)
}

/// The digits of a number as programmers write it, and what they count.
fn radix(text: &str) -> (&str, u32) {
    let Some(octal) = text.strip_prefix('0') else { return (text, 10) };
    match octal.split_at_checked(1) {
        Some(("b" | "B", digits)) if !digits.is_empty() => (digits, 2),
        Some(("o" | "O", digits)) if !digits.is_empty() => (digits, 8),
        Some(("x" | "X", digits)) if !digits.is_empty() => (digits, 16),
        _ if octal.is_empty() => (text, 10),
        _ => (octal, 8),
    }
}

fn magnitude(digits: &str, radix: u32) -> Option<u64> {
    // The standard library would take a sign here.
    digits
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric())
        .then(|| u64::from_str_radix(digits, radix).ok())?
}

/// Whether every underscore stands between two digits.
pub(super) fn has_tidy_underscores(text: &str) -> bool {
    let is_digit = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_digit);
    let bytes = text.as_bytes();
    let mut underscores = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'_');
    underscores.all(|(at, _)| at > 0 && is_digit(bytes.get(at - 1)) && is_digit(bytes.get(at + 1)))
}

fn is_finite(text: &str) -> bool {
    text.parse::<f64>().is_ok_and(f64::is_finite)
}

/// Numbers like `1:30:00`. They are quoted for the sake of others.
fn is_sexagesimal(text: &str) -> bool {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let mut parts = unsigned.split(':');
    let is_first = |part: &str| {
        part.starts_with(|first: char| first.is_ascii_digit())
            && part.bytes().all(|byte| byte.is_ascii_digit() || byte == b'_')
    };
    let is_sixty = |part: &str| match part.as_bytes() {
        [ones] => ones.is_ascii_digit(),
        [tens, ones] => (b'0'..=b'5').contains(tens) && ones.is_ascii_digit(),
        _ => false,
    };
    if !parts.next().is_some_and(is_first) {
        return false;
    }
    let mut parts: Vec<_> = parts.collect();
    let Some(last) = parts.pop() else { return false };
    let (last, fraction) = last.split_once('.').unwrap_or((last, ""));
    parts.into_iter().chain([last]).all(is_sixty)
        && fraction.bytes().all(|byte| byte.is_ascii_digit() || byte == b'_')
}

/// The moment that the text of a [`Node::Time`] is.
pub fn timestamp(text: &str) -> Option<Parsed> {
    const LAYOUTS: [&[u8]; 4] = [
        b"2006-1-2T15:4:5.999999999Z07:00",
        b"2006-1-2t15:4:5.999999999Z07:00",
        b"2006-1-2 15:4:5.999999999",
        b"2006-1-2",
    ];
    LAYOUTS.iter().find_map(|layout| layout::parse(layout, text.as_bytes()).ok())
}

/// Dates, and dates with times.
pub(super) fn is_timestamp(text: &str) -> bool {
    let is_year = |year: &str| year.len() == 4 && year.bytes().all(|byte| byte.is_ascii_digit());
    let Some((year, rest)) = text.split_once('-').filter(|(year, _)| is_year(year)) else { return false };
    let year = year.parse().unwrap_or_default();
    let Some((month, rest)) = short_number(rest) else { return false };
    let Some((day, rest)) = rest.strip_prefix('-').and_then(short_number) else { return false };
    if !(1..=12).contains(&month) || !(1..=days_in_month(year, month)).contains(&day) {
        return false;
    }
    match rest.split_at_checked(1) {
        None => rest.is_empty(),
        Some(("T" | "t", time)) => time_of_day(time).is_some_and(is_zone),
        // With a space between date and time there is no zone in any of the formats that the originals try.
        Some((" ", time)) => time_of_day(time) == Some(""),
        Some(_) => false,
    }
}

/// A number of one or two digits, and what follows.
fn short_number(text: &str) -> Option<(i64, &str)> {
    let digits = text.bytes().take(2).take_while(u8::is_ascii_digit).count();
    let (number, rest) = text.split_at(digits);
    Some((number.parse().ok()?, rest))
}

/// What follows a time of day.
fn time_of_day(text: &str) -> Option<&str> {
    let (hour, rest) = short_number(text)?;
    let (minute, rest) = short_number(rest.strip_prefix(':')?)?;
    let (second, rest) = short_number(rest.strip_prefix(':')?)?;
    if hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let fraction = rest
        .strip_prefix(['.', ','])
        .map(|rest| rest.trim_start_matches(|digit: char| digit.is_ascii_digit()));
    Some(fraction.filter(|after| after.len() + 1 < rest.len()).unwrap_or(rest))
}

fn is_zone(text: &str) -> bool {
    if text == "Z" {
        return true;
    }
    let Some(offset) = text.strip_prefix(['+', '-']).filter(|offset| offset.len() == 5) else { return false };
    let two =
        |text: &str| text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse::<u32>().ok())?;
    let parts = offset.split_once(':').and_then(|(hours, minutes)| {
        let is_two = hours.len() == 2 && minutes.len() == 2;
        is_two.then_some((two(hours)?, two(minutes)?))
    });
    parts.is_some_and(|(hours, minutes)| hours <= 24 && minutes <= 60)
}
