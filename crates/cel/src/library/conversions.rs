//! Conversions between types.
//!
//! Follows cel-go 0.29.2, `common/types`.

use ferroplane_golang::time::duration;

use super::{Answer, Context};
use crate::fault::Fault;
use crate::json::{go_double, go_duration};
use crate::object::LibraryObject;
use crate::time::Timestamp;
use crate::value::Value;

pub(super) fn convert<'v>(context: &Context<'_>, values: &mut [Value<'v>]) -> Answer<'v> {
    let [value] = values else { return Err(Fault::no_such_overload()) };
    let value = std::mem::take(value);
    match context.function {
        "dyn" => Ok(value),
        "type" => Ok(Value::Type(value.type_name())),
        "bool" => to_bool(value),
        "int" => to_int(value),
        "uint" => to_uint(value),
        "double" => to_double(value),
        "bytes" => to_bytes(context, value),
        "string" => to_string(context, value),
        "duration" => to_duration(value),
        _ => to_timestamp(value),
    }
}

fn unable(value: &Value<'_>, wanted: &str) -> Fault {
    Fault::new(format!("type conversion error from '{}' to '{wanted}'", value.type_name()))
}

fn to_bool(value: Value<'_>) -> Answer<'_> {
    match value.as_str() {
        None => Ok(value),
        // The spellings of Go's `strconv.ParseBool`.
        Some("1" | "t" | "T" | "true" | "TRUE" | "True") => Ok(Value::Bool(true)),
        Some("0" | "f" | "F" | "false" | "FALSE" | "False") => Ok(Value::Bool(false)),
        Some(_) => Err(unable(&value, "bool")),
    }
}

#[allow(clippy::cast_possible_truncation, reason = "the range is checked")]
fn to_int(value: Value<'_>) -> Answer<'_> {
    const OVERFLOW: Fault = Fault::Error(std::borrow::Cow::Borrowed("integer overflow"));
    match &value {
        Value::Uint(number) => i64::try_from(*number).map(Value::Int).map_err(|_| OVERFLOW),
        Value::Double(number) => {
            // Both ends are excluded, as they may stand for numbers outside.
            let is_inside = *number > -9_223_372_036_854_775_808.0 && *number < 9_223_372_036_854_775_807.0;
            if is_inside { Ok(Value::Int(*number as i64)) } else { Err(OVERFLOW) }
        }
        Value::Duration(nanoseconds) => Ok(Value::Int(*nanoseconds)),
        Value::Timestamp(timestamp) => Ok(Value::Int(timestamp.seconds())),
        Value::String(text) => match go_integer(text.as_str()) {
            Some(number) => Ok(Value::Int(number)),
            None => Err(unable(&value, "int")),
        },
        _ => Ok(value),
    }
}

/// Digits with an optional sign, and nothing else.
fn go_integer<T: std::str::FromStr>(text: &str) -> Option<T> {
    text.parse().ok()
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the range is checked")]
fn to_uint(value: Value<'_>) -> Answer<'_> {
    const OVERFLOW: Fault = Fault::Error(std::borrow::Cow::Borrowed("unsigned integer overflow"));
    match &value {
        Value::Int(number) => u64::try_from(*number).map(Value::Uint).map_err(|_| OVERFLOW),
        Value::Double(number) => {
            // The literal is 2^64 as a double, so this end is excluded, too.
            let is_inside = *number >= 0.0 && *number < 18_446_744_073_709_551_615.0;
            if is_inside { Ok(Value::Uint(*number as u64)) } else { Err(OVERFLOW) }
        }
        // Go's `ParseUint` takes no sign at all; Rust allows a plus.
        Value::String(text) => match go_integer(text.as_str()).filter(|_| !text.as_str().starts_with('+')) {
            Some(number) => Ok(Value::Uint(number)),
            None => Err(unable(&value, "uint")),
        },
        _ => Ok(value),
    }
}

#[allow(clippy::cast_precision_loss, reason = "that is what the conversion does")]
fn to_double(value: Value<'_>) -> Answer<'_> {
    match &value {
        Value::Int(number) => Ok(Value::Double(*number as f64)),
        Value::Uint(number) => Ok(Value::Double(*number as f64)),
        Value::String(text) => match parse_double(text.as_str()) {
            Some(number) => Ok(Value::Double(number)),
            None => Err(unable(&value, "double")),
        },
        _ => Ok(value),
    }
}

/// Numbers that are too large are refused, and hexadecimal ones are not read. Underscores may separate digits.
pub(super) fn parse_double(text: &str) -> Option<f64> {
    let bytes = text.as_bytes();
    let is_digit = |at: Option<usize>| at.and_then(|at| bytes.get(at)).is_some_and(u8::is_ascii_digit);
    let separates = |at: usize| is_digit(at.checked_sub(1)) && is_digit(Some(at + 1));
    if !text.match_indices('_').all(|(at, _)| separates(at)) {
        return None;
    }
    let number: f64 = text.replace('_', "").parse().ok()?;
    let is_written_out =
        // `inf` is a number when it is spelt so, and an overflow when digits make it.
        text.trim_start_matches(['+', '-']).starts_with(|c: char| c.is_ascii_digit() || c == '.');
    (number.is_finite() || !is_written_out).then_some(number)
}

fn to_bytes<'v>(context: &Context<'_>, value: Value<'v>) -> Answer<'v> {
    let Value::String(text) = &value else { return Ok(value) };
    context.meter.allocate(text.as_str().len())?;
    Ok(Value::bytes(text.as_str().as_bytes()))
}

pub(super) fn to_string<'v>(context: &Context<'_>, value: Value<'v>) -> Answer<'v> {
    let text = match &value {
        Value::Bool(value) => value.to_string(),
        Value::Int(number) => number.to_string(),
        Value::Uint(number) => number.to_string(),
        Value::Double(number) => go_double(*number),
        Value::Duration(nanoseconds) => go_duration(*nanoseconds),
        Value::Timestamp(timestamp) => timestamp.to_string(),
        Value::Bytes(bytes) => String::from_utf8(bytes.to_vec())
            .map_err(|_| Fault::text("invalid UTF-8 in bytes, cannot convert to string"))?,
        Value::Object(object) => match &**object {
            LibraryObject::Ip(ip) => ip.to_string(),
            LibraryObject::Cidr(cidr) => cidr.to_string(),
            _ => return Err(Fault::no_such_overload()),
        },
        _ => return Ok(value),
    };
    context.text(text)
}

fn to_duration(value: Value<'_>) -> Answer<'_> {
    let Value::String(text) = &value else { return Ok(value) };
    match duration::parse(text.as_str()) {
        Ok(nanoseconds) => Ok(Value::Duration(nanoseconds)),
        Err(_) => Err(unable(&value, "google.protobuf.Duration")),
    }
}

fn to_timestamp(value: Value<'_>) -> Answer<'_> {
    let parsed = match &value {
        Value::Int(seconds) => {
            return Timestamp::new(*seconds, 0, 0)
                .map(Value::Timestamp)
                .ok_or(Fault::text("timestamp overflow"));
        }
        Value::String(text) => Timestamp::parse(text.as_str()),
        _ => return Ok(value),
    };
    match parsed {
        Some(timestamp) => Ok(Value::Timestamp(timestamp)),
        None => Err(unable(&value, "google.protobuf.Timestamp")),
    }
}
