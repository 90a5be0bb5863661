//! The rule by which a zone continues, such as `CET-1CEST,M3.5.0,M10.5.0/3`.
//!
//! Follows Go 1.26, `time/zoneinfo.go` (`tzset`).

use super::Period;
use crate::time::calendar::{date, days, days_in_month};

const DAY: i64 = 86_400;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Rule {
    standard: Period,
    /// What holds for a part of each year, and when that begins and ends.
    daylight: Option<(Period, Change, Change)>,
}

/// When something changes in a year, in the time that holds before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Change {
    day: Day,
    /// Seconds after midnight, before it if negative.
    time: i64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Day {
    /// From one, without 29 February.
    Julian(i64),
    /// From zero.
    OfYear(i64),
    /// A day of a week of a month; the fifth week is the last one.
    OfMonth { month: i64, week: i64, weekday: i64 },
}

impl Rule {
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (name, rest) = name(text)?;
        let (offset, rest) = time(rest)?;
        // The text says what to add to get UTC.
        let standard = period(name, -offset, false);
        if rest.is_empty() || rest.starts_with(',') {
            return Some(Self { standard, daylight: None });
        }
        let (name, rest) = self::name(rest)?;
        let (offset, rest) =
            if rest.is_empty() || rest.starts_with(',') { (offset - 3600, rest) } else { time(rest)? };
        let daylight = period(name, -offset, true);
        // Without rules, those of the USA hold, as in Go's `tzset`.
        let rest = if rest.is_empty() { ",M3.2.0,M11.1.0" } else { rest };
        // No standard knows the semicolon, and Go reads it because other programs do.
        let (begin, end) = rest.strip_prefix([',', ';'])?.split_once(',')?;
        Some(Self { standard, daylight: Some((daylight, Change::parse(begin)?, Change::parse(end)?)) })
    }

    pub(super) fn at(&self, second: i64) -> Period {
        let Some((daylight, begin, end)) = &self.daylight else { return self.standard.clone() };
        // The year of UTC, not of the zone, as in Go: the hours around new year are far from any change.
        let year = date(second.div_euclid(DAY)).0;
        let of_year = second - days(year, 1, 1) * DAY;
        let begin = begin.second(year) - i64::from(self.standard.offset);
        let end = end.second(year) - i64::from(daylight.offset);
        // In the south, summer is at both ends of the year.
        let is_daylight =
            if begin <= end { (begin..end).contains(&of_year) } else { !(end..begin).contains(&of_year) };
        if is_daylight { daylight.clone() } else { self.standard.clone() }
    }
}

impl Change {
    fn parse(text: &str) -> Option<Self> {
        let (day, time) = match text.split_once('/') {
            Some((day, text)) => (day, time(text).filter(|(_, rest)| rest.is_empty())?.0),
            None => (text, 2 * 3600),
        };
        let number = |text: &str| text.parse::<i64>().ok();
        let day = if let Some(day) = day.strip_prefix('J') {
            Day::Julian(number(day)?)
        } else if let Some(day) = day.strip_prefix('M') {
            let mut parts = day.split('.').map(number);
            let (month, week, weekday) = (parts.next()??, parts.next()??, parts.next()??);
            Day::OfMonth { month: Some(month).filter(|month| (1..=12).contains(month))?, week, weekday }
        } else {
            Day::OfYear(number(day)?)
        };
        Some(Self { day, time: time.into() })
    }

    /// The second of the year.
    fn second(self, year: i64) -> i64 {
        let first = days(year, 1, 1);
        let day = match self.day {
            Day::Julian(day) => day - 1 + i64::from(days_in_month(year, 2) == 29 && day >= 60),
            Day::OfYear(day) => day,
            Day::OfMonth { month, week, weekday } => {
                let start = days(year, month, 1);
                // 1970 began on a Thursday.
                let to_weekday = (weekday - (start + 4)).rem_euclid(7);
                let mut weeks = (0..week).rev().map(|week| to_weekday + 7 * week);
                let of_month = weeks.find(|day| *day < days_in_month(year, month));
                start - first + of_month.unwrap_or(to_weekday)
            }
        };
        day * DAY + self.time
    }
}

fn period(name: &str, offset: i32, is_daylight_saving: bool) -> Period {
    Period { offset, abbreviation: name.to_owned(), is_daylight_saving }
}

/// A name, which is in angle brackets if it has other characters than letters.
fn name(text: &str) -> Option<(&str, &str)> {
    if let Some(inside) = text.strip_prefix('<') {
        return inside.split_once('>');
    }
    let end =
        text.find(|letter: char| letter.is_ascii_digit() || ",-+".contains(letter)).unwrap_or(text.len());
    (end >= 3).then(|| text.split_at(end))
}

/// Hours, minutes and seconds with a sign, in seconds.
fn time(text: &str) -> Option<(i32, &str)> {
    let (sign, mut rest) = match text.strip_prefix(['+', '-']) {
        Some(rest) => (if text.starts_with('-') { -1 } else { 1 }, rest),
        None => (1, text),
    };
    let mut total = 0;
    for unit in [3600, 60, 1] {
        let digits = rest.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(rest.len());
        // Hours go up to a week, as in Go: some rules name a day and mean another.
        let number: i32 = rest[..digits].parse().ok().filter(|number| *number <= 24 * 7)?;
        total += number * unit;
        rest = &rest[digits..];
        match rest.strip_prefix(':') {
            Some(after) => rest = after,
            None => break,
        }
    }
    Some((sign * total, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offset(rule: &str, second: i64) -> (i32, String) {
        let period = Rule::parse(rule).unwrap().at(second);
        (period.offset, period.abbreviation)
    }

    #[test]
    fn summer_begins_and_ends_at_its_second() {
        let berlin = "CET-1CEST,M3.5.0,M10.5.0/3";
        // 31 March and 27 October 2024, 01:00 UTC.
        assert_eq!(offset(berlin, 1_711_846_799), (3600, "CET".to_owned()));
        assert_eq!(offset(berlin, 1_711_846_800), (7200, "CEST".to_owned()));
        assert_eq!(offset(berlin, 1_729_990_799), (7200, "CEST".to_owned()));
        assert_eq!(offset(berlin, 1_729_990_800), (3600, "CET".to_owned()));
    }

    #[test]
    fn zones_have_summer_in_the_south_no_summer_or_names_with_numbers() {
        let sydney = "AEST-10AEDT,M10.1.0,M4.1.0/3";
        assert_eq!(offset(sydney, 1_704_067_200).1, "AEDT");
        assert_eq!(offset(sydney, 1_719_792_000).1, "AEST");
        assert_eq!(offset("<-03>3", 0), (-10_800, "-03".to_owned()));
        assert_eq!(offset("<+0530>-5:30", 0).0, 19_800);
        assert_eq!(offset("EST5EDT", 1_720_000_000), (-14_400, "EDT".to_owned()));
        assert_eq!(Rule::parse("X"), None);
        assert_eq!(Rule::parse("CET-1CEST,M13.1.0,M1.1.0"), None);
    }
}
