//! What a call costs, as Kubernetes counts.
//!
//! Follows cel-go 0.29.2, `interpreter/runtimecost.go`; k8s.io/apiserver 0.37.2, `pkg/cel/library/cost.go`.

use super::fault::Fault;
use super::meter::Meter;
use super::program::Call;
use super::value::{List, Value};

pub(super) const IDENTIFIER: u64 = 1;
pub(super) const LIST: u64 = 10;
pub(super) const MAP: u64 = 30;

/// An argument, or the error in its place.
type Argument<'a, 'v> = &'a Result<Value<'v>, Fault>;

/// Whether the second argument of the function is a regular expression.
pub(super) fn has_pattern(function: &str) -> bool {
    matches!(function, "matches" | "find" | "findAll")
}

/// Whether the cost depends on the result.
pub(super) fn needs_result(function: &str) -> bool {
    matches!(function, "join" | "slice" | "lists.range" | "reverse")
}

pub(super) fn of_call(
    call: &Call,
    arguments: &[Result<Value<'_>, Fault>],
    result: Option<Argument<'_, '_>>,
    meter: &Meter,
) -> Result<u64, Fault> {
    let overload = call.overload.map_or("", |overload| overload.name);
    // Whatever has no size costs one: `actualSize` in cel-go says the same.
    let size = |index: usize| arguments.get(index).map_or(1, size);
    let resulting = || result.map_or(1, self::size);
    if let Some(cost) = of_extension(overload, arguments, size, resulting) {
        return Ok(cost);
    }
    Ok(match call.function.name {
        "isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf" | "includes" => match &arguments[0] {
            Ok(value) => traversal(value, meter)?,
            Err(_) => 1,
        },
        "url" | "lowerAscii" | "upperAscii" | "substring" | "trim" | "cidr" | "isIP" | "isCIDR"
        | "quantity" | "isQuantity" | "semver" | "isSemver" => tenth(size(0)),
        // The overload on a network reads a field; the one on text parses.
        "ip" if overload != "cidr_ip" => tenth(size(0)),
        // Twice, because the text is read once and written once.
        "replace" | "split" | "ip.isCanonical" => tenth(size(0).saturating_mul(2)),
        // Only the result tells how long all parts are together.
        "join" => tenth(resulting().saturating_mul(2)),
        "find" | "findAll" => regex(size(0), size(1)),
        "containsIP" | "containsCIDR" => contained(call.function.name, overload, size(0), size(1)),
        "validate" => match &arguments[0] {
            Ok(Value::Object(object)) => regex(size(1), object.pattern_size()),
            _ => 1,
        },
        _ => of_standard(overload, size),
    })
}

/// Lists and sets, of which only resolved overloads are counted.
fn of_extension(
    overload: &str,
    arguments: &[Result<Value<'_>, Fault>],
    size: impl Fn(usize) -> u64,
    resulting: impl Fn() -> u64,
) -> Option<u64> {
    let allocated = |elements: u64| elements.saturating_add(1 + LIST);
    Some(match overload {
        "list_slice" | "lists_range" | "list_reverse" => allocated(resulting()),
        "list_flatten" => allocated(size(0)),
        "list_flatten_int" => match arguments.get(1) {
            Some(Ok(Value::Int(depth))) if *depth >= 0 => {
                allocated(size(0).saturating_mul(depth.unsigned_abs()))
            }
            // A negative depth is refused by the function itself, after it was charged.
            _ => allocated(size(0)),
        },
        "list_distinct" => allocated(comparing(&arguments[0])),
        "list_sets_contains_list" | "list_sets_intersects_list" => {
            size(0).saturating_mul(size(1)).saturating_add(1)
        }
        "list_sets_equivalent_list" => size(0).saturating_mul(size(1)).saturating_mul(2).saturating_add(1),
        _ if overload.starts_with("list_") && overload.ends_with("_sort") => {
            allocated(comparing(&arguments[0]))
        }
        _ if overload.ends_with("_sortByAssociatedKeys") => allocated(arguments.get(1).map_or(1, comparing)),
        _ => return None,
    })
}

/// Every element of a list compared with every other.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "an estimate"
)]
fn comparing(list: Argument<'_, '_>) -> u64 {
    let Ok(Value::List(list)) = list else { return 1 };
    let pairs = (list.len() as u64).saturating_mul(list.len() as u64);
    match list.get(0) {
        // The first element decides for all, as in cel-go, which does not check the others.
        Some(Value::String(_) | Value::Bytes(_)) => (pairs as f64 * 2.1) as u64,
        _ => pairs.saturating_mul(2),
    }
}

fn of_standard(overload: &str, size: impl Fn(usize) -> u64) -> u64 {
    match overload {
        "starts_with_string" | "ends_with_string" => tenth(size(1)),
        "string_to_bytes" | "bytes_to_string" | "strings_quote" | "string_format" => tenth(size(0)),
        // A list of constants does not come here: see `ProgramNode::InConstant`.
        "in_list" => size(1),
        "less_string"
        | "greater_string"
        | "less_equals_string"
        | "greater_equals_string"
        | "less_bytes"
        | "greater_bytes"
        | "less_equals_bytes"
        | "greater_equals_bytes" => tenth(size(0).min(size(1))),
        "add_string" | "add_bytes" => tenth(size(0).saturating_add(size(1))),
        "matches" | "matches_string" => regex(size(0), size(1)),
        "contains_string" => tenth(size(0)).saturating_mul(tenth(size(1))),
        _ => 1,
    }
}

/// Two values compared.
pub(super) fn of_equality(one: Argument<'_, '_>, other: Argument<'_, '_>, is_negated: bool) -> u64 {
    match one {
        // Kubernetes declares a cost for `==` of its own types and forgot `!=`, which falls back to sizes.
        Ok(Value::Object(_)) if !is_negated => 1,
        _ => tenth(size(one).min(size(other))),
    }
}

/// Parsing and comparing addresses, which takes as long as they are.
fn contained(function: &str, overload: &str, size: u64, other: u64) -> u64 {
    let mut cost = tenth(size.saturating_mul(2));
    if function == "containsCIDR" {
        cost += tenth(size) + 1;
    }
    if overload.ends_with("_string") {
        cost += tenth(other);
    }
    cost
}

fn regex(text: u64, pattern: u64) -> u64 {
    // One is added so that an expensive pattern costs something on empty text. Four characters are taken for
    // one element of a pattern (`RegexStringLengthCostFactor`).
    tenth(text.saturating_add(1)).saturating_mul(pattern.div_ceil(4))
}

/// Text is checked ten characters at a time.
fn tenth(size: u64) -> u64 {
    size.div_ceil(10)
}

fn size(value: Argument<'_, '_>) -> u64 {
    match value {
        Ok(Value::Optional(Some(value))) => value.size().map_or(1, |size| size as u64),
        Ok(value) => value.size().map_or(1, |size| size as u64),
        Err(_) => 1,
    }
}

/// What it takes to check everything in a value.
fn traversal(value: &Value<'_>, meter: &Meter) -> Result<u64, Fault> {
    meter.work(1)?;
    Ok(match value {
        // Bytes and rounded down here, unlike everywhere else: so Kubernetes does it in `traversalCost`.
        Value::String(text) => text.as_str().len() as u64 / 10,
        Value::Bytes(bytes) => bytes.len() as u64 / 10,
        Value::List(list) => traverse_list(list, meter)?,
        Value::Map(map) => {
            let mut cost: u64 = 0;
            for (key, value) in map.entries() {
                cost = cost.saturating_add(traversal(&key, meter)?).saturating_add(traversal(&value, meter)?);
            }
            cost
        }
        _ => 1,
    })
}

fn traverse_list(list: &List<'_>, meter: &Meter) -> Result<u64, Fault> {
    let mut cost: u64 = 0;
    for value in list.iter() {
        cost = cost.saturating_add(traversal(&value, meter)?);
    }
    Ok(cost)
}
