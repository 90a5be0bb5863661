//! Parts of timestamps and durations.
//!
//! Follows cel-go 0.29.2, `common/types/timestamp.go`, `common/types/duration.go`.

use ferroplane_golang::strconv::quote;

use super::{Answer, Context};
use crate::fault::Fault;
use crate::time::Timestamp;
use crate::value::Value;

pub(super) fn is_accessor(name: &str) -> bool {
    matches!(
        name,
        "getDate"
            | "getDayOfMonth"
            | "getDayOfWeek"
            | "getDayOfYear"
            | "getFullYear"
            | "getHours"
            | "getMilliseconds"
            | "getMinutes"
            | "getMonth"
            | "getSeconds"
    )
}

pub(super) fn accessor<'v>(context: &Context<'_>, values: &mut [Value<'v>]) -> Answer<'v> {
    match values {
        [Value::Timestamp(timestamp)] => Ok(Value::Int(of_timestamp(context.function, *timestamp, 0))),
        [Value::Timestamp(timestamp), Value::String(zone)] => {
            Ok(Value::Int(of_timestamp(context.function, *timestamp, offset(zone.as_str())?)))
        }
        [Value::Duration(nanoseconds)] => Ok(Value::Int(match context.function {
            "getHours" => *nanoseconds / 3_600_000_000_000,
            "getMinutes" => *nanoseconds / 60_000_000_000,
            "getSeconds" => *nanoseconds / 1_000_000_000,
            _ => *nanoseconds / 1_000_000,
        })),
        _ => Err(Fault::no_such_overload()),
    }
}

fn of_timestamp(function: &str, timestamp: Timestamp, offset: i64) -> i64 {
    let (year, month, day) = timestamp.date(offset);
    let second = timestamp.second_of_day(offset);
    match function {
        "getFullYear" => year,
        // From zero, as in JavaScript, whose methods these accessors are named after; `getDate` is the one
        // that starts at one.
        "getMonth" => month - 1,
        "getDate" => day,
        "getDayOfMonth" => day - 1,
        "getDayOfWeek" => timestamp.weekday(offset),
        "getDayOfYear" => timestamp.day_of_year(offset),
        "getHours" => second / 3600,
        "getMinutes" => second / 60 % 60,
        "getSeconds" => second % 60,
        _ => i64::from(timestamp.nanoseconds()) / 1_000_000,
    }
}

/// Seconds east of UTC. Only UTC is known by name; other zones are written as `+02:00`.
fn offset(zone: &str) -> Result<i64, Fault> {
    let Some((hours, minutes)) = zone.split_once(':') else {
        return match zone {
            "" | "UTC" | "GMT" | "Etc/UTC" | "Etc/GMT" | "Zulu" | "Universal" => Ok(0),
            _ => Err(Fault::new(format!("unknown time zone {zone}"))),
        };
    };
    let number = |text: &str| -> Result<i64, Fault> {
        let unable = || Fault::new(format!("strconv.Atoi: parsing {}: invalid syntax", quote(text)));
        text.parse::<i32>().map(i64::from).map_err(|_| unable())
    };
    let (hour, minute) = (number(hours)?, number(minutes)?);
    // The sign is looked for in the text, because `-00:30` has no negative hour.
    let minutes = if zone.starts_with('-') { hour * 60 - minute } else { hour * 60 + minute };
    // Keeps far-off zones, which are not meant, within what can be computed.
    Ok(minutes.clamp(-5_000_000, 5_000_000) * 60)
}
