//! When the fields of a crontab hold next.
//!
//! Fields are checked from the largest to the smallest. Whenever one wraps around, the search begins again, because a larger one has
//! changed. Days are added as dates, hours and minutes as spans of time: that is what makes the days on which clocks change come out
//! as they do.
//!
//! Follows robfig/cron 3.0.1, `spec.go` (`Next`).

use super::field::STAR;
use super::{Fields, Zone};
use crate::time::calendar;

const DAY: i64 = 86_400;
const HOUR: i64 = 3_600;
const MINUTE: i64 = 60;
/// A schedule that does not hold for so many years never does.
const YEARS: i64 = 5;

/// A second since 1970, and how people there tell it.
#[derive(Debug, Clone, Copy)]
struct Moment {
    second: i64,
    year: i64,
    month: i64,
    day: i64,
    /// Second of the day.
    clock: i64,
}

impl Moment {
    fn at(second: i64, zone: &Zone) -> Self {
        let told = second + zone.offset(second);
        let (year, month, day) = calendar::date(told.div_euclid(DAY));
        Self { second, year, month, day, clock: told.rem_euclid(DAY) }
    }

    /// The time that a clock shows. A time that is skipped or shown twice has the offset from before its day is corrected, as in Go.
    fn of(year: i64, month: i64, day: i64, clock: i64, zone: &Zone) -> Self {
        let (year, month) = (year + (month - 1).div_euclid(12), (month - 1).rem_euclid(12) + 1);
        let told = (calendar::days(year, month, 1) + day - 1) * DAY + clock;
        // Go's `time.Date` guesses the offset by taking the clock for UTC, and corrects it once at the moment
        // which that gives.
        let offset = zone.offset(told - zone.offset(told));
        Self::at(told - offset, zone)
    }

    fn plus(self, seconds: i64, zone: &Zone) -> Self {
        Self::at(self.second + seconds, zone)
    }

    fn hour(self) -> i64 {
        self.clock / HOUR
    }

    fn minute(self) -> i64 {
        self.clock / MINUTE % 60
    }

    fn day_of_week(self) -> i64 {
        // 1970 began on a Thursday.
        (calendar::days(self.year, self.month, self.day) + 4).rem_euclid(7)
    }
}

fn holds(bits: u64, value: i64) -> bool {
    bits & (1 << value) != 0
}

impl Fields {
    /// Days of the month and of the week that are both restricted are alternatives.
    fn is_day(&self, moment: Moment) -> bool {
        let of_month = holds(self.day_of_month, moment.day);
        let of_week = holds(self.day_of_week, moment.day_of_week());
        if (self.day_of_month | self.day_of_week) & STAR != 0 {
            of_month && of_week
        } else {
            of_month || of_week
        }
    }
}

pub(super) fn next(fields: &Fields, zone: &Zone, after: i64) -> Option<i64> {
    // The second at hand does not count: a run that is due now would be found for ever.
    let mut search = Search { fields, zone, moment: Moment::at(after.checked_add(1)?, zone), is_set: false };
    let last_year = search.moment.year + YEARS;
    loop {
        if search.moment.year > last_year {
            return None;
        }
        if search.month() && search.day() && search.hour() && search.minute() && search.second() {
            return Some(search.moment.second);
        }
    }
}

/// A search, as far as it has come. Each step returns false if it has wrapped around.
struct Search<'a> {
    fields: &'a Fields,
    zone: &'a Zone,
    moment: Moment,
    /// Whether what is smaller than the field at hand is at its beginning.
    is_set: bool,
}

impl Search<'_> {
    /// Go to the beginning of what is at hand, once.
    fn begin(&mut self, day: i64, clock: i64) {
        if !std::mem::replace(&mut self.is_set, true) {
            let Moment { year, month, .. } = self.moment;
            self.moment = Moment::of(year, month, day, clock, self.zone);
        }
    }

    fn month(&mut self) -> bool {
        while !holds(self.fields.month, self.moment.month) {
            self.begin(1, 0);
            let Moment { year, month, day, clock, .. } = self.moment;
            self.moment = Moment::of(year, month + 1, day, clock, self.zone);
            if self.moment.month == 1 {
                return false;
            }
        }
        true
    }

    fn day(&mut self) -> bool {
        while !self.fields.is_day(self.moment) {
            self.begin(self.moment.day, 0);
            let before = self.moment;
            let Moment { year, month, day, clock, .. } = before;
            self.moment = Moment::of(year, month, day + 1, clock, self.zone);
            // Where clocks change at midnight, it may be an hour before or after it.
            let hour = self.moment.hour();
            if hour != 0 {
                let hours = if hour > 12 { 24 - hour } else { -hour };
                self.moment = self.moment.plus(hours * HOUR, self.zone);
            }
            // Where a whole day is skipped, the same one comes again. robfig's library searches for ever then.
            if self.moment.second <= before.second {
                self.moment = before.plus(DAY, self.zone);
            }
            if self.moment.day == 1 {
                return false;
            }
        }
        true
    }

    fn hour(&mut self) -> bool {
        while !holds(self.fields.hour, self.moment.hour()) {
            self.begin(self.moment.day, self.moment.hour() * HOUR);
            // A span, not a clock: an hour that is skipped is passed over, and one that comes twice counts
            // twice.
            self.moment = self.moment.plus(HOUR, self.zone);
            if self.moment.hour() == 0 {
                return false;
            }
        }
        true
    }

    fn minute(&mut self) -> bool {
        while !holds(self.fields.minute, self.moment.minute()) {
            if !std::mem::replace(&mut self.is_set, true) {
                self.moment =
                    Moment::at(self.moment.second - self.moment.second.rem_euclid(MINUTE), self.zone);
            }
            self.moment = self.moment.plus(MINUTE, self.zone);
            if self.moment.minute() == 0 {
                return false;
            }
        }
        true
    }

    /// Due at the first second of a minute.
    fn second(&mut self) -> bool {
        while self.moment.clock % MINUTE != 0 {
            self.is_set = true;
            self.moment = self.moment.plus(1, self.zone);
            if self.moment.clock % MINUTE == 0 {
                return false;
            }
        }
        true
    }
}
