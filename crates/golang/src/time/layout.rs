//! Layouts of dates and times, which show how `Mon Jan 2 15:04:05 MST 2006` would be written.
//!
//! [`format()`] writes a time, [`parse()`] reads one. Neither knows zones: the caller of `format` passes one, and `parse` returns what
//! was written.
//!
//! Follows Go 1.26, `time/format.go`.

mod elements;
mod format;
mod parse;

pub use format::format;
pub use parse::{Parsed, Zone, parse};

pub const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

pub const WEEKDAYS: [&str; 7] =
    ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

/// The layout that Go's `Time.String` has.
// Bytes, because layouts come from templates, whose texts need not be UTF-8.
pub const DEFAULT: &[u8] = b"2006-01-02 15:04:05.999999999 -0700 MST";

/// What JSON has.
pub const RFC3339_NANO: &[u8] = b"2006-01-02T15:04:05.999999999Z07:00";

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::time::rfc3339::Moment;

    fn formatted(layout: &str) -> String {
        let moment = Moment { seconds: 1_709_175_845, nanoseconds: 67_800_000 };
        String::from_utf8(format(layout.as_bytes(), moment, 3600, "CET")).unwrap()
    }

    #[test]
    fn times_are_written_as_the_layout_shows() {
        for (layout, text) in [
            ("Mon Jan _2 15:04:05 MST 2006", "Thu Feb 29 04:04:05 CET 2024"),
            ("Monday, 02-Jan-06 3:4:5PM", "Thursday, 29-Feb-24 4:4:5AM"),
            ("002 .000 .999999999 Z07:00 -0700", "060 .067 .0678 +01:00 +0100"),
            ("Month Jan_2006 .001", "Month Feb_2024 .002"),
        ] {
            assert_eq!(formatted(layout), text, "{layout}");
        }
    }

    #[test]
    fn what_was_written_can_be_read() {
        for layout in ["2006-01-02T15:04:05.999999999Z07:00", "Monday, 02-Jan-06 15:04:05.0000 -0700"] {
            let parsed = parse(layout.as_bytes(), formatted(layout).as_bytes()).unwrap();
            assert_eq!(parsed.civil, Moment { seconds: 1_709_179_445, nanoseconds: 67_800_000 });
            assert_eq!(parsed.zone, Zone::Offset(3600, String::new()));
        }
    }

    #[test]
    fn mistakes_are_named_as_in_go() {
        for (layout, text, problem) in [
            (
                "2006-01-02",
                "2017-1-1",
                r#"parsing time "2017-1-1" as "2006-01-02": cannot parse "1-1" as "01""#,
            ),
            ("2006-01-02", "2017-02-30", r#"parsing time "2017-02-30": day out of range"#),
            ("2006", "2017x", r#"parsing time "2017x": extra text: "x""#),
            ("15:04", "25:00", r#"parsing time "25:00": hour out of range"#),
        ] {
            assert_eq!(parse(layout.as_bytes(), text.as_bytes()).unwrap_err(), problem);
        }
    }

    proptest! {
        #[test]
        fn any_text_is_a_time_or_a_mistake(
            layout in "([2_0-6-9:.,ZPMJTa-y \\-é]|2006|Jan|MST|Z07:00|002|\\.000|__2){0,8}",
            text in "[0-9a-zA-Z:., +\\-é]{0,20}",
        ) {
            let _ = parse(layout.as_bytes(), text.as_bytes());
        }
    }
}
