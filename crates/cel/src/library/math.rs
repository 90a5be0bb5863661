//! Mathematics.
//!
//! Follows cel-go 0.29.2, `ext/math.go`.

use std::cmp::Ordering;

use super::{Answer, Context, Implementation};
use crate::fault::Fault;
use crate::value::{List, Value};

pub(super) fn implementation(name: &str) -> Option<Implementation> {
    Some(match name {
        "math.@max" | "math.@min" => extreme,
        "math.ceil" | "math.floor" | "math.round" | "math.trunc" | "math.isNaN" | "math.isInf"
        | "math.isFinite" => double,
        "math.abs" | "math.sign" | "math.sqrt" => number,
        "math.bitAnd" | "math.bitOr" | "math.bitXor" | "math.bitNot" => bits,
        "math.bitShiftLeft" | "math.bitShiftRight" => shift,
        _ => return None,
    })
}

/// The greatest or least of one, two or a list of numbers.
fn extreme<'v>(context: &Context<'_>, values: &mut [Value<'v>]) -> Answer<'v> {
    match values {
        [Value::List(list)] => extreme_of_list(context, list),
        [value] => Ok(value.clone()),
        [one, other] => better(context, one.clone(), other.clone()),
        _ => Err(Fault::no_such_overload()),
    }
}

fn extreme_of_list<'v>(context: &Context<'_>, list: &List<'v>) -> Answer<'v> {
    let mut values = list.iter();
    let Some(mut best) = values.next() else {
        return Err(Fault::new(format!("{}(list) argument must not be empty", context.function)));
    };
    for value in values {
        best = better(context, best, value)?;
    }
    if best.is_number() {
        Ok(best)
    } else {
        Err(Fault::new(format!("no such overload: {}", context.function)))
    }
}

fn better<'v>(context: &Context<'_>, one: Value<'v>, other: Value<'v>) -> Answer<'v> {
    let worse = if context.function == "math.@max" { Ordering::Less } else { Ordering::Greater };
    match one.compare(&other) {
        Ok(order) if order == worse => Ok(other),
        Ok(_) => Ok(one),
        Err(Fault::Error(text)) => Err(Fault::new(format!("{text}: {}", context.function))),
        Err(fault) => Err(fault),
    }
}

fn double<'v>(context: &Context<'_>, values: &mut [Value<'v>]) -> Answer<'v> {
    let [Value::Double(value)] = values else { return Err(Fault::no_such_overload()) };
    let value = *value;
    Ok(match context.function {
        "math.isNaN" => Value::Bool(value.is_nan()),
        "math.isInf" => Value::Bool(value.is_infinite()),
        "math.isFinite" => Value::Bool(value.is_finite()),
        "math.ceil" => Value::Double(value.ceil()),
        "math.floor" => Value::Double(value.floor()),
        "math.round" => Value::Double(value.round()),
        _ => Value::Double(value.trunc()),
    })
}

#[allow(clippy::cast_precision_loss, reason = "a root is a double")]
fn number<'v>(context: &Context<'_>, values: &mut [Value<'v>]) -> Answer<'v> {
    Ok(match (context.function, values) {
        ("math.sqrt", [Value::Double(value)]) => Value::Double(value.sqrt()),
        ("math.sqrt", [Value::Int(value)]) => Value::Double((*value as f64).sqrt()),
        ("math.sqrt", [Value::Uint(value)]) => Value::Double((*value as f64).sqrt()),
        ("math.abs", [Value::Int(value)]) => {
            Value::Int(value.checked_abs().ok_or(Fault::text("integer overflow"))?)
        }
        ("math.abs", [Value::Uint(value)]) => Value::Uint(*value),
        ("math.abs", [Value::Double(value)]) => Value::Double(value.abs()),
        ("math.sign", [Value::Int(value)]) => Value::Int(value.signum()),
        ("math.sign", [Value::Uint(value)]) => Value::Uint((*value).min(1)),
        ("math.sign", [Value::Double(value)]) => {
            let is_zero_or_nan = *value == 0.0 || value.is_nan();
            // Adding zero makes zero of minus zero, and leaves what is not a number as it is.
            Value::Double(if is_zero_or_nan { *value + 0.0 } else { value.signum() })
        }
        _ => return Err(Fault::no_such_overload()),
    })
}

fn bits<'v>(context: &Context<'_>, values: &mut [Value<'v>]) -> Answer<'v> {
    Ok(match (context.function, values) {
        ("math.bitAnd", [Value::Int(one), Value::Int(other)]) => Value::Int(*one & *other),
        ("math.bitAnd", [Value::Uint(one), Value::Uint(other)]) => Value::Uint(*one & *other),
        ("math.bitOr", [Value::Int(one), Value::Int(other)]) => Value::Int(*one | *other),
        ("math.bitOr", [Value::Uint(one), Value::Uint(other)]) => Value::Uint(*one | *other),
        ("math.bitXor", [Value::Int(one), Value::Int(other)]) => Value::Int(*one ^ *other),
        ("math.bitXor", [Value::Uint(one), Value::Uint(other)]) => Value::Uint(*one ^ *other),
        ("math.bitNot", [Value::Int(value)]) => Value::Int(!*value),
        ("math.bitNot", [Value::Uint(value)]) => Value::Uint(!*value),
        _ => return Err(Fault::no_such_overload()),
    })
}

/// Bits that are shifted out are lost, and zeros come in.
fn shift<'v>(context: &Context<'_>, values: &mut [Value<'v>]) -> Answer<'v> {
    let [value, Value::Int(offset)] = values else { return Err(Fault::no_such_overload()) };
    if *offset < 0 {
        let message = format!("{}() negative offset: {offset}", context.function);
        return Err(Fault::new(message));
    }
    let offset = u32::try_from(*offset).unwrap_or(u32::MAX);
    let shifted = |bits: u64| {
        let shifted = if context.function == "math.bitShiftLeft" {
            bits.checked_shl(offset)
        } else {
            bits.checked_shr(offset)
        };
        // Rust refuses to shift by 64 and more; Go gives zero.
        shifted.unwrap_or(0)
    };
    Ok(match value {
        // Shifting right fills with zeros even for negative numbers: cel-go shifts the bits as unsigned.
        Value::Int(value) => Value::Int(shifted(value.cast_unsigned()).cast_signed()),
        Value::Uint(value) => Value::Uint(shifted(*value)),
        _ => return Err(Fault::no_such_overload()),
    })
}
