//! Durations as Go writes them: `1h30m`, `1.5s`, `300ms`.

use std::time::Duration;

/// Read a duration. None if it is none, or a negative one.
pub fn parse(text: &str) -> Option<Duration> {
    let mut rest = text.strip_prefix('+').unwrap_or(text);
    if rest == "0" {
        return Some(Duration::ZERO);
    }
    if rest.is_empty() {
        return None;
    }
    let mut sum = Duration::ZERO;
    while !rest.is_empty() {
        let digits = rest.find(|character: char| !character.is_ascii_digit() && character != '.')?;
        let number: f64 = rest[..digits].parse().ok()?;
        rest = &rest[digits..];
        let unit =
            rest.find(|character: char| character.is_ascii_digit() || character == '.').unwrap_or(rest.len());
        let seconds = match &rest[..unit] {
            "ns" => 1e-9,
            "us" | "µs" | "μs" => 1e-6,
            "ms" => 1e-3,
            "s" => 1.0,
            "m" => 60.0,
            "h" => 3600.0,
            _ => return None,
        };
        sum = sum.checked_add(Duration::try_from_secs_f64(number * seconds).ok()?)?;
        rest = &rest[unit..];
    }
    Some(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_those_of_go() {
        for (text, millis) in
            [("24h", 86_400_000), ("1h30m", 5_400_000), ("1.5s", 1500), ("1ms", 1), ("0", 0)]
        {
            assert_eq!(parse(text), Some(Duration::from_millis(millis)), "{text}");
        }
        for text in ["", "1", "s", "-1s", "1x", "1h 1m", "..s", "99999999999999999999h"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
