//! Methods of times, durations and zones.
//!
//! Follows Go 1.26, `time/time.go`.

use std::rc::Rc;

use ferroplane_golang::time::{calendar, duration, rfc3339::Moment};

use super::super::arguments::{NIL_POINTER, int, text};
use super::super::function;
use super::named_integer::NamedInteger;
use super::time::{Time, difference};
use super::zone::{Location, Zone};
use super::{TIME, time as as_time};
use crate::{Failure, Function, Object, Type, Value};

use Type::{Bool, Float64, Int, Int64, String};

pub(super) const DURATION: Type = Type::Integer("time.Duration");
pub(super) const MONTH: Type = Type::Integer("time.Month");
pub(super) const WEEKDAY: Type = Type::Integer("time.Weekday");
pub(super) const LOCATION: Type = Type::Pointer("time.Location");

pub(super) const OF_TIME: &[Function] = &[
    function("Unix", &[], Int64, |_, args| of(args, |time| Value::Int64(time.moment.seconds))),
    function("UnixMilli", &[], Int64, |_, args| {
        of(args, |time| Value::Int64(since_1970(time.moment, 1_000)))
    }),
    function("UnixMicro", &[], Int64, |_, args| {
        of(args, |time| Value::Int64(since_1970(time.moment, 1_000_000)))
    }),
    function("UnixNano", &[], Int64, |_, args| {
        of(args, |time| Value::Int64(since_1970(time.moment, 1_000_000_000)))
    }),
    function("Year", &[], Int, |_, args| of(args, |time| Value::Int(time.civil().0))),
    function("Month", &[], MONTH, |_, args| of(args, |time| NamedInteger::Month(time.civil().1).into())),
    function("Day", &[], Int, |_, args| of(args, |time| Value::Int(time.civil().2))),
    function("YearDay", &[], Int, |_, args| of(args, |time| Value::Int(day_of_year(time)))),
    function("Weekday", &[], WEEKDAY, |_, args| of(args, |time| NamedInteger::Weekday(weekday(time)).into())),
    function("Hour", &[], Int, |_, args| of(args, |time| Value::Int(time.wall().1 / 3600))),
    function("Minute", &[], Int, |_, args| of(args, |time| Value::Int(time.wall().1 / 60 % 60))),
    function("Second", &[], Int, |_, args| of(args, |time| Value::Int(time.wall().1 % 60))),
    function("Nanosecond", &[], Int, |_, args| of(args, |time| Value::Int(time.moment.nanoseconds.into()))),
    function("IsZero", &[], Bool, |_, args| of(args, |time| Value::Bool(time.moment == Time::ZERO.moment))),
    function("IsDST", &[], Bool, |_, args| {
        of(args, |time| Value::Bool(time.zone.at(time.moment.seconds).is_daylight_saving))
    }),
    function("Format", &[String], String, |_, args| of(args, |time| Value::text(time.format(text(args, 1))))),
    function("String", &[], String, |_, args| string(args)),
    function("UTC", &[], TIME, |_, args| of(args, |time| Time::new(time.moment, Zone::Utc).into())),
    function("Local", &[], TIME, |_, args| of(args, |time| Time::new(time.moment, Zone::Local).into())),
    function("Location", &[], LOCATION, |_, args| {
        of(args, |time| Value::Object(Rc::new(Location(time.zone.clone()))))
    }),
    function("In", &[LOCATION], TIME, |_, args| {
        let zone = location(args)?.0.clone();
        of(args, |time| Time::new(time.moment, zone.clone()).into())
    }),
    function("Add", &[DURATION], TIME, |_, args| of(args, |time| time.plus(nanoseconds(args, 1)).into())),
    function("AddDate", &[Int, Int, Int], TIME, |_, args| {
        of(args, |time| time.plus_date(int(args, 1), int(args, 2), int(args, 3)).into())
    }),
    function("Round", &[DURATION], TIME, |_, args| {
        of(args, |time| time.to_multiple(nanoseconds(args, 1), true).into())
    }),
    function("Truncate", &[DURATION], TIME, |_, args| {
        of(args, |time| time.to_multiple(nanoseconds(args, 1), false).into())
    }),
    function("Sub", &[TIME], DURATION, |_, args| {
        with(args, |one, other| NamedInteger::Duration(difference(one.moment, other.moment)).into())
    }),
    function("Before", &[TIME], Bool, |_, args| {
        with(args, |one, other| Value::Bool(one.order(other).is_lt()))
    }),
    function("After", &[TIME], Bool, |_, args| {
        with(args, |one, other| Value::Bool(one.order(other).is_gt()))
    }),
    function("Equal", &[TIME], Bool, |_, args| {
        with(args, |one, other| Value::Bool(one.moment == other.moment))
    }),
    function("Compare", &[TIME], Int, |_, args| with(args, |one, other| Value::Int(one.order(other) as i64))),
];

pub(super) const OF_DURATION: &[Function] = &[
    function("Hours", &[], Float64, |_, args| Ok(parts(args, 3_600_000_000_000))),
    function("Minutes", &[], Float64, |_, args| Ok(parts(args, 60_000_000_000))),
    function("Seconds", &[], Float64, |_, args| Ok(parts(args, 1_000_000_000))),
    function("Milliseconds", &[], Int64, |_, args| Ok(Value::Int64(nanoseconds(args, 0) / 1_000_000))),
    function("Microseconds", &[], Int64, |_, args| Ok(Value::Int64(nanoseconds(args, 0) / 1_000))),
    function("Nanoseconds", &[], Int64, |_, args| Ok(Value::Int64(nanoseconds(args, 0)))),
    function("String", &[], String, |_, args| string(args)),
    function("Abs", &[], DURATION, |_, args| {
        Ok(NamedInteger::Duration(nanoseconds(args, 0).saturating_abs()).into())
    }),
    function("Round", &[DURATION], DURATION, |_, args| {
        Ok(NamedInteger::Duration(duration::round(nanoseconds(args, 0), nanoseconds(args, 1))).into())
    }),
    function("Truncate", &[DURATION], DURATION, |_, args| {
        let (whole, unit) = (nanoseconds(args, 0), nanoseconds(args, 1));
        Ok(NamedInteger::Duration(if unit <= 0 { whole } else { whole - whole % unit }).into())
    }),
];

/// Zones, months and days of the week have their name, and nothing else.
pub(super) const OF_LOCATION: &[Function] = &[function("String", &[], String, |_, args| string(args))];

fn of(args: &[Value], read: impl Fn(&Time) -> Value) -> Result<Value, Failure> {
    as_time(&args[0]).map(read).ok_or_else(|| Failure::new(NIL_POINTER))
}

fn with(args: &[Value], read: impl Fn(&Time, &Time) -> Value) -> Result<Value, Failure> {
    let both = as_time(&args[0]).zip(as_time(&args[1]));
    both.map(|(one, other)| read(one, other)).ok_or_else(|| Failure::new(NIL_POINTER))
}

fn string(args: &[Value]) -> Result<Value, Failure> {
    let text = if let Value::Object(object) = &args[0] { object.string() } else { None };
    text.map(Value::String).ok_or_else(|| Failure::new(NIL_POINTER))
}

fn location(args: &[Value]) -> Result<&Location, Failure> {
    let object: Option<&dyn Object> =
        if let Some(Value::Object(object)) = args.get(1) { Some(&**object) } else { None };
    let location = object.and_then(|object| object.as_any().downcast_ref());
    location.ok_or_else(|| Failure::new("time: missing Location in call to Time.In"))
}

fn nanoseconds(args: &[Value], at: usize) -> i64 {
    if let Some(Value::Object(object)) = args.get(at) { object.integer().unwrap_or_default() } else { 0 }
}

/// How many units a duration has, in the steps of Go: first the whole ones, then the rest.
#[expect(clippy::cast_precision_loss, reason = "Go converts it, too")]
fn parts(args: &[Value], unit: i64) -> Value {
    let (whole, rest) = (nanoseconds(args, 0) / unit, nanoseconds(args, 0) % unit);
    Value::Float(whole as f64 + rest as f64 / unit as f64)
}

/// So many units of a second since 1970. What does not fit wraps around.
fn since_1970(moment: Moment, per_second: i64) -> i64 {
    let part = i64::from(moment.nanoseconds) / (1_000_000_000 / per_second);
    moment.seconds.wrapping_mul(per_second).wrapping_add(part)
}

fn day_of_year(time: &Time) -> i64 {
    let year = time.civil().0;
    time.wall().0 - calendar::days(year, 1, 1) + 1
}

fn weekday(time: &Time) -> i64 {
    (time.wall().0 + 4).rem_euclid(7)
}
