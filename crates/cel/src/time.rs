//! Points in time.
//!
//! Follows cel-go 0.29.2, `common/types/timestamp.go`.

use std::fmt;

use ferroplane_golang::time::calendar::{self, days};
use ferroplane_golang::time::rfc3339::{self, Time};

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
    pub(super) const EPOCH: Self = Self { seconds: 0, nanoseconds: 0, offset: 0 };

    /// What an object says, whatever year that is: Kubernetes does not check the range there.
    pub(super) fn from_time(Time { moment, offset }: Time) -> Self {
        Self { seconds: moment.seconds, nanoseconds: moment.nanoseconds, offset }
    }

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
        // 1970-01-01 was a Thursday.
        ((self.seconds + offset).div_euclid(86_400) + 4).rem_euclid(7)
    }

    /// From zero.
    pub(super) fn day_of_year(self, offset: i64) -> i64 {
        let (year, ..) = self.date(offset);
        (self.seconds + offset).div_euclid(86_400) - days(year, 1, 1)
    }

    /// Reads RFC 3339, as strictly as Go does: an hour may have one digit.
    pub fn parse(text: &str) -> Option<Self> {
        let Time { moment, offset } = rfc3339::parse(text).ok()?;
        Self::new(moment.seconds, moment.nanoseconds, offset)
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
