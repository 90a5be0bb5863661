//! Decimal numbers of any length, so that `addf 0.1 0.2` is `0.3`.
//!
//! Follows shopspring/decimal 1.4.0, `decimal.go`.

use ferroplane_golang::strconv::format_float;
use num_bigint::{BigInt, Sign};

use crate::Failure;

/// How many digits a quotient has after the point.
const PRECISION: i64 = 16;

/// A number times a power of ten.
#[derive(Debug, Clone)]
pub(super) struct Decimal {
    number: BigInt,
    exponent: i64,
}

impl Decimal {
    /// The shortest decimal number that is this float.
    pub(super) fn of(float: f64) -> Result<Self, Failure> {
        if !float.is_finite() {
            let printed = format_float(float, 'g', None);
            return Err(Failure::new(format!("Cannot create a Decimal from {printed}")));
        }
        // `{:e}` writes the shortest digits that are the float, with one before the point.
        let text = format!("{float:e}");
        let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        let number = format!("{whole}{fraction}").parse().unwrap_or_default();
        let exponent =
            exponent.parse::<i64>().unwrap_or_default() - i64::try_from(fraction.len()).unwrap_or_default();
        Ok(Self { number, exponent: if float == 0.0 { 0 } else { exponent } })
    }

    pub(super) fn add(&self, other: &Self) -> Self {
        let (one, other, exponent) = self.aligned(other);
        Self { number: one + other, exponent }
    }

    pub(super) fn sub(&self, other: &Self) -> Self {
        let (one, other, exponent) = self.aligned(other);
        Self { number: one - other, exponent }
    }

    pub(super) fn mul(&self, other: &Self) -> Self {
        Self { number: &self.number * &other.number, exponent: self.exponent + other.exponent }
    }

    /// The quotient with sixteen digits after the point, rounded away from zero at a half.
    pub(super) fn div(&self, other: &Self) -> Result<Self, Failure> {
        if other.number.sign() == Sign::NoSign {
            return Err(Failure::new("decimal division by 0"));
        }
        let shift = self.exponent - other.exponent + PRECISION;
        let (one, other) = (&self.number * power(shift), &other.number * power(-shift));
        let (quotient, remainder) = (&one / &other, &one % &other);
        let is_half = remainder.magnitude() * 2_u8 >= *other.magnitude();
        let away = if one.sign() == other.sign() { 1 } else { -1 };
        let number = if is_half { quotient + away } else { quotient };
        Ok(Self { number, exponent: -PRECISION })
    }

    /// The nearest float.
    pub(super) fn to_float(&self) -> f64 {
        // The standard library rounds decimal digits correctly, however many there are.
        format!("{}e{}", self.number, self.exponent).parse().unwrap_or_default()
    }

    /// About how many bytes it has.
    pub(super) fn size(&self) -> u64 {
        self.number.bits() / 8
    }

    /// Both numbers with the smaller exponent.
    fn aligned(&self, other: &Self) -> (BigInt, BigInt, i64) {
        let exponent = self.exponent.min(other.exponent);
        let scaled = |decimal: &Self| &decimal.number * power(decimal.exponent - exponent);
        (scaled(self), scaled(other), exponent)
    }
}

/// A power of ten; one if the exponent is negative.
fn power(exponent: i64) -> BigInt {
    BigInt::from(10).pow(u32::try_from(exponent).unwrap_or_default())
}
