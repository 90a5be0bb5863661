//! Points in time.
//!
//! Follows Go 1.26, `time/time.go`.

use std::any::Any;
use std::cmp::Ordering;
use std::rc::Rc;

use ferroplane_golang::time::calendar;
use ferroplane_golang::time::layout::{self, Parsed};
use ferroplane_golang::time::rfc3339::Moment;

use super::zone::Zone;
use super::{TIME, methods};
use crate::{Function, Object, Text, Type, Value};

/// Go's `time.Time`.
#[derive(Debug, Clone)]
pub(super) struct Time {
    pub(super) moment: Moment,
    pub(super) zone: Zone,
}

/// Seconds from the beginning of the year 1 to 1970.
const BEFORE_1970: i64 = 62_135_596_800;

const NANOSECONDS: i128 = 1_000_000_000;

impl Time {
    /// The beginning of the year 1, which a time is that was never set.
    pub(super) const ZERO: Self =
        Self { moment: Moment { seconds: -BEFORE_1970, nanoseconds: 0 }, zone: Zone::Utc };

    pub(super) fn new(moment: Moment, zone: Zone) -> Self {
        Self { moment, zone }
    }

    /// The result of parsing. A zone with an unknown offset has none.
    pub(super) fn parsed(parsed: Parsed) -> Self {
        let Moment { seconds, nanoseconds } = parsed.civil;
        let at = |offset: i32| Moment { seconds: seconds - i64::from(offset), nanoseconds };
        match parsed.zone {
            layout::Zone::Utc => Self::new(parsed.civil, Zone::Utc),
            layout::Zone::Unknown => Self::new(parsed.civil, Zone::Local),
            // Go prefers the local zone if it has the offset and the name that was read, and ours is UTC.
            layout::Zone::Offset(0, name) if name.is_empty() || name == "UTC" => {
                Self::new(parsed.civil, Zone::Local)
            }
            layout::Zone::Offset(offset, name) => Self::new(at(offset), Zone::Fixed(offset, name)),
            layout::Zone::Name(name) => {
                let hours =
                    name.strip_prefix("GMT").and_then(|hours| hours.parse::<i32>().ok()).unwrap_or_default();
                // The moment is not moved by the offset: Go makes up a zone for a name that it does not know.
                Self::new(parsed.civil, Zone::Fixed(hours * 3600, name))
            }
        }
    }

    pub(super) fn format(&self, layout: &[u8]) -> Vec<u8> {
        let period = self.zone.at(self.moment.seconds);
        layout::format(layout, self.moment, period.offset, &period.abbreviation)
    }

    /// Days since 1970, and seconds of the day, that a clock on the wall shows.
    pub(super) fn wall(&self) -> (i64, i64) {
        let offset = self.zone.at(self.moment.seconds).offset.into();
        calendar::days_and_seconds(self.moment.seconds.wrapping_add(offset))
    }

    /// Year, month and day.
    pub(super) fn civil(&self) -> (i64, i64, i64) {
        calendar::date(self.wall().0)
    }

    /// A time that is too far away is the last one, or the first.
    pub(super) fn plus(&self, nanoseconds: i64) -> Self {
        let later = since_year_1(self.moment) + i128::from(nanoseconds);
        let seconds = later.div_euclid(NANOSECONDS);
        let limits = (i128::from(-i64::MAX), i128::from(i64::MAX));
        let seconds = i64::try_from(seconds.clamp(limits.0, limits.1)).unwrap_or(i64::MAX);
        let nanoseconds = u32::try_from(later.rem_euclid(NANOSECONDS)).unwrap_or_default();
        let moment = Moment { seconds: seconds.wrapping_sub(BEFORE_1970), nanoseconds };
        Self::new(moment, self.zone.clone())
    }

    /// Whether it comes before, with or after another time.
    pub(super) fn order(&self, other: &Self) -> Ordering {
        since_year_1(self.moment).cmp(&since_year_1(other.moment))
    }

    /// Years, months and days later, by the calendar of its zone.
    pub(super) fn plus_date(&self, years: i64, months: i64, days: i64) -> Self {
        let (year, month, day) = self.civil();
        let months = month.saturating_add(months) - 1;
        let year =
            // The bounds keep the days within what the calendar computes with.
            year.saturating_add(years).saturating_add(months.div_euclid(12)).clamp(-1_000_000, 1_000_000);
        let days =
            calendar::days(year, months.rem_euclid(12) + 1, 1).saturating_add(day - 1).saturating_add(days);
        let wall = days.saturating_mul(86_400).saturating_add(self.wall().1);
        // The offset at the wall clock's own time is a guess; where it leads decides.
        let guess = wall.saturating_sub(self.zone.at(wall).offset.into());
        let seconds = wall.saturating_sub(self.zone.at(guess).offset.into());
        Self::new(Moment { seconds, nanoseconds: self.moment.nanoseconds }, self.zone.clone())
    }

    /// The last multiple of a duration since the year 1, or the nearest one.
    pub(super) fn to_multiple(&self, unit: i64, rounds: bool) -> Self {
        if unit <= 0 {
            return self.clone();
        }
        let rest = since_year_1(self.moment).rem_euclid(i128::from(unit));
        let up = if rounds && rest * 2 >= i128::from(unit) { i128::from(unit) } else { 0 };
        self.plus(i64::try_from(up - rest).unwrap_or_default())
    }
}

/// Nanoseconds since the year 1. Go counts seconds from there, so that the last ones that can be written wrap around.
fn since_year_1(moment: Moment) -> i128 {
    let seconds = moment.seconds.wrapping_add(BEFORE_1970);
    i128::from(seconds) * NANOSECONDS + i128::from(moment.nanoseconds)
}

/// Nanoseconds between two moments. What is too large is the largest duration.
pub(super) fn difference(later: Moment, earlier: Moment) -> i64 {
    let difference = since_year_1(later) - since_year_1(earlier);
    i64::try_from(difference).unwrap_or(if difference < 0 { i64::MIN } else { i64::MAX })
}

impl From<Time> for Value {
    fn from(time: Time) -> Self {
        Self::Object(Rc::new(time))
    }
}

impl Object for Time {
    fn type_of(&self) -> Type {
        TIME
    }

    fn method(&self, name: &str) -> Option<&'static Function> {
        methods::OF_TIME.iter().find(|method| method.name == name)
    }

    fn string(&self) -> Option<Text> {
        Some(self.format(layout::DEFAULT).into())
    }

    fn equals(&self, other: &dyn Object) -> Option<bool> {
        let other = other.as_any().downcast_ref::<Self>();
        Some(other.is_some_and(|other| self.moment == other.moment && self.zone == other.zone))
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
