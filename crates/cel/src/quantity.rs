//! Quantities, like `1.5Gi` or `100m`: parsed, compared, added and written as Kubernetes does.
//!
//! A quantity is kept as Kubernetes keeps it: as a small integer with a power of ten where that is possible, else as a
//! decimal number. Which of the two it is can be seen by users, in what counts as an integer and in rounding.
//!
//! Follows apimachinery 0.36.4, `pkg/api/resource/quantity.go`.
//!
//! # Limits
//! * Numbers have at most 38 digits; further ones are rounded away from zero.
//! * Where Kubernetes would leave a suffix out because it has none for the magnitude, we keep the largest one.

mod format;
mod parse;

use std::cmp::Ordering;

pub use parse::ParseError;

/// An exact amount, and the notation in which it is written.
#[derive(Debug, Clone, Copy)]
pub struct Quantity {
    unscaled: i128,
    /// The amount is `unscaled` times ten to the power of this.
    exponent: i32,
    /// The power of ten at which Kubernetes holds the amount, at most `exponent`.
    nominal: i32,
    /// Whether Kubernetes holds it as a decimal number rather than as a small integer.
    is_decimal: bool,
    notation: Notation,
}

/// The family of suffixes that a quantity is written with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Notation {
    /// `Ki`, `Mi`, …
    Binary,
    /// `m`, `k`, `M`, …
    Decimal,
    /// `e3`, …
    Exponent,
}

impl Quantity {
    /// Reads a quantity.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        parse::parse(text).map(|parsed| parsed.quantity)
    }

    /// A whole number.
    pub const fn from_integer(value: i64, notation: Notation) -> Self {
        Self { unscaled: value as i128, exponent: 0, nominal: 0, is_decimal: false, notation }
    }

    pub const fn notation(self) -> Notation {
        self.notation
    }

    pub const fn is_zero(self) -> bool {
        self.unscaled == 0
    }

    /// Minus one, zero or one.
    pub const fn sign(self) -> i64 {
        self.unscaled.signum() as i64
    }

    /// The amount as an integer, if it is one and Kubernetes can tell without effort.
    pub fn as_integer(self) -> Option<i64> {
        if self.is_decimal || self.exponent < 0 {
            return None;
        }
        let value = i64::try_from(self.unscaled).ok()?;
        if value == 0 {
            // Zero fits whatever its exponent is, even one whose power would overflow.
            return Some(0);
        }
        value.checked_mul(10_i64.checked_pow(u32::try_from(self.exponent).ok()?)?)
    }

    /// About the amount.
    pub fn as_float(self) -> f64 {
        let shift = self.exponent.saturating_sub(self.nominal);
        // Rounded once, however many zeros follow.
        let digits: f64 = format!("{}e{shift}", self.unscaled).parse().unwrap_or(0.0);
        // Two steps, because Kubernetes multiplies the unscaled number by a power of ten and rounds twice;
        // `asApproximateFloat` shows the difference.
        if self.nominal == 0 { digits } else { digits * power_of_ten(self.nominal) }
    }

    /// The sum. Zero takes the notation of what is added.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        let notation = if self.is_zero() { other.notation } else { self.notation };
        if !self.is_decimal
            && !other.is_decimal
            && let Some(sum) = small_sum(self, other)
        {
            return Self { notation, ..sum };
        }
        let (unscaled, exponent) = decimal_sum(self, other);
        let nominal = self.nominal.min(other.nominal).min(exponent);
        Self { unscaled, exponent, nominal, is_decimal: true, notation }
    }

    /// The difference. Zero takes the notation of what is subtracted.
    #[must_use]
    pub fn minus(self, other: Self) -> Self {
        self.plus(other.negated())
    }

    #[must_use]
    pub const fn negated(self) -> Self {
        Self { unscaled: self.unscaled.saturating_neg(), ..self }
    }

    /// The amount to the thousandth, away from zero.
    #[must_use]
    pub fn rounded_up_to_thousandths(self) -> Self {
        const MILLI: i32 = -3;
        if self.exponent >= MILLI {
            return self;
        }
        let unscaled = rescale(self.unscaled, self.exponent, MILLI).unwrap_or(self.unscaled);
        Self { unscaled, exponent: MILLI, nominal: MILLI, ..self }
    }

    fn magnitude(self) -> (u128, i32) {
        (self.unscaled.unsigned_abs(), self.exponent)
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Quantity {}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        match self.sign().cmp(&other.sign()) {
            Ordering::Equal if self.unscaled < 0 => compare(other.magnitude(), self.magnitude()),
            Ordering::Equal => compare(self.magnitude(), other.magnitude()),
            unequal => unequal,
        }
    }
}

/// Writes the text as Kubernetes would store it: as it is if that is canonical enough, else anew.
pub fn canonical(text: &str) -> Result<String, ParseError> {
    let parsed = parse::parse(text)?;
    Ok(if parsed.is_kept { text.to_owned() } else { parsed.quantity.to_string() })
}

/// Compares two numbers that are not negative, without computing large powers.
fn compare((one, one_exponent): (u128, i32), (other, other_exponent): (u128, i32)) -> Ordering {
    if one == 0 || other == 0 {
        return one.cmp(&other);
    }
    let top = |digits: u128, exponent: i32| i64::from(digits.ilog10()) + i64::from(exponent);
    top(one, one_exponent).cmp(&top(other, other_exponent)).then_with(|| {
        // Both have as many digits before the point, so the difference of exponents is small.
        let shift = i64::from(one_exponent) - i64::from(other_exponent);
        let scaled = |digits: u128, by: i64| {
            let factor = 10_u128.checked_pow(u32::try_from(by).ok()?)?;
            digits.checked_mul(factor)
        };
        // One of the two is brought to as many digits as the other has. If that overflows, it is the larger
        // one.
        let one = scaled(one, shift.max(0)).unwrap_or(u128::MAX);
        let other = scaled(other, (-shift).max(0)).unwrap_or(u128::MAX);
        one.cmp(&other)
    })
}

/// The sum of small integers, if it is one and nothing overflows on the way.
fn small_sum(one: Quantity, other: Quantity) -> Option<Quantity> {
    if other.is_zero() {
        return Some(one);
    }
    if one.is_zero() {
        return Some(other);
    }
    let exponent = one.exponent.min(other.exponent);
    let scaled = |quantity: Quantity| {
        let factor = 10_i64.checked_pow(u32::try_from(quantity.exponent.checked_sub(exponent)?).ok()?)?;
        i64::try_from(quantity.unscaled).ok()?.checked_mul(factor)
    };
    let sum = scaled(one)?.checked_add(scaled(other)?)?;
    Some(Quantity { unscaled: i128::from(sum), exponent, nominal: exponent, ..one })
}

/// The sum, with as many digits as there is room for.
fn decimal_sum(one: Quantity, other: Quantity) -> (i128, i32) {
    if one.is_zero() {
        return (other.unscaled, other.exponent);
    }
    if other.is_zero() {
        return (one.unscaled, one.exponent);
    }
    // There is no room for more digits than this below the larger exponent.
    // Quantities such as `1e-2147483648` are legal; without this bound the loop below would count through all
    // exponents.
    let coarsest = one.exponent.max(other.exponent).saturating_sub(38);
    let mut exponent = one.exponent.min(other.exponent).max(coarsest);
    loop {
        let rescaled = |quantity: Quantity| rescale(quantity.unscaled, quantity.exponent, exponent);
        if let (Some(one), Some(other)) = (rescaled(one), rescaled(other))
            && let Some(sum) = one.checked_add(other)
        {
            return (sum, exponent);
        }
        // Gives up the last digit. Ends because at the larger exponent neither number grows.
        exponent = exponent.saturating_add(1);
    }
}

/// The number at another power of ten, rounded away from zero.
fn rescale(unscaled: i128, from: i32, to: i32) -> Option<i128> {
    let shift = i64::from(from) - i64::from(to);
    if shift >= 0 {
        return unscaled.checked_mul(10_i128.checked_pow(u32::try_from(shift).ok()?)?);
    }
    let Some(divisor) = u32::try_from(-shift).ok().and_then(|shift| 10_i128.checked_pow(shift)) else {
        // The divisor is larger than any number that is held, so that only the rounding is left.
        return Some(unscaled.signum());
    };
    let rounding = if unscaled % divisor == 0 { 0 } else { unscaled.signum() };
    Some(unscaled / divisor + rounding)
}

/// Powers of ten with the rounding errors of Go's library.
fn power_of_ten(power: i32) -> f64 {
    let exact = |power: i32| format!("1e{power}").parse().unwrap_or(f64::NAN);
    match power {
        ..-323 => 0.0,
        // Go's `math.Pow10` has tables in steps of 32, and this product or quotient of two entries is not
        // always the nearest double.
        -323..0 => exact(power / 32 * 32) / exact(-power % 32),
        0..=308 => exact(power / 32 * 32) * exact(power % 32),
        _ => f64::INFINITY,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Quantity {
        Quantity::parse(text).unwrap()
    }

    #[test]
    fn amounts_are_compared_whatever_their_notation() {
        assert_eq!(parse("1Ki"), parse("1024"));
        assert!(parse("1Mi") > parse("1M"));
        assert!(parse("-1e100") < parse("-1"));
        assert_eq!(parse("1500m"), parse("1.5"));
    }

    #[test]
    fn sums_keep_the_notation_of_the_first() {
        assert_eq!(parse("1Gi").plus(parse("1")).to_string(), "1073741825");
        assert_eq!(parse("0").plus(parse("1Ki")).to_string(), "1Ki");
        assert_eq!(parse("1").minus(parse("1500m")).to_string(), "-500m");
    }

    #[test]
    fn amounts_with_very_many_digits_are_not_cut_off() {
        for digits in [1010, 1019, 1020, 1100, 5000] {
            let amount = parse(&"8".repeat(digits));
            assert_eq!(parse(&amount.to_string()), amount, "{digits}");
        }
        let sum = parse("1").plus(parse("1e2000000000"));
        assert!(parse(&sum.to_string()) >= sum && sum.to_string().len() < 60, "{sum}");
        assert_eq!(parse(&format!("1{}", "0".repeat(1019))).to_string(), "100e1017");
    }

    #[test]
    fn sums_of_very_different_amounts_end() {
        let sum = parse("1e2000000000").plus(parse("1n"));
        assert!(sum > parse("1e1999999999"));
    }

    #[test]
    fn text_that_is_canonical_is_kept() {
        assert_eq!(canonical("1500m").unwrap(), "1500m");
        assert_eq!(canonical("0.5").unwrap(), "500m");
        assert_eq!(canonical("1024Ki").unwrap(), "1Mi");
    }
}
