//! Durations as Go programs take them: `1m30s`, `500ms`.

use std::time::Duration;

/// Read a duration. For `clap`.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    let bad = || format!("expected a duration such as 30s, 1m30s or 500ms, got `{text}`");
    let mut total = Duration::ZERO;
    let mut rest = text;
    while !rest.is_empty() {
        let digits = rest.find(|letter: char| !letter.is_ascii_digit() && letter != '.').ok_or_else(bad)?;
        let (number, tail) = rest.split_at(digits);
        let number: f64 = number.parse().map_err(|_| bad())?;
        let (unit, scale) = UNITS.iter().find(|(unit, _)| tail.starts_with(unit)).ok_or_else(bad)?;
        let part = Duration::try_from_secs_f64(number * scale).map_err(|_| bad())?;
        total = total.checked_add(part).ok_or_else(bad)?;
        rest = &tail[unit.len()..];
    }
    if total.is_zero() || total > LONGEST { Err(bad()) } else { Ok(total) }
}

/// Nothing we do takes longer, and clocks overflow somewhere.
const LONGEST: Duration = Duration::from_hours(24);

/// Longer names first: `ms` is not `m`.
const UNITS: [(&str, f64); 7] =
    [("ms", 1e-3), ("us", 1e-6), ("µs", 1e-6), ("ns", 1e-9), ("h", 3600.0), ("m", 60.0), ("s", 1.0)];

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
