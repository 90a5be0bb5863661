//! Writes quantities in their canonical form: no fraction, and the largest suffix that needs none.
//!
//! Follows apimachinery 0.36.4, `pkg/api/resource/quantity.go`, `pkg/api/resource/suffix.go`.

use std::fmt;

use super::{Notation, Quantity};

const DECIMAL: [&str; 10] = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
const BINARY: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
/// The power of ten of the last decimal suffix.
const EXA: i32 = 18;
/// With more zeros than this, an amount is written as if it had come with an exponent.
const MOST_ZEROS: i32 = 1000;

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_zero() {
            return f.write_str("0");
        }
        if let Some(whole) = self.binary() {
            return write_binary(whole, f);
        }
        self.write_decimal(f)
    }
}

impl Quantity {
    /// The whole number to be written with a binary suffix.
    fn binary(&self) -> Option<i128> {
        if self.notation != Notation::Binary {
            return None;
        }
        let whole = super::rescale(self.unscaled, self.exponent, 0)?;
        let is_exact = super::rescale(whole, 0, self.exponent) == Some(self.unscaled);
        // Kubernetes writes small or fractional amounts in decimal notation, even if they were given in
        // binary.
        (is_exact && whole.unsigned_abs() >= 1024).then_some(whole)
    }

    fn write_decimal(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (mut digits, mut power) = (self.unscaled, self.exponent);
        let mut has_suffixes = self.notation != Notation::Exponent;
        // Ends, because zero was written already.
        while digits % 10 == 0 {
            digits /= 10;
            power = power.saturating_add(1);
        }
        let mut zeros = power.rem_euclid(3);
        if has_suffixes && power - zeros > EXA {
            // Without a bound, `1e2000000000` would be written with two billion zeros.
            has_suffixes = power - EXA <= MOST_ZEROS;
            zeros = if has_suffixes { power - EXA } else { zeros };
        }
        let power = power - zeros;
        write!(f, "{digits}")?;
        for _ in 0..zeros {
            f.write_str("0")?;
        }
        match (has_suffixes, power) {
            // Nothing smaller than a billionth is held, so that the index is never negative.
            (true, _) => f.write_str(DECIMAL[usize::try_from((power + 9) / 3).unwrap_or(3).min(9)]),
            (false, 0) => Ok(()),
            (false, power) => write!(f, "e{power}"),
        }
    }
}

fn write_binary(mut whole: i128, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let mut index = 0;
    while whole % 1024 == 0 && index + 1 < BINARY.len() {
        whole /= 1024;
        index += 1;
    }
    write!(f, "{whole}{}", BINARY[index])
}
