//! The functions that Go's templates always have.
//!
//! Follows Go 1.26, `text/template/funcs.go`.

mod compare;
mod escape;
mod index;

use crate::execute::Slot;
use crate::{Callee, Context, Failure, Function, Type, Value, print};

const fn of_values(
    name: &'static str,
    parameters: &'static [Type],
    rest: Option<Type>,
    callee: fn(&mut Context<'_>, &[Value]) -> Result<Value, Failure>,
) -> Function {
    Function { name, parameters, rest, result: Type::String, callee: Callee::Values(callee) }
}

const fn of_slots(
    name: &'static str,
    parameters: &'static [Type],
    rest: Option<Type>,
    callee: fn(&mut Context<'_>, &[Slot]) -> Result<Slot, Failure>,
) -> Function {
    Function { name, parameters, rest, result: Type::Reflect, callee: Callee::Slots(callee) }
}

const fn special(name: &'static str, callee: Callee) -> Function {
    Function { name, parameters: &[Type::Reflect], rest: Some(Type::Reflect), result: Type::Reflect, callee }
}

const ONE: &[Type] = &[Type::Reflect];
const TWO: &[Type] = &[Type::Reflect, Type::Reflect];
const MORE: Option<Type> = Some(Type::Reflect);

pub(crate) static FUNCTIONS: &[Function] = &[
    special("and", Callee::And),
    special("or", Callee::Or),
    special("call", Callee::Call),
    of_slots("not", ONE, None, |_, slots| Ok(boolean(!slots.iter().all(Slot::is_true)))),
    of_slots("index", ONE, MORE, |_, slots| index::index(slots)),
    of_slots("slice", ONE, MORE, index::slice),
    of_slots("len", ONE, None, |_, slots| index::length(slots)),
    of_slots("eq", ONE, MORE, |ctx, slots| compare::equal(ctx, slots).map(boolean)),
    of_slots("ne", TWO, None, |ctx, slots| Ok(boolean(!compare::equal(ctx, slots)?))),
    of_slots("lt", TWO, None, |ctx, slots| compare::less(ctx, slots).map(boolean)),
    of_slots("le", TWO, None, |ctx, slots| compare::less_or_equal(ctx, slots).map(boolean)),
    of_slots("gt", TWO, None, |ctx, slots| Ok(boolean(!compare::less_or_equal(ctx, slots)?))),
    of_slots("ge", TWO, None, |ctx, slots| Ok(boolean(!compare::less(ctx, slots)?))),
    of_values("print", &[], Some(Type::Any), |ctx, values| print::sprint(ctx, values).map(Value::String)),
    of_values("println", &[], Some(Type::Any), |ctx, values| print::sprintln(ctx, values).map(Value::String)),
    of_values("printf", &[Type::String], Some(Type::Any), printf),
    of_values("html", &[], Some(Type::Any), |ctx, values| escaped(ctx, values, escape::html)),
    of_values("js", &[], Some(Type::Any), |ctx, values| escaped(ctx, values, escape::js)),
    of_values("urlquery", &[], Some(Type::Any), |ctx, values| escaped(ctx, values, escape::url_query)),
];

fn boolean(truth: bool) -> Slot {
    Slot::Plain(Value::Bool(truth))
}

fn printf(ctx: &mut Context<'_>, values: &[Value]) -> Result<Value, Failure> {
    match values {
        [Value::String(format), values @ ..] => print::sprintf(ctx, format, values).map(Value::String),
        // The signature asks for a format.
        _ => Ok(Value::text("")),
    }
}

fn escaped(ctx: &mut Context<'_>, values: &[Value], escape: fn(&[u8]) -> Vec<u8>) -> Result<Value, Failure> {
    // What is nil is no value here, unlike for `print`.
    let values: Vec<_> = values
        .iter()
        .map(|value| if matches!(value, Value::Nil) { Value::text("<no value>") } else { value.clone() })
        .collect();
    let text = print::sprint(ctx, &values)?;
    // No escape is longer than six times what it stands for.
    ctx.charge(text.len().saturating_mul(6))?;
    Ok(Value::text(escape(&text)))
}
