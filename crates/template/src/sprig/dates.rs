//! Dates, times and durations.
//!
//! The local zone is UTC, as it is in the container of the original. Names of zones are looked up in a database that is
//! compiled in: what a template gives does not depend on the machine.
//!
//! Follows sprig 3.3.0, `date.go`.

mod methods;
mod named_integer;
mod time;
mod zone;

use std::cmp::Ordering;

use ferroplane_golang::time::{duration, layout, rfc3339::Moment};

use super::arguments::{characters, text};
use super::{function, math};
use crate::{Context, Failure, Function, Object, Text, Type, Value};
use named_integer::NamedInteger;
use time::Time;
use zone::Zone;

use Type::{Any, String};

const TIME: Type = Type::Struct("time.Time");

pub(super) const FUNCTIONS: &[Function] = &[
    function("now", &[], TIME, |ctx, _| Ok(Time::new(ctx.now()?, Zone::Local).into())),
    function("date", &[String, Any], String, |ctx, args| format(ctx, text(args, 0), &args[1], Zone::Local)),
    function("dateInZone", &[String, Any, String], String, date_in_zone),
    function("date_in_zone", &[String, Any, String], String, date_in_zone),
    function("htmlDate", &[Any], String, |ctx, args| format(ctx, DAY, &args[0], Zone::Local)),
    function("htmlDateInZone", &[Any, String], String, |ctx, args| {
        format(ctx, DAY, &args[0], zone_named(&characters(args, 1)))
    }),
    function("dateModify", &[String, TIME], TIME, |_, args| {
        Ok(modify(args).unwrap_or_else(|_| args[1].clone()))
    }),
    function("date_modify", &[String, TIME], TIME, |_, args| {
        Ok(modify(args).unwrap_or_else(|_| args[1].clone()))
    }),
    function("mustDateModify", &[String, TIME], TIME, |_, args| modify(args)),
    function("must_date_modify", &[String, TIME], TIME, |_, args| modify(args)),
    function("ago", &[Any], String, ago),
    function("duration", &[Any], String, seconds),
    function("durationRound", &[Any], String, duration_round),
    function("toDate", &[String, String], TIME, |_, args| Ok(to_date(args).unwrap_or(Time::ZERO).into())),
    function("mustToDate", &[String, String], TIME, |_, args| Ok(to_date(args)?.into())),
    function("unixEpoch", &[TIME], String, |_, args| {
        Ok(Value::text(time(&args[0]).unwrap_or(&Time::ZERO).moment.seconds.to_string()))
    }),
];

const DAY: &[u8] = b"2006-01-02";

fn time(value: &Value) -> Option<&Time> {
    if let Value::Object(object) = value { object.as_any().downcast_ref() } else { None }
}

/// A time, or seconds since 1970. Anything else is now.
fn moment(ctx: &mut Context<'_>, value: &Value) -> Result<Moment, Failure> {
    match value {
        Value::Int(seconds) | Value::Int64(seconds) => Ok(Moment { seconds: *seconds, nanoseconds: 0 }),
        other => time(other).map_or_else(|| ctx.now(), |time| Ok(time.moment)),
    }
}

fn format(ctx: &mut Context<'_>, layout: &[u8], date: &Value, zone: Zone) -> Result<Value, Failure> {
    let moment = moment(ctx, date)?;
    Ok(Value::text(Time::new(moment, zone).format(layout)))
}

fn date_in_zone(ctx: &mut Context<'_>, args: &[Value]) -> Result<Value, Failure> {
    format(ctx, text(args, 0), &args[1], zone_named(&characters(args, 2)))
}

/// A zone that does not exist is UTC.
fn zone_named(name: &str) -> Zone {
    Zone::load(name).unwrap_or(Zone::Utc)
}

fn modify(args: &[Value]) -> Result<Value, Failure> {
    let nanoseconds = duration::parse(&characters(args, 0)).map_err(Failure::new)?;
    let time = time(&args[1]).unwrap_or(&Time::ZERO);
    Ok(time.plus(nanoseconds).into())
}

fn ago(ctx: &mut Context<'_>, args: &[Value]) -> Result<Value, Failure> {
    let now = ctx.now()?;
    let since = time::difference(now, moment(ctx, &args[0])?);
    Ok(Value::text(duration::format(duration::round(since, 1_000_000_000))))
}

/// Seconds as a duration. Numbers count only if they come from data: those in a template are of another type.
fn seconds(_: &mut Context<'_>, args: &[Value]) -> Result<Value, Failure> {
    let seconds = match &args[0] {
        Value::String(text) => math::parse_saturating(&text.to_str(), 10),
        Value::Int64(seconds) => *seconds,
        _ => 0,
    };
    Ok(Value::text(duration::format(seconds.wrapping_mul(1_000_000_000))))
}

/// Nanoseconds.
const SECOND: u64 = 1_000_000_000;
/// Each with its number of nanoseconds.
const UNITS: [(u64, &str); 6] = [
    (365 * 24 * 3600 * SECOND, "y"),
    (30 * 24 * 3600 * SECOND, "mo"),
    (24 * 3600 * SECOND, "d"),
    (3600 * SECOND, "h"),
    (60 * SECOND, "m"),
    (SECOND, "s"),
];

fn duration_round(ctx: &mut Context<'_>, args: &[Value]) -> Result<Value, Failure> {
    let nanoseconds = match &args[0] {
        Value::String(text) => duration::parse(&text.to_str()).unwrap_or_default(),
        Value::Int64(nanoseconds) => *nanoseconds,
        other => match time(other) {
            Some(time) => time::difference(ctx.now()?, time.moment),
            None => 0,
        },
    };
    let size = nanoseconds.unsigned_abs();
    // Exactly one of a unit is printed in the next smaller one.
    let unit = UNITS.iter().find(|(unit, _)| size > *unit);
    Ok(Value::text(unit.map_or_else(|| "0s".to_owned(), |(unit, name)| format!("{}{name}", size / unit))))
}

fn to_date(args: &[Value]) -> Result<Time, Failure> {
    let parsed = layout::parse(text(args, 0), text(args, 1)).map_err(Failure::new)?;
    Ok(Time::parsed(parsed))
}

/// A time in the local zone. Without a moment, the one that was never set.
pub(super) fn local_time(moment: Option<Moment>) -> Value {
    moment.map_or(Time::ZERO, |moment| Time::new(moment, Zone::Local)).into()
}

/// The time that a text says, as Go's `time.Parse` reads it: without a zone it is in UTC, and not in the local one.
pub(super) fn parsed_time(parsed: layout::Parsed) -> Value {
    let zone = match parsed.zone {
        layout::Zone::Unknown => layout::Zone::Utc,
        zone => zone,
    };
    Time::parsed(layout::Parsed { zone, ..parsed }).into()
}

/// The order in which Go prints keys that are times: that of their fields, of which nanoseconds are the first.
pub(super) fn order(one: &dyn Object, other: &dyn Object) -> Ordering {
    let fields = |object: &dyn Object| {
        let time: Option<&Time> = object.as_any().downcast_ref();
        time.map(|time| (time.moment.nanoseconds, time.moment.seconds))
    };
    fields(one).cmp(&fields(other))
}

/// The time as RFC 3339 has it; nothing if it is no time.
pub(super) fn rfc3339(object: &dyn Object) -> Option<Text> {
    let time: &Time = object.as_any().downcast_ref()?;
    Some(time.format(layout::RFC3339_NANO).into())
}

/// A number in a template as a value of the type with this name, such as `time.Duration`.
pub(super) fn named_integer(name: &str, whole: i64) -> Option<Value> {
    NamedInteger::named(name, whole).map(Value::from)
}

/// How JSON shows a time; nothing if it is no time.
pub(super) fn to_json(object: &dyn Object) -> Option<Result<Text, Failure>> {
    let time: &Time = object.as_any().downcast_ref()?;
    let year = time.civil().0;
    if !(0..=9999).contains(&year) {
        let problem = "Time.MarshalJSON: year outside of range [0,9999]";
        return Some(Err(Failure::new(format!(
            "json: error calling MarshalJSON for type time.Time: {problem}"
        ))));
    }
    Some(Ok(time.format(layout::RFC3339_NANO).into()))
}
