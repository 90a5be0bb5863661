//! Operators, and what else every type has its own idea of.
//!
//! Follows cel-go 0.29.2, `common/types`.

use std::cmp::Ordering;
use std::sync::Arc;

use super::{Answer, Context};
use crate::fault::Fault;
use crate::shape::union;
use crate::time;
use crate::value::{List, Map, MapKey, Value};

/// Some types answer for operators that they do not have, in fewer words.
fn no_such(context: &Context<'_>, values: &[Value<'_>]) -> Fault {
    match values.first() {
        Some(Value::String(_) | Value::Timestamp(_) | Value::Duration(_)) => Fault::no_such_overload(),
        _ => Fault::new(format!("no such overload: {}", context.function)),
    }
}

pub(super) fn not<'v>(_: &Context<'_>, values: &mut [Value<'v>]) -> Answer<'v> {
    match values {
        [Value::Bool(value)] => Ok(Value::Bool(!*value)),
        _ => Err(Fault::no_such_overload()),
    }
}

pub(super) fn negate<'v>(context: &Context<'_>, values: &mut [Value<'v>]) -> Answer<'v> {
    match values {
        [Value::Int(value)] => value.checked_neg().map(Value::Int).ok_or(Fault::text("integer overflow")),
        [Value::Double(value)] => Ok(Value::Double(-*value)),
        [Value::Duration(value)] => {
            value.checked_neg().map(Value::Duration).ok_or(Fault::text("integer overflow"))
        }
        [Value::Bool(_)] => Err(Fault::no_such_overload()),
        _ => Err(no_such(context, values)),
    }
}

pub(super) fn is_in<'v>(context: &Context<'_>, values: &mut [Value<'v>]) -> Answer<'v> {
    match values {
        [element, Value::List(list)] => {
            for candidate in list.iter() {
                if element.equals(&candidate, context.meter)? {
                    return Ok(Value::Bool(true));
                }
            }
            Ok(Value::Bool(false))
        }
        [key, Value::Map(map)] => Ok(Value::Bool(map.get(key).is_some())),
        _ => Err(Fault::no_such_overload()),
    }
}

pub(super) fn add<'v>(context: &Context<'_>, values: &mut [Value<'v>]) -> Answer<'v> {
    match values {
        [Value::Int(_) | Value::Uint(_) | Value::Double(_), _] => arithmetic(context, values),
        [Value::String(one), Value::String(other)] => {
            let (one, other) = (one.as_str(), other.as_str());
            context.meter.allocate(one.len().saturating_add(other.len()))?;
            Ok(Value::text([one, other].concat()))
        }
        [Value::Bytes(one), Value::Bytes(other)] => {
            context.meter.allocate(one.len().saturating_add(other.len()))?;
            Ok(Value::bytes([&**one, &**other].concat()))
        }
        [Value::List(_), Value::List(_)] => add_lists(context, values),
        [Value::Duration(one), Value::Duration(other)] => {
            one.checked_add(*other).map(Value::Duration).ok_or(Fault::text("integer overflow"))
        }
        [Value::Duration(duration), Value::Timestamp(timestamp)]
        | [Value::Timestamp(timestamp), Value::Duration(duration)] => timestamp
            .add(i128::from(*duration))
            .map(Value::Timestamp)
            .ok_or(Fault::text("timestamp overflow")),
        [
            Value::String(_) | Value::Bytes(_) | Value::List(_) | Value::Duration(_) | Value::Timestamp(_),
            _,
        ] => Err(Fault::no_such_overload()),
        _ => Err(no_such(context, values)),
    }
}

/// Appends to the first list in place if it is not shared.
fn add_lists<'v>(context: &Context<'_>, values: &mut [Value<'v>]) -> Answer<'v> {
    let [first, second] = values else { return Err(Fault::no_such_overload()) };
    let (Value::List(first), Value::List(second)) = (std::mem::take(first), second) else {
        return Err(Fault::no_such_overload());
    };
    if let List::Shaped(list, shape) = &first
        && let Some(items) = union(list, shape, second, context.meter)?
    {
        context.meter.allocate(items.len().saturating_mul(size_of::<Value<'_>>()))?;
        return Ok(Value::list(items));
    }
    let mut list = first.into_values();
    // Only what is really copied counts as memory, or long `map` loops would hit the limit by quadratic
    // growth that never happens.
    let copied = if Arc::get_mut(&mut list).is_some() { 0 } else { list.len() };
    context.meter.allocate((copied + second.len()).saturating_mul(size_of::<Value<'_>>()))?;
    Arc::make_mut(&mut list).extend(second.iter());
    Ok(Value::List(List::Values(list)))
}

pub(super) fn arithmetic<'v>(context: &Context<'_>, values: &mut [Value<'v>]) -> Answer<'v> {
    let operator = context.function;
    match values {
        [Value::Int(one), Value::Int(other)] => integers(operator, *one, *other),
        [Value::Uint(one), Value::Uint(other)] => unsigned(operator, *one, *other),
        [Value::Double(one), Value::Double(other)] => Ok(Value::Double(match operator {
            "_+_" => *one + *other,
            "_-_" => *one - *other,
            "_*_" => *one * *other,
            "_/_" => *one / *other,
            _ => return Err(no_such(context, &[])),
        })),
        // Doubles have no remainder in CEL.
        [Value::Double(_), _] if operator == "_%_" => Err(no_such(context, values)),
        [Value::Duration(one), Value::Duration(other)] if operator == "_-_" => {
            one.checked_sub(*other).map(Value::Duration).ok_or(Fault::text("integer overflow"))
        }
        [Value::Timestamp(one), Value::Duration(other)] if operator == "_-_" => {
            one.add(-i128::from(*other)).map(Value::Timestamp).ok_or(Fault::text("timestamp overflow"))
        }
        [Value::Timestamp(one), Value::Timestamp(other)] if operator == "_-_" => {
            time::between(*one, *other).map(Value::Duration).ok_or(Fault::text("integer overflow"))
        }
        [Value::Duration(_) | Value::Timestamp(_), _] if operator == "_-_" => Err(Fault::no_such_overload()),
        [Value::Int(_) | Value::Uint(_) | Value::Double(_), _] => Err(Fault::no_such_overload()),
        _ => Err(no_such(context, values)),
    }
}

/// The operators on whole numbers. A macro, because the checked operations of `i64` and `u64` have no trait in common.
macro_rules! whole_number_operator {
    ($operator:ident, $one:ident, $other:ident) => {
        match $operator {
            "_+_" => $one.checked_add($other),
            "_-_" => $one.checked_sub($other),
            "_*_" => $one.checked_mul($other),
            "_/_" if $other == 0 => return Err(Fault::text("division by zero")),
            "_/_" => $one.checked_div($other),
            _ if $other == 0 => return Err(Fault::text("modulus by zero")),
            _ => $one.checked_rem($other),
        }
    };
}

fn integers<'v>(operator: &str, one: i64, other: i64) -> Answer<'v> {
    let result = whole_number_operator!(operator, one, other);
    result.map(Value::Int).ok_or(Fault::text("integer overflow"))
}

fn unsigned<'v>(operator: &str, one: u64, other: u64) -> Answer<'v> {
    let result = whole_number_operator!(operator, one, other);
    result.map(Value::Uint).ok_or(Fault::text("unsigned integer overflow"))
}

pub(super) fn compare<'v>(context: &Context<'_>, values: &mut [Value<'v>]) -> Answer<'v> {
    let [one, other] = values else { return Err(Fault::no_such_overload()) };
    if matches!(
        one,
        Value::Null | Value::List(_) | Value::Map(_) | Value::Type(_) | Value::Optional(_) | Value::Object(_)
    ) {
        // No values are passed on, because for these types cel-go always gives the longer message.
        return Err(no_such(context, &[]));
    }
    let order = one.compare(other)?;
    Ok(Value::Bool(match context.function {
        "_<_" => order == Ordering::Less,
        "_<=_" => order != Ordering::Greater,
        "_>_" => order == Ordering::Greater,
        _ => order != Ordering::Less,
    }))
}

pub(super) fn size<'v>(context: &Context<'_>, values: &mut [Value<'v>]) -> Answer<'v> {
    let [value] = &*values else { return Err(no_such(context, values)) };
    // Counting characters reads all of a text, but costs one unit only.
    context.meter.work(value.as_str().map_or(1, |text| text.len() as u64 / 64 + 1))?;
    let is_sized = matches!(value, Value::String(_) | Value::Bytes(_) | Value::List(_) | Value::Map(_));
    match value.size() {
        Some(size) if is_sized => Ok(Value::Int(i64::try_from(size).unwrap_or(i64::MAX))),
        _ => Err(no_such(context, values)),
    }
}

/// Puts one entry, or all entries of another map, into a map that does not have them yet.
pub(super) fn insert<'v>(context: &Context<'_>, values: &mut [Value<'v>]) -> Answer<'v> {
    let Some(Value::Map(map)) = values.first_mut().map(std::mem::take) else {
        return Err(Fault::no_such_overload());
    };
    let mut entries = map.into_values();
    let added = match &values[1..] {
        [Value::Map(map)] => map.entries(),
        [key, value] => vec![(key.clone(), value.clone())],
        _ => return Err(Fault::no_such_overload()),
    };
    let copied = if Arc::get_mut(&mut entries).is_some() { 0 } else { entries.len() };
    context.meter.allocate((copied + added.len()).saturating_mul(2 * size_of::<Value<'_>>()))?;
    let changed = Arc::make_mut(&mut entries);
    for (key, value) in added {
        let shown = crate::json::show_key(&key);
        let name = key.type_name();
        let key = MapKey::new(key).ok_or_else(|| Fault::new(format!("unsupported key type: {name}")))?;
        if changed.insert(key, value).is_some() {
            return Err(Fault::new(format!("insert failed: key {shown} already exists")));
        }
    }
    Ok(Value::Map(Map::Values(entries)))
}
