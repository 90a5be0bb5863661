//! Types and kinds of values.
//!
//! Follows sprig 3.3.0, `reflect.go`, and Go 1.26, `reflect/type.go` (`Kind.String`).

use super::arguments::text;
use super::{equality, function};
use crate::{Context, Failure, Function, Type, Value};

use Type::{Any, Bool, String};

pub(super) const FUNCTIONS: &[Function] = &[
    function("typeOf", &[Any], String, |_, args| Ok(Value::text(type_name(&args[0])))),
    function("typeIs", &[String, Any], Bool, type_is),
    function("typeIsLike", &[String, Any], Bool, type_is_like),
    function("kindOf", &[Any], String, |_, args| Ok(Value::text(kind(&args[0])))),
    function("kindIs", &[String, Any], Bool, |_, args| {
        Ok(Value::Bool(text(args, 0) == kind(&args[1]).as_bytes()))
    }),
    function("deepEqual", &[Any, Any], Bool, |ctx, args| {
        Ok(Value::Bool(equality::are_equal(ctx, &args[0], &args[1])?))
    }),
];

fn type_name(value: &Value) -> std::string::String {
    if let Value::Nil = value { "<nil>".to_owned() } else { value.type_of().to_string() }
}

fn type_is(_: &mut Context<'_>, args: &[Value]) -> Result<Value, Failure> {
    Ok(Value::Bool(text(args, 0) == type_name(&args[1]).as_bytes()))
}

/// A pointer to a type is like it.
fn type_is_like(_: &mut Context<'_>, args: &[Value]) -> Result<Value, Failure> {
    let (wanted, name) = (text(args, 0), type_name(&args[1]));
    let is_pointer = name.strip_prefix('*').is_some_and(|name| name.as_bytes() == wanted);
    Ok(Value::Bool(wanted == name.as_bytes() || is_pointer))
}

/// What Go's reflection calls the kind of a value.
pub(super) fn kind(value: &Value) -> &'static str {
    if let Value::Nil = value {
        return "invalid";
    }
    match value.type_of() {
        Any | Type::Reflect => "interface",
        Bool => "bool",
        Type::Int64 | Type::Integer("time.Duration") => "int64",
        Type::Int | Type::Integer(_) => "int",
        Type::Uint8 => "uint8",
        Type::Uint32 => "uint32",
        Type::Uint64 => "uint64",
        Type::Float64 => "float64",
        Type::Complex128 => "complex128",
        String => "string",
        Type::List(_) => "slice",
        Type::Map(_) | Type::AnyMap => "map",
        Type::Struct(_) => "struct",
        Type::Pointer(_) => "ptr",
    }
}
