//! Points in time and lengths of time, in the notations of Go.

use std::fmt;

use ferroplane_golang::time::calendar::{self, days, days_in_month};

/// A point in time, and the zone in which it was written.
#[derive(Debug, Clone, Copy)]
pub struct Timestamp {
    seconds: i64,
    nanoseconds: u32,
    /// Seconds east of UTC.
    offset: i32,
}

/// The first second of the year 1 and the last of the year 9999.
const RANGE: std::ops::RangeInclusive<i64> = -62_135_596_800..=253_402_300_799;
const NANOSECONDS: i128 = 1_000_000_000;

impl Timestamp {
    pub fn new(seconds: i64, nanoseconds: u32, offset: i32) -> Option<Self> {
        RANGE.contains(&seconds).then_some(Self { seconds, nanoseconds, offset })
    }

    pub fn seconds(self) -> i64 {
        self.seconds
    }

    pub fn nanoseconds(self) -> u32 {
        self.nanoseconds
    }

    /// Nanoseconds since 1970.
    pub(super) fn instant(self) -> i128 {
        i128::from(self.seconds) * NANOSECONDS + i128::from(self.nanoseconds)
    }

    pub fn is_zero(self) -> bool {
        self.seconds == *RANGE.start() && self.nanoseconds == 0
    }

    pub(super) fn add(self, nanoseconds: i128) -> Option<Self> {
        let instant = self.instant().checked_add(nanoseconds)?;
        let seconds = i64::try_from(instant.div_euclid(NANOSECONDS)).ok()?;
        Self::new(seconds, u32::try_from(instant.rem_euclid(NANOSECONDS)).ok()?, self.offset)
    }

    /// Year, month from 1, day from 1, at this many seconds east of UTC.
    pub(super) fn date(self, offset: i64) -> (i64, i64, i64) {
        calendar::date((self.seconds + offset).div_euclid(86_400))
    }

    /// Second of the day.
    pub(super) fn second_of_day(self, offset: i64) -> i64 {
        (self.seconds + offset).rem_euclid(86_400)
    }

    /// Sunday is zero.
    pub(super) fn weekday(self, offset: i64) -> i64 {
        ((self.seconds + offset).div_euclid(86_400) + 4).rem_euclid(7)
    }

    /// From zero.
    pub(super) fn day_of_year(self, offset: i64) -> i64 {
        let (year, ..) = self.date(offset);
        (self.seconds + offset).div_euclid(86_400) - days(year, 1, 1)
    }

    /// Reads RFC 3339, as strictly as Go does: an hour may have one digit.
    pub fn parse(text: &str) -> Option<Self> {
        let mut rest = text;
        let mut number = |digits: usize, after: &str| {
            let taken = rest.get(..digits).filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()))?;
            let value: i64 = taken.parse().ok()?;
            rest = rest[digits..].strip_prefix(after)?;
            Some(value)
        };
        let (year, month, day) = (number(4, "-")?, number(2, "-")?, number(2, "T")?);
        let hour = match number(2, ":") {
            Some(hour) => hour,
            None => number(1, ":")?,
        };
        let (minute, second) = (number(2, ":")?, number(2, "")?);
        let is_valid = (1..=12).contains(&month)
            && (1..=days_in_month(year, month)).contains(&day)
            && hour < 24
            && minute < 60
            && second < 60;
        let (nanoseconds, zone) = fraction(rest)?;
        let offset = zone_offset(zone)?;
        let seconds =
            days(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second - i64::from(offset);
        if is_valid { Self::new(seconds, nanoseconds, offset) } else { None }
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let offset = i64::from(self.offset);
        f.write_str(&calendar::format(self.seconds + offset))?;
        if self.nanoseconds > 0 {
            let digits = format!("{:09}", self.nanoseconds);
            write!(f, ".{}", digits.trim_end_matches('0'))?;
        }
        if offset == 0 {
            return f.write_str("Z");
        }
        let (sign, minutes) = (if offset < 0 { '-' } else { '+' }, offset.abs() / 60);
        write!(f, "{sign}{:02}:{:02}", minutes / 60, minutes % 60)
    }
}

/// The nanoseconds from one point to another, if they fit.
pub(super) fn between(later: Timestamp, earlier: Timestamp) -> Option<i64> {
    i64::try_from(later.instant() - earlier.instant()).ok()
}

/// Nanoseconds after a point or comma, and what follows.
fn fraction(text: &str) -> Option<(u32, &str)> {
    let Some(digits) = text.strip_prefix(['.', ',']) else { return Some((0, text)) };
    let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
    if end == 0 {
        return None;
    }
    let kept = &digits[..end.min(9)];
    let value: u32 = kept.parse().ok()?;
    let scale = 10_u32.pow(u32::try_from(9 - kept.len()).ok()?);
    Some((value * scale, &digits[end..]))
}

fn zone_offset(zone: &str) -> Option<i32> {
    if zone == "Z" {
        return Some(0);
    }
    let sign = match zone.as_bytes().first()? {
        b'+' => 1,
        b'-' => -1,
        _ => return None,
    };
    let bytes = zone.as_bytes();
    let is_written =
        zone.len() == 6 && bytes[3] == b':' && [1, 2, 4, 5].iter().all(|at| bytes[*at].is_ascii_digit());
    if !is_written {
        return None;
    }
    let (hours, minutes): (i32, i32) = (zone[1..3].parse().ok()?, zone[4..6].parse().ok()?);
    (hours <= 24 && minutes < 60).then_some(sign * (hours * 3600 + minutes * 60))
}

/// Reads lengths like `1h30m` or `-1.5s`, in nanoseconds.
pub(super) fn parse_duration(text: &str) -> Option<i64> {
    let (is_negative, mut rest) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    if rest == "0" {
        return Some(0);
    }
    if rest.is_empty() {
        return None;
    }
    let mut total: u64 = 0;
    while !rest.is_empty() {
        let (part, after) = parse_part(rest)?;
        total = total.checked_add(part).filter(|total| *total <= 1 << 63)?;
        rest = after;
    }
    if is_negative {
        return Some(0_i64.wrapping_sub(total.cast_signed()));
    }
    i64::try_from(total).ok()
}

/// One number with its unit, and what follows.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "as Go does"
)]
fn parse_part(text: &str) -> Option<(u64, &str)> {
    let digits = |text: &str| text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let whole = &text[..digits(text)];
    let mut rest = &text[whole.len()..];
    let mut fraction = "";
    if let Some(after) = rest.strip_prefix('.') {
        fraction = &after[..digits(after)];
        rest = &after[fraction.len()..];
    }
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let end = rest.find(|c: char| c == '.' || c.is_ascii_digit()).unwrap_or(rest.len());
    let unit: u64 = match &rest[..end] {
        "ns" => 1,
        "us" | "µs" | "μs" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        _ => return None,
    };
    let whole: u64 =
        if whole.is_empty() { 0 } else { whole.parse().ok().filter(|number| *number <= 1 << 63)? };
    let mut value = whole.checked_mul(unit).filter(|value| *value <= 1 << 63)?;
    let kept: String = fraction.chars().take(18).collect();
    if let Ok(number) = kept.parse::<u64>() {
        let scale = 10_f64.powi(i32::try_from(kept.len()).ok()?);
        value = value
            .checked_add((number as f64 * (unit as f64 / scale)) as u64)
            .filter(|value| *value <= 1 << 63)?;
    }
    Some((value, &rest[end..]))
}
