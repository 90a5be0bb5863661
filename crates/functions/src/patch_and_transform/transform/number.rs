//! Numbers: arithmetic as Go does it on 64 bits.

use ferroplane_golang::fmt::Any;

pub(super) fn multiply(value: &Any<'_>, factor: i64) -> Result<Any<'static>, String> {
    match value {
        // Go wraps; saturating would give another number for the same composition.
        Any::Int(whole) => Ok(Any::Int(whole.wrapping_mul(factor))),
        #[expect(clippy::cast_precision_loss, reason = "so does Go")]
        Any::Float(float) => Ok(Any::Float(float * factor as f64)),
        other => Err(not_a_number(other)),
    }
}

/// The limit, if the value is past it.
pub(super) fn clamp(
    value: Any<'_>,
    limit: i64,
    is_past: impl Fn(i64, i64) -> bool,
) -> Result<Any<'_>, String> {
    let whole = match &value {
        Any::Int(whole) => *whole,
        Any::Float(float) => to_integer(*float),
        other => return Err(not_a_number(other)),
    };
    Ok(if is_past(whole, limit) { Any::Int(limit) } else { value })
}

fn not_a_number(value: &Any<'_>) -> String {
    format!("input is required to be a number for math transformer, got {}", value.type_name())
}

/// The float without its fraction. What does not fit is the lowest integer, as on the machines Go runs on.
pub(super) fn to_integer(float: f64) -> i64 {
    const PAST_HIGHEST: f64 = 9_223_372_036_854_775_808.0;
    if (-PAST_HIGHEST..PAST_HIGHEST).contains(&float) {
        #[expect(clippy::cast_possible_truncation, reason = "that is the point")]
        return float as i64;
    }
    i64::MIN
}
