//! Integers and floats.
//!
//! Integers wrap around, as Go's do. Floats are added, multiplied and divided as decimal numbers.
//!
//! Follows sprig 3.3.0, `functions.go`, `numeric.go`, and Go 1.26, `math/pow.go`.

use ferroplane_golang::fmt::to_text as lossy;

use super::arguments::{charge_items, int, text};
use super::cast::{to_float64, to_int64};
use super::decimal::Decimal;
use super::{function, variadic};
use crate::{Context, Failure, Function, Type, Value, print};

use Type::{Any, Float64, Int, Int64, String};

pub(super) const FUNCTIONS: &[Function] = &[
    function("atoi", &[String], Int, |_, args| Ok(Value::Int(atoi(text(args, 0))))),
    function("int64", &[Any], Int64, |_, args| Ok(Value::Int64(to_int64(&args[0])))),
    function("int", &[Any], Int, |_, args| Ok(Value::Int(to_int64(&args[0])))),
    function("float64", &[Any], Float64, |_, args| Ok(Value::Float(to_float64(&args[0])))),
    function("toDecimal", &[Any], Int64, to_decimal),
    function("add1", &[Any], Int64, |_, args| Ok(Value::Int64(to_int64(&args[0]).wrapping_add(1)))),
    variadic("add", &[], Any, Int64, |_, args| Ok(fold(0, args, i64::wrapping_add))),
    function("sub", &[Any, Any], Int64, |_, args| {
        Ok(fold(to_int64(&args[0]), &args[1..], i64::wrapping_sub))
    }),
    variadic("mul", &[Any], Any, Int64, |_, args| Ok(fold(1, args, i64::wrapping_mul))),
    function("div", &[Any, Any], Int64, |_, args| divide(args, i64::wrapping_div)),
    function("mod", &[Any, Any], Int64, |_, args| divide(args, i64::wrapping_rem)),
    variadic("biggest", &[Any], Any, Int64, |_, args| Ok(fold(i64::MIN, args, i64::max))),
    variadic("max", &[Any], Any, Int64, |_, args| Ok(fold(i64::MIN, args, i64::max))),
    variadic("min", &[Any], Any, Int64, |_, args| Ok(fold(i64::MAX, args, i64::min))),
    variadic("maxf", &[Any], Any, Float64, |_, args| Ok(fold_floats(args, larger))),
    variadic("minf", &[Any], Any, Float64, |_, args| {
        Ok(fold_floats(args, |one, other| -larger(-one, -other)))
    }),
    function("ceil", &[Any], Float64, |_, args| Ok(Value::Float(to_float64(&args[0]).ceil()))),
    function("floor", &[Any], Float64, |_, args| Ok(Value::Float(to_float64(&args[0]).floor()))),
    variadic("round", &[Any, Int], Float64, Float64, round),
    function("add1f", &[Any], Float64, |ctx, args| {
        decimals(ctx, Decimal::of(to_float64(&args[0]))?, &[Value::Int(1)], |one, other| Ok(one.add(other)))
    }),
    variadic("addf", &[], Any, Float64, |ctx, args| {
        decimals(ctx, Decimal::of(0.0)?, args, |one, other| Ok(one.add(other)))
    }),
    variadic("subf", &[Any], Any, Float64, |ctx, args| {
        decimals(ctx, Decimal::of(to_float64(&args[0]))?, &args[1..], |one, other| Ok(one.sub(other)))
    }),
    variadic("mulf", &[Any], Any, Float64, |ctx, args| {
        decimals(ctx, Decimal::of(to_float64(&args[0]))?, &args[1..], |one, other| Ok(one.mul(other)))
    }),
    variadic("divf", &[Any], Any, Float64, |ctx, args| {
        decimals(ctx, Decimal::of(to_float64(&args[0]))?, &args[1..], Decimal::div)
    }),
    function("until", &[Int], Type::List(&Int), until),
    function("untilStep", &[Int, Int, Int], Type::List(&Int), until_step),
    variadic("seq", &[], Int, String, seq),
];

/// An integer in base ten. What is none is zero, and what is too large is the largest.
fn atoi(text: &[u8]) -> i64 {
    parse_saturating(&lossy(text), 10)
}

/// What Go's `ParseInt` gives when the error is ignored.
pub(super) fn parse_saturating(text: &str, base: u32) -> i64 {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if digits.is_empty() || !digits.chars().all(|digit| digit.is_digit(base)) {
        return 0;
    }
    let limit = if text.starts_with('-') { i64::MIN } else { i64::MAX };
    i64::from_str_radix(text, base).unwrap_or(limit)
}

/// The number that the octal digits stand for: `777` is 511.
fn to_decimal(ctx: &mut Context<'_>, args: &[Value]) -> Result<Value, Failure> {
    let printed = print::sprint(ctx, args)?;
    Ok(Value::Int64(i64::from_str_radix(&printed.to_str(), 8).unwrap_or_default()))
}

fn fold(start: i64, values: &[Value], combine: fn(i64, i64) -> i64) -> Value {
    Value::Int64(values.iter().map(to_int64).fold(start, combine))
}

fn divide(args: &[Value], combine: fn(i64, i64) -> i64) -> Result<Value, Failure> {
    let divisor = to_int64(&args[1]);
    if divisor == 0 {
        return Err(Failure::new("runtime error: integer divide by zero"));
    }
    Ok(Value::Int64(combine(to_int64(&args[0]), divisor)))
}

fn fold_floats(values: &[Value], combine: fn(f64, f64) -> f64) -> Value {
    let mut floats = values.iter().map(to_float64);
    let first = floats.next().unwrap_or_default();
    Value::Float(floats.fold(first, combine))
}

/// As Go's `math.Max`: what is no number wins unless something is infinite, and zero is larger than minus zero.
fn larger(one: f64, other: f64) -> f64 {
    if one == f64::INFINITY || other == f64::INFINITY {
        return f64::INFINITY;
    }
    if one.is_nan() || other.is_nan() {
        return f64::NAN;
    }
    if one == 0.0 && other == 0.0 {
        return if one.is_sign_negative() { other } else { one };
    }
    if one > other { one } else { other }
}

/// Rounds to so many places, up from this fraction on.
fn round(_: &mut Context<'_>, args: &[Value]) -> Result<Value, Failure> {
    let from = if let Some(Value::Float(from)) = args.get(2) { *from } else { 0.5 };
    let power = power_of_ten(int(args, 1));
    let scaled = power * to_float64(&args[0]);
    let rounded = if fraction(scaled) >= from { scaled.ceil() } else { scaled.floor() };
    Ok(Value::Float(rounded / power))
}

/// As Go's `math.Modf`: an infinite number has no fraction that is one.
fn fraction(float: f64) -> f64 {
    if float.is_infinite() { f64::NAN } else { float - float.trunc() }
}

/// As Go's `math.Pow` computes it: powers of ten that are not exact differ in their last digit from those of other libraries.
fn power_of_ten(exponent: i64) -> f64 {
    if exponent == 0 {
        return 1.0;
    }
    if exponent == 1 {
        return 10.0;
    }
    let (mut result, mut result_exponent) = (1.0, 0_i32);
    // Ten is 0.625 × 2⁴.
    let (mut base, mut base_exponent) = (0.625_f64, 4_i32);
    let mut bits = exponent.unsigned_abs();
    while bits != 0 {
        // Go ends here because the result is infinite or zero whatever follows; the exponent must not
        // overflow.
        if !(-(1 << 12)..=1 << 12).contains(&base_exponent) {
            result_exponent += base_exponent;
            break;
        }
        if bits & 1 == 1 {
            result *= base;
            result_exponent += base_exponent;
        }
        base *= base;
        base_exponent <<= 1;
        if base < 0.5 {
            base += base;
            base_exponent -= 1;
        }
        bits >>= 1;
    }
    if exponent < 0 {
        result = 1.0 / result;
        result_exponent = -result_exponent;
    }
    scaled(result, result_exponent)
}

/// A float times a power of two. The float is near one, so that only the last step can lose digits.
fn scaled(mut float: f64, mut exponent: i32) -> f64 {
    while exponent != 0 && float != 0.0 && float.is_finite() {
        let step = exponent.clamp(-900, 900);
        float *= 2_f64.powi(step);
        exponent -= step;
    }
    float
}

fn decimals(
    ctx: &mut Context<'_>,
    first: Decimal,
    others: &[Value],
    combine: fn(&Decimal, &Decimal) -> Result<Decimal, Failure>,
) -> Result<Value, Failure> {
    let mut result = first;
    for other in others {
        // Every product is as long as its factors together, so that a long call computes with ever longer
        // numbers.
        ctx.step(1 + result.size() / 64)?;
        result = combine(&result, &Decimal::of(to_float64(other))?)?;
    }
    Ok(Value::Float(result.to_float()))
}

fn until(ctx: &mut Context<'_>, args: &[Value]) -> Result<Value, Failure> {
    let count = int(args, 0);
    let numbers = numbers(ctx, 0, count, if count < 0 { -1 } else { 1 })?;
    ctx.typed_list(&Int, numbers.into_iter().map(Value::Int).collect())
}

fn until_step(ctx: &mut Context<'_>, args: &[Value]) -> Result<Value, Failure> {
    let numbers = numbers(ctx, int(args, 0), int(args, 1), int(args, 2))?;
    ctx.typed_list(&Int, numbers.into_iter().map(Value::Int).collect())
}

/// The numbers from one to before another. A step that leads away from it, or nowhere, gives none.
fn numbers(ctx: &mut Context<'_>, first: i64, past: i64, step: i64) -> Result<Vec<i64>, Failure> {
    let is_down = past < first;
    if is_down && step >= 0 || !is_down && step <= 0 {
        return Ok(Vec::new());
    }
    let count = past.abs_diff(first).div_ceil(step.unsigned_abs());
    charge_items(ctx, usize::try_from(count).unwrap_or(usize::MAX))?;
    let mut numbers = Vec::new();
    let mut next = first;
    while if is_down { next > past } else { next < past } {
        numbers.push(next);
        // Go wraps around here and continues until there is no memory.
        let Some(after) = next.checked_add(step) else { break };
        next = after;
    }
    Ok(numbers)
}

/// Numbers with spaces between them: up to one, from one to another, or with a step between.
fn seq(ctx: &mut Context<'_>, args: &[Value]) -> Result<Value, Failure> {
    let number = |at| int(args, at);
    let (start, end, step) = match args.len() {
        1 => (1, number(0), None),
        2 => (number(0), number(1), None),
        3 => (number(0), number(2), Some(number(1))),
        _ => return Ok(Value::text("")),
    };
    let direction = if end < start { -1 } else { 1 };
    if direction < 0 && step.is_some_and(|step| step > 0) {
        return Ok(Value::text(""));
    }
    let numbers = numbers(ctx, start, end.wrapping_add(direction), step.unwrap_or(direction))?;
    let texts: Vec<_> = numbers.iter().map(ToString::to_string).collect();
    Ok(Value::text(texts.join(" ")))
}
