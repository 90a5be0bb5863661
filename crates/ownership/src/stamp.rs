//! Times of entries. Read and written, never taken.

use std::borrow::Cow;

use ferroplane_golang::time::calendar::{self, days, days_in_month};

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
        let text =
            if is_canonical { Cow::Borrowed(text) } else { Cow::Owned(calendar::format(seconds) + "Z") };
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
