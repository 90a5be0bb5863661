//! Times of entries. Read and written, never taken.

use std::borrow::Cow;

/// A time to the second.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Stamp<'a> {
    /// In RFC 3339, UTC, without a fraction.
    pub(super) text: Cow<'a, str>,
    pub(super) seconds: i64,
}

impl<'a> Stamp<'a> {
    /// Reads a time of RFC 3339.
    pub(super) fn parse(text: &'a str) -> Option<Self> {
        let bytes = text.as_bytes();
        let number = |range: std::ops::Range<usize>| -> Option<i64> {
            let digits = bytes.get(range)?;
            digits.iter().all(u8::is_ascii_digit).then_some(())?;
            Some(digits.iter().fold(0, |sum, digit| sum * 10 + i64::from(digit - b'0')))
        };
        let separators = [(4, b'-'), (7, b'-'), (10, b'T'), (13, b':'), (16, b':')];
        if separators.iter().any(|(index, separator)| bytes.get(*index) != Some(separator)) {
            return None;
        }
        let (year, month, day) = (number(0..4)?, number(5..7)?, number(8..10)?);
        let (hour, minute, second) = (number(11..13)?, number(14..16)?, number(17..19)?);
        if !(1..=12).contains(&month) || day < 1 || day > days_in_month(year, month) {
            return None;
        }
        if hour > 23 || minute > 59 || second > 59 {
            return None;
        }
        let offset = offset(text.get(19..)?)?;
        let seconds = days(year, month, day) * 86_400 + hour * 3_600 + minute * 60 + second - offset;
        let is_canonical = text.len() == 20 && text.ends_with('Z');
        let text = if is_canonical { Cow::Borrowed(text) } else { Cow::Owned(format(seconds)) };
        Some(Self { text, seconds })
    }

    /// Whether that is how the time would be written.
    pub(super) fn is_written_as(&self, text: &str) -> bool {
        self.text == text
    }
}

/// Seconds east of UTC, after an optional fraction.
fn offset(text: &str) -> Option<i64> {
    let rest = match text.strip_prefix(['.', ',']) {
        Some(fraction) => {
            let rest = fraction.trim_start_matches(|character: char| character.is_ascii_digit());
            (rest.len() < fraction.len()).then_some(rest)?
        }
        None => text,
    };
    match rest.as_bytes() {
        b"Z" => Some(0),
        [sign @ (b'+' | b'-'), h1, h2, b':', m1, m2] => {
            let digit = |digit: &u8| digit.is_ascii_digit().then(|| i64::from(digit - b'0'));
            let hours = digit(h1)? * 10 + digit(h2)?;
            let minutes = digit(m1)? * 10 + digit(m2)?;
            let size = (hours <= 24 && minutes < 60).then_some(hours * 3_600 + minutes * 60)?;
            Some(if *sign == b'-' { -size } else { size })
        }
        _ => None,
    }
}

fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

fn days_in_month(year: i64, month: i64) -> i64 {
    match month {
        2 if is_leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days since 1970, by counting years from March.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let month = (month + 9) % 12;
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * month + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

fn format(seconds: i64) -> String {
    let (days, time) = (seconds.div_euclid(86_400) + 719_468, seconds.rem_euclid(86_400));
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    let (hour, minute, second) = (time / 3_600, time % 3_600 / 60, time % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_and_brought_to_utc() {
        for (text, canonical, seconds) in [
            ("1970-01-01T00:00:00Z", "1970-01-01T00:00:00Z", 0),
            ("2000-02-29T12:30:45Z", "2000-02-29T12:30:45Z", 951_827_445),
            ("2001-01-01T01:00:00.5+02:00", "2000-12-31T23:00:00Z", 978_303_600),
            ("1969-12-31T23:59:59-00:00", "1969-12-31T23:59:59Z", -1),
        ] {
            let stamp = Stamp::parse(text).unwrap();
            assert_eq!((stamp.text.as_ref(), stamp.seconds), (canonical, seconds));
        }
    }

    #[test]
    fn what_is_no_time_is_refused() {
        for text in [
            "",
            "2001-01-01",
            "2001-13-01T00:00:00Z",
            "2001-02-29T00:00:00Z",
            "2001-01-01T00:00:00",
            "é001-01-01T00:00:00Z",
        ] {
            assert_eq!(Stamp::parse(text), None, "{text}");
        }
    }
}
