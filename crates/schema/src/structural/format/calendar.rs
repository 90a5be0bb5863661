//! Dates, times and durations.

use std::sync::LazyLock;

use regex::Regex;

static TIME: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new("^([0-9]{2}):([0-9]{2}):([0-9]{2})(?:.[0-9]+)?(?:z|[+-][0-9]{2}:[0-9]{2})$")
        .expect("the expression is fixed")
});
static SPAN: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"([0-9]+)[\t\n\f\r ]*([A-Za-zµ]+)").expect("the expression is fixed"));

/// Units of a duration in words. A unit may go on after the last of its names.
const UNITS: [&[&str]; 8] = [
    &["ns", "nano"],
    &["us", "µs", "micro"],
    &["ms", "milli"],
    &["s", "sec"],
    &["m", "min"],
    &["h", "hr", "hour"],
    &["d", "day"],
    &["w", "wk", "week"],
];

/// A day that exists, as `2006-01-02`.
pub(super) fn is_date(text: &str) -> bool {
    parse_date(text).is_some()
}

fn parse_date(text: &str) -> Option<()> {
    let part = |range: std::ops::Range<usize>| {
        let digits = text.get(range)?;
        digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse::<u32>().ok())?
    };
    let bytes = text.as_bytes();
    if bytes.len() != 10 || bytes[4] != b'-' || bytes[7] != b'-' {
        return None;
    }
    let (year, month, day) = (part(0..4)?, part(5..7)?, part(8..10)?);
    let is_leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let days = match month {
        2 if is_leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return None,
    };
    (1..=days).contains(&day).then_some(())
}

/// A day, a `T` and a time of day with its zone. What follows another `T` does not matter.
pub(super) fn is_date_time(text: &str) -> bool {
    let text = text.to_lowercase();
    let mut parts = text.split('t');
    let (Some(date), Some(time)) = (parts.next(), parts.next()) else { return false };
    is_date(date)
        && TIME
            .captures(time)
            .is_some_and(|parts| &parts[1] <= "23" && &parts[2] <= "59" && &parts[3] <= "59")
}

/// A duration of Go, or anything with a number and a unit in it.
pub(super) fn is_duration(text: &str) -> bool {
    if is_go_duration(text) {
        return true;
    }
    let mut has_unit = false;
    for parts in SPAN.captures_iter(text) {
        if parts[1].parse::<i64>().is_err() {
            return false;
        }
        has_unit |= is_unit(&parts[2].to_lowercase());
    }
    has_unit
}

fn is_unit(unit: &str) -> bool {
    UNITS.iter().any(|names| names.contains(&unit) || names.last().is_some_and(|last| unit.starts_with(last)))
}

/// Numbers with units, perhaps with a sign in front. Nothing needs a unit that is nothing.
fn is_go_duration(text: &str) -> bool {
    let text = text.strip_prefix(['-', '+']).unwrap_or(text);
    if text == "0" {
        return true;
    }
    let mut rest = text;
    while !rest.is_empty() {
        let Some(after) = after_go_span(rest) else { return false };
        rest = after;
    }
    !text.is_empty()
}

fn after_go_span(text: &str) -> Option<&str> {
    let whole = leading_digits(text);
    if whole.parse::<u64>().is_err_and(|_| !whole.is_empty())
        || whole.parse::<u64>().is_ok_and(|n| n > 1 << 63)
    {
        return None;
    }
    let rest = &text[whole.len()..];
    let (fraction, rest) = match rest.strip_prefix('.') {
        Some(rest) => {
            let fraction = leading_digits(rest);
            (fraction, &rest[fraction.len()..])
        }
        None => ("", rest),
    };
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let end =
        rest.find(|character: char| character == '.' || character.is_ascii_digit()).unwrap_or(rest.len());
    let (unit, rest) = rest.split_at(end);
    matches!(unit, "ns" | "us" | "µs" | "μs" | "ms" | "s" | "m" | "h").then_some(rest)
}

fn leading_digits(text: &str) -> &str {
    let end = text.find(|character: char| !character.is_ascii_digit()).unwrap_or(text.len());
    &text[..end]
}
