//! Writes a time as a layout wants it.
//!
//! Follows Go 1.26, `time/format.go` (`appendFormat`).

use super::elements::{Cut, Element, Fraction, Offset, Parts, split};
use super::{MONTHS, WEEKDAYS};
use crate::time::calendar::{date, days, days_and_seconds};
use crate::time::rfc3339::Moment;

/// A moment in a zone that is so many seconds east of UTC and has this name, which may be empty.
pub fn format(layout: &[u8], moment: Moment, offset: i32, zone: &str) -> Vec<u8> {
    let (days, second) = days_and_seconds(moment.seconds.wrapping_add(offset.into()));
    let (year, month, day) = date(days);
    let writer = Writer { days, year, month, day, second, nanoseconds: moment.nanoseconds, offset, zone };
    let mut out = Vec::with_capacity(layout.len() + 10);
    let mut rest = layout;
    while !rest.is_empty() {
        let Cut { before, element, after } = split(rest);
        out.extend_from_slice(before);
        if let Some((element, _)) = element {
            writer.write(&mut out, element);
        }
        rest = after;
    }
    out
}

struct Writer<'z> {
    days: i64,
    year: i64,
    month: i64,
    day: i64,
    /// Of the day.
    second: i64,
    nanoseconds: u32,
    offset: i32,
    zone: &'z str,
}

impl Writer<'_> {
    fn write(&self, out: &mut Vec<u8>, element: Element) {
        let name_at = |names: &[&'static str], at: i64| names[usize::try_from(at).unwrap_or_default()];
        let month = name_at(&MONTHS, self.month - 1);
        let weekday = name_at(&WEEKDAYS, (self.days + 4).rem_euclid(7));
        let hour = self.second / 3600;
        let hour_of_half = if hour % 12 == 0 { 12 } else { hour % 12 };
        let (minute, second) = (self.second / 60 % 60, self.second % 60);
        match element {
            Element::Year => push(out, (self.year % 100).abs(), 2),
            Element::LongYear => push(out, self.year, 4),
            Element::Month => out.extend_from_slice(&month.as_bytes()[..3]),
            Element::LongMonth => out.extend_from_slice(month.as_bytes()),
            Element::NumberMonth => push(out, self.month, 0),
            Element::ZeroMonth => push(out, self.month, 2),
            Element::Weekday => out.extend_from_slice(&weekday.as_bytes()[..3]),
            Element::LongWeekday => out.extend_from_slice(weekday.as_bytes()),
            Element::Day => push(out, self.day, 0),
            Element::SpaceDay => out.extend(format!("{:2}", self.day).bytes()),
            Element::ZeroDay => push(out, self.day, 2),
            Element::SpaceYearDay => out.extend(format!("{:3}", self.day_of_year()).bytes()),
            Element::ZeroYearDay => push(out, self.day_of_year(), 3),
            Element::Hour => push(out, hour, 2),
            Element::Hour12 => push(out, hour_of_half, 0),
            Element::ZeroHour12 => push(out, hour_of_half, 2),
            Element::Minute => push(out, minute, 0),
            Element::ZeroMinute => push(out, minute, 2),
            Element::Second => push(out, second, 0),
            Element::ZeroSecond => push(out, second, 2),
            Element::UpperPm => out.extend(if hour >= 12 { b"PM" } else { b"AM" }),
            Element::LowerPm => out.extend(if hour >= 12 { b"pm" } else { b"am" }),
            Element::Offset(form) => self.offset(out, form),
            Element::ZoneName if self.zone.is_empty() => {
                self.offset(out, Offset { has_z: false, has_colons: false, parts: Parts::Minutes });
            }
            Element::ZoneName => out.extend(self.zone.bytes()),
            Element::Fraction(form) => self.fraction(out, form),
        }
    }

    fn day_of_year(&self) -> i64 {
        self.days - days(self.year, 1, 1) + 1
    }

    fn offset(&self, out: &mut Vec<u8>, form: Offset) {
        if self.offset == 0 && form.has_z {
            out.push(b'Z');
            return;
        }
        let minutes = i64::from(self.offset / 60);
        // The sign is that of the minutes: less than a minute west of UTC is `+00:00`.
        let is_west = minutes < 0;
        out.push(if is_west { b'-' } else { b'+' });
        push(out, minutes.abs() / 60, 2);
        if form.has_colons {
            out.push(b':');
        }
        if form.parts != Parts::Hours {
            push(out, minutes.abs() % 60, 2);
        }
        if form.parts == Parts::Seconds {
            if form.has_colons {
                out.push(b':');
            }
            let seconds = i64::from(self.offset) % 60;
            push(out, if is_west { -seconds } else { seconds }, 2);
        }
    }

    fn fraction(&self, out: &mut Vec<u8>, form: Fraction) {
        if form.is_trimmed && (form.digits == 0 || self.nanoseconds == 0) {
            return;
        }
        let digits = format!("{:09}", self.nanoseconds);
        let digits = &digits[..form.digits.min(9)];
        let digits = if form.is_trimmed { digits.trim_end_matches('0') } else { digits };
        if digits.is_empty() && form.is_trimmed {
            return;
        }
        out.push(form.separator);
        out.extend(digits.bytes());
    }
}

/// A number with zeros before it if it has fewer digits. The sign is no digit.
fn push(out: &mut Vec<u8>, number: i64, width: usize) {
    let sign = if number < 0 { "-" } else { "" };
    out.extend(format!("{sign}{:0width$}", number.unsigned_abs()).bytes());
}
