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

/// Nothing we do takes longer, and clocks overflow somewhere.
const LONGEST: Duration = Duration::from_hours(24);

#[cfg(test)]
mod tests {
    use super::*;

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
