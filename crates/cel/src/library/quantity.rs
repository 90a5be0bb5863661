//! Quantities, like `1.5Gi` or `100m`.
//!
//! Follows k8s.io/apiserver 0.37.2, `pkg/cel/library/quantity.go`.

use std::sync::Arc;

use super::{Answer, Context};
use crate::fault::Fault;
use crate::object::LibraryObject;
use crate::quantity::{Notation, Quantity};
use crate::value::Value;

pub(super) fn quantity<'v>(context: &Context<'_>, values: &mut [Value<'v>]) -> Answer<'v> {
    if let [Value::String(text)] = values {
        let parsed = Quantity::parse(text.as_str());
        if context.function == "isQuantity" {
            return Ok(Value::Bool(parsed.is_ok()));
        }
        let quantity = parsed.map_err(|error| Fault::new(error.to_string()))?;
        return Ok(Value::Object(Arc::new(LibraryObject::Quantity(quantity))));
    }
    let Some(Value::Object(first)) = values.first() else { return Err(Fault::no_such_overload()) };
    let LibraryObject::Quantity(quantity) = **first else { return Err(Fault::no_such_overload()) };
    match (context.function, values.get(1)) {
        ("sign", _) => Ok(Value::Int(quantity.sign())),
        ("isInteger", _) => Ok(Value::Bool(quantity.as_integer().is_some())),
        ("asInteger", _) => {
            quantity.as_integer().map(Value::Int).ok_or(Fault::text("cannot convert value to integer"))
        }
        ("asApproximateFloat", _) => Ok(Value::Double(quantity.as_float())),
        ("add", Some(other)) => sum(quantity, other, Quantity::plus),
        ("sub", Some(other)) => sum(quantity, other, Quantity::minus),
        _ => Err(Fault::no_such_overload()),
    }
}

fn sum<'v>(one: Quantity, other: &Value<'_>, combine: fn(Quantity, Quantity) -> Quantity) -> Answer<'v> {
    let other = match other {
        Value::Int(number) => Quantity::from_integer(*number, Notation::Exponent),
        Value::Object(object) => match **object {
            LibraryObject::Quantity(other) => other,
            _ => return Err(Fault::no_such_overload()),
        },
        _ => return Err(Fault::no_such_overload()),
    };
    Ok(Value::Object(Arc::new(LibraryObject::Quantity(combine(one, other)))))
}
