//! How long ago something was, in a few characters.
//!
//! Follows apimachinery 0.36.4, `pkg/util/duration/duration.go`.

use ferroplane_cel::Timestamp;

const SECOND: i64 = 1_000_000_000;
const MINUTE: i64 = 60 * SECOND;
const HOUR: i64 = 60 * MINUTE;

/// A point in time: seconds and nanoseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Instant {
    pub seconds: i64,
    pub nanoseconds: u32,
}

impl Instant {
    fn count(self) -> i128 {
        i128::from(self.seconds) * i128::from(SECOND) + i128::from(self.nanoseconds)
    }
}

impl From<Timestamp> for Instant {
    fn from(timestamp: Timestamp) -> Self {
        Self { seconds: timestamp.seconds(), nanoseconds: timestamp.nanoseconds() }
    }
}

/// How long ago a timestamp was. One that cannot be read is invalid, and none is unknown.
pub fn age(timestamp: &str, now: Instant) -> String {
    if matches!(timestamp, "" | "null") {
        return "<unknown>".to_owned();
    }
    let Some(timestamp) = Timestamp::parse(timestamp) else { return "<invalid>".to_owned() };
    if timestamp.is_zero() {
        return "<unknown>".to_owned();
    }
    human_duration(between(Instant::from(timestamp), now))
}

/// How many nanoseconds are between two timestamps; nothing if one cannot be read.
pub(super) fn duration_between(start: &str, end: &str) -> Option<i64> {
    Some(between(Timestamp::parse(start)?.into(), Timestamp::parse(end)?.into()))
}

/// Whether a timestamp is earlier than another. None at all is earlier than any.
pub(super) fn is_before(one: &str, other: &str) -> bool {
    match (Timestamp::parse(one), Timestamp::parse(other)) {
        (Some(one), Some(other)) => Instant::from(one).count() < Instant::from(other).count(),
        (one, other) => one.is_none() && other.is_some(),
    }
}

fn between(start: Instant, end: Instant) -> i64 {
    let difference = end.count() - start.count();
    // Go's `Time.Sub` stops at the limits, too.
    let limit = if difference < 0 { i64::MIN } else { i64::MAX };
    i64::try_from(difference).unwrap_or(limit)
}

/// A duration in nanoseconds with two or three digits that matter.
pub fn human_duration(nanoseconds: i64) -> String {
    // Clocks differ by a second or two.
    let seconds = nanoseconds / SECOND;
    match seconds {
        ..-1 => return "<invalid>".to_owned(),
        -1 => return "0s".to_owned(),
        0..120 => return format!("{seconds}s"),
        120.. => {}
    }
    let (minutes, hours) = (nanoseconds / MINUTE, nanoseconds / HOUR);
    let days = hours / 24;
    match (minutes, hours, days) {
        (..10, ..) => pair(minutes, "m", seconds % 60, "s"),
        (..180, ..) => format!("{minutes}m"),
        (_, ..8, _) => pair(hours, "h", minutes % 60, "m"),
        (_, ..48, _) => format!("{hours}h"),
        (.., ..8) => pair(days, "d", hours % 24, "h"),
        (.., ..730) => format!("{days}d"),
        (.., ..2920) => pair(days / 365, "y", days % 365, "d"),
        _ => format!("{}y", days / 365),
    }
}

/// Leaves out the smaller part if it is zero.
fn pair(large: i64, large_unit: &str, small: i64, small_unit: &str) -> String {
    if small == 0 {
        format!("{large}{large_unit}")
    } else {
        format!("{large}{large_unit}{small}{small_unit}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_short() {
        let now = Instant { seconds: 1_600_000_000, nanoseconds: 500 };
        for (timestamp, expected) in [
            ("2020-09-13T12:26:40Z", "0s"),
            ("2020-09-13T12:24:41Z", "119s"),
            ("2020-09-13T12:24:40Z", "2m"),
            ("2020-09-13T12:20:05Z", "6m35s"),
            ("2020-09-13T05:26:40Z", "7h"),
            ("2020-09-10T05:26:40Z", "3d7h"),
            ("2016-09-10T05:26:40Z", "4y4d"),
            ("2030-01-01T00:00:00Z", "<invalid>"),
            ("yesterday", "<invalid>"),
            ("", "<unknown>"),
        ] {
            assert_eq!(age(timestamp, now), expected, "{timestamp}");
        }
    }
}
