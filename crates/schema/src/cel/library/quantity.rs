//! Quantities, like `1.5Gi` or `100m`. Kept exactly, in billionths.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use super::{Answer, Context};
use crate::cel::fault::Fault;
use crate::cel::object::Object;
use crate::cel::value::Value;

const NANO: i128 = 1_000_000_000;

#[derive(Debug, Clone, Copy)]
pub struct Quantity {
    /// Billionths.
    amount: i128,
    notation: Notation,
    /// Whether it was written, or came about, without a fraction and without too many digits.
    is_small_integer: bool,
    /// The power of ten of its last digit, as it was written.
    power: i32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Notation {
    Binary,
    Decimal,
    Exponent,
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.amount == other.amount
    }
}

impl Quantity {
    pub(super) fn order(&self, other: &Self) -> Ordering {
        self.amount.cmp(&other.amount)
    }

    fn parse(text: &str) -> Result<Self, Fault> {
        const FORMAT: &str =
            "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
        const SUFFIX: &str = "unable to parse quantity's suffix";
        if text.is_empty() {
            return Err(Fault::text(FORMAT));
        }
        let is_negative = text.starts_with('-');
        let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
        let digits = |text: &str| text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let (whole, mut suffix) = unsigned.split_at(digits(unsigned));
        let mut fraction = "";
        if let Some(after) = suffix.strip_prefix('.') {
            (fraction, suffix) = after.split_at(digits(after));
        }
        let is_suffix = suffix.trim_start_matches(|c| "eEinumkKMGTP".contains(c));
        let is_suffix = is_suffix.strip_prefix(['-', '+']).unwrap_or(is_suffix);
        if !is_suffix.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(Fault::text(FORMAT));
        }
        let (notation, base, exponent) = read_suffix(suffix).ok_or(Fault::text(SUFFIX))?;
        let amount = scaled(whole, fraction, base, exponent);
        let most = i128::from(i64::MAX) * NANO;
        let is_capped = base == 2 && amount > most;
        let amount = if is_capped { most } else { amount };
        let is_small_integer = is_small_integer(whole, fraction, base, exponent);
        let power = if is_capped { 0 } else { last_digit(whole, fraction, base, exponent) };
        Ok(Self { amount: if is_negative { -amount } else { amount }, notation, is_small_integer, power })
    }

    fn as_integer(&self) -> Option<i64> {
        if !self.is_small_integer || self.amount % NANO != 0 {
            return None;
        }
        i64::try_from(self.amount / NANO).ok()
    }

    fn plus(self, other: Self) -> Self {
        let amount = self.amount.saturating_add(other.amount);
        // Adding to nothing takes the notation of what is added.
        let notation = if self.amount == 0 { other.notation } else { self.notation };
        let is_small_integer = self.is_small_integer && other.is_small_integer;
        let power = if self.amount == 0 { other.power } else { self.power.min(other.power) };
        Self { amount, notation, is_small_integer, power }
    }

    fn minus(self, other: Self) -> Self {
        self.plus(Self { amount: -other.amount, ..other })
    }

    #[allow(clippy::cast_precision_loss)] // It is approximate by name.
    fn approximately(self) -> f64 {
        let scale = 10_i128.checked_pow(u32::try_from(self.power.saturating_add(9)).unwrap_or(u32::MAX));
        let digits = scale.map_or(self.amount, |scale| self.amount / scale) as f64;
        match (scale, self.power) {
            (Some(_), 0) => digits,
            (Some(_), power) => digits * 10_f64.powi(power),
            (None, _) => digits * 1e-9,
        }
    }
}

/// The power of ten of the last digit. Of what has too many digits, billionths are kept.
fn last_digit(whole: &str, fraction: &str, base: u32, exponent: i64) -> i32 {
    let length = |text: &str| i64::try_from(text.len()).unwrap_or(i64::MAX);
    let digits = length(whole.trim_start_matches('0')).max(1) + length(fraction);
    let power = exponent.saturating_sub(length(fraction));
    match base {
        2 if fraction.is_empty() && 14 - digits - exponent * 3 / 10 >= 0 => 0,
        10 if digits <= 18 && power >= -9 => i32::try_from(power).unwrap_or(i32::MAX),
        _ => -9,
    }
}

/// Whether it is written without a fraction, and with so few digits that it surely fits.
fn is_small_integer(whole: &str, fraction: &str, base: u32, exponent: i64) -> bool {
    let length = |text: &str| i64::try_from(text.len()).unwrap_or(i64::MAX);
    let whole = length(whole.trim_start_matches('0')).max(1);
    if base == 2 {
        return fraction.is_empty() && 14 - whole - exponent * 3 / 10 >= 0;
    }
    // Trailing zeros of a fraction count.
    whole + length(fraction) <= 18 && exponent >= length(fraction)
}

/// The notation that a suffix belongs to, and the power of two or ten that it stands for.
fn read_suffix(suffix: &str) -> Option<(Notation, u32, i64)> {
    const BINARY: [&str; 6] = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
    const DECIMAL: [&str; 10] = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
    if let Some(index) = BINARY.iter().position(|candidate| *candidate == suffix) {
        return Some((Notation::Binary, 2, (i64::try_from(index).ok()? + 1) * 10));
    }
    if let Some(index) = DECIMAL.iter().position(|candidate| *candidate == suffix) {
        return Some((Notation::Decimal, 10, (i64::try_from(index).ok()? - 3) * 3));
    }
    let exponent = suffix.strip_prefix(['e', 'E'])?;
    if exponent.is_empty() {
        return None;
    }
    Some((Notation::Exponent, 10, exponent.parse().ok()?))
}

/// Billionths, rounded up. What is too large is as large as can be.
fn scaled(whole: &str, fraction: &str, base: u32, exponent: i64) -> i128 {
    const HUGE: i128 = i128::MAX / 4;
    let digits: String = [whole, fraction].concat();
    let digits = digits.trim_start_matches('0');
    if digits.is_empty() {
        return 0;
    }
    let mut shift = 9 - i64::try_from(fraction.len()).unwrap_or(i64::MAX);
    if base == 10 {
        shift = shift.saturating_add(exponent);
    }
    // More digits than can matter: keep the first, and remember that others follow.
    let kept = &digits[..digits.len().min(36)];
    let dropped = &digits[kept.len()..];
    shift = shift.saturating_add(i64::try_from(dropped.len()).unwrap_or(i64::MAX));
    let mut amount: i128 = kept.parse().unwrap_or(HUGE);
    let mut is_rounded = dropped.bytes().any(|byte| byte != b'0');
    if base == 2 {
        let factor = 1_i128 << exponent.clamp(0, 60);
        amount = amount.checked_mul(factor).unwrap_or(HUGE);
    }
    while shift > 0 && amount < HUGE {
        amount = amount.checked_mul(10).unwrap_or(HUGE);
        shift -= 1;
    }
    while shift < 0 && amount > 0 {
        is_rounded |= amount % 10 != 0;
        amount /= 10;
        shift += 1;
    }
    amount + i128::from(is_rounded)
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.amount == 0 {
            return f.write_str("0");
        }
        let sign = if self.amount < 0 { "-" } else { "" };
        let amount = self.amount.abs();
        if self.notation == Notation::Binary && amount >= 1024 * NANO && amount % NANO == 0 {
            let (mut value, mut index) = (amount / NANO, 0);
            while value % 1024 == 0 && index < 6 {
                value /= 1024;
                index += 1;
            }
            return write!(f, "{sign}{value}{}", ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"][index]);
        }
        let (mut value, mut power) = (amount, -9);
        while value % 1000 == 0 && power < 18 {
            value /= 1000;
            power += 3;
        }
        let index = usize::try_from((power + 9) / 3).unwrap_or(3);
        if self.notation == Notation::Exponent {
            return match power {
                0 => write!(f, "{sign}{value}"),
                _ => write!(f, "{sign}{value}e{power}"),
            };
        }
        write!(f, "{sign}{value}{}", ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"][index])
    }
}

pub(super) fn quantity<'v>(context: &Context<'_>, values: &mut [Value<'v>]) -> Answer<'v> {
    if let [Value::String(text)] = values {
        let parsed = Quantity::parse(text.as_str());
        return match context.function {
            "isQuantity" => Ok(Value::Bool(parsed.is_ok())),
            _ => Ok(Value::Object(Arc::new(Object::Quantity(parsed?)))),
        };
    }
    let Some(Value::Object(first)) = values.first() else { return Err(Fault::no_such_overload()) };
    let Object::Quantity(quantity) = **first else { return Err(Fault::no_such_overload()) };
    match (context.function, values.get(1)) {
        ("sign", _) => Ok(Value::Int(i64::try_from(quantity.amount.signum()).unwrap_or(0))),
        ("isInteger", _) => Ok(Value::Bool(quantity.as_integer().is_some())),
        ("asInteger", _) => {
            quantity.as_integer().map(Value::Int).ok_or(Fault::text("cannot convert value to integer"))
        }
        ("asApproximateFloat", _) => Ok(Value::Double(quantity.approximately())),
        ("add", Some(other)) => sum(quantity, other, Quantity::plus),
        ("sub", Some(other)) => sum(quantity, other, Quantity::minus),
        _ => Err(Fault::no_such_overload()),
    }
}

fn sum<'v>(one: Quantity, other: &Value<'_>, combine: fn(Quantity, Quantity) -> Quantity) -> Answer<'v> {
    let other = match other {
        Value::Int(number) => Quantity {
            amount: i128::from(*number) * NANO,
            notation: Notation::Exponent,
            is_small_integer: true,
            power: 0,
        },
        Value::Object(object) => match **object {
            Object::Quantity(other) => other,
            _ => return Err(Fault::no_such_overload()),
        },
        _ => return Err(Fault::no_such_overload()),
    };
    Ok(Value::Object(Arc::new(Object::Quantity(combine(one, other)))))
}
