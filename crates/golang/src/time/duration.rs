//! Durations like `1h30m`, as Go's `time.ParseDuration` reads them and `Duration.String` writes them.
//!
//! Follows Go 1.26, `time/format.go`, `time/time.go`.

use std::time::Duration;

use super::quote::quote;

/// The largest magnitude in nanoseconds, which only a negative duration can have.
const LIMIT: u64 = 1 << 63;

/// Nanoseconds, or what Go says is wrong.
pub fn parse(text: &str) -> Result<i64, String> {
    let (is_negative, unsigned) = match text.as_bytes().first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    };
    // The only number that needs no unit.
    if unsigned == "0" {
        return Ok(0);
    }
    let total = sum(unsigned).map_err(|problem| format!("time: {problem} {}", quote(text)))?;
    match (is_negative, i64::try_from(total)) {
        (true, Ok(total)) => Ok(-total),
        // `sum` allows 2^63 exactly, and only this sign can have it.
        (true, Err(_)) => Ok(i64::MIN),
        (false, Ok(total)) => Ok(total),
        (false, Err(_)) => Err(format!("time: {INVALID} {}", quote(text))),
    }
}

/// Nanoseconds as Go's `Duration.String` writes them: `1h30m0s`, `1.5s`, `2ms`.
pub fn format(nanoseconds: i64) -> String {
    let size = nanoseconds.unsigned_abs();
    let sign = if nanoseconds < 0 { "-" } else { "" };
    let (unit, name) = match size {
        0 => return "0s".to_owned(),
        1..1_000 => (1, "ns"),
        1_000..1_000_000 => (1_000, "\u{b5}s"),
        1_000_000..1_000_000_000 => (1_000_000, "ms"),
        _ => (1_000_000_000, "s"),
    };
    if unit < 1_000_000_000 {
        return format!("{sign}{}{name}", with_fraction(size, unit));
    }
    let (minutes, rest) = (size / 60_000_000_000, size % 60_000_000_000);
    let seconds = with_fraction(rest, unit);
    match (minutes / 60, minutes % 60) {
        (0, 0) => format!("{sign}{seconds}s"),
        (0, minutes) => format!("{sign}{minutes}m{seconds}s"),
        (hours, minutes) => format!("{sign}{hours}h{minutes}m{seconds}s"),
    }
}

/// So many units, with as many digits after the point as there are.
fn with_fraction(size: u64, unit: u64) -> String {
    let width = unit.ilog10() as usize;
    let fraction = format!("{:0width$}", size % unit);
    match fraction.trim_end_matches('0') {
        "" => (size / unit).to_string(),
        fraction => format!("{}.{fraction}", size / unit),
    }
}

/// A multiple of a unit that is nearest, away from zero at a half: Go's `Duration.Round`. What is too large is the
/// largest duration.
pub fn round(nanoseconds: i64, unit: i64) -> i64 {
    if unit <= 0 {
        return nanoseconds;
    }
    let (size, unit) = (i128::from(nanoseconds).abs(), i128::from(unit));
    let down = size - size % unit;
    let rounded = if (size % unit) * 2 < unit { down } else { down + unit };
    let signed = if nanoseconds < 0 { -rounded } else { rounded };
    i64::try_from(signed).unwrap_or(if nanoseconds < 0 { i64::MIN } else { i64::MAX })
}

/// A duration that is not negative. None if Go would not take the text for one.
pub fn parse_positive(text: &str) -> Option<Duration> {
    u64::try_from(parse(text).ok()?).ok().map(Duration::from_nanos)
}

const INVALID: &str = "invalid duration";

fn sum(text: &str) -> Result<u64, String> {
    let mut rest = text;
    let mut total: u64 = 0;
    if rest.is_empty() {
        return Err(INVALID.to_owned());
    }
    while !rest.is_empty() {
        let (term, after) = term(rest)?;
        total = total.checked_add(term).filter(|total| *total <= LIMIT).ok_or(INVALID)?;
        rest = after;
    }
    Ok(total)
}

/// One number with its unit, in nanoseconds, and what follows.
fn term(text: &str) -> Result<(u64, &str), String> {
    let (digits, rest) = split_digits(text);
    let whole = whole(digits).ok_or(INVALID)?;
    let (fraction, rest) = rest.strip_prefix('.').map_or(("", rest), split_digits);
    if digits.is_empty() && fraction.is_empty() {
        return Err(INVALID.to_owned());
    }
    // A unit is everything up to the next number, so that `1x y` complains about `x y`, as Go does.
    let end = rest.find(|c: char| c == '.' || c.is_ascii_digit()).unwrap_or(rest.len());
    let (name, rest) = rest.split_at(end);
    if name.is_empty() {
        return Err("missing unit in duration".to_owned());
    }
    let unit = unit(name).ok_or_else(|| format!("unknown unit {} in duration", quote(name)))?;
    let nanoseconds = whole.checked_mul(unit).filter(|product| *product <= LIMIT).ok_or(INVALID)?;
    let nanoseconds = nanoseconds + part_of(unit, fraction);
    if nanoseconds > LIMIT {
        return Err(INVALID.to_owned());
    }
    Ok((nanoseconds, rest))
}

fn split_digits(text: &str) -> (&str, &str) {
    text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()))
}

fn whole(digits: &str) -> Option<u64> {
    if digits.is_empty() { Some(0) } else { digits.parse().ok().filter(|whole| *whole <= LIMIT) }
}

/// The fraction of a unit. Digits that no longer fit count for nothing, as in Go.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "digits that do not fit count for nothing, as in Go"
)]
fn part_of(unit: u64, fraction: &str) -> u64 {
    let mut numerator: u64 = 0;
    let mut scale = 1.0;
    for digit in fraction.bytes().map(|byte| u64::from(byte - b'0')) {
        // Go's `leadingFraction` asks before and after each digit, and both answers count.
        let fits = numerator <= (LIMIT - 1) / 10;
        let Some(next) = Some(numerator).filter(|_| fits).map(|n| n * 10 + digit).filter(|n| *n <= LIMIT)
        else {
            break;
        };
        numerator = next;
        scale *= 10.0;
    }
    // The order of these operations is Go's. Another one rounds differently in the last nanosecond.
    (numerator as f64 * (unit as f64 / scale)) as u64
}

fn unit(name: &str) -> Option<u64> {
    match name {
        "ns" => Some(1),
        // Both the micro sign and the Greek letter mu.
        "us" | "\u{b5}s" | "\u{3bc}s" => Some(1_000),
        "ms" => Some(1_000_000),
        "s" => Some(1_000_000_000),
        "m" => Some(60_000_000_000),
        "h" => Some(3_600_000_000_000),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn durations_add_up() {
        assert_eq!(parse("1h30m"), Ok(5_400_000_000_000));
        assert_eq!(parse("-1.5s"), Ok(-1_500_000_000));
        assert_eq!(parse("+.5ms1us1\u{b5}s1ns"), Ok(502_001));
        assert_eq!(parse("0"), Ok(0));
        assert_eq!(parse("-9223372036854775808ns"), Ok(i64::MIN));
        assert_eq!(parse("0.100000000000000000000h"), Ok(360_000_000_000));
    }

    #[test]
    fn mistakes_are_named_as_go_names_them() {
        let says = |text| parse(text).unwrap_err();
        assert_eq!(says(""), r#"time: invalid duration """#);
        assert_eq!(says("."), r#"time: invalid duration ".""#);
        assert_eq!(says("5"), r#"time: missing unit in duration "5""#);
        assert_eq!(says("5d"), r#"time: unknown unit "d" in duration "5d""#);
        assert_eq!(says("1 h"), r#"time: unknown unit " h" in duration "1 h""#);
        assert_eq!(says("9223372036854775808ns"), r#"time: invalid duration "9223372036854775808ns""#);
        assert_eq!(says("99999999999h"), r#"time: invalid duration "99999999999h""#);
        assert_eq!(says("\u{e9}\"\n"), r#"time: invalid duration "\xc3\xa9\"\x0a""#);
    }

    #[test]
    fn durations_are_written_as_in_go() {
        for (nanoseconds, text) in [
            (0, "0s"),
            (1, "1ns"),
            (-1_500, "-1.5\u{b5}s"),
            (2_000_000, "2ms"),
            (1_000_000_000, "1s"),
            (61_500_000_000, "1m1.5s"),
            (3_600_000_000_000, "1h0m0s"),
            (i64::MIN, "-2562047h47m16.854775808s"),
        ] {
            assert_eq!(format(nanoseconds), text);
        }
        assert_eq!(
            (round(1_500, 1_000), round(-1_499, 1_000), round(i64::MAX, 1_000)),
            (2_000, -1_000, i64::MAX)
        );
    }

    #[test]
    fn negative_durations_are_no_lengths() {
        for (text, millis) in
            [("24h", 86_400_000), ("1h30m", 5_400_000), ("1.5s", 1500), ("1ms", 1), ("0", 0)]
        {
            assert_eq!(parse_positive(text), Some(Duration::from_millis(millis)), "{text}");
        }
        for text in ["", "1", "s", "-1s", "1x", "1h 1m", "..s", "99999999999999999999h"] {
            assert_eq!(parse_positive(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_a_duration_or_a_mistake(text in "[-+]?([0-9]{0,22}(\\.[0-9]{0,25})?(ns|us|ms|s|m|h|d|.)?){0,3}") {
            let _ = parse(&text);
        }
    }
}
