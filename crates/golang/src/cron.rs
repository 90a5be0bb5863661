//! Crontabs: when something is due, as `robfig/cron` reads and computes it.
//!
//! Five fields (minute, hour, day of the month, month, day of the week), `@` shortcuts and `@every DURATION`, behind an optional
//! `TZ=ZONE` or `CRON_TZ=ZONE`. The only clock is the one that the caller brings.
//!
//! Follows robfig/cron 3.0.1, `parser.go`, `spec.go`, `constantdelay.go`.

mod field;
mod next;
mod parse;

use std::sync::Arc;

use crate::time::zone::ZoneTable;

pub use parse::InvalidSchedule;

/// When something is due.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schedule {
    rule: Rule,
    zone: Zone,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Rule {
    Fields(Fields),
    /// So many seconds after it was due the last time.
    Every(i64),
}

/// The values at which something is due, a bit for each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Fields {
    minute: u64,
    hour: u64,
    day_of_month: u64,
    month: u64,
    day_of_week: u64,
}

/// The zone of the fields.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Zone {
    Utc,
    Named(Arc<ZoneTable>),
}

impl Zone {
    /// Seconds east of UTC, at a second since 1970.
    fn offset(&self, second: i64) -> i64 {
        match self {
            Self::Utc => 0,
            Self::Named(table) => table.at(second).offset.into(),
        }
    }
}

impl Schedule {
    /// Reads a crontab, which is in UTC unless it names a zone.
    pub fn parse(text: &str) -> Result<Self, InvalidSchedule> {
        parse::parse(text)
    }

    /// The same, told in this zone unless the crontab names one.
    pub fn parse_in(text: &str, zone: &str) -> Result<Self, InvalidSchedule> {
        let schedule = Self::parse(text)?;
        if parse::names_zone(text) { Ok(schedule) } else { Ok(Self { zone: parse::zone(zone)?, ..schedule }) }
    }

    /// The first second after this one at which something is due, both since 1970. None if it never is: not in the next five years.
    pub fn next(&self, second: i64) -> Option<i64> {
        match &self.rule {
            Rule::Every(seconds) => second.checked_add(*seconds),
            Rule::Fields(fields) => next::next(fields, &self.zone, second),
        }
    }

    /// The first second after `now` at which something is due that was due at `last`, all since 1970. Unlike [`next`](Self::next), it does
    /// not depend on when it is asked: a delay is counted from the last time.
    pub fn next_from(&self, last: i64, now: i64) -> Option<i64> {
        let Rule::Every(seconds) = &self.rule else { return self.next(now) };
        let times = now.checked_sub(last)?.max(0) / seconds;
        last.checked_add(times.checked_add(1)?.checked_mul(*seconds)?)
    }

    /// The last second after the first one and not after the second one at which something is due, all since 1970.
    pub fn latest(&self, after: i64, until: i64) -> Option<i64> {
        if let Rule::Every(seconds) = self.rule {
            // Counted, not searched: a delay of a second that was missed for a year would be thirty million
            // steps.
            let times = until.checked_sub(after).filter(|span| *span >= seconds)? / seconds;
            return Some(after + times * seconds);
        }
        // Each look back is a little longer than the one before it. The first in which something is due holds few times, so that a
        // schedule which was missed for years costs as little as one that was missed for a minute.
        let spans = [60, 3_600, 86_400, 35 * 86_400, 366 * 86_400, i64::MAX];
        let start = spans.iter().find_map(|span| {
            let start = until.saturating_sub(*span).max(after);
            let first = self.next(start).filter(|first| *first <= until);
            // Where the look already began at `after`, a longer one would find nothing either.
            if first.is_none() && start == after { Some(None) } else { first.map(Some) }
        });
        let mut latest = start??;
        while let Some(next) = self.next(latest).filter(|next| *next <= until) {
            latest = next;
        }
        Some(latest)
    }

    /// Seconds east of UTC in its zone, at a second since 1970.
    pub fn offset(&self, second: i64) -> i64 {
        self.zone.offset(second)
    }
}

#[cfg(test)]
mod tests;
