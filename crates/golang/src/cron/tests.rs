//! Crontabs: what they say, and when they hold.

use super::*;
use crate::time::{calendar, rfc3339};

/// When a crontab holds after a point in time, so many times, in UTC.
fn next(crontab: &str, after: &str, count: usize) -> Vec<String> {
    let schedule = Schedule::parse(crontab).unwrap();
    let mut second = seconds(after);
    let mut times = Vec::new();
    for _ in 0..count {
        second = schedule.next(second).unwrap();
        times.push(calendar::format(second));
    }
    times
}

fn seconds(text: &str) -> i64 {
    rfc3339::moment(text).unwrap().seconds
}

#[test]
fn fields_hold_at_their_values() {
    let cases = [
        ("*/15 * * * *", "2026-03-01T10:01:00Z", "2026-03-01T10:15:00"),
        ("5/20 * * * *", "2026-03-01T10:26:00Z", "2026-03-01T10:45:00"),
        ("0 3 * * MON-fri", "2026-03-06T04:00:00Z", "2026-03-09T03:00:00"),
        ("0 0 29 feb ?", "2026-03-01T00:00:00Z", "2028-02-29T00:00:00"),
        // Both kinds of day: either holds.
        ("0 0 13 * 5", "2026-03-01T00:00:00Z", "2026-03-06T00:00:00"),
        // One of them is `*`: the other one decides.
        ("0 0 13 * *", "2026-03-01T00:00:00Z", "2026-03-13T00:00:00"),
        ("@weekly", "2026-03-04T12:00:00Z", "2026-03-08T00:00:00"),
        ("@every 90m", "2026-03-01T00:00:07Z", "2026-03-01T01:30:07"),
        ("@every 10ms", "2026-03-01T00:00:07Z", "2026-03-01T00:00:08"),
        ("0 12 1,,15 * *", "2026-03-02T00:00:00Z", "2026-03-15T12:00:00"),
        ("59 23 31 12 *", "2026-12-31T23:59:00Z", "2027-12-31T23:59:00"),
    ];
    for (crontab, after, expected) in cases {
        assert_eq!(next(crontab, after, 1), [expected], "{crontab}");
    }
}

#[test]
fn days_on_which_clocks_change_come_out_as_in_robfigs_library() {
    // At 02:00 it is 03:00 on the 29th of March, and at 03:00 it is 02:00 on the 25th of October.
    let berlin = |fields: &str, after: &str, count| next(&format!("TZ=Europe/Berlin {fields}"), after, count);
    assert_eq!(
        berlin("30 2 * * *", "2026-03-28T00:00:00Z", 3),
        // What is skipped is not repeated later.
        ["2026-03-28T01:30:00", "2026-03-30T00:30:00", "2026-03-31T00:30:00"]
    );
    assert_eq!(
        berlin("30 2 * * *", "2026-10-24T12:00:00Z", 3),
        // What is told twice holds twice.
        ["2026-10-25T00:30:00", "2026-10-25T01:30:00", "2026-10-26T01:30:00"]
    );
    assert_eq!(
        berlin("0 0 * * *", "2026-03-28T12:00:00Z", 2),
        ["2026-03-28T23:00:00", "2026-03-29T22:00:00"]
    );
    // In these two, clocks change at midnight.
    assert_eq!(
        next("CRON_TZ=America/Havana 0 0 * * *", "2026-03-07T12:00:00Z", 2),
        ["2026-03-09T04:00:00", "2026-03-10T04:00:00"]
    );
    assert_eq!(
        next("TZ=America/Asuncion 0 6 * * *", "2024-03-23T12:00:00Z", 2),
        ["2024-03-24T10:00:00", "2024-03-25T10:00:00"]
    );
}

#[test]
fn day_that_is_skipped_ends_no_schedule() {
    // There was no 30th of December 2011 in Samoa.
    assert_eq!(
        next("TZ=Pacific/Apia @monthly", "2011-11-19T00:00:00Z", 3),
        ["2011-12-01T10:00:00", "2011-12-31T10:00:00", "2012-01-31T10:00:00"]
    );
    assert_eq!(
        next("TZ=Pacific/Apia @daily", "2011-12-28T12:00:00Z", 3),
        ["2011-12-29T10:00:00", "2011-12-30T10:00:00", "2011-12-31T10:00:00"]
    );
}

#[test]
fn zone_of_the_crontab_wins_over_that_beside_it() {
    let at = |crontab: &str, zone: &str| {
        let schedule = Schedule::parse_in(crontab, zone).unwrap();
        calendar::format(schedule.next(seconds("2026-01-01T00:00:00Z")).unwrap())
    };
    assert_eq!(at("0 9 * * *", "Asia/Tokyo"), "2026-01-02T00:00:00");
    assert_eq!(at("TZ=UTC 0 9 * * *", "Asia/Tokyo"), "2026-01-01T09:00:00");
}

#[test]
fn schedule_that_never_holds_ends() {
    assert_eq!(Schedule::parse("0 0 31 2 *").unwrap().next(0), None);
    assert_eq!(Schedule::parse("* * * * *").unwrap().next(i64::MAX), None);
    assert_eq!(Schedule::parse("@every 1h").unwrap().next(i64::MAX), None);
}

#[test]
fn next_time_of_a_delay_is_counted_from_the_last_one_and_not_from_now() {
    let every = Schedule::parse("@every 10m").unwrap();
    for (last, now, expected) in [
        (600, 600, 1200),
        (600, 780, 1200),
        (600, 1199, 1200),
        (600, 1200, 1800),
        (600, 7000, 7200),
        // A clock that is behind.
        (600, 0, 1200),
    ] {
        assert_eq!(every.next_from(last, now), Some(expected), "{last} {now}");
    }
    assert_eq!(Schedule::parse("@every 90m").unwrap().next_from(0, 3600), Some(5400));
    assert_eq!(Schedule::parse("@hourly").unwrap().next_from(7, 3600), Some(7200));
    assert_eq!(every.next_from(i64::MAX, 0), None);
    assert_eq!(every.next_from(0, i64::MAX), None);
    assert_eq!(every.next_from(i64::MIN, i64::MAX), None);
}

/// What is due next is what was due last as soon as it comes, whenever one asks.
#[test]
fn next_and_latest_time_of_a_schedule_agree() {
    for crontab in ["@every 7s", "@every 90m", "*/5 * * * *"] {
        let schedule = Schedule::parse(crontab).unwrap();
        for now in (0..20_000).step_by(13) {
            let next = schedule.next_from(0, now).unwrap();
            assert!(next > now, "{crontab} {now}");
            assert_eq!(schedule.latest(0, next), Some(next), "{crontab} {now}");
            assert_eq!(schedule.latest(0, next - 1), schedule.latest(0, now), "{crontab} {now}");
        }
    }
}

#[test]
fn latest_time_is_the_last_one_that_was_missed() {
    let latest = |crontab: &str, after: &str, until: &str| {
        let latest = Schedule::parse(crontab).unwrap().latest(seconds(after), seconds(until));
        latest.map(calendar::format)
    };
    let years = ("2016-01-01T00:00:30Z", "2026-01-01T00:00:30Z");
    for (crontab, expected) in [
        ("* * * * *", "2026-01-01T00:00:00"),
        ("17 * * * *", "2025-12-31T23:17:00"),
        ("0 3 29 2 *", "2024-02-29T03:00:00"),
        ("@every 7s", "2026-01-01T00:00:29"),
    ] {
        assert_eq!(latest(crontab, years.0, years.1).as_deref(), Some(expected), "{crontab}");
    }
    let minute = ("2026-01-01T00:00:00Z", "2026-01-01T00:00:59Z");
    assert_eq!(latest("* * * * *", minute.0, minute.1), None);
    assert_eq!(latest("@every 60s", minute.0, minute.1), None);
    assert_eq!(latest("0 0 31 2 *", years.0, years.1), None);
    // At the very second.
    assert_eq!(latest("* * * * *", minute.0, "2026-01-01T00:01:00Z").as_deref(), Some("2026-01-01T00:01:00"));
}

#[test]
fn mistakes_are_told_as_robfigs_library_tells_them() {
    let cases = [
        ("", "empty spec string"),
        ("* * * *", "expected exactly 5 fields, found 4: [* * * *]"),
        ("60 * * * *", "end of range (60) above maximum (59): 60"),
        ("* * 0 * *", "beginning of range (0) below minimum (1): 0"),
        ("5-3 * * * *", "beginning of range (5) beyond end of range (3): 5-3"),
        ("*/0 * * * *", "step of range should be a positive number: */0"),
        ("1-2-3 * * * *", "too many hyphens: 1-2-3"),
        ("1/2/3 * * * *", "too many slashes: 1/2/3"),
        ("x * * * *", "failed to parse int from x: strconv.Atoi: parsing \"x\": invalid syntax"),
        ("* * * * 7", "end of range (7) above maximum (6): 7"),
        ("@often", "unrecognized descriptor: @often"),
        (
            "TZ=Nowhere/At_All * * * * *",
            "provided bad location Nowhere/At_All: unknown time zone Nowhere/At_All",
        ),
        ("TZ=UTC", "expected exactly 5 fields, found 0: TZ=UTC"),
    ];
    for (crontab, words) in cases {
        assert_eq!(Schedule::parse(crontab).unwrap_err().to_string(), words, "{crontab}");
    }
}
