//! What verbs can print: values that know their Go type.
//!
//! Our own design: Go's `fmt` finds out by reflection.

use std::borrow::Cow;

use serde_json::Value;

use super::{Any, Numbers};

/// Gets the key, where there is one, and the value. It returns whether to continue.
pub type Visitor<'v> = dyn FnMut(Option<&dyn Operand>, &dyn Operand) -> bool + 'v;

/// A value that verbs can print.
pub trait Operand {
    /// The type as the verb `%T` writes it.
    fn type_name(&self) -> Cow<'_, str>;

    fn shape(&self) -> Shape<'_>;

    /// Visits the items of a list, the entries of a map in the order of their keys, or the fields of a struct, until the
    /// visitor returns false.
    fn visit(&self, _visitor: &mut Visitor<'_>) {}
}

/// A key that is text, or the name of a field.
#[derive(Debug, Clone, Copy)]
pub struct Name<'n>(pub &'n [u8]);

impl Operand for Name<'_> {
    fn type_name(&self) -> Cow<'_, str> {
        Cow::Borrowed("string")
    }

    fn shape(&self) -> Shape<'_> {
        Shape::Text(self.0)
    }
}

/// What a value is to the verbs.
#[derive(Debug, Clone, PartialEq)]
pub enum Shape<'a> {
    Nil,
    Bool(bool),
    Integer(i64),
    Unsigned(u64),
    Float(f64),
    /// A number that is a float only because it came over the wire: `%d` prints it if it is whole. Go has no way to
    /// print a float with `%d` that anybody could want, and a user who writes `%d` for a whole number means this.
    WireFloat(f64),
    Complex([f64; 2]),
    Text(&'a [u8]),
    /// `[]byte`.
    Bytes(&'a [u8]),
    List,
    NilList,
    Map,
    NilMap,
    Struct,
    /// A value whose type has a method `String`: what that gives, and the integer that the value is, if it is one.
    Stringer(Cow<'a, [u8]>, Option<i64>),
}

impl Operand for Any<'_> {
    fn type_name(&self) -> Cow<'_, str> {
        Cow::Borrowed(Any::type_name(self))
    }

    fn shape(&self) -> Shape<'_> {
        match self {
            Any::Nil => Shape::Nil,
            Any::Bool(truth) => Shape::Bool(*truth),
            Any::Int(whole) => Shape::Integer(*whole),
            Any::Float(float) => Shape::WireFloat(*float),
            Any::Text(text) => Shape::Text(text.as_bytes()),
            Any::Bytes(bytes) => Shape::Text(bytes),
            Any::Array(..) => Shape::List,
            Any::NilArray => Shape::NilList,
            Any::Object(..) => Shape::Map,
            Any::NilObject => Shape::NilMap,
        }
    }

    fn visit(&self, visitor: &mut Visitor<'_>) {
        let mut go_on = |key: Option<&String>, value: &Value, numbers: Numbers| {
            let value = Any::of(value, numbers);
            match key {
                Some(key) => visitor(Some(&Name(key.as_bytes())), &value),
                None => visitor(None, &value),
            }
        };
        match self {
            Any::Array(items, numbers) => {
                let _ = items.iter().all(|item| go_on(None, item, *numbers));
            }
            // The keys are sorted already: `serde_json`'s maps are ordered, and Go's `fmt` sorts maps to be
            // deterministic.
            Any::Object(object, numbers) => {
                let _ = object.iter().all(|(key, value)| go_on(Some(key), value, *numbers));
            }
            _ => {}
        }
    }
}
