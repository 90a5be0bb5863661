//! Moments like `2024-05-01T10:00:00Z`, as Go's `time.Parse(time.RFC3339, …)` reads them.

/// A moment: seconds and nanoseconds since 1970. Later moments compare as greater.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment {
    seconds: i64,
    nanoseconds: u32,
}

/// The moment, if Go would take the text for one. It is more lenient than the standard: the hour may have one digit,
/// the fraction may follow a comma, and an offset may be 24 hours and 60 minutes.
pub fn parse(text: &str) -> Option<Moment> {
    let mut text = Text(text.as_bytes());
    let year = i64::from(text.digit()? * 1000 + text.digit()? * 100 + text.two_digits()?);
    text.exactly(b'-')?;
    let month = text.two_digits()?;
    text.exactly(b'-')?;
    let day = text.two_digits()?;
    text.exactly(b'T')?;
    let hour = text.one_or_two_digits()?;
    text.exactly(b':')?;
    let minute = text.two_digits()?;
    text.exactly(b':')?;
    let second = text.two_digits()?;
    let nanoseconds = text.fraction();
    let offset = text.offset()?;
    let is_date = (1..=12).contains(&month) && (1..=days_in(month, year)).contains(&day);
    if !is_date || hour > 23 || minute > 59 || second > 59 || !text.0.is_empty() {
        return None;
    }
    let time = i64::from(hour) * 3600 + i64::from(minute) * 60 + i64::from(second);
    Some(Moment { seconds: days_since_1970(year, month, day) * 86_400 + time - offset, nanoseconds })
}

fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

fn days_in(month: u32, year: i64) -> u32 {
    match month {
        2 => 28 + u32::from(is_leap(year)),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

fn days_since_1970(year: i64, month: u32, day: u32) -> i64 {
    // One past the number of leap days before the year, from year 0 on.
    let leap_days = |year: i64| (year + 3) / 4 - (year + 99) / 100 + (year + 399) / 400;
    let before_year = (year - 1970) * 365 + leap_days(year) - leap_days(1970);
    let before_month: u32 = (1..month).map(|month| days_in(month, year)).sum();
    before_year + i64::from(before_month) + i64::from(day) - 1
}

/// What is still to be read.
struct Text<'a>(&'a [u8]);

impl Text<'_> {
    fn digit(&mut self) -> Option<u32> {
        let (digit, rest) = self.0.split_first().filter(|(byte, _)| byte.is_ascii_digit())?;
        self.0 = rest;
        Some(u32::from(digit - b'0'))
    }

    fn two_digits(&mut self) -> Option<u32> {
        Some(self.digit()? * 10 + self.digit()?)
    }

    fn one_or_two_digits(&mut self) -> Option<u32> {
        let first = self.digit()?;
        Some(self.digit().map_or(first, |second| first * 10 + second))
    }

    fn exactly(&mut self, byte: u8) -> Option<()> {
        self.0 = self.0.strip_prefix(&[byte])?;
        Some(())
    }

    /// Nanoseconds. Digits after the ninth count for nothing.
    fn fraction(&mut self) -> u32 {
        let [b'.' | b',', b'0'..=b'9', ..] = self.0 else { return 0 };
        self.0 = &self.0[1..];
        let (mut nanoseconds, mut scale) = (0, 100_000_000);
        while let Some(digit) = self.digit() {
            nanoseconds += digit * scale;
            scale /= 10;
        }
        nanoseconds
    }

    /// How many seconds local time is ahead.
    fn offset(&mut self) -> Option<i64> {
        if self.exactly(b'Z').is_some() {
            return Some(0);
        }
        let sign = if self.exactly(b'-').is_some() { -1 } else { self.exactly(b'+').map(|()| 1)? };
        let hours = self.two_digits().filter(|hours| *hours <= 24)?;
        self.exactly(b':')?;
        let minutes = self.two_digits().filter(|minutes| *minutes <= 60)?;
        Some(sign * i64::from(hours * 3600 + minutes * 60))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn seconds(text: &str) -> Option<i64> {
        parse(text).map(|moment| moment.seconds)
    }

    #[test]
    fn moments_are_counted_from_1970() {
        assert_eq!(seconds("1970-01-01T00:00:00Z"), Some(0));
        assert_eq!(seconds("2000-02-29T12:30:01Z"), Some(951_827_401));
        assert_eq!(seconds("2024-03-01T00:00:00+01:30"), Some(1_709_245_800));
        assert_eq!(seconds("0001-01-01T00:00:00Z"), Some(-62_135_596_800));
        assert_eq!(seconds("0000-01-01T00:00:00Z"), Some(-62_167_219_200));
        assert_eq!(parse("1970-01-01T00:00:00.25Z").unwrap().nanoseconds, 250_000_000);
    }

    #[test]
    fn later_moment_is_greater_wherever_it_is() {
        assert!(parse("2024-01-01T10:00:00+02:00") < parse("2024-01-01T09:00:00Z"));
        assert!(parse("2024-01-01T10:00:00.1Z") > parse("2024-01-01T10:00:00Z"));
    }

    #[test]
    fn go_is_lenient() {
        assert_eq!(seconds("1970-01-01T1:00:00,5Z"), Some(3600));
        assert_eq!(seconds("1970-01-02T00:00:00+24:00"), Some(0));
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
            assert_eq!(parse(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_a_moment_or_not(text in "[0-9]{3,4}-[0-9]{2}-[0-9]{2}T[0-9]{1,2}:[0-9]{2}:[0-9]{2}([.,][0-9]{0,20})?(Z|[-+][0-9]{2}:[0-9]{2}|.)?") {
            let _ = parse(&text);
        }
    }
}
