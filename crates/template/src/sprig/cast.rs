//! Anything as a number or as text.
//!
//! Follows cast 1.7.0, `caste.go` (`ToInt64E`, `ToFloat64E`), and sprig 3.3.0, `strings.go` (`strval`, `strslice`).

use ferroplane_golang::strconv::{parse_float, parse_int};

use super::arguments::items;
use crate::{Context, Failure, Text, Value, print};

/// What cannot be an integer is zero. Text may have a base (`0x10`, `010` for eight) and a fraction of zeros.
pub(super) fn to_int64(value: &Value) -> i64 {
    match value {
        Value::Bool(truth) => i64::from(*truth),
        Value::Int(whole) | Value::Int64(whole) => *whole,
        Value::Uint8(whole) => i64::from(*whole),
        // Go converts without a check, so that large numbers become negative.
        Value::Uint64(whole) => whole.cast_signed(),
        Value::Float(float) => truncate(*float),
        Value::String(text) => {
            text.as_str().map(without_zero_fraction).and_then(parse_int).unwrap_or_default()
        }
        Value::Object(object) => named_integer(&**object).unwrap_or_default(),
        _ => 0,
    }
}

/// What cannot be a float is zero.
#[expect(clippy::cast_precision_loss, reason = "Go rounds, too")]
pub(super) fn to_float64(value: &Value) -> f64 {
    match value {
        Value::Bool(truth) => f64::from(*truth),
        Value::Int(whole) | Value::Int64(whole) => *whole as f64,
        Value::Uint8(whole) => f64::from(*whole),
        Value::Uint64(whole) => *whole as f64,
        Value::Float(float) => *float,
        Value::String(text) => text.as_str().and_then(parse_float).unwrap_or_default(),
        Value::Object(object) => named_integer(&**object).unwrap_or_default() as f64,
        _ => 0.0,
    }
}

/// Of the named integers, the library knows days and months, and not durations.
fn named_integer(object: &dyn crate::Object) -> Option<i64> {
    let is_known = matches!(object.type_of(), crate::Type::Integer("time.Month" | "time.Weekday"));
    object.integer().filter(|_| is_known)
}

/// The integer part. What does not fit is the smallest integer, as on the processors that Go mostly runs on.
#[expect(clippy::cast_possible_truncation, reason = "it is within the limits")]
pub(super) fn truncate(float: f64) -> i64 {
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    if (-LIMIT..LIMIT).contains(&float) { float as i64 } else { i64::MIN }
}

/// `8.00` is `8`.
fn without_zero_fraction(text: &str) -> &str {
    let without_zeros = text.trim_end_matches('0');
    match without_zeros.strip_suffix('.') {
        Some(whole) if without_zeros.len() < text.len() => whole,
        _ => text,
    }
}

/// Anything as text: the text itself, its own representation, or how Go prints it.
pub(super) fn to_text(ctx: &mut Context<'_>, value: &Value) -> Result<Text, Failure> {
    match value {
        Value::String(text) | Value::Bytes(text) => Ok(text.clone()),
        other => {
            let text = print::sprint(ctx, std::slice::from_ref(other))?;
            // The same long text may be printed for each of many values.
            ctx.charge(text.len())?;
            Ok(text)
        }
    }
}

/// The items of a list as text, without those that are nil. Anything else is a list of itself.
pub(super) fn to_texts(ctx: &mut Context<'_>, value: &Value) -> Result<Vec<Text>, Failure> {
    let Some(items) = items(value) else {
        return if let Value::Nil = value { Ok(Vec::new()) } else { Ok(vec![to_text(ctx, value)?]) };
    };
    ctx.step(items.len() as u64)?;
    let mut texts = Vec::with_capacity(items.len());
    for item in items.iter().filter(|item| !matches!(item, Value::Nil)) {
        texts.push(to_text(ctx, item)?);
    }
    Ok(texts)
}
