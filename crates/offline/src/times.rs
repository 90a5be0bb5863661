//! Times as users read them: ages as kubectl shows them, and local times.
//!
//! Tables show ages. Details show the local time with its age. Local times are in RFC 3339, so that they can be copied to `--at`.

use ferroplane_schema::table::human_duration;
use jiff::Timestamp;
use jiff::tz::{Offset, TimeZone};

/// The age of a time, as kubectl shows it: `45s`, `3d4h`.
pub fn age(time: Timestamp, now: Timestamp) -> String {
    let nanoseconds = now.as_nanosecond() - time.as_nanosecond();
    let limit = if nanoseconds < 0 { i64::MIN } else { i64::MAX };
    human_duration(i64::try_from(nanoseconds).unwrap_or(limit))
}

/// The age of a time in RFC 3339. An object without one has no known age.
pub fn age_of(time: &str, now: Timestamp) -> String {
    time.parse::<Timestamp>().map_or_else(|_| "<unknown>".to_owned(), |time| age(time, now))
}

/// The time between two times in RFC 3339, or nothing if one of them is missing.
pub fn between(start: &str, end: &str) -> String {
    match (start.parse::<Timestamp>(), end.parse::<Timestamp>()) {
        (Ok(start), Ok(end)) => age(start, end),
        _ => String::new(),
    }
}

/// A time in the zone of this machine, to the second.
pub fn local(time: Timestamp) -> String {
    in_zone(time, "%Y-%m-%dT%H:%M:%S", TimeZone::system())
}

/// The same of a time in RFC 3339. One that cannot be read is returned as it is.
pub fn local_of(time: &str) -> String {
    time.parse::<Timestamp>().map_or_else(|_| time.to_owned(), local)
}

/// A time in the zone of this machine, to the millisecond, always with the same number of digits.
pub fn local_with_milliseconds(time: Timestamp) -> String {
    in_zone(time, "%Y-%m-%dT%H:%M:%S%.3f", TimeZone::system())
}

/// The local time with its age: `2026-01-31T13:00:00+01:00 (5m ago)`.
pub fn with_age(time: Timestamp, now: Timestamp) -> String {
    format!("{} ({} ago)", local(time), age(time, now))
}

/// The same of a time in RFC 3339. One that cannot be read is returned as it is.
pub fn with_age_of(time: &str, now: Timestamp) -> String {
    time.parse::<Timestamp>().map_or_else(|_| time.to_owned(), |time| with_age(time, now))
}

fn in_zone(time: Timestamp, format: &str, zone: TimeZone) -> String {
    let time = time.to_zoned(zone);
    let offset = if time.offset() == Offset::UTC { "Z" } else { "%:z" };
    time.strftime(&format!("{format}{offset}")).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn ages_are_those_of_kubectl() {
        let now = time("2026-02-01T12:00:00Z");
        for (text, expected) in [
            ("2026-02-01T11:59:15.5Z", "44s"),
            ("2026-02-01T11:55:00Z", "5m"),
            ("2026-02-01T11:54:30Z", "5m30s"),
            ("2026-01-29T08:00:00Z", "3d4h"),
            // The clocks of two machines differ a little.
            ("2026-02-01T12:00:01Z", "0s"),
            ("", "<unknown>"),
        ] {
            assert_eq!(age_of(text, now), expected, "{text}");
        }
        assert_eq!(between("2026-01-29T08:00:00Z", "2026-01-29T08:02:30Z"), "2m30s");
        assert_eq!(between("2026-01-29T08:00:00Z", ""), "");
    }

    #[test]
    fn local_times_have_their_offset_and_can_be_read_again() {
        let (winter, form) = (time("2026-01-31T12:00:00.125Z"), "%Y-%m-%dT%H:%M:%S%.3f");
        let zone = TimeZone::fixed(Offset::from_seconds(3600).unwrap());
        let local = in_zone(winter, form, zone);
        assert_eq!(local, "2026-01-31T13:00:00.125+01:00");
        assert_eq!(time(&local), winter);
        assert_eq!(in_zone(winter, "%Y-%m-%dT%H:%M:%S", TimeZone::UTC), "2026-01-31T12:00:00Z");
    }

    #[test]
    fn details_show_the_time_with_its_age() {
        let (then, now) = (time("2026-01-31T12:00:00Z"), time("2026-01-31T12:05:00Z"));
        assert_eq!(with_age(then, now), format!("{} (5m ago)", local(then)));
        assert_eq!(with_age_of("2026-01-31T12:00:00Z", now), with_age(then, now));
        assert_eq!((with_age_of("soon", now), local_of("soon")), ("soon".to_owned(), "soon".to_owned()));
        assert_eq!(local_of("2026-01-31T12:00:00Z"), local(then));
    }
}
