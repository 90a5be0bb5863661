//! Numbers as Kubernetes has them, 64-bit integers and floats, and their bounds.
//!
//! Follows kube-openapi of 2026-03-17, `pkg/validation/validate/values.go`.

use ferroplane_golang::strconv;
use serde_json::{Number, Value};

use super::compile::{Checks, Kinds};
use super::report::{At, Code, Report};

/// A number: an integer if it was written as one and fits.
#[derive(Debug, Clone, Copy)]
pub(super) enum Num {
    Int(i64),
    Float(f64),
}

impl Num {
    pub(super) fn new(number: &Number) -> Self {
        number.as_i64().map_or_else(|| Self::Float(number.as_f64().unwrap_or(0.0)), Self::Int)
    }

    fn float(self) -> f64 {
        match self {
            Self::Int(int) => to_float(int),
            Self::Float(float) => float,
        }
    }

    fn to_json(self) -> Value {
        match self {
            Self::Int(int) => Value::from(int),
            Self::Float(float) => Value::from(float),
        }
    }

    fn written(self) -> String {
        match self {
            Self::Int(int) => int.to_string(),
            Self::Float(float) => strconv::format_float(float, 'g', None),
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "as Go converts")]
pub(super) fn to_float(int: i64) -> f64 {
    int as f64
}

/// An integer as Go makes it of a float on the machines that Kubernetes mostly runs on.
#[expect(clippy::cast_possible_truncation, reason = "what does not fit is dealt with")]
pub(super) fn truncate(float: f64) -> i64 {
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    // On amd64, Go gives the smallest integer for what does not fit; Rust would give the nearest.
    if (-LIMIT..LIMIT).contains(&float) { float as i64 } else { i64::MIN }
}

/// Whether two floats are the very same number.
#[expect(clippy::float_cmp, reason = "sameness is what is asked")]
pub(super) fn is_same(one: f64, other: f64) -> bool {
    one == other
}

/// Whether a float stands for an integer, give or take what calculating may have lost.
pub(super) fn is_integral(float: f64) -> bool {
    const LARGEST: f64 = 9_007_199_254_740_991.0;
    if !float.is_finite() || float.abs() > LARGEST {
        return false;
    }
    // Half away from zero, as Go rounds.
    let rounded = float.round();
    if is_same(float, rounded) {
        return true;
    }
    // `swag.IsFloat64AJSONInteger` tolerates rounding errors of this relative size.
    !is_same(rounded, 0.0) && (float - rounded).abs() < 1e-9 * rounded.abs()
}

/// A length as Kubernetes counts.
pub(super) fn count(size: usize) -> i64 {
    i64::try_from(size).unwrap_or(i64::MAX)
}

/// The range that a type and its format allow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Range {
    Anything,
    Int32,
    Int64 { is_named: bool },
    Float32,
}

impl Range {
    /// Says so if the number is out of range.
    fn admits(self, value: Num, what: &str, at: At<'_>, report: &mut Report) -> bool {
        let fits = fits(self, value);
        if !fits {
            let wanted = match self {
                Self::Anything => "",
                Self::Int32 => "integer with format int32",
                Self::Int64 { is_named: true } => "integer with format int64",
                Self::Int64 { is_named: false } => "integer (default format)",
                Self::Float32 => "number with format float",
            };
            report.fail(|| At::nowhere(format!("{what} value must be of type {wanted} in {}", at.name())));
        }
        fits
    }
}

/// Checks a number against its type, format and bounds.
pub(super) fn check(kinds: Kinds, checks: &Checks, value: Num, at: At<'_>, report: &mut Report) {
    let range = range_of(kinds, &checks.format);
    range.admits(value, "Checked", at, report);
    if let Some(factor) = checks.multiple_of {
        // Whether the bound itself fits the type decides how it is compared, and a bound that does not is
        // reported with every value.
        let is_native = range.admits(Num::Float(factor), "MultipleOf", at, report);
        check_multiple(value, factor, is_native, at, report);
    }
    if let Some(least) = checks.minimum {
        let is_native = range.admits(Num::Float(least), "Minimum boundary", at, report);
        let bound = bound(value, least, is_native);
        if is_beyond(bound, value, checks.exclusive_minimum) {
            let words = if checks.exclusive_minimum { "greater than" } else { "greater than or equal to" };
            fail_bound(words, bound, value, at, report);
        }
    }
    if let Some(most) = checks.maximum {
        let is_native = range.admits(Num::Float(most), "Maximum boundary", at, report);
        let bound = bound(value, most, is_native);
        if is_beyond(value, bound, checks.exclusive_maximum) {
            let words = if checks.exclusive_maximum { "less than" } else { "less than or equal to" };
            fail_bound(words, bound, value, at, report);
        }
    }
}

fn fail_bound(words: &str, bound: Num, value: Num, at: At<'_>, report: &mut Report) {
    report.fail(|| {
        at.mistake(Code::Other(Some(value.to_json())), &format!("should be {words} {}", bound.written()))
    });
}

/// The bound in the type of the value, where that is possible.
fn bound(value: Num, bound: f64, is_native: bool) -> Num {
    match value {
        Num::Int(_) if is_native => Num::Int(truncate(bound)),
        _ => Num::Float(bound),
    }
}

/// Whether the first is greater than the second, or equal to it if that counts.
fn is_beyond(one: Num, other: Num, or_equal: bool) -> bool {
    match (one, other) {
        (Num::Int(one), Num::Int(other)) => one > other || (or_equal && one == other),
        _ => one.float() > other.float() || (or_equal && is_same(one.float(), other.float())),
    }
}

fn check_multiple(value: Num, factor: f64, is_native: bool, at: At<'_>, report: &mut Report) {
    let factor = bound(value, factor, is_native);
    let (is_positive, is_multiple) = if let (Num::Int(value), Num::Int(factor)) = (value, factor) {
        (factor > 0, factor > 0 && value.wrapping_rem(factor) == 0)
    } else {
        let (value, factor) = (value.float(), factor.float());
        // The two forms round differently, and Kubernetes chooses so.
        let quotient = if factor < 1.0 { 1.0 / factor * value } else { value / factor };
        (factor > 0.0, is_integral(quotient))
    };
    if !is_positive {
        report.fail(|| {
            let name = at.name();
            let message =
                format!("factor MultipleOf declared for {name} must be positive: {}", factor.written());
            super::report::Mistake { name, message, code: Code::Other(Some(factor.to_json())) }
        });
    } else if !is_multiple {
        report.fail(|| {
            let words = format!("should be a multiple of {}", factor.written());
            at.mistake(Code::Other(Some(value.to_json())), &words)
        });
    }
}

fn range_of(kinds: Kinds, format: &str) -> Range {
    if kinds == Kinds::INTEGER {
        return match format {
            "int32" => Range::Int32,
            _ => Range::Int64 { is_named: format == "int64" },
        };
    }
    if kinds == Kinds::NUMBER && format == "float" { Range::Float32 } else { Range::Anything }
}

/// Whether a range has a number. Go writes a float out, with as few digits as tell it from others and zeros behind them, and reads
/// that as an integer: so 2^63 - 1024 is 9223372036854775000, and fits, but -2^63 is -9223372036854776000, and does not.
fn fits(range: Range, value: Num) -> bool {
    match (range, value) {
        (Range::Anything, _) | (Range::Int64 { .. }, Num::Int(_)) => true,
        (Range::Int32, Num::Int(int)) => i32::try_from(int).is_ok(),
        // Rust writes floats as Go does with `f` and no precision.
        (Range::Int64 { .. }, Num::Float(float)) => float.to_string().parse::<i64>().is_ok(),
        (Range::Int32, Num::Float(float)) => float.to_string().parse::<i32>().is_ok(),
        (Range::Float32, value) => {
            // Rounding may still bring a slightly larger number down to the largest one.
            const LIMIT: f64 = 340_282_356_779_733_660_000_000_000_000_000_000_000.0;
            value.float().abs() < LIMIT
        }
    }
}
