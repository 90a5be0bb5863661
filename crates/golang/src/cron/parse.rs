//! Reads crontabs.
//!
//! Follows robfig/cron 3.0.1, `parser.go`.

use std::sync::Arc;

use super::field::{Bounds, DAY_OF_MONTH, DAY_OF_WEEK, HOUR, MINUTE, MONTH};
use super::{Fields, Rule, Schedule, Zone};
use crate::time::duration;
use crate::time::zone::ZoneTable;

const NANOSECONDS: i64 = 1_000_000_000;

/// Why a text is no crontab.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidSchedule(pub(super) String);

impl InvalidSchedule {
    /// A reason of the caller's own.
    pub fn new(words: impl Into<String>) -> Self {
        Self(words.into())
    }
}

impl std::fmt::Display for InvalidSchedule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for InvalidSchedule {}

fn invalid(words: impl Into<String>) -> InvalidSchedule {
    InvalidSchedule(words.into())
}

pub(super) fn names_zone(text: &str) -> bool {
    text.starts_with("TZ=") || text.starts_with("CRON_TZ=")
}

/// The zone of this name, from the database that is compiled in.
pub(super) fn zone(name: &str) -> Result<Zone, InvalidSchedule> {
    match name {
        // What is local to an image without a zone is UTC.
        "" | "UTC" | "Local" => Ok(Zone::Utc),
        name => match ZoneTable::named(name) {
            Some((_, table)) => Ok(Zone::Named(Arc::new(table))),
            None => Err(invalid(format!("provided bad location {name}: unknown time zone {name}"))),
        },
    }
}

pub(super) fn parse(text: &str) -> Result<Schedule, InvalidSchedule> {
    if text.is_empty() {
        return Err(invalid("empty spec string"));
    }
    let (zone, text) = split_zone(text)?;
    let rule = if text.starts_with('@') { shortcut(text)? } else { Rule::Fields(fields(text)?) };
    Ok(Schedule { rule, zone })
}

fn split_zone(text: &str) -> Result<(Zone, &str), InvalidSchedule> {
    if !names_zone(text) {
        return Ok((Zone::Utc, text));
    }
    // robfig's parser panics if nothing follows the zone.
    let nothing = || invalid(format!("expected exactly 5 fields, found 0: {text}"));
    let (prefix, rest) = text.split_once(' ').ok_or_else(nothing)?;
    let name = prefix.split_once('=').map_or("", |(_, name)| name);
    Ok((zone(name)?, rest.trim()))
}

fn fields(text: &str) -> Result<Fields, InvalidSchedule> {
    let fields: Vec<_> = text.split_whitespace().collect();
    let &[minute, hour, day_of_month, month, day_of_week] = &fields[..] else {
        let count = fields.len();
        return Err(invalid(format!("expected exactly 5 fields, found {count}: [{}]", fields.join(" "))));
    };
    Ok(Fields {
        minute: MINUTE.parse(minute)?,
        hour: HOUR.parse(hour)?,
        day_of_month: DAY_OF_MONTH.parse(day_of_month)?,
        month: MONTH.parse(month)?,
        day_of_week: DAY_OF_WEEK.parse(day_of_week)?,
    })
}

fn shortcut(text: &str) -> Result<Rule, InvalidSchedule> {
    let first = |bounds: Bounds| bounds.parse("0").or_else(|_| bounds.parse("1"));
    let daily = Fields {
        minute: first(MINUTE)?,
        hour: first(HOUR)?,
        day_of_month: DAY_OF_MONTH.all(),
        month: MONTH.all(),
        day_of_week: DAY_OF_WEEK.all(),
    };
    let monthly = Fields { day_of_month: first(DAY_OF_MONTH)?, ..daily };
    Ok(Rule::Fields(match text {
        "@yearly" | "@annually" => Fields { month: first(MONTH)?, ..monthly },
        "@monthly" => monthly,
        "@weekly" => Fields { day_of_week: first(DAY_OF_WEEK)?, ..daily },
        "@daily" | "@midnight" => daily,
        "@hourly" => Fields { hour: HOUR.all(), ..daily },
        other => {
            let Some(every) = other.strip_prefix("@every ") else {
                return Err(invalid(format!("unrecognized descriptor: {other}")));
            };
            let every = duration::parse(every)
                .map_err(|error| invalid(format!("failed to parse duration {other}: {error}")))?;
            // `Every` in constantdelay.go cuts fractions off and delays a second at least, even for a
            // negative duration.
            return Ok(Rule::Every((every / NANOSECONDS).max(1)));
        }
    }))
}
