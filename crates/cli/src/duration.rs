//! Durations as Go programs take them: `1m30s`, `500ms`.

use std::time::Duration;

use ferroplane_golang::time::duration;

/// Read a duration. For `clap`.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    let bad = || format!("expected a duration such as 30s, 1m30s or 500ms, got `{text}`");
    let duration = duration::parse_positive(text).ok_or_else(bad)?;
    if duration.is_zero() || duration > LONGEST { Err(bad()) } else { Ok(duration) }
}

/// Read how long tokens may hold, within the bounds that Kubernetes has for it. For `clap`.
pub(crate) fn parse_token_expiration(text: &str) -> Result<Duration, String> {
    let bad = || format!("expected a duration from 1h to 1193046h (136 years), such as 48h, got `{text}`");
    let bounds = Duration::from_hours(1)..=Duration::from_secs(1 << 32);
    duration::parse_positive(text).filter(|duration| bounds.contains(duration)).ok_or_else(bad)
}

/// Read an age as tables show it: a duration, or years and days before it, such as `3d4h`.
pub(crate) fn parse_age(text: &str) -> Option<Duration> {
    let (mut days, mut rest) = (0_u64, text);
    for (unit, length) in [('y', 365), ('d', 1)] {
        if let Some((count, after)) = rest.split_once(unit) {
            days = count.parse::<u64>().ok()?.checked_mul(length)?.checked_add(days)?;
            rest = after;
        }
    }
    let days_length = Duration::from_secs(days.checked_mul(86_400)?);
    if rest.is_empty() && rest.len() < text.len() {
        return Some(days_length);
    }
    days_length.checked_add(duration::parse_positive(rest)?)
}

/// Nothing we do takes longer, and clocks overflow somewhere.
const LONGEST: Duration = Duration::from_hours(24);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_read_as_tables_show_them() {
        for (text, seconds) in [
            ("0s", 0),
            ("45s", 45),
            ("5m30s", 330),
            ("3h4m", 11_040),
            ("3d4h", 273_600),
            ("10d", 864_000),
            ("2y1d", 63_158_400),
        ] {
            assert_eq!(parse_age(text), Some(Duration::from_secs(seconds)), "{text}");
        }
        for text in ["", "d", "-1d", "1d-1h", "1h2d", "yesterday", "<unknown>", "99999999999999999999d"] {
            assert_eq!(parse_age(text), None, "{text}");
        }
    }

    #[test]
    fn durations_are_read_as_go_does() {
        for (text, millis) in
            [("1m", 60_000), ("1m30s", 90_000), ("500ms", 500), ("1.5s", 1500), ("2h", 7_200_000)]
        {
            assert_eq!(parse(text).unwrap().as_millis(), millis, "{text}");
        }
        for text in [
            "",
            "5",
            "abc",
            "1x",
            "0s",
            "-1s",
            "1e400s",
            "9999999999999999999s",
            "10000000000000000000s10000000000000000000s",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
