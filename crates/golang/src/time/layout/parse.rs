//! Reads a time that is written as a layout says.
//!
//! Follows Go 1.26, `time/format.go` (`parse`).

use super::elements::{Cut, Element, Offset, Parts, split};
use super::{MONTHS, WEEKDAYS};
use crate::time::calendar::{days, days_in_month};
use crate::time::quote::quote_bytes;
use crate::time::rfc3339::Moment;

/// What was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parsed {
    /// Which moment it would be in UTC.
    pub civil: Moment,
    pub zone: Zone,
}

/// The zone that was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Zone {
    Utc,
    /// Seconds east of UTC, and the name if there was one, too.
    Offset(i32, String),
    Name(String),
    /// None was written.
    Unknown,
}

/// What a text says, or what Go says is wrong with it.
pub fn parse(layout: &[u8], text: &[u8]) -> Result<Parsed, String> {
    let mut parser = Parser { layout, whole: text, rest: text, fields: Fields::default() };
    parser.read()?;
    parser.finish()
}

struct Parser<'t> {
    layout: &'t [u8],
    whole: &'t [u8],
    rest: &'t [u8],
    fields: Fields,
}

#[derive(Default)]
struct Fields {
    year: i64,
    month: Option<i64>,
    day: Option<i64>,
    day_of_year: Option<i64>,
    hour: i64,
    minute: i64,
    second: i64,
    nanoseconds: u32,
    /// Whether it is after noon, if it says so.
    is_pm: Option<bool>,
    is_utc: bool,
    offset: Option<i32>,
    zone: String,
}

/// Why an element could not be read.
enum Problem {
    /// It is not there.
    Mismatch,
    Range(&'static str),
}

type Step<T> = Result<T, Problem>;

impl<'t> Parser<'t> {
    fn read(&mut self) -> Result<(), String> {
        let mut layout = self.layout;
        loop {
            let Cut { before, element, after } = split(layout);
            if !self.skip(before) {
                return Err(self.mismatch(before, self.rest));
            }
            let Some((element, text)) = element else { break };
            layout = after;
            let held = self.rest;
            self.element(element, layout).map_err(|problem| match problem {
                Problem::Mismatch => self.mismatch(text, held),
                Problem::Range(what) => self.complaint(&format!("{what} out of range")),
            })?;
        }
        if self.rest.is_empty() {
            return Ok(());
        }
        Err(self.complaint(&format!("extra text: {}", quote_bytes(self.rest))))
    }

    fn mismatch(&self, wanted: &[u8], found: &[u8]) -> String {
        let [whole, layout, found, wanted] = [self.whole, self.layout, found, wanted].map(quote_bytes);
        format!("parsing time {whole} as {layout}: cannot parse {found} as {wanted}")
    }

    fn complaint(&self, what: &str) -> String {
        format!("parsing time {}: {what}", quote_bytes(self.whole))
    }

    /// Skips text of the layout. Any number of spaces is as good as any other.
    fn skip(&mut self, text: &[u8]) -> bool {
        let mut wanted = text;
        while let Some(first) = wanted.first() {
            if *first == b' ' {
                if self.rest.first().is_some_and(|found| *found != b' ') {
                    return false;
                }
                wanted = without_spaces(wanted);
                self.rest = without_spaces(self.rest);
            } else if self.rest.first() == Some(first) {
                wanted = &wanted[1..];
                self.rest = &self.rest[1..];
            } else {
                return false;
            }
        }
        true
    }

    fn element(&mut self, element: Element, after: &[u8]) -> Step<()> {
        match element {
            Element::Year => {
                let year = signed(self.take(2)?).ok_or(Problem::Mismatch)?;
                // Unix begins in 1970, which is 1969 in the west: Go takes the years from there on for the
                // last century.
                self.fields.year = year + if year >= 69 { 1900 } else { 2000 };
            }
            Element::LongYear => {
                if !self.rest.first().is_some_and(u8::is_ascii_digit) {
                    return Err(Problem::Mismatch);
                }
                self.fields.year = signed(self.take(4)?).ok_or(Problem::Mismatch)?;
            }
            Element::Month => self.fields.month = Some(self.name(&MONTHS, 3)?),
            Element::LongMonth => self.fields.month = Some(self.name(&MONTHS, usize::MAX)?),
            Element::Weekday => drop(self.name(&WEEKDAYS, 3)?),
            Element::LongWeekday => drop(self.name(&WEEKDAYS, usize::MAX)?),
            Element::NumberMonth | Element::ZeroMonth => {
                let month = self.number(element == Element::ZeroMonth, 2)?;
                self.fields.month = Some(month);
                within((1..=12).contains(&month), "month")?;
            }
            Element::Day | Element::SpaceDay | Element::ZeroDay => {
                self.space_if(element == Element::SpaceDay);
                // Whether the month has that day is known only at the end.
                self.fields.day = Some(self.number(element == Element::ZeroDay, 2)?);
            }
            Element::SpaceYearDay | Element::ZeroYearDay => {
                self.space_if(element == Element::SpaceYearDay);
                self.space_if(element == Element::SpaceYearDay);
                self.fields.day_of_year = Some(self.number(element == Element::ZeroYearDay, 3)?);
            }
            Element::UpperPm => self.fields.is_pm = Some(self.one_of([b"AM", b"PM"])?),
            Element::LowerPm => self.fields.is_pm = Some(self.one_of([b"am", b"pm"])?),
            Element::Offset(form) => self.offset(form)?,
            Element::ZoneName => self.zone_name()?,
            Element::Fraction(form) if form.is_trimmed => self.any_fraction()?,
            Element::Fraction(form) => self.fraction(1 + form.digits)?,
            _ => self.clock(element, after)?,
        }
        Ok(())
    }

    fn clock(&mut self, element: Element, after: &[u8]) -> Step<()> {
        match element {
            Element::Hour => {
                self.fields.hour = self.number(false, 2)?;
                within(self.fields.hour < 24, "hour")
            }
            Element::Hour12 | Element::ZeroHour12 => {
                self.fields.hour = self.number(element == Element::ZeroHour12, 2)?;
                within(self.fields.hour <= 12, "hour")
            }
            Element::Minute | Element::ZeroMinute => {
                self.fields.minute = self.number(element == Element::ZeroMinute, 2)?;
                within(self.fields.minute < 60, "minute")
            }
            _ => {
                self.fields.second = self.number(element == Element::ZeroSecond, 2)?;
                within(self.fields.second < 60, "second")?;
                // A fraction may follow even if the layout has none.
                if matches!(split(after).element, Some((Element::Fraction(_), _))) {
                    return Ok(());
                }
                self.any_fraction()
            }
        }
    }

    fn take(&mut self, count: usize) -> Step<&'t [u8]> {
        let (taken, rest) = self.rest.split_at_checked(count).ok_or(Problem::Mismatch)?;
        self.rest = rest;
        Ok(taken)
    }

    fn space_if(&mut self, may_have: bool) {
        if may_have && let Some(rest) = self.rest.strip_prefix(b" ") {
            self.rest = rest;
        }
    }

    /// A number with up to so many digits, or exactly so many.
    fn number(&mut self, is_fixed: bool, most: usize) -> Step<i64> {
        let digits = self.rest.iter().take(most).take_while(|byte| byte.is_ascii_digit()).count();
        if digits == 0 || is_fixed && digits != most {
            return Err(Problem::Mismatch);
        }
        signed(self.take(digits)?).ok_or(Problem::Mismatch)
    }

    /// Which of these names it is, from one, whatever its case. They may be cut to so many letters.
    fn name(&mut self, names: &[&str], letters: usize) -> Step<i64> {
        for (name, number) in names.iter().zip(1..) {
            let length = name.len().min(letters);
            let begin = self.rest.get(..length);
            if begin.is_some_and(|begin| begin.eq_ignore_ascii_case(&name.as_bytes()[..length])) {
                self.rest = &self.rest[length..];
                return Ok(number);
            }
        }
        Err(Problem::Mismatch)
    }

    /// Whether it is the second of two.
    fn one_of(&mut self, words: [&[u8]; 2]) -> Step<bool> {
        let word = self.take(2)?;
        words.iter().position(|other| *other == word).map(|at| at == 1).ok_or(Problem::Mismatch)
    }

    fn offset(&mut self, form: Offset) -> Step<()> {
        if form.has_z && self.rest.first() == Some(&b'Z') {
            self.rest = &self.rest[1..];
            self.fields.is_utc = true;
            return Ok(());
        }
        let separators = usize::from(form.has_colons);
        let length = match form.parts {
            Parts::Hours => 3,
            Parts::Minutes => 5 + separators,
            Parts::Seconds => 7 + 2 * separators,
        };
        let text = self.rest.get(..length).ok_or(Problem::Mismatch)?;
        let step = 2 + separators;
        let part = |number: usize| &text[1 + number * step..3 + number * step];
        if form.has_colons && (3..length).step_by(3).any(|at| text[at] != b':') {
            return Err(Problem::Mismatch);
        }
        self.rest = &self.rest[length..];
        let count = match form.parts {
            Parts::Hours => 1,
            Parts::Minutes => 2,
            Parts::Seconds => 3,
        };
        // What stands behind the first that is not a number does not count.
        let read: Vec<i32> = (0..count).map_while(|at| digits(part(at))).collect();
        let number = |at: usize| read.get(at).copied().unwrap_or_default();
        let (hours, minutes, seconds) = (number(0), number(1), number(2));
        // Some people write 24 hours, or 60 minutes or seconds. Of several that are too large, the last is named.
        within(seconds <= 60, "time zone offset second")?;
        within(minutes <= 60, "time zone offset minute")?;
        within(hours <= 24, "time zone offset hour")?;
        if read.len() < count {
            return Err(Problem::Mismatch);
        }
        let offset = (hours * 60 + minutes) * 60 + seconds;
        self.fields.offset = Some(match text[0] {
            b'+' => offset,
            b'-' => -offset,
            _ => return Err(Problem::Mismatch),
        });
        Ok(())
    }

    fn zone_name(&mut self) -> Step<()> {
        if let Some(rest) = self.rest.strip_prefix(b"UTC") {
            self.rest = rest;
            self.fields.is_utc = true;
            return Ok(());
        }
        let length = zone_length(self.rest).ok_or(Problem::Mismatch)?;
        let name = self.take(length)?;
        self.fields.zone = String::from_utf8_lossy(name).into_owned();
        Ok(())
    }

    /// A fraction with any number of digits, if there is one.
    fn any_fraction(&mut self) -> Step<()> {
        let digits = self.rest.iter().skip(1).take_while(|byte| byte.is_ascii_digit()).count();
        // If there are digits, there is something before them, so that the first byte exists.
        if digits == 0 || !matches!(self.rest[0], b'.' | b',') {
            return Ok(());
        }
        self.fraction(1 + digits)
    }

    /// A fraction that is so long with its separator.
    fn fraction(&mut self, length: usize) -> Step<()> {
        let text = self.take(length)?;
        if !matches!(text[0], b'.' | b',') {
            return Err(Problem::Mismatch);
        }
        // Go reads nine digits and forgets the rest.
        let text = &text[1..text.len().min(10)];
        let number = signed(text).ok_or(Problem::Mismatch)?;
        within(number >= 0, "fractional second")?;
        let scale = 10_u32.pow(u32::try_from(9 - text.len()).unwrap_or_default());
        self.fields.nanoseconds = u32::try_from(number).unwrap_or_default() * scale;
        Ok(())
    }

    fn finish(mut self) -> Result<Parsed, String> {
        let (month, day) = self.month_and_day()?;
        let fields = &mut self.fields;
        match fields.is_pm {
            Some(true) if fields.hour < 12 => fields.hour += 12,
            Some(false) if fields.hour == 12 => fields.hour = 0,
            _ => {}
        }
        let seconds =
            (days(fields.year, month, day) * 24 + fields.hour) * 3600 + fields.minute * 60 + fields.second;
        let name = std::mem::take(&mut fields.zone);
        let zone = match fields.offset {
            _ if fields.is_utc => Zone::Utc,
            // Go marks with -1 that there is none.
            Some(offset) if offset != -1 => Zone::Offset(offset, name),
            _ if !name.is_empty() => Zone::Name(name),
            _ => Zone::Unknown,
        };
        Ok(Parsed { civil: Moment { seconds, nanoseconds: fields.nanoseconds }, zone })
    }

    fn month_and_day(&self) -> Result<(i64, i64), String> {
        let Fields { year, month, day, day_of_year, .. } = self.fields;
        let (month, day) = match day_of_year {
            None => (month.unwrap_or(1), day.unwrap_or(1)),
            Some(of_year) => {
                if !(1..=365 + days_in_month(year, 2) - 28).contains(&of_year) {
                    return Err(self.complaint("day-of-year out of range"));
                }
                let (_, found_month, found_day) = crate::time::calendar::date(days(year, 1, 1) + of_year - 1);
                if month.is_some_and(|month| month != found_month) {
                    return Err(self.complaint("day-of-year does not match month"));
                }
                if day.is_some_and(|day| day != found_day) {
                    return Err(self.complaint("day-of-year does not match day"));
                }
                (found_month, found_day)
            }
        };
        // Only now are month and year known.
        if !(1..=days_in_month(year, month)).contains(&day) {
            return Err(self.complaint("day out of range"));
        }
        Ok((month, day))
    }
}

fn within(is_within: bool, what: &'static str) -> Step<()> {
    if is_within { Ok(()) } else { Err(Problem::Range(what)) }
}

fn without_spaces(text: &[u8]) -> &[u8] {
    &text[text.iter().take_while(|byte| **byte == b' ').count()..]
}

/// A number that may have a sign, as Go's `atoi` of this package reads it: nothing is zero.
fn signed(text: &[u8]) -> Option<i64> {
    let (is_negative, unsigned) = match text.first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    };
    let number = unsigned.iter().try_fold(0_i64, |number, byte| {
        byte.is_ascii_digit().then(|| number * 10 + i64::from(byte - b'0'))
    })?;
    Some(if is_negative { -number } else { number })
}

fn digits(text: &[u8]) -> Option<i32> {
    let is_number = text.iter().all(u8::is_ascii_digit);
    is_number.then(|| text.iter().fold(0, |number, byte| number * 10 + i32::from(byte - b'0')))
}

/// How long the name of a zone is that the text begins with. Zones are named by people; this is a guess, and Go's.
fn zone_length(text: &[u8]) -> Option<usize> {
    if text.len() < 3 {
        return None;
    }
    if text.starts_with(b"ChST") || text.starts_with(b"MeST") {
        return Some(4);
    }
    if text.starts_with(b"GMT") {
        return Some(3 + hours_length(&text[3..]));
    }
    if matches!(text[0], b'+' | b'-') {
        return Some(hours_length(text)).filter(|length| *length > 0);
    }
    let upper = text.iter().take(6).take_while(|byte| byte.is_ascii_uppercase()).count();
    match upper {
        5 if text[4] == b'T' => Some(5),
        4 if text[3] == b'T' || text.starts_with(b"WITA") => Some(4),
        3 => Some(3),
        _ => None,
    }
}

/// How long a number of hours with a sign is, or zero if there is none.
fn hours_length(text: &[u8]) -> usize {
    let digits = text.iter().skip(1).take_while(|byte| byte.is_ascii_digit()).count();
    let hours = text.get(1..1 + digits).and_then(|digits| str::from_utf8(digits).ok()?.parse::<u64>().ok());
    let has_sign = matches!(text.first(), Some(b'+' | b'-'));
    if has_sign && hours.is_some_and(|hours| hours <= 23) { 1 + digits } else { 0 }
}
