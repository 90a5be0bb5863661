//! `format`: values put into a string.
//!
//! Follows cel-go 0.29.2, `ext/formatting.go`, which is what Kubernetes asks for.

use ferroplane_golang::strconv::quote;

use super::{Answer, Context, conversions};
use crate::fault::Fault;
use crate::json::{go_double, go_duration};
use crate::meter::Meter;
use crate::source::Position;
use crate::types::Type;
use crate::value::{List, Value};

const DEFAULT_PRECISION: usize = 6;
/// More digits are never shown.
const MOST_DIGITS: usize = 15;

pub(super) fn format<'v>(context: &Context<'_>, values: &mut [Value<'v>]) -> Answer<'v> {
    let [Value::String(pattern), Value::List(arguments)] = values else {
        return Err(Fault::no_such_overload());
    };
    let text = interpolate(pattern.as_str(), arguments, context.meter)?;
    Ok(Value::text(text))
}

pub(super) fn interpolate(pattern: &str, arguments: &List<'_>, meter: &Meter) -> Result<String, Fault> {
    let mut result = String::new();
    let mut rest = pattern;
    let mut next = 0;
    while let Some(at) = rest.find('%') {
        result.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix('%') {
            result.push('%');
            rest = after;
            continue;
        }
        let out_of_range = || Fault::new(format!("index {next} out of range"));
        let argument = arguments.get(next).ok_or_else(out_of_range)?;
        if rest.is_empty() {
            return Err(Fault::text("unexpected end of string"));
        }
        let (clause, precision, after) = clause(rest)
            .map_err(|reason| Fault::new(format!("could not parse formatting clause: {reason}")))?;
        let shown = show(clause, precision, &argument, meter)?;
        meter.allocate(shown.len())?;
        result.push_str(&shown);
        rest = after;
        next += 1;
    }
    result.push_str(rest);
    meter.allocate(pattern.len())?;
    Ok(result)
}

/// Checks a format before there are values: where it is wrong, if that is known, and why.
pub(crate) fn check(pattern: &str, types: &[(Position, Type)]) -> Result<(), (Option<Position>, String)> {
    let mut rest = pattern;
    let mut next = 0;
    while let Some(at) = rest.find('%') {
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix('%') {
            rest = after;
            continue;
        }
        if rest.is_empty() {
            return Err((None, "unexpected end of string".to_owned()));
        }
        let (at, kind) = types.get(next).ok_or_else(|| (None, format!("index {next} out of range")))?;
        let (letter, _, after) =
            clause(rest).map_err(|reason| (None, format!("could not parse formatting clause: {reason}")))?;
        if !is_shown_by(letter, kind) {
            let message = format!("error during formatting: {}, was given {}", complaint(letter), name(kind));
            return Err((Some(*at), message));
        }
        rest = after;
        next += 1;
    }
    if types.len() > next {
        let given = types.len();
        return Err((
            None,
            format!("too many arguments supplied to string.format (expected {next}, got {given})"),
        ));
    }
    Ok(())
}

fn is_shown_by(letter: char, kind: &Type) -> bool {
    match kind {
        Type::Dyn => true,
        Type::Int | Type::Uint => "sdbxXo".contains(letter),
        Type::Double => "sfe".contains(letter),
        Type::String => "sfexX".contains(letter),
        Type::Bytes => "sxX".contains(letter),
        Type::Bool => "sb".contains(letter),
        Type::Optional(_) | Type::Opaque(_) | Type::Struct(_) => false,
        _ => letter == 's',
    }
}

fn complaint(letter: char) -> &'static str {
    match letter {
        's' => {
            "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, and timestamps"
        }
        'd' => "decimal clause can only be used on integers",
        'f' => "fixed-point clause can only be used on doubles",
        'e' => "scientific clause can only be used on doubles",
        'b' => "only integers and bools can be formatted as binary",
        'o' => "octal clause can only be used on integers",
        _ => "only integers, byte buffers, and strings can be formatted as hex",
    }
}

/// The name of a type without its parts.
fn name(kind: &Type) -> String {
    match kind {
        Type::Null => "null_type".to_owned(),
        Type::Timestamp => "google.protobuf.Timestamp".to_owned(),
        Type::Duration => "google.protobuf.Duration".to_owned(),
        other => other.to_string().split('(').next().unwrap_or_default().to_owned(),
    }
}

/// The letter, the precision before it, and what follows.
fn clause(text: &str) -> Result<(char, Option<usize>, &str), String> {
    let mut precision = None;
    let mut rest = text;
    if let Some(after) = text.strip_prefix('.') {
        let wrong = |reason: &str| format!("error while parsing precision: {reason}");
        let end = after
            .find(|c: char| !c.is_ascii_digit())
            .ok_or_else(|| wrong("could not find end of precision specifier"))?;
        let digits = &after[..end];
        let number = digits.parse().map_err(|_| {
            let reason = if digits.is_empty() { "invalid syntax" } else { "value out of range" };
            wrong(&format!(
                "error while converting precision to integer: strconv.Atoi: parsing {}: {reason}",
                quote(digits)
            ))
        })?;
        precision = Some(number);
        rest = &after[end..];
    }
    let letter = rest.chars().next().unwrap_or_default();
    if !"sdfebxXo".contains(letter) {
        return Err(format!("unrecognized formatting clause \"{letter}\""));
    }
    // All letters are ASCII, so that cutting after one byte is safe.
    Ok((letter, precision, &rest[1..]))
}

fn show(clause: char, precision: Option<usize>, value: &Value<'_>, meter: &Meter) -> Result<String, Fault> {
    let wrong = || {
        Fault::new(format!("error during formatting: {}, was given {}", complaint(clause), value.type_name()))
    };
    match (clause, value) {
        ('s', _) => text(value, meter),
        ('d', Value::Int(number)) => Ok(number.to_string()),
        ('d', Value::Uint(number)) => Ok(number.to_string()),
        ('f', _) => double(value)
            .map(|number| fixed(number, precision.unwrap_or(DEFAULT_PRECISION)))
            .ok_or_else(wrong),
        ('e', _) => double(value)
            .map(|number| scientific(number, precision.unwrap_or(DEFAULT_PRECISION)))
            .ok_or_else(wrong),
        ('b', Value::Bool(value)) => Ok(u8::from(*value).to_string()),
        ('b', Value::Int(number)) => Ok(signed(*number, |bits| format!("{bits:b}"))),
        ('b', Value::Uint(number)) => Ok(format!("{number:b}")),
        ('o', Value::Int(number)) => Ok(signed(*number, |bits| format!("{bits:o}"))),
        ('o', Value::Uint(number)) => Ok(format!("{number:o}")),
        ('x' | 'X', value) => {
            let lower = match value {
                Value::Int(number) => signed(*number, |bits| format!("{bits:x}")),
                Value::Uint(number) => format!("{number:x}"),
                Value::String(text) => hexadecimal(text.as_str().as_bytes()),
                Value::Bytes(bytes) => hexadecimal(bytes),
                _ => return Err(wrong()),
            };
            Ok(if clause == 'X' { lower.to_uppercase() } else { lower })
        }
        _ => Err(wrong()),
    }
}

fn signed(number: i64, show: impl Fn(u64) -> String) -> String {
    let sign = if number < 0 { "-" } else { "" };
    format!("{sign}{}", show(number.unsigned_abs()))
}

fn hexadecimal(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        text.push_str(&format!("{byte:02x}"));
    }
    text
}

/// A double, or one of the words for what is not a number.
fn double(value: &Value<'_>) -> Option<f64> {
    match value {
        Value::Double(number) => Some(*number),
        Value::String(text) if matches!(text.as_str(), "NaN" | "Infinity" | "-Infinity") => {
            conversions::parse_double(text.as_str())
        }
        _ => None,
    }
}

/// With commas between thousands.
fn fixed(number: f64, precision: usize) -> String {
    if let Some(word) = not_finite(number) {
        return word;
    }
    let text = format!("{number:.*}", precision.min(MOST_DIGITS));
    let (sign, digits) = text.strip_prefix('-').map_or(("", text.as_str()), |digits| ("-", digits));
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let mut grouped = String::from(sign);
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && (whole.len() - index) % 3 == 0 {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    if !fraction.is_empty() {
        grouped.push('.');
        grouped.push_str(fraction);
    }
    grouped
}

/// With a power of ten. What is called precision is the least width.
fn scientific(number: f64, width: usize) -> String {
    const DIGITS: [char; 10] = ['⁰', '¹', '²', '³', '⁴', '⁵', '⁶', '⁷', '⁸', '⁹'];
    if let Some(word) = not_finite(number) {
        // Bounded, because the result is charged only after it was made.
        return format!("{word:>0$}", width.min(1000));
    }
    let text = format!("{number:.6e}");
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let sign = if exponent.starts_with('-') { "⁻" } else { "" };
    let power = format!("{:0>2}", exponent.trim_start_matches('-'));
    let power: String = power.bytes().map(|digit| DIGITS[usize::from(digit - b'0') % 10]).collect();
    let text = format!("{digits}×10{sign}{power}");
    format!("{text:>0$}", width.min(1000))
}

fn not_finite(number: f64) -> Option<String> {
    match number {
        _ if number.is_nan() => Some("NaN".to_owned()),
        _ if number == f64::INFINITY => Some("∞".to_owned()),
        _ if number == f64::NEG_INFINITY => Some("-∞".to_owned()),
        _ => None,
    }
}

fn text(value: &Value<'_>, meter: &Meter) -> Result<String, Fault> {
    meter.work(1)?;
    Ok(match value {
        Value::Null => "null".to_owned(),
        Value::Bool(value) => value.to_string(),
        Value::Int(number) => number.to_string(),
        Value::Uint(number) => number.to_string(),
        Value::Double(number) => go_double(*number),
        Value::String(text) => text.as_str().to_owned(),
        Value::Bytes(bytes) => String::from_utf8(bytes.to_vec()).map_err(|_| {
            Fault::text(
                "error during formatting: could not convert argument \"invalid UTF-8 in bytes, cannot convert to string\" to string",
            )
        })?,
        Value::Timestamp(timestamp) => timestamp.to_string(),
        Value::Duration(nanoseconds) => go_duration(*nanoseconds),
        Value::Type(name) => (*name).to_owned(),
        Value::List(list) => list_text(list, meter)?,
        Value::Map(map) => {
            let mut entries = Vec::new();
            for (key, value) in map.entries() {
                if matches!(key, Value::Double(_)) {
                    return Err(Fault::text(
                        "error during formatting: no formatting function for map key of type double",
                    ));
                }
                entries.push((nested(&key, meter)?, nested(&value, meter)?));
            }
            entries.sort();
            let shown: Vec<_> = entries.into_iter().map(|(key, value)| format!("{key}:{value}")).collect();
            let shown = format!("{{{}}}", shown.join(", "));
            meter.allocate(shown.len())?;
            shown
        }
        Value::Optional(_) | Value::Object(_) | Value::Message(_) | Value::Invalid(_) => {
            return Err(Fault::new(format!(
                "error during formatting: {}, was given {}",
                complaint('s'),
                value.type_name()
            )));
        }
    })
}

fn list_text(list: &List<'_>, meter: &Meter) -> Result<String, Fault> {
    let shown: Vec<_> = list.iter().map(|value| nested(&value, meter)).collect::<Result<_, _>>()?;
    let shown = format!("[{}]", shown.join(", "));
    meter.allocate(shown.len())?;
    Ok(shown)
}

/// A value within a list or map, as it would be written in an expression.
fn nested(value: &Value<'_>, meter: &Meter) -> Result<String, Fault> {
    Ok(match value {
        Value::String(text) => quote(text.as_str()),
        Value::Bytes(_) => format!("b{}", quote(&text(value, meter)?)),
        Value::Double(number) if number.is_nan() => "\"NaN\"".to_owned(),
        Value::Double(number) if number.is_infinite() => format!("\"{}\"", go_double(*number)),
        Value::Double(number) => format!("{number:.6}"),
        Value::Timestamp(timestamp) => format!("timestamp(\"{timestamp}\")"),
        Value::Duration(nanoseconds) => format!("duration(\"{}\")", go_duration(*nanoseconds)),
        Value::Optional(_) | Value::Object(_) | Value::Message(_) | Value::Invalid(_) => {
            return Err(Fault::new(format!(
                "error during formatting: no formatting function for {}",
                value.type_name()
            )));
        }
        other => text(other, meter)?,
    })
}
