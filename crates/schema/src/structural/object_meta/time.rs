//! Times in metadata: read as RFC 3339 with the leniency of Go, written in UTC to the second.

use ferroplane_golang::strconv;
use ferroplane_golang::time::calendar::{self, days, days_in_month};

const LAYOUT: &str = "2006-01-02T15:04:05Z07:00";

/// The layout of times with microseconds.
const MICRO_LAYOUT: &str = "2006-01-02T15:04:05.000000Z07:00";

/// The time in UTC; nothing if it is the zero time. Else what is wrong in the words of Go.
pub(crate) fn normalize(text: &str) -> Result<Option<String>, String> {
    let (seconds, _) = parse(text, LAYOUT)?;
    Ok(format_utc(seconds))
}

/// The same with microseconds, which then have to be there.
pub(crate) fn normalize_micro(text: &str) -> Result<Option<String>, String> {
    let (seconds, micros) = parse(text, MICRO_LAYOUT)?;
    Ok(format_utc_micro(seconds, micros))
}

/// Seconds since 1970, and microseconds if the layout has them.
fn parse(text: &str, layout: &'static str) -> Result<(i64, i64), String> {
    let mut parser = Parser { whole: text, rest: text, layout };
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
    let micros = if layout == MICRO_LAYOUT { parser.micros()? } else { parser.fraction() };
    let offset = parser.zone()?;
    if !parser.rest.is_empty() {
        return Err(format!(
            "parsing time {}: extra text: {}",
            strconv::quote(text),
            strconv::quote(parser.rest)
        ));
    }
    parser.range((1..=days_in_month(year, month)).contains(&day), "day")?;
    let seconds = (days(year, month, day) * 24 + hour) * 3600 + minute * 60 + second - offset;
    Ok((seconds, micros))
}

struct Parser<'t> {
    whole: &'t str,
    rest: &'t str,
    layout: &'static str,
}

impl Parser<'_> {
    fn wrong<T>(&self, wanted: &str) -> Result<T, String> {
        Err(format!(
            "parsing time {} as {}: cannot parse {} as {}",
            strconv::quote(self.whole),
            strconv::quote(self.layout),
            strconv::quote(self.rest),
            strconv::quote(wanted)
        ))
    }

    fn range(&self, is_within: bool, what: &str) -> Result<(), String> {
        if is_within {
            return Ok(());
        }
        Err(format!("parsing time {}: {what} out of range", strconv::quote(self.whole)))
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

    fn micros(&mut self) -> Result<i64, String> {
        let digits = self.rest.strip_prefix(['.', ',']).and_then(|rest| rest.get(..6));
        match digits.filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit())) {
            Some(digits) => {
                self.rest = &self.rest[7..];
                Ok(digits.parse().unwrap_or_default())
            }
            None => self.wrong(".000000"),
        }
    }

    fn fraction(&mut self) -> i64 {
        if let Some(rest) = self.rest.strip_prefix(['.', ',']) {
            let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
            if digits > 0 {
                self.rest = &rest[digits..];
            }
        }
        0
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
