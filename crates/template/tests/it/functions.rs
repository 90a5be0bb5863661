//! Functions with parameters and results of all types. `tests/peers/oracles/text-template` has the same ones in Go.

use std::any::Any;
use std::rc::Rc;

use ferroplane_template::print::{sprint, sprintf};
use ferroplane_template::{Callee, Context, Failure, Function, List, Object, Type, Value};

type Call = fn(&mut Context<'_>, &[Value]) -> Result<Value, Failure>;

const fn function(
    name: &'static str,
    parameters: &'static [Type],
    rest: Option<Type>,
    result: Type,
    call: Call,
) -> Function {
    Function { name, parameters, rest, result, callee: Callee::Values(call) }
}

const STRINGS: Type = Type::List(&Type::String);
const STRING: Type = Type::String;

pub(crate) static FUNCTIONS: &[Function] = &[
    function("wantBool", &[Type::Bool], None, STRING, |ctx, values| formatted(ctx, "bool %v", values)),
    function("wantInt", &[Type::Int], None, STRING, |ctx, values| formatted(ctx, "int %v", values)),
    function("wantInt64", &[Type::Int64], None, STRING, |ctx, values| formatted(ctx, "int64 %v", values)),
    function("wantFloat", &[Type::Float64], None, STRING, |ctx, values| formatted(ctx, "float64 %v", values)),
    function("wantString", &[STRING], None, STRING, |ctx, values| formatted(ctx, "string %v", values)),
    function("wantAny", &[Type::Any], None, STRING, |ctx, values| formatted(ctx, "%[1]T %[1]v", values)),
    function("wantList", &[Type::LIST], None, STRING, |ctx, values| nilable(ctx, "list %v %v", values)),
    function("wantStrings", &[STRINGS], None, STRING, |ctx, values| nilable(ctx, "strings %v %v", values)),
    function("wantMap", &[Type::MAP], None, STRING, |ctx, values| nilable(ctx, "map %v %v", values)),
    function("wantRest", &[STRING], Some(Type::Int), STRING, |ctx, values| {
        let rest = ctx.typed_list(&Type::Int, values[1..].to_vec())?;
        formatted(ctx, "rest %s %v", &[values[0].clone(), rest])
    }),
    function("wantAnys", &[], Some(Type::Any), STRING, |ctx, values| {
        let count = Value::Int(i64::try_from(values.len()).unwrap());
        let rest = ctx.list(values.to_vec())?;
        formatted(ctx, "anys %d %v", &[count, rest])
    }),
    function("same", &[Type::Any], None, Type::Any, |_, values| Ok(values[0].clone())),
    function("fails", &[Type::Any], None, Type::Any, |_, _| Err(Failure::new("it fails"))),
    function("strings", &[STRING], None, STRINGS, |ctx, values| {
        let Value::String(text) = &values[0] else { unreachable!("the signature says so") };
        let parts = text.split(|byte| *byte == b',').map(Value::text).collect();
        ctx.typed_list(&Type::String, parts)
    }),
    function("ints", &[], None, Type::List(&Type::Int), |ctx, _| {
        ctx.typed_list(&Type::Int, vec![Value::Int(1), Value::Int(2), Value::Int(3)])
    }),
    function("bytes", &[STRING], None, Type::BYTES, |_, values| {
        let Value::String(text) = &values[0] else { unreachable!("the signature says so") };
        Ok(Value::Bytes(text[..].into()))
    }),
    function("texts", &[], None, Type::Map(&Type::String), |ctx, _| {
        let entries = [("a", "b"), ("c", "")].map(|(key, value)| (key.into(), Value::text(value)));
        ctx.typed_map(&Type::String, entries.into())
    }),
    function("lists", &[], Some(Type::Any), Type::LIST, |ctx, values| ctx.list(values.to_vec())),
    function("nested", &[], None, Type::List(&Type::LIST), |ctx, _| {
        let first = ctx.list(vec![Value::Int(1), Value::text("a")])?;
        ctx.typed_list(&Type::LIST, vec![first, Value::List(List::nil(&Type::Any))])
    }),
    function("nilList", &[], None, Type::LIST, |_, _| Ok(Value::List(List::nil(&Type::Any)))),
    function("nilMap", &[], None, Type::MAP, |_, _| {
        Ok(Value::Map(ferroplane_template::Heap::nil_map(&Type::Any)))
    }),
    function("dictOf", &[STRING, Type::Any], None, Type::MAP, |ctx, values| {
        let Value::String(key) = &values[0] else { unreachable!("the signature says so") };
        ctx.map([(key.clone(), values[1].clone())].into())
    }),
    function("put", &[Type::MAP, STRING, Type::Any], None, Type::MAP, |_, values| {
        let [Value::Map(map), Value::String(key), value] = values else {
            unreachable!("the signature says so")
        };
        map.insert(key.clone(), value.clone())?;
        Ok(values[0].clone())
    }),
    function("include", &[STRING, Type::Any], None, STRING, |ctx, values| {
        let Value::String(name) = &values[0] else { unreachable!("the signature says so") };
        ctx.execute(name, values[1].clone()).map(Value::String)
    }),
    function("point", &[], None, Type::Struct("main.point"), |_, _| Ok(Value::Object(Rc::new(Point)))),
];

fn formatted(ctx: &mut Context<'_>, format: &str, values: &[Value]) -> Result<Value, Failure> {
    sprintf(ctx, format.as_bytes(), values).map(Value::String)
}

fn nilable(ctx: &mut Context<'_>, format: &str, values: &[Value]) -> Result<Value, Failure> {
    let is_nil = match &values[0] {
        Value::List(list) => list.is_nil(),
        Value::Map(map) => map.is_nil(),
        _ => false,
    };
    let shown = sprint(ctx, values)?;
    formatted(ctx, format, &[Value::Bool(is_nil), Value::String(shown)])
}

/// A struct with two fields.
#[derive(Debug)]
struct Point;

impl Object for Point {
    fn type_of(&self) -> Type {
        Type::Struct("main.point")
    }

    fn field(&self, name: &str) -> Option<Value> {
        match name {
            "X" => Some(Value::Int(1)),
            "Name" => Some(Value::text("p")),
            _ => None,
        }
    }

    fn fields(&self) -> &'static [&'static str] {
        &["X", "Name"]
    }

    fn equals(&self, other: &dyn Object) -> Option<bool> {
        Some(other.as_any().is::<Self>())
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
