//! Times in metadata: read as RFC 3339 with the leniency of Go, written in UTC to the second.
//!
//! Follows apimachinery 0.36.4, `pkg/apis/meta/v1/time.go`, `pkg/apis/meta/v1/micro_time.go`.

use ferroplane_golang::time::{calendar, rfc3339};

/// The time in UTC; nothing if it is the zero time. Else what is wrong in the words of Go.
pub(crate) fn normalize(text: &str) -> Result<Option<String>, String> {
    Ok(format_utc(rfc3339::parse(text)?.moment.seconds))
}

/// The same with microseconds, which then have to be there.
pub(crate) fn normalize_micro(text: &str) -> Result<Option<String>, String> {
    let moment = rfc3339::parse_micro(text)?.moment;
    Ok(format_utc_micro(moment.seconds, i64::from(moment.nanoseconds / 1000)))
}

/// Microseconds since the second, in UTC.
pub(crate) fn format_utc_micro(seconds: i64, micros: i64) -> Option<String> {
    if micros == 0 {
        return format_utc(seconds).map(|text| text.replace('Z', ".000000Z"));
    }
    let text = format_utc(seconds).unwrap_or_else(|| "0001-01-01T00:00:00Z".to_owned());
    Some(text.replace('Z', &format!(".{micros:06}Z")))
}

/// Seconds since 1970 in UTC; nothing for the zero time.
pub(crate) fn format_utc(seconds: i64) -> Option<String> {
    // The first second of the year 1 is no time.
    const ZERO: i64 = -62_135_596_800;
    (seconds != ZERO).then(|| calendar::format(seconds) + "Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_become_utc() {
        for (text, expected) in [
            ("2024-02-29T23:59:59.5Z", "2024-02-29T23:59:59Z"),
            ("2024-03-01T00:30:00+01:00", "2024-02-29T23:30:00Z"),
            ("1969-12-31T23:59:59-23:00", "1970-01-01T22:59:59Z"),
        ] {
            assert_eq!(normalize(text).unwrap().unwrap(), expected);
        }
        assert_eq!(normalize("0001-01-01T00:00:00Z"), Ok(None));
    }

    #[test]
    fn mistakes_are_told_as_in_go() {
        assert_eq!(
            normalize("yesterday").unwrap_err(),
            r#"parsing time "yesterday" as "2006-01-02T15:04:05Z07:00": cannot parse "yesterday" as "2006""#
        );
        assert_eq!(
            normalize("2023-02-29T00:00:00Z").unwrap_err(),
            r#"parsing time "2023-02-29T00:00:00Z": day out of range"#
        );
    }
}
