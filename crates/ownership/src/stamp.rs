//! Times of entries. Read and written, never taken.
//!
//! Follows apimachinery 0.36.4, `pkg/apis/meta/v1/time.go`.

use std::borrow::Cow;

use ferroplane_golang::time::{calendar, rfc3339};

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
        let seconds = rfc3339::moment(text)?.seconds;
        // `2006-01-02T15:04:05Z` has 20 letters. Almost all times are written so, and are borrowed.
        // Nothing else that Go reads has this length and this end: an hour of one digit is one shorter, and a
        // fraction two longer.
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
