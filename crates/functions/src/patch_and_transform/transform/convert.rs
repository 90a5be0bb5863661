//! Transforms that change the type of a value.

use ferroplane_cel::quantity::Quantity;
use ferroplane_golang::fmt::{Any, to_text};
use ferroplane_golang::strconv::{format_float, quote, quote_bytes};
use serde_json::Value;

use super::super::input;
use super::number::to_integer;
use super::text::typed;

#[derive(Debug)]
pub(in super::super) struct Convert {
    to: String,
    format: String,
}

impl From<input::Convert> for Convert {
    fn from(convert: input::Convert) -> Self {
        Self {
            to: if convert.to_type == "int" { "int64".to_owned() } else { convert.to_type },
            format: convert.format.unwrap_or_else(|| "none".to_owned()),
        }
    }
}

impl Convert {
    pub(super) fn resolve<'v>(&self, value: Any<'v>) -> Result<Any<'v>, String> {
        let from = value.type_name();
        if !matches!(value, Any::Bool(_) | Any::Int(_) | Any::Float(_) | Any::Text(_) | Any::Bytes(_)) {
            return Err(format!("invalid input type {from}"));
        }
        // By Go's names of types: `string` to `string` with the format `json` is no conversion, too.
        if from == self.to {
            return Ok(value);
        }
        self.converted(value).unwrap_or_else(|| {
            let Self { to, format } = self;
            Err(format!("conversion from {from} to {to} is not supported with format {format}"))
        })
    }

    /// Nothing if there is no such conversion.
    fn converted<'v>(&self, value: Any<'v>) -> Option<Result<Any<'v>, String>> {
        let to = (self.to.as_str(), self.format.as_str());
        Some(match (value, to) {
            // Bytes are text that is no UTF-8, which is never a number; the message has to show them as Go
            // does.
            (Any::Bytes(bytes), ("int64", "none")) => no_syntax("ParseInt", &bytes),
            (Any::Bytes(bytes), ("bool", "none")) => no_syntax("ParseBool", &bytes),
            (Any::Bytes(bytes), ("float64", "none")) => no_syntax("ParseFloat", &bytes),
            (Any::Bytes(bytes), _) => return self.converted(Any::text(to_text(&bytes))),
            (Any::Text(text), ("int64", "none")) => parse_integer(&text).map(Any::Int),
            (Any::Text(text), ("bool", "none")) => parse_bool(&text).map(Any::Bool),
            (Any::Text(text), ("float64", "none")) => parse_float(&text).map(Any::Float),
            (Any::Text(text), ("float64", "quantity")) => Quantity::parse(&text)
                .map(|quantity| Any::Float(quantity.as_float()))
                .map_err(|error| error.to_string()),
            (Any::Text(text), ("object", "json")) => parse_json(&text, Any::NilObject, Value::is_object),
            (Any::Text(text), ("array", "json")) => parse_json(&text, Any::NilArray, Value::is_array),
            (Any::Int(whole), ("string", "none")) => Ok(Any::text(whole.to_string())),
            (Any::Int(whole), ("bool", "none")) => Ok(Any::Bool(whole == 1)),
            #[expect(clippy::cast_precision_loss, reason = "so does Go")]
            (Any::Int(whole), ("float64", "none")) => Ok(Any::Float(whole as f64)),
            (Any::Bool(truth), ("string", "none")) => Ok(Any::text(truth.to_string())),
            (Any::Bool(truth), ("int64", "none")) => Ok(Any::Int(i64::from(truth))),
            (Any::Bool(truth), ("float64", "none")) => Ok(Any::Float(f64::from(u8::from(truth)))),
            (Any::Float(float), ("string", "none")) => Ok(Any::text(format_float(float, 'f', None))),
            (Any::Float(float), ("int64", "none")) => Ok(Any::Int(to_integer(float))),
            #[expect(clippy::float_cmp, reason = "exactly one is what is asked for")]
            (Any::Float(float), ("bool", "none")) => Ok(Any::Bool(float == 1.0)),
            _ => return None,
        })
    }
}

fn no_syntax(function: &str, text: &[u8]) -> Result<Any<'static>, String> {
    Err(format!("strconv.{function}: parsing {}: invalid syntax", quote_bytes(text)))
}

fn parse_integer(text: &str) -> Result<i64, String> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().map_err(|_| {
        let problem = if is_number { "value out of range" } else { "invalid syntax" };
        format!("strconv.ParseInt: parsing {}: {problem}", quote(text))
    })
}

fn parse_bool(text: &str) -> Result<bool, String> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => Err(format!("strconv.ParseBool: parsing {}: invalid syntax", quote(text))),
    }
}

fn parse_float(text: &str) -> Result<f64, String> {
    let fail = |problem| Err(format!("strconv.ParseFloat: parsing {}: {problem}", quote(text)));
    let lower = text.to_ascii_lowercase();
    let is_word = matches!(lower.trim_start_matches(['+', '-']), "inf" | "infinity") || lower == "nan";
    let plain = without_underscores(&lower);
    let parsed = match hexadecimal(&plain) {
        Some(float) => Some(float),
        // Rust reads `infinity` and `nan` in more spellings than Go.
        None if is_word || !plain.contains(['n', 'i']) => plain.parse().ok(),
        None => None,
    };
    match parsed {
        Some(float) if float.is_infinite() && !is_word => fail("value out of range"),
        Some(float) => Ok(float),
        None => fail("invalid syntax"),
    }
}

/// Go lets single underscores stand between digits.
fn without_underscores(text: &str) -> String {
    let bytes = text.as_bytes();
    let is_fine = |(at, byte): (usize, &u8)| {
        let is_digit =
            |neighbour: Option<&u8>| neighbour.is_some_and(|byte| byte.is_ascii_hexdigit() || *byte == b'x');
        *byte != b'_' || (at > 0 && is_digit(bytes.get(at - 1)) && is_digit(bytes.get(at + 1)))
    };
    if bytes.contains(&b'_') && bytes.iter().enumerate().all(is_fine) {
        return text.replace('_', "");
    }
    text.to_owned()
}

/// `0x1.8p3`. More digits than a float can tell apart are ignored.
fn hexadecimal(text: &str) -> Option<f64> {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => (-1.0, digits),
        None => (1.0, text.strip_prefix('+').unwrap_or(text)),
    };
    let (mantissa, exponent) = digits.strip_prefix("0x")?.split_once('p')?;
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    if whole.len() + fraction.len() == 0 || whole.len() + fraction.len() > 15 {
        return None;
    }
    let number = u64::from_str_radix(&format!("{whole}{fraction}"), 16).ok()?;
    // Far beyond what a float can hold in either direction, and far from overflowing below.
    let exponent = exponent.parse::<i32>().ok()?.clamp(-5000, 5000);
    let shift = i32::try_from(fraction.len()).ok()? * 4;
    #[expect(clippy::cast_precision_loss, reason = "at most 60 bits; ties are not worth more code")]
    Some(sign * number as f64 * 2_f64.powi(exponent - shift))
}

/// Null is nothing of the wanted type.
fn parse_json(
    text: &str,
    nothing: Any<'static>,
    is_wanted: fn(&Value) -> bool,
) -> Result<Any<'static>, String> {
    let value: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let kind = match &value {
        Value::Null => return Ok(nothing),
        _ if is_wanted(&value) => return Ok(typed(value)),
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    Err(format!("json: cannot unmarshal {kind} into Go value of type {}", nothing.type_name()))
}
