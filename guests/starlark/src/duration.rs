//! Durations as Go writes them, such as `1m30s`, which the scripts of the community's function use.

use anyhow::anyhow;

/// The units of Go, in nanoseconds. One that begins with another one comes first.
const UNITS: [(&str, u64); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("μs", 1_000),
    ("ms", 1_000_000),
    ("m", 60_000_000_000),
    ("s", 1_000_000_000),
    ("h", 3_600_000_000_000),
];

/// The duration as the JSON form of the function protocol has it, such as `90s`.
pub(crate) fn to_json(text: &str) -> anyhow::Result<String> {
    let nanoseconds =
        parse(text).ok_or_else(|| anyhow!("expected a duration such as 1m30s, got `{text}`"))?;
    let (seconds, rest) = (nanoseconds / 1_000_000_000, nanoseconds % 1_000_000_000);
    Ok(if rest == 0 { format!("{seconds}s") } else { format!("{seconds}.{rest:09}s") })
}

fn parse(text: &str) -> Option<u64> {
    if text == "0" {
        return Some(0);
    }
    let (mut total, mut rest) = (None, text);
    while !rest.is_empty() {
        let end = rest.find(|letter: char| !letter.is_ascii_digit() && letter != '.')?;
        let (number, after) = rest.split_at(end);
        let (unit, nanoseconds) = UNITS.iter().find(|(unit, _)| after.starts_with(unit))?;
        total = Some(amount(number, *nanoseconds)?.checked_add(total.unwrap_or(0))?);
        rest = &after[unit.len()..];
    }
    // More than Go can count is no duration.
    total.filter(|total| i64::try_from(*total).is_ok())
}

fn amount(number: &str, unit: u64) -> Option<u64> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let whole = if whole.is_empty() { 0 } else { whole.parse::<u64>().ok()? };
    // Digits beyond these are less than a nanosecond, whatever the unit.
    let digits = fraction.get(..fraction.len().min(15))?;
    let scale = 10_u128.pow(u32::try_from(digits.len()).ok()?);
    let digits = if digits.is_empty() { 0 } else { digits.parse::<u128>().ok()? };
    let part = u64::try_from(digits * u128::from(unit) / scale).ok()?;
    whole.checked_mul(unit)?.checked_add(part)
}
