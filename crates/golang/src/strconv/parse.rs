//! Reads numbers as they stand in Go source: bases, underscores, hexadecimal floats.
//!
//! Follows Go 1.26, `internal/strconv/atoi.go` (base 0), `internal/strconv/atof.go`.

/// An integer in any base that its prefix names (`0x`, `0o`, `0b`, or `0` for octal), with underscores between digits.
pub fn parse_int(text: &str) -> Option<i64> {
    let (is_negative, digits) = match text.strip_prefix(['+', '-']) {
        Some(digits) => (text.starts_with('-'), digits),
        None => (false, text),
    };
    // 128 bits, because the size of the smallest integer does not fit into the 64 of its own type.
    let size = i128::from(parse_uint(digits)?);
    i64::try_from(if is_negative { -size } else { size }).ok()
}

/// An integer without a sign, as [`parse_int`] reads it.
pub fn parse_uint(text: &str) -> Option<u64> {
    let bytes = text.as_bytes();
    let (base, digits) = match bytes {
        [b'0', b'x' | b'X', digits @ ..] if !digits.is_empty() => (16, digits),
        [b'0', b'o' | b'O', digits @ ..] if !digits.is_empty() => (8, digits),
        [b'0', b'b' | b'B', digits @ ..] if !digits.is_empty() => (2, digits),
        [b'0', digits @ ..] => (8, digits),
        _ => (10, bytes),
    };
    if bytes.is_empty() || !are_underscores_fine(text) {
        return None;
    }
    digits.iter().filter(|byte| **byte != b'_').try_fold(0_u64, |number, byte| {
        let digit = char::from(*byte).to_digit(base)?;
        number.checked_mul(base.into())?.checked_add(digit.into())
    })
}

/// A float, decimal or hexadecimal, with underscores between digits. None if it is none, or too large for one.
pub fn parse_float(text: &str) -> Option<f64> {
    let (sign, body) = match text.strip_prefix(['+', '-']) {
        Some(body) => (if text.starts_with('-') { -1.0 } else { 1.0 }, body),
        None => (1.0, text),
    };
    match body.to_ascii_lowercase().as_str() {
        "inf" | "infinity" => return Some(sign * f64::INFINITY),
        // Go takes no sign for what is no number.
        "nan" => return (body.len() == text.len()).then_some(f64::NAN),
        _ => {}
    }
    if !are_underscores_fine(body) {
        return None;
    }
    let body = body.replace('_', "");
    let is_hexadecimal = body.len() > 2 && matches!(body.as_bytes(), [b'0', b'x' | b'X', ..]);
    let size = if is_hexadecimal { hexadecimal(&body[2..]) } else { decimal(&body) }?;
    size.is_finite().then_some(sign * size)
}

fn decimal(body: &str) -> Option<f64> {
    // Rust reads what Go does, and a little more: `inf` and `nan`, a sign after ours, and an empty exponent never.
    let is_plain = body.starts_with(|letter: char| letter.is_ascii_digit() || letter == '.')
        && body.bytes().all(|byte| byte.is_ascii_digit() || b".eE+-".contains(&byte));
    if is_plain { body.parse().ok() } else { None }
}

fn hexadecimal(body: &str) -> Option<f64> {
    let (mantissa, exponent) = body.split_once(['p', 'P'])?;
    let digits = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    // No float has an exponent of more than four digits.
    let exponent: i32 = exponent.parse().unwrap_or(if exponent.starts_with('-') { -99_999 } else { 99_999 });
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let (mut number, mut shift) = (0_u64, 0_i32);
    for (at, digit) in whole.bytes().chain(fraction.bytes()).enumerate() {
        let digit = char::from(digit).to_digit(16)?;
        shift -= if at >= whole.len() { 4 } else { 0 };
        // One more digit must fit, and 59 bits leave room below the 53 of a float for the one that says how
        // to round.
        if number >> 59 == 0 {
            number = number << 4 | u64::from(digit);
        } else {
            // What does not fit any more only decides how to round.
            number |= u64::from(digit != 0);
            shift += 4;
        }
    }
    #[expect(clippy::cast_precision_loss, reason = "it rounds as Go does")]
    let size = number as f64;
    Some(scaled(size, exponent.clamp(-99_999, 99_999).saturating_add(shift)))
}

/// A float times a power of two, in steps that do not overflow before the float does.
fn scaled(mut size: f64, mut exponent: i32) -> f64 {
    while exponent != 0 && size != 0.0 && size.is_finite() {
        let step = exponent.clamp(-1000, 1000);
        size *= 2_f64.powi(step);
        exponent -= step;
    }
    size
}

/// Whether every underscore stands between digits, or between a prefix and a digit.
fn are_underscores_fine(text: &str) -> bool {
    let bytes = text.as_bytes();
    let (prefix, is_hexadecimal) = match bytes {
        [b'0', b'x' | b'X', ..] => (2, true),
        [b'0', b'b' | b'B' | b'o' | b'O', ..] => (2, false),
        _ => (0, false),
    };
    let is_digit = |byte: u8| byte.is_ascii_digit() || is_hexadecimal && byte.is_ascii_hexdigit();
    (prefix..bytes.len()).filter(|at| bytes[*at] == b'_').all(|at| {
        let is_after_digit = at > 0 && (at == prefix || is_digit(bytes[at - 1]));
        is_after_digit && bytes.get(at + 1).is_some_and(|next| is_digit(*next))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_have_any_base() {
        for (text, number) in [
            ("0", 0),
            ("-0", 0),
            ("+7", 7),
            ("1_000", 1000),
            ("0x_ff", 255),
            ("0b101", 5),
            ("0o17", 15),
            ("017", 15),
            ("-9223372036854775808", i64::MIN),
        ] {
            assert_eq!(parse_int(text), Some(number), "{text}");
        }
        for text in ["", "-", "08", "0x", "1__0", "_1", "1_", "9223372036854775808", "1.0", "a"] {
            assert_eq!(parse_int(text), None, "{text}");
        }
        assert_eq!(parse_uint("18446744073709551615"), Some(u64::MAX));
        assert_eq!(parse_uint("+1"), None);
    }

    #[test]
    fn floats_are_decimal_or_hexadecimal() {
        for (text, float) in [
            ("1.5", 1.5),
            (".5", 0.5),
            ("5.", 5.0),
            ("1_0.5e1", 105.0),
            ("0x1p-2", 0.25),
            ("-0x1.8p1", -3.0),
            ("0x1p-1074", 5e-324),
            ("1e-400", 0.0),
        ] {
            assert_eq!(parse_float(text), Some(float), "{text}");
        }
        for text in ["", ".", "e1", "1e", "1e400", "0x1", "0x1.8", "1e+", "--1", "+-1", "0x1p99999", "1_.5"] {
            assert_eq!(parse_float(text), None, "{text}");
        }
        assert!(parse_float("nan").is_some_and(f64::is_nan));
        assert_eq!(parse_float("-Inf"), Some(f64::NEG_INFINITY));
    }
}
