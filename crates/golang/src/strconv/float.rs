//! Floating point numbers as text.
//!
//! Follows Go 1.26, `internal/strconv/ftoa.go`.

/// More digits than this no `float64` has, on either side of the point.
const ALL_DIGITS: usize = 1100;

/// Decimal digits without trailing zeros, and where the point stands: `0.d1d2… × 10^point`.
struct Decimal {
    digits: Vec<u8>,
    point: i32,
}

/// A float in one of Go's formats (`b e E f g G x X`). Without precision, as short as it stays exact.
pub fn format_float(float: f64, format: char, precision: Option<usize>) -> String {
    if float.is_nan() {
        return "NaN".to_owned();
    }
    if float.is_infinite() {
        return if float > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    let sign = if float.is_sign_negative() { "-" } else { "" };
    let size = float.abs();
    let body = match format {
        'b' => binary(size),
        'x' | 'X' => hexadecimal(size, format, precision),
        'e' | 'E' => {
            let decimal = match precision {
                Some(precision) => rounded(size, precision + 1),
                None => shortest(size),
            };
            let precision = precision.unwrap_or_else(|| decimal.digits.len().saturating_sub(1));
            exponential(&decimal, precision, format)
        }
        'g' | 'G' => general(size, precision, if format == 'g' { 'e' } else { 'E' }),
        _ => match precision {
            Some(precision) => {
                // Precisions come from format strings that users write. The standard library takes
                // 16 bits of precision and panics at more; zeros behind the last digit need no
                // arithmetic.
                let mut text = format!("{size:.*}", precision.min(ALL_DIGITS));
                pad_zeros(&mut text, precision.saturating_sub(ALL_DIGITS));
                text
            }
            // The standard library, too, writes the shortest digits that read as the same number, and never
            // an exponent here.
            None => format!("{size}"),
        },
    };
    format!("{sign}{body}")
}

fn shortest(size: f64) -> Decimal {
    parse(&format!("{size:e}"))
}

/// So many significant digits.
fn rounded(size: f64, count: usize) -> Decimal {
    parse(&format!("{size:.*e}", count.clamp(1, ALL_DIGITS) - 1))
}

/// Reads `d.ddde±x`.
fn parse(text: &str) -> Decimal {
    let (mantissa, exponent) = text.split_once('e').unwrap_or((text, "0"));
    let mut digits: Vec<u8> = mantissa.bytes().filter(u8::is_ascii_digit).collect();
    while digits.last() == Some(&b'0') {
        digits.pop();
    }
    let point = if digits.is_empty() { 0 } else { exponent.parse().unwrap_or(0) + 1 };
    Decimal { digits, point }
}

fn general(size: f64, precision: Option<usize>, exponent: char) -> String {
    let decimal = match precision {
        Some(precision) => rounded(size, precision.max(1)),
        None => shortest(size),
    };
    let count = decimal.digits.len();
    let threshold = match precision.map(|precision| precision.max(1)) {
        // Go decides with six digits when the shortest form is asked for, so that `%v` of 1000000
        // is `1e+06`.
        None => 6,
        Some(precision) if precision > count && is_within(&decimal) => count,
        Some(precision) => precision,
    };
    let power = decimal.point - 1;
    if power < -4 || power >= i32::try_from(threshold).unwrap_or(i32::MAX) {
        let precision = precision.map_or(count, |precision| precision.max(1).min(count));
        return exponential(&decimal, precision.saturating_sub(1), exponent);
    }
    plain(&decimal)
}

/// Whether all digits before the point are there.
fn is_within(decimal: &Decimal) -> bool {
    i32::try_from(decimal.digits.len()).is_ok_and(|count| count >= decimal.point)
}

fn exponential(decimal: &Decimal, precision: usize, letter: char) -> String {
    let digit = |at: usize| char::from(decimal.digits.get(at).copied().unwrap_or(b'0'));
    let mut text = String::from(digit(0));
    if precision > 0 {
        text.push('.');
        let known = precision.min(decimal.digits.len());
        text.extend((1..=known).map(digit));
        pad_zeros(&mut text, precision - known);
    }
    let exponent = if decimal.digits.is_empty() { 0 } else { decimal.point - 1 };
    let sign = if exponent < 0 { '-' } else { '+' };
    text.push_str(&format!("{letter}{sign}{:02}", exponent.abs()));
    text
}

/// All digits there are, without an exponent.
fn plain(decimal: &Decimal) -> String {
    let digits = decimal.digits.iter().map(|digit| char::from(*digit));
    let Ok(point) = usize::try_from(decimal.point) else {
        let zeros = "0".repeat(decimal.point.unsigned_abs() as usize);
        return format!("0.{zeros}{}", digits.collect::<String>());
    };
    let mut text: String = digits.clone().take(point).collect();
    pad_zeros(&mut text, point.saturating_sub(decimal.digits.len()));
    if text.is_empty() {
        text.push('0');
    }
    if decimal.digits.len() > point {
        text.push('.');
        text.extend(digits.skip(point));
    }
    text
}

fn pad_zeros(text: &mut String, count: usize) {
    text.extend(std::iter::repeat_n('0', count));
}

/// Mantissa and exponent to the base of two.
fn parts(size: f64) -> (u64, i64) {
    let bits = size.to_bits();
    let mantissa = bits & ((1 << 52) - 1);
    match i64::try_from(bits >> 52 & 0x7ff).unwrap_or_default() {
        // Subnormal numbers have no hidden bit, and the exponent of the smallest normal one.
        0 => (mantissa, -1022),
        exponent => (mantissa | 1 << 52, exponent - 1023),
    }
}

fn binary(size: f64) -> String {
    let (mantissa, exponent) = parts(size);
    format!("{mantissa}p{:+}", exponent - 52)
}

fn hexadecimal(size: f64, letter: char, precision: Option<usize>) -> String {
    let (mut mantissa, mut exponent) = parts(size);
    if mantissa == 0 {
        exponent = 0;
    }
    // The leading one goes to bit 60, so that the fraction is fifteen whole digits.
    mantissa <<= 8;
    while mantissa != 0 && mantissa & 1 << 60 == 0 {
        mantissa <<= 1;
        exponent -= 1;
    }
    if let Some(precision @ 0..15) = precision {
        let shift = precision * 4;
        let extra = (mantissa << shift) & ((1 << 60) - 1);
        mantissa >>= 60 - shift;
        // Round half to even: exactly half rounds up only if the last digit that stays is odd.
        if extra | (mantissa & 1) > 1 << 59 {
            mantissa += 1;
        }
        mantissa <<= 60 - shift;
        if mantissa & 1 << 61 != 0 {
            mantissa >>= 1;
            exponent += 1;
        }
    }
    let leading = mantissa >> 60 & 1;
    let mut fraction = format!("{:015x}", mantissa & ((1 << 60) - 1));
    match precision {
        None => fraction.truncate(fraction.trim_end_matches('0').len()),
        Some(precision) => {
            fraction.truncate(precision);
            pad_zeros(&mut fraction, precision.saturating_sub(15));
        }
    }
    let point = if fraction.is_empty() { "" } else { "." };
    let sign = if exponent < 0 { '-' } else { '+' };
    let text = format!("0x{leading}{point}{fraction}p{sign}{:02}", exponent.abs());
    if letter == 'X' { text.to_uppercase() } else { text }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::format_float as text;

    #[test]
    fn shortest_text_is_exact_and_turns_exponential_early() {
        assert_eq!(text(5.0, 'g', None), "5");
        assert_eq!(text(100_000.0, 'g', None), "100000");
        assert_eq!(text(1_000_000.0, 'g', None), "1e+06");
        assert_eq!(text(123_456_789.0, 'g', None), "1.23456789e+08");
        assert_eq!(text(0.000_1, 'g', None), "0.0001");
        assert_eq!(text(0.000_01, 'g', None), "1e-05");
        assert_eq!(text(-2.5, 'g', None), "-2.5");
        assert_eq!(text(-2.5e-9, 'g', None), "-2.5e-09");
        assert_eq!(text(100_000.5, 'g', None), "100000.5");
        assert_eq!(text(1_000_000.5, 'g', None), "1.0000005e+06");
        assert_eq!(text(123_456_789_012_345_680_000.0, 'g', None), "1.2345678901234568e+20");
        assert_eq!(text(0.0, 'g', None), "0");
        assert_eq!(text(1e21, 'f', None), "1000000000000000000000");
        assert_eq!(text(1.5, 'e', None), "1.5e+00");
    }

    #[test]
    fn precision_is_kept() {
        assert_eq!(text(2.71234, 'f', Some(2)), "2.71");
        assert_eq!(text(2.5, 'f', Some(0)), "2");
        assert_eq!(text(1234.0, 'g', Some(2)), "1.2e+03");
        assert_eq!(text(1234.0, 'g', Some(10)), "1234");
        assert_eq!(text(100.0, 'g', Some(2)), "1e+02");
        assert_eq!(text(0.0, 'e', Some(3)), "0.000e+00");
        assert_eq!(text(1.0, 'E', Some(6)), "1.000000E+00");
        assert_eq!(text(1.0, 'f', Some(2000)).len(), 2002);
    }

    #[test]
    fn powers_of_two() {
        assert_eq!(text(1.0, 'b', None), "4503599627370496p-52");
        assert_eq!(text(255.0, 'x', None), "0x1.fep+07");
        assert_eq!(text(0.0, 'x', None), "0x0p+00");
        assert_eq!(text(-1.0, 'X', Some(3)), "-0X1.000P+00");
        assert_eq!(text(1.999_999, 'x', Some(1)), "0x1.0p+01");
    }

    proptest! {
        #[test]
        fn any_float_has_a_text(bits: u64, format in "[beEfgGxX]", precision in proptest::option::of(0_usize..1200)) {
            let format = format.chars().next().unwrap();
            prop_assert!(!text(f64::from_bits(bits), format, precision).is_empty());
        }

        #[test]
        fn shortest_text_reads_back(bits: u64) {
            let float = f64::from_bits(bits);
            if float.is_finite() {
                let read = |format| text(float, format, None).parse::<f64>().unwrap().to_bits();
                prop_assert_eq!((read('g'), read('e')), (bits, bits));
            }
        }
    }
}
