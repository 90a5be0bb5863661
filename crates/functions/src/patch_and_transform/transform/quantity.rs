//! Quantities of Kubernetes, such as `1.5Gi` or `100m`, as approximate floats.

const WRONG_FORMAT: &str =
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
const WRONG_SUFFIX: &str = "unable to parse quantity's suffix";
const WRONG_NUMBER: &str = "unable to parse numeric part of quantity";

/// A quantity is kept in steps of a billionth.
const FINEST: i32 = -9;

/// What a suffix stands for.
enum Unit {
    Ten(i32),
    Two(u32),
}

struct Parts<'t> {
    is_negative: bool,
    whole: &'t str,
    fraction: &'t str,
    suffix: &'t str,
}

/// The quantity as a float.
pub(super) fn parse(text: &str) -> Result<f64, &'static str> {
    if text.is_empty() {
        return Err(WRONG_FORMAT);
    }
    let parts = split(text)?;
    let unit = unit(parts.suffix).ok_or(WRONG_SUFFIX)?;
    let size = match fast(&parts, &unit)? {
        Some(size) => size,
        None => slow(&parts, &unit)?,
    };
    Ok(if parts.is_negative { -size } else { size })
}

fn split(text: &str) -> Result<Parts<'_>, &'static str> {
    let is_negative = text.starts_with('-');
    let number = text.strip_prefix(['+', '-']).unwrap_or(text).trim_start_matches('0');
    let (whole, rest) = split_digits(number);
    let (fraction, suffix) = match rest.strip_prefix('.') {
        Some(rest) => split_digits(rest),
        None => ("", rest),
    };
    let tail = suffix.trim_start_matches(|letter| "eEinumkKMGTP".contains(letter));
    let tail = tail.strip_prefix(['+', '-']).unwrap_or(tail);
    if !split_digits(tail).1.is_empty() {
        return Err(WRONG_FORMAT);
    }
    Ok(Parts { is_negative, whole: if whole.is_empty() { "0" } else { whole }, fraction, suffix })
}

fn split_digits(text: &str) -> (&str, &str) {
    text.split_at(text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len()))
}

fn unit(suffix: &str) -> Option<Unit> {
    Some(match suffix {
        "" => Unit::Ten(0),
        "n" => Unit::Ten(-9),
        "u" => Unit::Ten(-6),
        "m" => Unit::Ten(-3),
        "k" => Unit::Ten(3),
        "M" => Unit::Ten(6),
        "G" => Unit::Ten(9),
        "T" => Unit::Ten(12),
        "P" => Unit::Ten(15),
        "E" => Unit::Ten(18),
        "Ki" => Unit::Two(10),
        "Mi" => Unit::Two(20),
        "Gi" => Unit::Two(30),
        "Ti" => Unit::Two(40),
        "Pi" => Unit::Two(50),
        "Ei" => Unit::Two(60),
        _ => {
            let exponent: i64 = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
            #[expect(clippy::cast_possible_truncation, reason = "so does the original")]
            Unit::Ten(exponent as i32)
        }
    })
}

/// What fits 64 bits with room to spare is computed there. The original does so too, and it shows in the digits.
fn fast(parts: &Parts<'_>, unit: &Unit) -> Result<Option<f64>, &'static str> {
    let (whole, fraction) = (length(parts.whole), length(parts.fraction));
    let (factor, scale, room) = match *unit {
        Unit::Ten(exponent) => (1, exponent, 18 - whole - fraction),
        Unit::Two(exponent) if fraction == 0 => {
            let digits = i32::try_from(exponent * 3 / 10).unwrap_or_default();
            (1_i64 << exponent, 0, 15 - whole - digits - 1)
        }
        Unit::Two(_) => return Ok(None),
    };
    let scale = scale.saturating_sub(fraction);
    if room < 0 || scale < FINEST {
        return Ok(None);
    }
    let value: i64 = format!("{}{}", parts.whole, parts.fraction).parse().map_err(|_| WRONG_NUMBER)?;
    #[expect(clippy::cast_precision_loss, reason = "so does the original")]
    Ok(value.checked_mul(factor).map(|value| scaled(value as f64, scale)))
}

fn length(digits: &str) -> i32 {
    i32::try_from(digits.len()).unwrap_or(i32::MAX / 4)
}

/// In steps of a billionth, rounded up. The largest amounts are only as exact as floats are.
fn slow(parts: &Parts<'_>, unit: &Unit) -> Result<f64, &'static str> {
    let digits = format!("{}{}", parts.whole, parts.fraction);
    let fraction = length(parts.fraction);
    let (factor, exponent) = match *unit {
        Unit::Ten(exponent) => (1, exponent.saturating_sub(fraction)),
        Unit::Two(exponent) => (1_u128 << exponent, -fraction),
    };
    if digits.bytes().all(|digit| digit == b'0') {
        return Ok(0.0);
    }
    let exact =
        digits.parse::<u128>().ok().and_then(|digits| in_steps(digits.checked_mul(factor)?, exponent));
    #[expect(clippy::cast_precision_loss, reason = "so does the original")]
    let size = match exact {
        Some(steps) => scaled(steps as f64, FINEST),
        None => format!("{digits}e{exponent}").parse::<f64>().map_err(|_| WRONG_NUMBER)? * factor as f64,
    };
    // Amounts to the base of two are capped.
    #[expect(clippy::cast_precision_loss, reason = "so does the original")]
    let cap = if matches!(unit, Unit::Two(_)) { i64::MAX as f64 } else { f64::INFINITY };
    Ok(size.min(cap))
}

fn in_steps(amount: u128, exponent: i32) -> Option<u128> {
    let shift = exponent.checked_sub(FINEST)?;
    match u32::try_from(shift) {
        Ok(shift) => amount.checked_mul(10_u128.checked_pow(shift)?),
        Err(_) => Some(10_u128.checked_pow(shift.unsigned_abs()).map_or(1, |step| amount.div_ceil(step))),
    }
}

fn scaled(base: f64, exponent: i32) -> f64 {
    if exponent == 0 { base } else { base * power_of_ten(exponent) }
}

/// As Go computes it: from tables, with one multiplication or division.
fn power_of_ten(exponent: i32) -> f64 {
    let table = |exponent: i32| format!("1e{exponent}").parse::<f64>().unwrap_or_default();
    match exponent {
        0..=308 => table(exponent / 32 * 32) * table(exponent % 32),
        -323..0 => table(exponent / 32 * 32) / table(-exponent % 32),
        ..-323 => 0.0,
        _ => f64::INFINITY,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(clippy::float_cmp, reason = "the digits are the point")]
    fn quantities_are_read_as_kubernetes_does() {
        for (text, float) in [
            ("0", 0.0),
            ("000", 0.0),
            ("1", 1.0),
            ("1k", 1000.0),
            ("100m", 0.1),
            ("-1.5", -1.5),
            ("1.5Gi", 1_610_612_736.0),
            ("1Ki", 1024.0),
            ("12e6", 12e6),
            ("1E", 1e18),
            ("+.5", 0.5),
            ("1.", 1.0),
            ("1e-12", 1e-9),
            ("16Ei", 9.223_372_036_854_776e18),
        ] {
            let read = parse(text).unwrap();
            assert!((read - float).abs() <= float.abs() * 1e-15, "{text}: {read}");
        }
        assert_eq!(parse("5Gi").unwrap(), 5.0 * 1024.0 * 1024.0 * 1024.0);
    }

    #[test]
    fn what_is_no_quantity_is_refused() {
        for text in ["", "abc", "1 Gi", "1.2.3", "1KiB", "e"] {
            assert!(parse(text).is_err(), "{text}");
        }
        assert_eq!(parse("1Zi"), Err(WRONG_FORMAT));
        assert_eq!(parse("1kk"), Err(WRONG_SUFFIX));
    }
}
