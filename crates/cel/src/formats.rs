//! Texts of a format that expressions see as values: durations, days and times.
//!
//! Follows kube-openapi of 2026-03-17, `pkg/validation/strfmt/duration.go`, `pkg/validation/strfmt/time.go`.

use std::sync::LazyLock;

use ferroplane_golang::strconv::quote;
use ferroplane_golang::time::{duration, rfc3339};
use regex::Regex;

use super::time::Timestamp;

static SPAN: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"([0-9]+)[\t\n\f\r ]*([A-Za-zµ]+)").expect("the expression is fixed"));

const SECOND: i64 = 1_000_000_000;

/// Units of a duration in words, with their nanoseconds. A unit may continue after the last of its names.
const UNITS: [(&[&str], i64); 8] = [
    (&["ns", "nano"], 1),
    (&["us", "µs", "micro"], 1_000),
    (&["ms", "milli"], 1_000_000),
    (&["s", "sec"], SECOND),
    (&["m", "min"], 60 * SECOND),
    (&["h", "hr", "hour"], 3_600 * SECOND),
    (&["d", "day"], 24 * 3_600 * SECOND),
    (&["w", "wk", "week"], 7 * 24 * 3_600 * SECOND),
];

/// The nanoseconds of a duration of Go, or of anything with numbers and units in it, such as `1 day 2 hours`.
pub fn parse_duration(text: &str) -> Result<i64, String> {
    if let Ok(duration) = duration::parse(text) {
        return Ok(duration);
    }
    let mut total: Option<i64> = None;
    // What stands between the matches is not checked: `ParseDuration` of strfmt does not, either.
    for parts in SPAN.captures_iter(text) {
        let out_of_range = |_| format!("strconv.Atoi: parsing {}: value out of range", quote(&parts[1]));
        let factor = parts[1].parse::<i64>().map_err(out_of_range)?;
        if let Some(unit) = unit(&parts[2].to_lowercase()) {
            // Too much wraps around, as it does in Go.
            total = Some(total.unwrap_or_default().wrapping_add(factor.wrapping_mul(unit)));
        }
    }
    total.ok_or_else(|| format!("unable to parse {text} as duration"))
}

fn unit(word: &str) -> Option<i64> {
    let is_name =
        |names: &[&str]| names.contains(&word) || names.last().is_some_and(|last| word.starts_with(last));
    UNITS.iter().find(|(names, _)| is_name(names)).map(|(_, nanoseconds)| *nanoseconds)
}

/// The first moment of a day.
pub(super) fn parse_date(text: &str) -> Result<Timestamp, String> {
    rfc3339::parse_date(text).map(Timestamp::from_time)
}

/// A time with its zone, or one without, which is in UTC.
pub(super) fn parse_date_time(text: &str) -> Result<Timestamp, String> {
    // The layouts with milliseconds and microseconds are not tried: whatever fits them fits this one.
    let time = match rfc3339::parse(text) {
        Ok(time) => time,
        // strfmt tells what the last of its layouts had to say, which is this one.
        Err(_) if !text.is_empty() => rfc3339::parse_local(text)?,
        Err(_) => return Ok(Timestamp::EPOCH),
    };
    Ok(Timestamp::from_time(time))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_may_be_written_in_words() {
        let hour = 3_600 * SECOND;
        for (text, expected) in [
            ("90m", 90 * 60 * SECOND),
            ("1 day", 24 * hour),
            ("2 Weeks and 3 hours", (14 * 24 + 3) * hour),
            ("5 minutes 1 parsec", 5 * 60 * SECOND),
        ] {
            assert_eq!(parse_duration(text), Ok(expected), "{text}");
        }
        assert_eq!(parse_duration("soon").unwrap_err(), "unable to parse soon as duration");
        assert_eq!(parse_duration("3 parsecs").unwrap_err(), "unable to parse 3 parsecs as duration");
        let long = "99999999999999999999 days";
        assert_eq!(
            parse_duration(long).unwrap_err(),
            r#"strconv.Atoi: parsing "99999999999999999999": value out of range"#
        );
    }

    #[test]
    fn times_may_lack_their_zone() {
        let seconds = |text: &str| parse_date_time(text).map(Timestamp::seconds);
        assert_eq!(seconds("1970-01-01T00:01:00+00:01"), Ok(0));
        assert_eq!(seconds("1970-01-01T00:01:00.5"), Ok(60));
        assert_eq!(seconds(""), Ok(0));
        assert!(seconds("1970-01-01t00:00:00z").unwrap_err().contains(r#"cannot parse "t00:00:00z" as "T""#));
        assert_eq!(parse_date("1970-01-02").map(Timestamp::seconds), Ok(86_400));
    }
}
