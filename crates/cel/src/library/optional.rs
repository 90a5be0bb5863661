//! Values that may be absent.
//!
//! Follows cel-go 0.29.2, `common/types/optional.go`.

use super::{Answer, Context};
use crate::fault::Fault;
use crate::value::Value;

pub(super) fn optional<'v>(context: &Context<'_>, values: &mut [Value<'v>]) -> Answer<'v> {
    match (context.function, values) {
        ("optional.none", _) => Ok(Value::Optional(None)),
        ("optional.ofNonZeroValue", [value]) if value.is_zero() => Ok(Value::Optional(None)),
        ("optional.of" | "optional.ofNonZeroValue", [value]) => Ok(Value::some(std::mem::take(value))),
        ("hasValue", [Value::Optional(value)]) => Ok(Value::Bool(value.is_some())),
        ("value", [Value::Optional(Some(value))]) => Ok((**value).clone()),
        ("value", [Value::Optional(None)]) => Err(Fault::text("optional.none() dereference")),
        ("optional.unwrap" | "unwrapOpt", [Value::List(list)]) => {
            let mut present = Vec::new();
            for value in list.iter() {
                match value {
                    Value::Optional(value) => present.extend(value.map(|value| (*value).clone())),
                    other => {
                        let shown = crate::json::show(&other, context.meter)?;
                        return Err(Fault::new(format!("value {shown} is not optional")));
                    }
                }
            }
            context.list(present)
        }
        _ => Err(Fault::no_such_overload()),
    }
}
