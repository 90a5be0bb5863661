//! Reads quantities.
//!
//! Follows apimachinery 0.36.4, `pkg/api/resource/quantity.go`, `pkg/api/resource/math.go`.

use super::{Notation, Quantity};

/// Why a text is no quantity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    #[error("quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'")]
    Format,
    #[error("unable to parse numeric part of quantity")]
    Number,
    #[error("unable to parse quantity's suffix")]
    Suffix,
}

const NANO: i32 = -9;
/// So many digits surely fit into a small integer.
const SMALL_DIGITS: usize = 18;
/// So many digits surely fit into what we hold.
const MOST_DIGITS: usize = 38;

pub(super) struct Parsed {
    pub(super) quantity: Quantity,
    /// Whether Kubernetes writes it as it was written.
    pub(super) is_kept: bool,
}

/// A quantity, taken apart.
struct Parts<'t> {
    is_negative: bool,
    /// Without zeros before it.
    whole: &'t str,
    fraction: &'t str,
    has_digits: bool,
    suffix: &'t str,
}

struct Suffix {
    notation: Notation,
    exponent: i32,
}

pub(super) fn parse(text: &str) -> Result<Parsed, ParseError> {
    if text.is_empty() {
        return Err(ParseError::Format);
    }
    if text == "0" {
        return Ok(Parsed { quantity: Quantity::from_integer(0, Notation::Decimal), is_kept: true });
    }
    let parts = split(text)?;
    let suffix = interpret(parts.suffix).ok_or(ParseError::Suffix)?;
    if let Some(parsed) = small(&parts, &suffix) {
        return Ok(parsed);
    }
    decimal(&parts, &suffix).map(|quantity| Parsed { quantity, is_kept: false })
}

fn split(text: &str) -> Result<Parts<'_>, ParseError> {
    let is_negative = text.starts_with('-');
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let is_zero = unsigned.starts_with('0');
    let unsigned = unsigned.trim_start_matches('0');
    let (whole, rest) = digits(unsigned);
    let (fraction, suffix) = rest.strip_prefix('.').map_or(("", rest), digits);
    if !is_suffix(suffix) {
        return Err(ParseError::Format);
    }
    // A sign or zeros alone are zero.
    let has_digits = is_zero || !whole.is_empty() || !fraction.is_empty() || unsigned.is_empty();
    let whole = if whole.is_empty() { "0" } else { whole };
    Ok(Parts { is_negative, whole, fraction, has_digits, suffix })
}

/// The digits that a text begins with, and what follows.
fn digits(text: &str) -> (&str, &str) {
    text.split_at(text.bytes().position(|byte| !byte.is_ascii_digit()).unwrap_or(text.len()))
}

fn is_suffix(text: &str) -> bool {
    let exponent = text.trim_start_matches(|letter| "eEinumkKMGTP".contains(letter));
    let exponent = exponent.strip_prefix(['-', '+']).unwrap_or(exponent);
    exponent.bytes().all(|byte| byte.is_ascii_digit())
}

/// The notation that a suffix belongs to, and the power of two or ten that it stands for.
fn interpret(suffix: &str) -> Option<Suffix> {
    let known = |notation, exponent| Some(Suffix { notation, exponent });
    match suffix {
        "n" => known(Notation::Decimal, -9),
        "u" => known(Notation::Decimal, -6),
        "m" => known(Notation::Decimal, -3),
        "" => known(Notation::Decimal, 0),
        "k" => known(Notation::Decimal, 3),
        "M" => known(Notation::Decimal, 6),
        "G" => known(Notation::Decimal, 9),
        "T" => known(Notation::Decimal, 12),
        "P" => known(Notation::Decimal, 15),
        "E" => known(Notation::Decimal, 18),
        "Ki" => known(Notation::Binary, 10),
        "Mi" => known(Notation::Binary, 20),
        "Gi" => known(Notation::Binary, 30),
        "Ti" => known(Notation::Binary, 40),
        "Pi" => known(Notation::Binary, 50),
        "Ei" => known(Notation::Binary, 60),
        _ => {
            let exponent: i64 = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
            // Kubernetes keeps the lower half only.
            #[allow(clippy::cast_possible_truncation, reason = "Kubernetes keeps the lower half only")]
            known(Notation::Exponent, exponent as i32)
        }
    }
}

/// The quantity, if it fits into a small integer without doubt.
fn small(parts: &Parts<'_>, suffix: &Suffix) -> Option<Parsed> {
    let length = parts.whole.len() + parts.fraction.len();
    let (factor, scale) = match suffix.notation {
        Notation::Binary => {
            // Kubernetes' guess whether the product fits (`ParseQuantity`): three digits for each factor of
            // 1024. The guess decides whether users see an integer.
            let room = 14 - i64::try_from(length).ok()? - i64::from(suffix.exponent) * 3 / 10;
            if room < 0 || !parts.fraction.is_empty() {
                return None;
            }
            (1_i64 << suffix.exponent, 0)
        }
        _ if length > SMALL_DIGITS => return None,
        _ => (1, suffix.exponent.checked_sub(i32::try_from(parts.fraction.len()).ok()?)?),
    };
    if scale < NANO {
        return None;
    }
    let shifted = [parts.whole, parts.fraction].concat();
    let value: i64 = shifted.parse().ok()?;
    let signed = value.checked_mul(factor)? * if parts.is_negative { -1 } else { 1 };
    let is_kept = match suffix.notation {
        // The rules of `ParseQuantity` for keeping the text: three trailing zero bits or digits could mean
        // that a larger suffix fits.
        Notation::Binary => value & 7 != 0,
        _ => scale % 3 == 0 && !shifted.ends_with("000") && !shifted.starts_with('0'),
    };
    let quantity = Quantity {
        unscaled: i128::from(signed),
        exponent: scale,
        nominal: scale,
        is_decimal: false,
        notation: suffix.notation,
    };
    Some(Parsed { quantity, is_kept })
}

fn decimal(parts: &Parts<'_>, suffix: &Suffix) -> Result<Quantity, ParseError> {
    if !parts.has_digits {
        return Err(ParseError::Number);
    }
    let (unscaled, exponent) = number(parts, suffix);
    // Only zero is not brought to billionths.
    let nominal = if unscaled == 0 { exponent } else { NANO };
    let mut quantity = Quantity { unscaled, exponent, nominal, is_decimal: true, notation: suffix.notation };
    if quantity.notation == Notation::Binary {
        let most = Quantity::from_integer(i64::MAX, Notation::Binary);
        if quantity > most {
            // Kubernetes caps binary quantities at the largest int64.
            quantity = Quantity { nominal: 0, is_decimal: true, ..most };
        }
        if !quantity.is_zero() && quantity < Quantity::from_integer(1, Notation::Binary) {
            quantity.notation = Notation::Decimal;
        }
    }
    Ok(if parts.is_negative { quantity.negated() } else { quantity })
}

/// The number without its sign, rounded up to billionths. What has no room for all digits is rounded up, too.
fn number(parts: &Parts<'_>, suffix: &Suffix) -> (i128, i32) {
    let digits = [parts.whole, parts.fraction].concat();
    let digits = digits.trim_start_matches('0');
    let is_binary = suffix.notation == Notation::Binary;
    // A factor of two to the tenth needs room for four digits.
    let factor = if is_binary { usize::try_from(suffix.exponent).unwrap_or(60) / 10 * 3 + 1 } else { 0 };
    let room = MOST_DIGITS - factor;
    let (kept, dropped) = digits.split_at(digits.len().min(room));
    let count = |length: usize| i64::try_from(length).unwrap_or(i64::MAX);
    let power = if is_binary { 0 } else { i64::from(suffix.exponent) };
    let exponent = power.saturating_add(count(dropped.len())).saturating_sub(count(parts.fraction.len()));
    let exponent = i32::try_from(exponent).unwrap_or(if exponent < 0 { i32::MIN } else { i32::MAX });
    if kept.is_empty() {
        return (0, exponent);
    }
    let mut unscaled: i128 = kept.parse().unwrap_or(i128::MAX / 10);
    unscaled = unscaled.saturating_add(i128::from(dropped.bytes().any(|digit| digit != b'0')));
    if is_binary {
        unscaled = unscaled.saturating_mul(1 << suffix.exponent);
    }
    if exponent >= NANO {
        return (unscaled, exponent);
    }
    (super::rescale(unscaled, exponent, NANO).unwrap_or(unscaled), NANO)
}
