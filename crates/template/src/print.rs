//! Values as Go's `fmt` prints them.
//!
//! Follows Go 1.26, `fmt/print.go`.

use std::borrow::Cow;

use ferroplane_golang::fmt::{
    Limits, Name, Operand, Refusal, Shape, Visitor, print_all, print_formatted, print_lines,
};

use crate::{Context, Exhausted, Failure, Text, Type, Value};

/// So many values are printed without a list of their own.
const FEW: usize = 4;

/// What `fmt.Sprint` gives.
pub fn sprint(ctx: &mut Context<'_>, values: &[Value]) -> Result<Text, Failure> {
    // Text alone is by far the most frequent, and is not copied.
    if let [Value::String(text)] = values {
        return Ok(text.clone());
    }
    print(ctx, values, print_all)
}

/// What `fmt.Sprintln` gives.
pub fn sprintln(ctx: &mut Context<'_>, values: &[Value]) -> Result<Text, Failure> {
    print(ctx, values, print_lines)
}

/// What `fmt.Sprintf` gives.
pub fn sprintf(ctx: &mut Context<'_>, format: &[u8], values: &[Value]) -> Result<Text, Failure> {
    print(ctx, values, |values, limits| print_formatted(format, values, limits))
}

fn print(
    ctx: &mut Context<'_>,
    values: &[Value],
    printer: impl FnOnce(&[&dyn Operand], Limits<'_>) -> Result<Vec<u8>, Refusal>,
) -> Result<Text, Failure> {
    let nothing = Value::Nil;
    let mut few: [&dyn Operand; FEW] = [&nothing; FEW];
    let many: Vec<&dyn Operand>;
    let operands: &[&dyn Operand] = if let Some(places) = few.get_mut(..values.len()) {
        for (place, value) in places.iter_mut().zip(values) {
            *place = value;
        }
        places
    } else {
        many = values.iter().map(|value| -> &dyn Operand { value }).collect();
        &many
    };
    let bytes = ctx.remaining_memory();
    let mut exhausted = None;
    // Values share their parts, so that a small one can have more items than anybody can wait for.
    let mut count_item = || {
        exhausted = ctx.step(1).err();
        exhausted.is_none()
    };
    let result = printer(operands, Limits { bytes, count_item: &mut count_item });
    match (result, exhausted) {
        (_, Some(limit)) => Err(limit.into()),
        (Ok(text), None) => {
            // Counted after the fact: how long the text is cannot be known before, and `bytes` above has
            // bounded it.
            ctx.step(text.len() as u64 / 64)?;
            Ok(text.into())
        }
        (Err(Refusal::TooLong), None) => Err(Exhausted::Memory(ctx.budget().memory).into()),
        (Err(refusal), None) => Err(Failure::new(refusal.to_string())),
    }
}

impl Operand for Value {
    fn type_name(&self) -> Cow<'_, str> {
        match self {
            Self::Nil => Cow::Borrowed("<nil>"),
            _ => Cow::Owned(self.type_of().to_string()),
        }
    }

    fn shape(&self) -> Shape<'_> {
        match self {
            Self::Nil => Shape::Nil,
            Self::Bool(truth) => Shape::Bool(*truth),
            Self::Int(whole) | Self::Int64(whole) => Shape::Integer(*whole),
            Self::Uint8(whole) => Shape::Unsigned((*whole).into()),
            Self::Uint64(whole) => Shape::Unsigned(*whole),
            Self::Float(float) => Shape::Float(*float),
            Self::Complex(parts) => Shape::Complex(**parts),
            Self::String(text) => Shape::Text(text),
            Self::Bytes(bytes) => Shape::Bytes(bytes),
            Self::List(list) if list.is_nil() => Shape::NilList,
            Self::List(_) => Shape::List,
            Self::Map(map) if map.is_nil() => Shape::NilMap,
            Self::Map(_) | Self::AnyMap(_) => Shape::Map,
            Self::Object(object) => match (object.string(), object.integer()) {
                (Some(text), whole) => Shape::Stringer(Cow::Owned(text.to_vec()), whole),
                (None, Some(whole)) => Shape::Integer(whole),
                (None, None) => Shape::Struct,
            },
        }
    }

    fn visit(&self, visitor: &mut Visitor<'_>) {
        match self {
            Self::List(list) => {
                let _ = list.iter().all(|item| visitor(None, item));
            }
            Self::Map(map) => {
                let _ = map.entries().iter().all(|(key, value)| visitor(Some(&Name(key)), value));
            }
            Self::AnyMap(map) => {
                let _ = map.iter().all(|(key, value)| visitor(Some(key), value));
            }
            Self::Object(object) => {
                let fields = object.fields().iter();
                let _ = fields
                    .filter_map(|name| Some((name, object.field(name)?)))
                    .all(|(name, value)| visitor(Some(&Name(name.as_bytes())), &value));
            }
            _ => {}
        }
    }
}

/// How many bytes a value takes by itself, without what it refers to.
pub(crate) fn size(value: &Value) -> usize {
    let item = size_of::<Value>();
    match value {
        Value::String(text) | Value::Bytes(text) => text.len(),
        Value::List(list) => list.len() * item,
        // A map keeps a name and some room besides.
        Value::Map(map) => (map.len() + 1) * (2 * item + size_of::<Text>()),
        Value::AnyMap(map) => (map.len() + 1) * 2 * item,
        _ => item,
    }
}

/// The zero value of a type that can be nil.
pub(crate) fn zero(parameter: Type) -> Value {
    match parameter {
        Type::List(element) => Value::List(crate::List::nil(element)),
        Type::Map(element) => Value::Map(crate::Heap::nil_map(element)),
        _ => Value::Nil,
    }
}
