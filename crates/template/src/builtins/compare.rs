//! Comparisons: `eq` and its kin.
//!
//! Follows Go 1.26, `text/template/funcs.go` (`basicKind` to `ge`).

use std::cmp::Ordering;

use crate::execute::Slot;
use crate::{Context, Failure, Text, Value, print};

const BAD_TYPE: &str = "invalid type for comparison";

/// The kinds that can be compared, whatever their size.
enum Basic<'v> {
    Bool(bool),
    Complex([f64; 2]),
    Integer(i64),
    Unsigned(u64),
    Float(f64),
    Text(&'v Text),
}

impl<'v> Basic<'v> {
    fn of(value: &'v Value) -> Option<Self> {
        Some(match value {
            Value::Bool(truth) => Self::Bool(*truth),
            Value::Int(whole) | Value::Int64(whole) => Self::Integer(*whole),
            Value::Uint8(whole) => Self::Unsigned((*whole).into()),
            Value::Uint64(whole) => Self::Unsigned(*whole),
            Value::Float(float) => Self::Float(*float),
            Value::Complex(parts) => Self::Complex(**parts),
            Value::String(text) => Self::Text(text),
            Value::Object(object) => Self::Integer(object.integer()?),
            _ => return None,
        })
    }
}

/// Whether the first is equal to any of the others.
pub(super) fn equal(ctx: &mut Context<'_>, slots: &[Slot]) -> Result<bool, Failure> {
    let Some((first, others)) = slots.split_first() else { return Ok(false) };
    if others.is_empty() {
        return Err(Failure::new("missing argument for comparison"));
    }
    for other in others {
        if is_equal(ctx, first.plain(), other.plain())? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn is_equal(ctx: &mut Context<'_>, one: Option<&Value>, other: Option<&Value>) -> Result<bool, Failure> {
    let (one_basic, other_basic) = (one.and_then(Basic::of), other.and_then(Basic::of));
    if one_basic.is_none() && other_basic.is_none() {
        return are_same(ctx, one, other);
    }
    count_text(ctx, one_basic.as_ref(), other_basic.as_ref())?;
    if let (Some(one), Some(other)) = (&one_basic, &other_basic)
        && let Some(are_equal) = are_equal(one, other)
    {
        return Ok(are_equal);
    }
    match (one, other) {
        (Some(one), Some(other)) => Err(incompatible(one, other)),
        _ => Ok(false),
    }
}

/// To compare long texts is work.
fn count_text(
    ctx: &mut Context<'_>,
    one: Option<&Basic<'_>>,
    other: Option<&Basic<'_>>,
) -> Result<(), Failure> {
    if let (Some(Basic::Text(one)), Some(Basic::Text(other))) = (one, other) {
        ctx.step(one.len().min(other.len()) as u64 / 256)?;
    }
    Ok(())
}

/// Whether values of the same kind are equal. None if their kinds differ.
#[expect(clippy::float_cmp, reason = "that is what it is asked for")]
fn are_equal(one: &Basic<'_>, other: &Basic<'_>) -> Option<bool> {
    match (one, other) {
        (Basic::Bool(one), Basic::Bool(other)) => Some(one == other),
        (Basic::Complex(one), Basic::Complex(other)) => Some(one == other),
        (Basic::Float(one), Basic::Float(other)) => Some(one == other),
        (Basic::Text(one), Basic::Text(other)) => Some(one == other),
        _ => compare_integers(one, other).map(Ordering::is_eq),
    }
}

fn compare_integers(one: &Basic<'_>, other: &Basic<'_>) -> Option<Ordering> {
    let wide = |basic: &Basic<'_>| match basic {
        Basic::Integer(whole) => Some(i128::from(*whole)),
        Basic::Unsigned(whole) => Some(i128::from(*whole)),
        _ => None,
    };
    Some(wide(one)?.cmp(&wide(other)?))
}

fn incompatible(one: &Value, other: &Value) -> Failure {
    let (one, other) = (one.type_of(), other.type_of());
    Failure::new(format!("incompatible types for comparison: {one} and {other}"))
}

/// Values without a basic kind: lists, maps, objects, and no value at all.
fn are_same(ctx: &mut Context<'_>, one: Option<&Value>, other: Option<&Value>) -> Result<bool, Failure> {
    let (Some(one), Some(other)) = (one, other) else {
        // Where Go has no value at all it has no type either, so that this is an answer and not a mistake.
        return Ok(is_nil(one) && is_nil(other));
    };
    if kind(one) != kind(other) {
        let shown = |ctx: &mut Context<'_>, value: &Value| {
            print::sprintf(ctx, b"%s", std::slice::from_ref(value)).map(|text| text.to_str().into_owned())
        };
        // Go passes the last two the wrong way round.
        let (one_shown, other_shown) = (shown(ctx, one)?, print::sprint(ctx, std::slice::from_ref(other))?);
        let (one_type, other_type, other_shown) = (one.type_of(), other.type_of(), other_shown.to_str());
        return Err(Failure::new(format!(
            "non-comparable types {one_shown}: {one_type}, {other_type}: {other_shown}"
        )));
    }
    let (one_nil, other_nil) = (is_nil(Some(one)), is_nil(Some(other)));
    if one_nil || other_nil {
        return Ok(one_nil == other_nil);
    }
    if let (Value::Object(one), Value::Object(other)) = (one, other)
        && let Some(are_equal) = one.equals(other.as_ref())
    {
        return Ok(are_equal);
    }
    let shown = print::sprintf(ctx, b"%s", std::slice::from_ref(other))?;
    Err(Failure::new(format!("non-comparable type {}: {}", shown.to_str(), other.type_of())))
}

/// What Go's reflection calls the kind of a value.
fn kind(value: &Value) -> &'static str {
    match value {
        Value::List(_) | Value::Bytes(_) => "slice",
        Value::Map(_) | Value::AnyMap(_) => "map",
        Value::Object(object) if object.type_of().can_be_nil() => "ptr",
        _ => "struct",
    }
}

fn is_nil(value: Option<&Value>) -> bool {
    match value {
        None => true,
        Some(Value::List(list)) => list.is_nil(),
        Some(Value::Map(map)) => map.is_nil(),
        Some(_) => false,
    }
}

pub(super) fn less(ctx: &mut Context<'_>, slots: &[Slot]) -> Result<bool, Failure> {
    let [one, other] = slots else { return Ok(false) };
    let (Some(one), Some(other)) = (one.plain(), other.plain()) else {
        return Err(Failure::new(BAD_TYPE));
    };
    let (Some(one_basic), Some(other_basic)) = (Basic::of(one), Basic::of(other)) else {
        return Err(Failure::new(BAD_TYPE));
    };
    count_text(ctx, Some(&one_basic), Some(&other_basic))?;
    match (&one_basic, &other_basic) {
        (Basic::Bool(_), Basic::Bool(_)) | (Basic::Complex(_), Basic::Complex(_)) => {
            Err(Failure::new(BAD_TYPE))
        }
        (Basic::Float(one), Basic::Float(other)) => Ok(one < other),
        (Basic::Text(one), Basic::Text(other)) => Ok(one < other),
        _ => compare_integers(&one_basic, &other_basic)
            .map(Ordering::is_lt)
            .ok_or_else(|| incompatible(one, other)),
    }
}

pub(super) fn less_or_equal(ctx: &mut Context<'_>, slots: &[Slot]) -> Result<bool, Failure> {
    Ok(less(ctx, slots)? || equal(ctx, slots)?)
}
