//! Dates, times and durations.
//!
//! Follows kube-openapi of 2026-03-17, `pkg/validation/strfmt/date.go`, `pkg/validation/strfmt/time.go`,
//! `pkg/validation/strfmt/duration.go`.

use std::sync::LazyLock;

use ferroplane_cel::formats;
use ferroplane_golang::time::calendar::days_in_month;
use regex::Regex;

// The dot before the fraction is not escaped in the original either, so that it may be any character.
static TIME: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new("^([0-9]{2}):([0-9]{2}):([0-9]{2})(?:.[0-9]+)?(?:z|[+-][0-9]{2}:[0-9]{2})$")
        .expect("the expression is fixed")
});
/// A day that exists, as `2006-01-02`.
pub(super) fn is_date(text: &str) -> bool {
    parse_date(text).is_some()
}

fn parse_date(text: &str) -> Option<()> {
    let part = |range: std::ops::Range<usize>| {
        let digits = text.get(range)?;
        digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse::<i64>().ok())?
    };
    let bytes = text.as_bytes();
    if bytes.len() != 10 || bytes[4] != b'-' || bytes[7] != b'-' {
        return None;
    }
    let (year, month, day) = (part(0..4)?, part(5..7)?, part(8..10)?);
    let is_day = (1..=12).contains(&month) && (1..=days_in_month(year, month)).contains(&day);
    is_day.then_some(())
}

/// A day, a `T` and a time of day with its zone. What follows another `T` does not matter.
pub(super) fn is_date_time(text: &str) -> bool {
    // Small letters will do as well, as `IsDateTime` has it; the expressions know only those.
    let text = text.to_lowercase();
    let mut parts = text.split('t');
    let (Some(date), Some(time)) = (parts.next(), parts.next()) else { return false };
    is_date(date)
        && TIME
            .captures(time)
            // Two digits each, so that texts compare as numbers do. A leap second is refused.
            .is_some_and(|parts| &parts[1] <= "23" && &parts[2] <= "59" && &parts[3] <= "59")
}

/// A duration of Go, or anything with a number and a unit in it.
pub(super) fn is_duration(text: &str) -> bool {
    formats::parse_duration(text).is_ok()
}
