//! Compares values in filters. Only what is of the same kind can be compared.
//!
//! Follows client-go 0.36.4, `third_party/forked/golang/template/funcs.go`.

use std::cmp::Ordering;

use serde_json::Value;

use super::Found;

const INCOMPATIBLE: &str = "incompatible types for comparison";
const WRONG_TYPE: &str = "invalid type for comparison";

enum Basic<'f> {
    Truth(bool),
    Integer(i64),
    Float(f64),
    Text(&'f str),
}

impl<'f> Basic<'f> {
    fn of(found: &'f Found<'_>) -> Result<Self, String> {
        let value = match found {
            Found::Byte(byte) => return Ok(Self::Integer(i64::from(*byte))),
            Found::Json(value) => value,
            Found::Literal(value) => value,
        };
        Ok(match value {
            Value::Bool(truth) => Self::Truth(*truth),
            Value::String(text) => Self::Text(text),
            Value::Number(number) => match number.as_i64() {
                Some(integer) => Self::Integer(integer),
                None => Self::Float(number.as_f64().unwrap_or(0.0)),
            },
            _ => return Err(WRONG_TYPE.to_owned()),
        })
    }
}

/// Whether the comparison holds.
pub(super) fn holds(one: &Found<'_>, operator: &str, other: &Found<'_>) -> Result<bool, String> {
    match operator {
        "==" => is_equal(one, other),
        "!=" => is_equal(one, other).map(|is_equal| !is_equal),
        "<" => is_less(one, other),
        ">=" => is_less(one, other).map(|is_less| !is_less),
        "<=" => Ok(is_less(one, other)? || is_equal(one, other)?),
        ">" => Ok(!(is_less(one, other)? || is_equal(one, other)?)),
        _ => Err(format!("unrecognized filter operator {operator}")),
    }
}

fn is_equal(one: &Found<'_>, other: &Found<'_>) -> Result<bool, String> {
    match (Basic::of(one)?, Basic::of(other)?) {
        (Basic::Truth(one), Basic::Truth(other)) => Ok(one == other),
        (one, other) => order(&one, &other).map(|order| order == Some(Ordering::Equal)),
    }
}

fn is_less(one: &Found<'_>, other: &Found<'_>) -> Result<bool, String> {
    match (Basic::of(one)?, Basic::of(other)?) {
        (Basic::Truth(_), Basic::Truth(_)) => Err(WRONG_TYPE.to_owned()),
        (one, other) => order(&one, &other).map(|order| order == Some(Ordering::Less)),
    }
}

fn order(one: &Basic<'_>, other: &Basic<'_>) -> Result<Option<Ordering>, String> {
    match (one, other) {
        (Basic::Integer(one), Basic::Integer(other)) => Ok(Some(one.cmp(other))),
        (Basic::Float(one), Basic::Float(other)) => Ok(one.partial_cmp(other)),
        (Basic::Text(one), Basic::Text(other)) => Ok(Some(one.cmp(other))),
        // Also for an integer and a float: the types are of different kinds in Go.
        _ => Err(INCOMPATIBLE.to_owned()),
    }
}
