//! Points in time like `2024-05-01T10:00:00Z`, as `time.Parse(time.RFC3339, …)` reads them.
//!
//! Go is more lenient than the standard: the hour may have one digit, the fraction may follow a comma, and an offset may
//! be 24 hours and 60 minutes.
//!
//! Follows Go 1.26, `time/format.go`, `time/format_rfc3339.go`.

use super::calendar::{days, days_in_month};
use super::quote::quote;

const LAYOUT: &str = "2006-01-02T15:04:05Z07:00";

/// The layout of times with microseconds.
const MICRO_LAYOUT: &str = "2006-01-02T15:04:05.000000Z07:00";

/// The layout of days, and that of times without a zone, which are in UTC.
const DATE_LAYOUT: &str = "2006-01-02";
const LOCAL_LAYOUT: &str = "2006-01-02T15:04:05";

/// Seconds and nanoseconds since 1970. Later moments compare as greater.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment {
    pub seconds: i64,
    pub nanoseconds: u32,
}

/// A moment, and the zone in which it was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Time {
    pub moment: Moment,
    /// Seconds east of UTC.
    pub offset: i32,
}

/// The time, or what Go says is wrong.
pub fn parse(text: &str) -> Result<Time, String> {
    parse_layout(text, LAYOUT)
}

/// A time with exactly six digits of a fraction, or what Go says is wrong.
pub fn parse_micro(text: &str) -> Result<Time, String> {
    parse_layout(text, MICRO_LAYOUT)
}

/// The first moment of a day in UTC, or what Go says is wrong.
pub fn parse_date(text: &str) -> Result<Time, String> {
    parse_layout(text, DATE_LAYOUT)
}

/// A time without a zone, in UTC, or what Go says is wrong.
pub fn parse_local(text: &str) -> Result<Time, String> {
    parse_layout(text, LOCAL_LAYOUT)
}

/// The moment, if Go would take the text for one.
pub fn moment(text: &str) -> Option<Moment> {
    parse(text).ok().map(|time| time.moment)
}

fn parse_layout(text: &str, layout: &'static str) -> Result<Time, String> {
    let mut parser = Parser { whole: text, rest: text, layout };
    let year = parser.number(4, 4, "2006")?;
    parser.literal('-', "-")?;
    let month = parser.number(2, 2, "01")?;
    parser.range((1..=12).contains(&month), "month")?;
    parser.literal('-', "-")?;
    let day = parser.number(2, 2, "02")?;
    let (second_of_day, nanoseconds, offset) =
        if layout == DATE_LAYOUT { (0, 0, 0) } else { parser.time_of_day()? };
    if !parser.rest.is_empty() {
        return Err(format!("parsing time {}: extra text: {}", quote(text), quote(parser.rest)));
    }
    // Day and month may be out of step, which Go reads only when everything is read.
    parser.range((1..=days_in_month(year, month)).contains(&day), "day")?;
    let seconds = days(year, month, day) * 24 * 3600 + second_of_day - i64::from(offset);
    Ok(Time { moment: Moment { seconds, nanoseconds }, offset })
}

struct Parser<'t> {
    whole: &'t str,
    rest: &'t str,
    layout: &'static str,
}

impl Parser<'_> {
    /// Seconds and nanoseconds since midnight, and seconds east of UTC.
    fn time_of_day(&mut self) -> Result<(i64, u32, i32), String> {
        self.literal('T', "T")?;
        let hour = self.number(1, 2, "15")?;
        self.range(hour < 24, "hour")?;
        self.literal(':', ":")?;
        let minute = self.number(2, 2, "04")?;
        self.range(minute < 60, "minute")?;
        self.literal(':', ":")?;
        let second = self.number(2, 2, "05")?;
        self.range(second < 60, "second")?;
        let nanoseconds = if self.layout == MICRO_LAYOUT { self.micros()? } else { self.fraction() };
        let offset = if self.layout == LOCAL_LAYOUT { 0 } else { self.zone()? };
        Ok((hour * 3600 + minute * 60 + second, nanoseconds, offset))
    }

    fn wrong<T>(&self, wanted: &str) -> Result<T, String> {
        let [whole, layout, rest, wanted] = [self.whole, self.layout, self.rest, wanted].map(quote);
        Err(format!("parsing time {whole} as {layout}: cannot parse {rest} as {wanted}"))
    }

    fn range(&self, is_within: bool, what: &str) -> Result<(), String> {
        if is_within {
            return Ok(());
        }
        Err(format!("parsing time {}: {what} out of range", quote(self.whole)))
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

    fn micros(&mut self) -> Result<u32, String> {
        let digits = self.rest.strip_prefix(['.', ',']).and_then(|rest| rest.get(..6));
        match digits.filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit())) {
            Some(digits) => {
                // A separator and six digits, all ASCII, as was checked just now.
                self.rest = &self.rest[7..];
                Ok(digits.parse::<u32>().unwrap_or_default() * 1000)
            }
            None => self.wrong(".000000"),
        }
    }

    /// Nanoseconds. Digits after the ninth count for nothing.
    fn fraction(&mut self) -> u32 {
        let Some(rest) = self.rest.strip_prefix(['.', ',']) else { return 0 };
        let count = rest.bytes().take_while(u8::is_ascii_digit).count();
        // A point without digits stays unread, and the zone complains about it: this is the text
        // that Go names.
        if count == 0 {
            return 0;
        }
        let (digits, rest) = rest.split_at(count);
        self.rest = rest;
        let padded = digits.bytes().chain(std::iter::repeat(b'0')).take(9);
        padded.fold(0, |sum, digit| sum * 10 + u32::from(digit - b'0'))
    }

    /// Seconds east of UTC.
    fn zone(&mut self) -> Result<i32, String> {
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
        let digit = |index: usize| i32::from(bytes[index] - b'0');
        let (hours, minutes) = (digit(1) * 10 + digit(2), digit(4) * 10 + digit(5));
        // Go takes 24 hours and 60 minutes, because some people write them.
        self.range(minutes <= 60, "time zone offset minute")?;
        self.range(hours <= 24, "time zone offset hour")?;
        let sign = if bytes[0] == b'-' { -1 } else { 1 };
        self.rest = &self.rest[6..];
        Ok(sign * (hours * 3600 + minutes * 60))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn seconds(text: &str) -> Option<i64> {
        moment(text).map(|moment| moment.seconds)
    }

    #[test]
    fn moments_are_counted_from_1970() {
        assert_eq!(seconds("1970-01-01T00:00:00Z"), Some(0));
        assert_eq!(seconds("2000-02-29T12:30:01Z"), Some(951_827_401));
        assert_eq!(seconds("2024-03-01T00:00:00+01:30"), Some(1_709_245_800));
        assert_eq!(seconds("0001-01-01T00:00:00Z"), Some(-62_135_596_800));
        assert_eq!(seconds("0000-01-01T00:00:00Z"), Some(-62_167_219_200));
        assert_eq!(moment("1970-01-01T00:00:00.25Z").unwrap().nanoseconds, 250_000_000);
        assert_eq!(parse_micro("1970-01-01T00:00:00.250001Z").unwrap().moment.nanoseconds, 250_001_000);
    }

    #[test]
    fn later_moment_is_greater_wherever_it_is() {
        assert!(moment("2024-01-01T10:00:00+02:00") < moment("2024-01-01T09:00:00Z"));
        assert!(moment("2024-01-01T10:00:00.1Z") > moment("2024-01-01T10:00:00Z"));
    }

    #[test]
    fn go_is_lenient() {
        assert_eq!(seconds("1970-01-01T1:00:00,5Z"), Some(3600));
        assert_eq!(seconds("1970-01-02T00:00:00+24:00"), Some(0));
        assert_eq!(seconds("1970-01-01T01:00:00+00:60"), Some(0));
    }

    #[test]
    fn what_is_no_moment_is_refused() {
        for text in [
            "",
            "2024",
            "2024-13-01T00:00:00Z",
            "2023-02-29T00:00:00Z",
            "2024-01-01T24:00:00Z",
            "2024-01-01T00:60:00Z",
            "2024-01-01T00:00:60Z",
            "2024-01-01T00:00:00",
            "2024-01-01T00:00:00.Z",
            "2024-01-01 00:00:00Z",
            "2024-01-01T00:00:00+25:00",
            "2024-01-01T00:00:00Zz",
            "2024-00-01T00:00:00Z",
        ] {
            assert_eq!(moment(text), None, "{text}");
        }
    }

    #[test]
    fn mistakes_are_told_as_in_go() {
        assert_eq!(
            parse("yesterday").unwrap_err(),
            r#"parsing time "yesterday" as "2006-01-02T15:04:05Z07:00": cannot parse "yesterday" as "2006""#
        );
        assert_eq!(
            parse("2023-02-29T00:00:00Z").unwrap_err(),
            r#"parsing time "2023-02-29T00:00:00Z": day out of range"#
        );
        assert_eq!(
            parse("2023-02-28T00:00:00Z\u{e9}").unwrap_err(),
            r#"parsing time "2023-02-28T00:00:00Z\xc3\xa9": extra text: "\xc3\xa9""#
        );
    }

    #[test]
    fn days_and_times_without_a_zone_are_in_utc() {
        let seconds = |time: Result<Time, String>| time.map(|time| time.moment.seconds);
        assert_eq!(seconds(parse_date("1970-01-02")), Ok(86_400));
        assert_eq!(seconds(parse_local("1970-01-01T00:00:01")), Ok(1));
        assert_eq!(
            parse_date("1970-01-02T00:00:00Z").unwrap_err(),
            r#"parsing time "1970-01-02T00:00:00Z": extra text: "T00:00:00Z""#
        );
        assert_eq!(
            parse_local("1970-01-01t00:00:00z").unwrap_err(),
            r#"parsing time "1970-01-01t00:00:00z" as "2006-01-02T15:04:05": cannot parse "t00:00:00z" as "T""#
        );
    }

    proptest! {
        #[test]
        fn any_text_is_a_moment_or_not(text in "[0-9]{3,4}-[0-9]{2}-[0-9]{2}T[0-9]{1,2}:[0-9]{2}:[0-9]{2}([.,][0-9]{0,20})?(Z|[-+][0-9]{2}:[0-9]{2}|.)?") {
            let _ = parse(&text);
            let _ = parse_micro(&text);
        }
    }
}
