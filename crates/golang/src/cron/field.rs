//! One field of a crontab: lists of values, names, ranges and steps, as bits.
//!
//! Follows robfig/cron 3.0.1, `parser.go` (`getField`, `getRange`).

use super::parse::InvalidSchedule;

/// Set where a field was written as `*` or `?`. Days are judged differently then.
// The highest bit, which no field needs for a value: minutes end at 59.
pub(super) const STAR: u64 = 1 << 63;

/// What a field may hold.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    min: u64,
    max: u64,
    /// Names of values, from `min` on.
    names: &'static [&'static str],
}

pub(super) const MINUTE: Bounds = Bounds { min: 0, max: 59, names: &[] };
pub(super) const HOUR: Bounds = Bounds { min: 0, max: 23, names: &[] };
pub(super) const DAY_OF_MONTH: Bounds = Bounds { min: 1, max: 31, names: &[] };
pub(super) const MONTH: Bounds = Bounds {
    min: 1,
    max: 12,
    names: &["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"],
};
pub(super) const DAY_OF_WEEK: Bounds =
    Bounds { min: 0, max: 6, names: &["sun", "mon", "tue", "wed", "thu", "fri", "sat"] };

impl Bounds {
    /// Every value.
    pub(super) fn all(self) -> u64 {
        bits(self.min, self.max, 1) | STAR
    }

    /// Reads a list of ranges.
    pub(super) fn parse(self, field: &str) -> Result<u64, InvalidSchedule> {
        let ranges = field.split(',').filter(|range| !range.is_empty());
        ranges.map(|range| self.range(range)).try_fold(0, |all, range| Ok(all | range?))
    }

    /// Reads `value`, `from-to` or `*`, and a step behind a slash.
    fn range(self, text: &str) -> Result<u64, InvalidSchedule> {
        let invalid = |words: String| InvalidSchedule(format!("{words}: {text}"));
        let (range, step) = match text.split('/').collect::<Vec<_>>()[..] {
            [range] => (range, None),
            [range, step] => (range, Some(number(step)?)),
            _ => return Err(invalid("too many slashes".to_owned())),
        };
        let ends: Vec<_> = range.split('-').collect();
        let mut star = 0;
        let (start, mut end) = match ends[..] {
            // robfig's `getRange` checks the first end only, so that `*-5` is `*`.
            ["*" | "?", ..] => {
                star = STAR;
                (self.min, self.max)
            }
            [value] => (self.value(value)?, self.value(value)?),
            [from, to] => (self.value(from)?, self.value(to)?),
            _ => return Err(invalid("too many hyphens".to_owned())),
        };
        if step.is_some() && ends.len() == 1 {
            // `5/10` is every tenth from 5 on.
            end = self.max;
        }
        // `*/2` leaves days out, so that it is an alternative to the other field of days, which `*` never is.
        if step.is_some_and(|step| step > 1) {
            star = 0;
        }
        let Self { min, max, .. } = self;
        if start < min {
            return Err(invalid(format!("beginning of range ({start}) below minimum ({min})")));
        }
        if end > max {
            return Err(invalid(format!("end of range ({end}) above maximum ({max})")));
        }
        if start > end {
            return Err(invalid(format!("beginning of range ({start}) beyond end of range ({end})")));
        }
        match step {
            Some(0) => Err(invalid("step of range should be a positive number".to_owned())),
            step => Ok(bits(start, end, step.unwrap_or(1)) | star),
        }
    }

    fn value(self, text: &str) -> Result<u64, InvalidSchedule> {
        // Names before numbers, whatever their case, as in `parseIntOrName`.
        let lower = text.to_lowercase();
        match self.names.iter().position(|name| *name == lower) {
            Some(place) => Ok(self.min + place as u64),
            None => number(text),
        }
    }
}

fn number(text: &str) -> Result<u64, InvalidSchedule> {
    // Of what an `int` can hold: robfig's parser asks `Atoi`, which takes signs.
    let value: i64 = text.parse().map_err(|error: std::num::ParseIntError| {
        let reason = match error.kind() {
            std::num::IntErrorKind::PosOverflow | std::num::IntErrorKind::NegOverflow => "value out of range",
            _ => "invalid syntax",
        };
        let quoted = crate::strconv::quote(text);
        InvalidSchedule(format!("failed to parse int from {text}: strconv.Atoi: parsing {quoted}: {reason}"))
    })?;
    u64::try_from(value)
        .map_err(|_| InvalidSchedule(format!("negative number ({value}) not allowed: {text}")))
}

fn bits(from: u64, to: u64, step: u64) -> u64 {
    let step = usize::try_from(step).unwrap_or(usize::MAX);
    (from..=to).step_by(step).fold(0, |bits, value| bits | 1 << value)
}
