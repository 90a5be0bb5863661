//! Lists and sets.
//!
//! Follows k8s.io/apiserver 0.37.2, `pkg/cel/library/lists.go`; cel-go 0.29.2, `ext/lists.go`, `ext/sets.go`.

use std::cmp::Ordering;

use super::{Answer, Context, operators};
use crate::fault::Fault;
use crate::value::{List, Value};

fn list<'a, 'v>(values: &'a [Value<'v>]) -> Result<&'a List<'v>, Fault> {
    match values.first() {
        Some(Value::List(list)) => Ok(list),
        _ => Err(Fault::no_such_overload()),
    }
}

fn is_comparable(value: &Value<'_>) -> bool {
    !matches!(
        value,
        Value::Null | Value::List(_) | Value::Map(_) | Value::Type(_) | Value::Optional(_) | Value::Object(_)
    )
}

pub(super) fn is_sorted<'v>(_: &Context<'_>, values: &mut [Value<'v>]) -> Answer<'v> {
    let mut before: Option<Value<'v>> = None;
    for value in list(values)?.iter() {
        if !is_comparable(&value) {
            return Err(Fault::no_such_overload());
        }
        // What cannot be compared, such as NaN, counts as sorted: Kubernetes looks for "greater" only.
        if before.is_some_and(|before| before.compare(&value) == Ok(Ordering::Greater)) {
            return Ok(Value::Bool(false));
        }
        before = Some(value);
    }
    Ok(Value::Bool(true))
}

pub(super) fn sum<'v>(context: &Context<'_>, values: &mut [Value<'v>]) -> Answer<'v> {
    let mut sum = match context.overload {
        "list_int_sum_int" => Value::Int(0),
        "list_uint_sum_uint" => Value::Uint(0),
        "list_double_sum_double" => Value::Double(0.0),
        _ => Value::Duration(0),
    };
    let adding = Context { function: "_+_", overload: "", regex: None, ..*context };
    for value in list(values)?.iter() {
        let is_addable =
            // What has an `Add` in cel-go is not the same as what has an order.
            is_comparable(&value) && !matches!(value, Value::Bool(_)) || matches!(value, Value::List(_));
        if !is_addable {
            return Err(Fault::no_such_overload());
        }
        sum = operators::add(&adding, &mut [sum, value])?;
    }
    Ok(sum)
}

pub(super) fn extreme<'v>(context: &Context<'_>, values: &mut [Value<'v>]) -> Answer<'v> {
    let replaced = if context.function == "max" { Ordering::Less } else { Ordering::Greater };
    let mut best: Option<Value<'v>> = None;
    for value in list(values)?.iter() {
        if !is_comparable(&value) {
            return Err(Fault::no_such_overload());
        }
        best = match best {
            Some(best) if best.compare(&value) != Ok(replaced) => Some(best),
            _ => Some(value),
        };
    }
    best.ok_or_else(|| Fault::new(format!("{} called on empty list", context.function)))
}

pub(super) fn index_of<'v>(context: &Context<'_>, values: &mut [Value<'v>]) -> Answer<'v> {
    let [Value::List(list), wanted] = values else { return Err(Fault::no_such_overload()) };
    let mut found = None;
    for (index, value) in list.iter().enumerate() {
        if value.equals(wanted, context.meter)? {
            found = Some(index);
            if context.function == "indexOf" {
                break;
            }
        }
    }
    Ok(Value::Int(found.map_or(-1, |index| i64::try_from(index).unwrap_or(i64::MAX))))
}

pub(super) fn includes<'v>(context: &Context<'_>, values: &mut [Value<'v>]) -> Answer<'v> {
    match values {
        [Value::List(list), wanted] => Ok(Value::Bool(contains(list, wanted, context)?)),
        // Kubernetes lets anything be searched, and takes what is no list for its only element.
        [value, wanted] => Ok(Value::Bool(value.equals(wanted, context.meter)?)),
        _ => Err(Fault::no_such_overload()),
    }
}

fn contains(list: &List<'_>, wanted: &Value<'_>, context: &Context<'_>) -> Result<bool, Fault> {
    for value in list.iter() {
        if value.equals(wanted, context.meter)? {
            return Ok(true);
        }
    }
    Ok(false)
}

pub(super) fn distinct<'v>(context: &Context<'_>, values: &mut [Value<'v>]) -> Answer<'v> {
    let mut unique: Vec<Value<'v>> = Vec::new();
    // Quadratic, as its cost is. Hashing would have to know that `1`, `1u` and `1.0` are equal.
    'elements: for value in list(values)?.iter() {
        for seen in &unique {
            if value.equals(seen, context.meter)? {
                continue 'elements;
            }
        }
        unique.push(value);
    }
    context.list(unique)
}

pub(super) fn flatten<'v>(context: &Context<'_>, values: &mut [Value<'v>]) -> Answer<'v> {
    let depth = match values.get(1) {
        Some(Value::Int(depth)) => *depth,
        _ => 1,
    };
    if depth < 0 {
        return Err(Fault::text("level must be non-negative"));
    }
    let Some(Value::List(list)) = values.first() else {
        let name = values.first().map_or("", describe);
        return Err(Fault::new(format!("no such overload: {name}.flatten()")));
    };
    let mut flat = Vec::new();
    flatten_into(list, depth, context, &mut flat)?;
    Ok(Value::list(flat))
}

fn describe(value: &Value<'_>) -> &'static str {
    match value {
        Value::Map(_) => "map(dyn, dyn)",
        Value::Optional(_) => "optional_type(dyn)",
        other => other.type_name(),
    }
}

fn flatten_into<'v>(
    list: &List<'v>,
    depth: i64,
    context: &Context<'_>,
    flat: &mut Vec<Value<'v>>,
) -> Result<(), Fault> {
    for value in list.iter() {
        context.meter.work(1)?;
        match &value {
            Value::List(nested) if depth > 0 => flatten_into(nested, depth - 1, context, flat)?,
            _ => {
                context.meter.allocate(size_of::<Value<'_>>())?;
                flat.push(value);
            }
        }
    }
    Ok(())
}

pub(super) fn slice<'v>(context: &Context<'_>, values: &mut [Value<'v>]) -> Answer<'v> {
    let [Value::List(list), Value::Int(start), Value::Int(end)] = values else {
        return Err(Fault::no_such_overload());
    };
    let asked = format!("cannot slice({start}, {end}),");
    let (Ok(from), Ok(to)) = (usize::try_from(*start), usize::try_from(*end)) else {
        return Err(Fault::new(format!("{asked} negative indexes not supported")));
    };
    if from > to {
        return Err(Fault::new(format!("{asked} start index must be less than or equal to end index")));
    }
    if list.len() < to {
        return Err(Fault::new(format!("{asked} list is length {}", list.len())));
    }
    context.list((from..to).filter_map(|index| list.get(index)).collect())
}

pub(super) fn reverse<'v>(context: &Context<'_>, values: &mut [Value<'v>]) -> Answer<'v> {
    context.list(list(values)?.iter().rev().collect())
}

pub(super) fn end<'v>(context: &Context<'_>, values: &mut [Value<'v>]) -> Answer<'v> {
    let list = list(values)?;
    let index = if context.function == "first" { 0 } else { list.len().saturating_sub(1) };
    Ok(list.get(index).map_or(Value::Optional(None), Value::some))
}

pub(super) fn range<'v>(context: &Context<'_>, values: &mut [Value<'v>]) -> Answer<'v> {
    let [Value::Int(size)] = values else { return Err(Fault::no_such_overload()) };
    let Ok(length) = usize::try_from(*size) else {
        return Err(Fault::new(format!("lists.range: size must be non-negative, got {size}")));
    };
    // Asked before the list is made: `lists.range(1000000000)` is one short call.
    context.meter.allocate(length.saturating_mul(size_of::<Value<'_>>()))?;
    Ok(Value::list((0..*size).map(Value::Int).collect()))
}

/// Sorts a list, by itself or by a list of keys.
pub(super) fn sort<'v>(context: &Context<'_>, values: &mut [Value<'v>]) -> Answer<'v> {
    let (list, keys) = match values {
        [Value::List(list)] => (&*list, &*list),
        [Value::List(list), Value::List(keys)] => (&*list, &*keys),
        [Value::String(_) | Value::Timestamp(_) | Value::Duration(_), ..] => {
            return Err(Fault::no_such_overload());
        }
        _ => return Err(Fault::new(format!("no such overload: {}", context.function))),
    };
    let keys: Vec<_> = keys.iter().collect();
    if list.len() != keys.len() {
        return Err(Fault::new(format!(
            "@sortByAssociatedKeys() expected a list of the same size as the associated keys list, but got {} and {} elements respectively",
            list.len(),
            keys.len()
        )));
    }
    let Some(first) = keys.first() else { return Ok(Value::List(list.clone())) };
    if !is_comparable(first) {
        return Err(Fault::text("list elements must be comparable"));
    }
    if keys.iter().any(|key| key.type_name() != first.type_name()) {
        return Err(Fault::text("list elements must have the same type"));
    }
    let mut order: Vec<usize> = (0..keys.len()).collect();
    // The sort is stable, so that elements with equal keys stay in their order.
    order.sort_by(|one, other| in_order(&keys[*one], &keys[*other]));
    context.list(order.into_iter().filter_map(|index| list.get(index)).collect())
}

/// What is not a number must have a place too, or sorting would be at a loss.
fn in_order(one: &Value<'_>, other: &Value<'_>) -> Ordering {
    match (one, other) {
        (Value::Double(one), Value::Double(other)) => {
            one.partial_cmp(other).unwrap_or_else(|| one.total_cmp(other))
        }
        _ => one.compare(other).unwrap_or(Ordering::Equal),
    }
}

pub(super) fn sets<'v>(context: &Context<'_>, values: &mut [Value<'v>]) -> Answer<'v> {
    let [Value::List(one), Value::List(other)] = values else { return Err(Fault::no_such_overload()) };
    Ok(Value::Bool(match context.function {
        "sets.contains" => contains_all(one, other, context)?,
        "sets.equivalent" => contains_all(one, other, context)? && contains_all(other, one, context)?,
        _ => {
            for value in one.iter() {
                if contains(other, &value, context)? {
                    return Ok(Value::Bool(true));
                }
            }
            false
        }
    }))
}

fn contains_all(list: &List<'_>, wanted: &List<'_>, context: &Context<'_>) -> Result<bool, Fault> {
    for value in wanted.iter() {
        if !contains(list, &value, context)? {
            return Ok(false);
        }
    }
    Ok(true)
}
