//! Times in metadata: read as RFC 3339 with the leniency of Go, written in UTC to the second.

use crate::go_text;

const LAYOUT: &str = "2006-01-02T15:04:05Z07:00";

/// The time in UTC; nothing if it is the zero time. Else what is wrong in the words of Go.
pub(super) fn normalize(text: &str) -> Result<Option<String>, String> {
    let mut parser = Parser { whole: text, rest: text };
    let year = parser.number(4, 4, "2006")?;
    parser.literal('-', "-")?;
    let month = parser.number(2, 2, "01")?;
    parser.range((1..=12).contains(&month), "month")?;
    parser.literal('-', "-")?;
    let day = parser.day()?;
    parser.literal('T', "T")?;
    let hour = parser.number(1, 2, "15")?;
    parser.range(hour < 24, "hour")?;
    parser.literal(':', ":")?;
    let minute = parser.number(2, 2, "04")?;
    parser.range(minute < 60, "minute")?;
    parser.literal(':', ":")?;
    let second = parser.number(2, 2, "05")?;
    parser.range(second < 60, "second")?;
    parser.fraction();
    let offset = parser.zone()?;
    if !parser.rest.is_empty() {
        return Err(format!(
            "parsing time {}: extra text: {}",
            go_text::quote(text),
            go_text::quote(parser.rest)
        ));
    }
    parser.range((1..=days_in(year, month)).contains(&day), "day")?;
    let seconds = (days_since_epoch(year, month, day) * 24 + hour) * 3600 + minute * 60 + second - offset;
    Ok(format_utc(seconds))
}

struct Parser<'t> {
    whole: &'t str,
    rest: &'t str,
}

impl Parser<'_> {
    fn wrong<T>(&self, wanted: &str) -> Result<T, String> {
        Err(format!(
            "parsing time {} as {}: cannot parse {} as {}",
            go_text::quote(self.whole),
            go_text::quote(LAYOUT),
            go_text::quote(self.rest),
            go_text::quote(wanted)
        ))
    }

    fn range(&self, is_within: bool, what: &str) -> Result<(), String> {
        if is_within {
            return Ok(());
        }
        Err(format!("parsing time {}: {what} out of range", go_text::quote(self.whole)))
    }

    fn literal(&mut self, character: char, wanted: &str) -> Result<(), String> {
        match self.rest.strip_prefix(character) {
            Some(rest) => {
                self.rest = rest;
                Ok(())
            }
            None => self.wrong(wanted),
        }
    }

    fn number(&mut self, least: usize, most: usize, wanted: &str) -> Result<i64, String> {
        let digits = self.rest.bytes().take(most).take_while(u8::is_ascii_digit).count();
        if digits < least {
            return self.wrong(wanted);
        }
        let (number, rest) = self.rest.split_at(digits);
        self.rest = rest;
        Ok(number.parse().unwrap_or_default())
    }

    /// Day and month may be out of step; that is found out later.
    fn day(&mut self) -> Result<i64, String> {
        self.number(2, 2, "02")
    }

    fn fraction(&mut self) {
        if let Some(rest) = self.rest.strip_prefix(['.', ',']) {
            let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
            if digits > 0 {
                self.rest = &rest[digits..];
            }
        }
    }

    /// Seconds east of UTC.
    fn zone(&mut self) -> Result<i64, String> {
        if let Some(rest) = self.rest.strip_prefix('Z') {
            self.rest = rest;
            return Ok(0);
        }
        let bytes = self.rest.as_bytes();
        let is_zone = bytes.len() >= 6
            && matches!(bytes[0], b'+' | b'-')
            && bytes[3] == b':'
            && [1, 2, 4, 5].iter().all(|index| bytes[*index].is_ascii_digit());
        if !is_zone {
            return self.wrong("Z07:00");
        }
        let digit = |index: usize| i64::from(bytes[index] - b'0');
        let (hours, minutes) = (digit(1) * 10 + digit(2), digit(4) * 10 + digit(5));
        self.range(hours <= 24, "time zone offset hour")?;
        self.range(minutes < 60, "time zone offset minute")?;
        let sign = if bytes[0] == b'-' { -1 } else { 1 };
        self.rest = &self.rest[6..];
        Ok(sign * (hours * 3600 + minutes * 60))
    }
}

fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

fn days_in(year: i64, month: i64) -> i64 {
    match month {
        2 => 28 + i64::from(is_leap(year)),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days since 1970, by counting years from March so that leap days come last.
fn days_since_epoch(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

fn format_utc(seconds: i64) -> Option<String> {
    const ZERO: i64 = -62_135_596_800;
    if seconds == ZERO {
        return None;
    }
    let days = seconds.div_euclid(86_400) + 719_468;
    let of_day = seconds.rem_euclid(86_400);
    let era = days.div_euclid(146_097);
    let of_era = days.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
    Some(format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z"))
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
