//! Values as JSON and as text.
//!
//! Follows cel-go 0.29.2, `common/types/format.go`, `common/types/json_value.go`.

use base64::Engine as _;
use ferroplane_golang::strconv::format_float;
use serde_json::{Map as JsonMap, Number, Value as Json};

use super::fault::Fault;
use super::meter::Meter;
use super::value::Value;

pub(super) fn to_json(value: &Value<'_>, meter: &Meter) -> Result<Json, Fault> {
    meter.work(1)?;
    // Counted for every value, because lists share their parts and JSON does not: thirty doublings of a list are a
    // few bytes here and billions of values there.
    meter.allocate(size_of::<Json>())?;
    Ok(match value {
        Value::Null | Value::Optional(None) => Json::Null,
        Value::Bool(value) => Json::Bool(*value),
        Value::Int(number) => Json::from(*number),
        Value::Uint(number) => Json::from(*number),
        Value::Double(number) => {
            // JSON has no infinities; protobuf's mapping writes them as strings.
            Number::from_f64(*number).map_or_else(|| Json::from(go_double(*number)), Json::Number)
        }
        Value::Optional(Some(value)) => to_json(value, meter)?,
        Value::List(list) => {
            Json::Array(list.iter().map(|value| to_json(&value, meter)).collect::<Result<_, _>>()?)
        }
        Value::Message(message) => {
            let mut object = JsonMap::new();
            for field in message.set() {
                object.insert(field.name.to_owned(), to_json(&field.value, meter)?);
            }
            Json::Object(object)
        }
        Value::Map(map) => {
            let mut object = JsonMap::new();
            for (key, value) in map.entries() {
                object.insert(show_key(&key), to_json(&value, meter)?);
            }
            Json::Object(object)
        }
        _ => {
            let text = show_scalar(value);
            meter.allocate(text.len())?;
            Json::from(text)
        }
    })
}

/// A value as messages show it.
pub(super) fn show(value: &Value<'_>, meter: &Meter) -> Result<String, Fault> {
    meter.work(1)?;
    let text = match value {
        Value::List(list) => {
            let shown: Vec<_> = list.iter().map(|value| show(&value, meter)).collect::<Result<_, _>>()?;
            format!("[{}]", shown.join(", "))
        }
        Value::Map(map) => {
            let entries = map.entries();
            let shown =
                entries.iter().map(|(key, value)| Ok(format!("{}: {}", show_key(key), show(value, meter)?)));
            format!("{{{}}}", shown.collect::<Result<Vec<_>, Fault>>()?.join(", "))
        }
        Value::Optional(Some(value)) => format!("optional({})", show(value, meter)?),
        other => show_scalar(other),
    };
    meter.allocate(text.len())?;
    Ok(text)
}

/// A key or an index as messages show it.
pub(super) fn show_key(value: &Value<'_>) -> String {
    match value {
        Value::List(_) | Value::Map(_) => value.type_name().to_owned(),
        other => show_scalar(other),
    }
}

fn show_scalar(value: &Value<'_>) -> String {
    match value {
        Value::Bool(value) => value.to_string(),
        Value::Int(number) => number.to_string(),
        Value::Uint(number) => number.to_string(),
        Value::Double(number) => go_double(*number),
        Value::String(text) => text.as_str().to_owned(),
        Value::Bytes(bytes) => base64::engine::general_purpose::STANDARD.encode(bytes),
        Value::Timestamp(timestamp) => timestamp.to_string(),
        Value::Duration(nanoseconds) => go_duration(*nanoseconds),
        Value::Type(name) => (*name).to_owned(),
        Value::Optional(_) => "optional.none()".to_owned(),
        Value::Object(object) => object.to_string(),
        Value::Message(message) => message.type_name().to_owned(),
        Value::Null | Value::List(_) | Value::Map(_) | Value::Invalid(_) => "null".to_owned(),
    }
}

/// A double with as few digits as tell it from others, and an exponent if it is large or small.
pub(super) fn go_double(number: f64) -> String {
    format_float(number, 'g', None)
}

/// A length of time in seconds.
#[allow(clippy::cast_precision_loss, reason = "as Go does")]
pub(super) fn go_duration(nanoseconds: i64) -> String {
    // Whole seconds and the rest are converted apart, as Go's `Duration.Seconds` does to keep precision.
    let seconds = (nanoseconds / 1_000_000_000) as f64 + (nanoseconds % 1_000_000_000) as f64 / 1e9;
    format!("{seconds}s")
}
