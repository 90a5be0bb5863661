//! What a layout consists of.
//!
//! Follows Go 1.26, `time/format.go` (`nextStdChunk`).

/// A part of a layout that stands for a part of a time. Numbers are padded with zeros or spaces, or not at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Element {
    LongMonth,
    Month,
    NumberMonth,
    ZeroMonth,
    LongWeekday,
    Weekday,
    Day,
    SpaceDay,
    ZeroDay,
    SpaceYearDay,
    ZeroYearDay,
    Hour,
    Hour12,
    ZeroHour12,
    Minute,
    ZeroMinute,
    Second,
    ZeroSecond,
    LongYear,
    Year,
    UpperPm,
    LowerPm,
    ZoneName,
    Offset(Offset),
    Fraction(Fraction),
}

/// How the distance from UTC is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Offset {
    /// Whether UTC itself is a `Z`.
    pub(super) has_z: bool,
    pub(super) has_colons: bool,
    pub(super) parts: Parts,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Parts {
    Hours,
    Minutes,
    Seconds,
}

/// Fractions of a second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Fraction {
    pub(super) digits: usize,
    /// Whether zeros at the end are left out.
    pub(super) is_trimmed: bool,
    pub(super) separator: u8,
}

/// Longer ones come before those that they begin with.
const WORDS: &[(&[u8], Element)] = &[
    (b"January", Element::LongMonth),
    (b"Jan", Element::Month),
    (b"Monday", Element::LongWeekday),
    (b"Mon", Element::Weekday),
    (b"MST", Element::ZoneName),
    (b"01", Element::ZeroMonth),
    (b"02", Element::ZeroDay),
    (b"03", Element::ZeroHour12),
    (b"04", Element::ZeroMinute),
    (b"05", Element::ZeroSecond),
    (b"06", Element::Year),
    (b"002", Element::ZeroYearDay),
    (b"15", Element::Hour),
    (b"1", Element::NumberMonth),
    (b"2006", Element::LongYear),
    (b"2", Element::Day),
    (b"_2", Element::SpaceDay),
    (b"__2", Element::SpaceYearDay),
    (b"3", Element::Hour12),
    (b"4", Element::Minute),
    (b"5", Element::Second),
    (b"PM", Element::UpperPm),
    (b"pm", Element::LowerPm),
    (b"-070000", offset(false, false, Parts::Seconds)),
    (b"-07:00:00", offset(false, true, Parts::Seconds)),
    (b"-0700", offset(false, false, Parts::Minutes)),
    (b"-07:00", offset(false, true, Parts::Minutes)),
    (b"-07", offset(false, false, Parts::Hours)),
    (b"Z070000", offset(true, false, Parts::Seconds)),
    (b"Z07:00:00", offset(true, true, Parts::Seconds)),
    (b"Z0700", offset(true, false, Parts::Minutes)),
    (b"Z07:00", offset(true, true, Parts::Minutes)),
    (b"Z07", offset(true, false, Parts::Hours)),
];

const fn offset(has_z: bool, has_colons: bool, parts: Parts) -> Element {
    Element::Offset(Offset { has_z, has_colons, parts })
}

/// A layout, cut at its first element.
pub(super) struct Cut<'l> {
    pub(super) before: &'l [u8],
    /// The element and how it is written, if there is one.
    pub(super) element: Option<(Element, &'l [u8])>,
    pub(super) after: &'l [u8],
}

pub(super) fn split(layout: &[u8]) -> Cut<'_> {
    for at in 0..layout.len() {
        if let Some((element, length)) = begins(&layout[at..]) {
            let (text, after) = layout[at..].split_at(length);
            return Cut { before: &layout[..at], element: Some((element, text)), after };
        }
    }
    Cut { before: layout, element: None, after: &[] }
}

/// The element that the layout begins with, and its length.
fn begins(layout: &[u8]) -> Option<(Element, usize)> {
    if matches!(layout[0], b'.' | b',') {
        return fraction(layout);
    }
    // A line before a year is just that.
    if layout.starts_with(b"_2006") {
        return None;
    }
    let (word, element) = WORDS.iter().find(|(word, element)| {
        let is_abbreviation = matches!(element, Element::Month | Element::Weekday);
        // `Month` is a word, not `Mon` and something.
        layout.starts_with(word)
            && !(is_abbreviation && layout.get(word.len()).is_some_and(u8::is_ascii_lowercase))
    })?;
    Some((*element, word.len()))
}

fn fraction(layout: &[u8]) -> Option<(Element, usize)> {
    let digit = *layout.get(1).filter(|digit| matches!(digit, b'0' | b'9'))?;
    let digits = layout[1..].iter().take_while(|other| **other == digit).count();
    // Other digits behind it mean that this is not a fraction.
    if layout.get(1 + digits).is_some_and(u8::is_ascii_digit) {
        return None;
    }
    // Go keeps twelve bits of the number.
    let fraction = Fraction { digits: digits & 0xfff, is_trimmed: digit == b'9', separator: layout[0] };
    Some((Element::Fraction(fraction), 1 + digits))
}
