//! Messages of a protocol: objects whose fields are known, and have a value even if it was not set.
//!
//! Our own design: messages of the function protocol are views of what was decoded; cel-go has descriptors of
//! protobuf.

use std::sync::Arc;

use super::fault::Fault;
use super::meter::Meter;
use super::types::Type;
use super::value::Value;

/// A type of messages. Two with the same name are the same.
#[derive(Debug, Clone, Copy)]
pub struct MessageType {
    pub name: &'static str,
    /// The type of a field, if there is such a field.
    pub field: fn(&str) -> Option<Type>,
}

impl PartialEq for MessageType {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for MessageType {}

/// A message.
#[derive(Debug, Clone)]
pub struct Message<'v> {
    name: &'static str,
    fields: Arc<[MessageField<'v>]>,
}

/// A field of a message. What it has if it is not set is still its value.
#[derive(Debug, Clone)]
pub struct MessageField<'v> {
    pub name: &'static str,
    pub value: Value<'v>,
    pub is_set: bool,
}

impl<'v> Message<'v> {
    pub fn new(kind: &MessageType, fields: impl IntoIterator<Item = MessageField<'v>>) -> Self {
        Self { name: kind.name, fields: fields.into_iter().collect() }
    }

    pub(super) fn type_name(&self) -> &'static str {
        self.name
    }

    /// The value of a field. Of a field that is not set, there is none if it may be missing.
    pub(super) fn find(&self, key: &Value<'v>, may_miss: bool) -> Result<Option<Value<'v>>, Fault> {
        let Some(field) = self.fields.iter().find(|field| Some(field.name) == key.as_str()) else {
            return Err(Fault::new(format!("no such field '{}'", super::json::show_key(key))));
        };
        // Selecting a field that is not set gives its default, while `has` and optional selection say that it
        // is absent: so protobuf has it.
        Ok(Some(&field.value).filter(|_| field.is_set || !may_miss).cloned())
    }

    pub(super) fn equals(&self, other: &Self, meter: &Meter) -> Result<bool, Fault> {
        if self.name != other.name {
            return Ok(false);
        }
        // Fields of one type always come in one order: the code that makes messages lists all of them.
        for (one, other) in self.fields.iter().zip(&*other.fields) {
            if one.is_set != other.is_set || !one.value.equals(&other.value, meter)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The fields that are set.
    pub(super) fn set(&self) -> impl Iterator<Item = &MessageField<'v>> {
        self.fields.iter().filter(|field| field.is_set)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Environment, Limits};

    const THING: MessageType = MessageType { name: "example.Thing", field: thing_field };

    fn thing_field(name: &str) -> Option<Type> {
        match name {
            "size" => Some(Type::Int),
            "inner" => Some(Type::Message(THING)),
            _ => None,
        }
    }

    /// A thing that has a size, and another thing that nobody set.
    fn thing(size: Option<i64>) -> Value<'static> {
        let inner = Value::Message(Message::new(&THING, [field("size", Value::Int(0), false)]));
        let size = field("size", Value::Int(size.unwrap_or_default()), size.is_some());
        Value::Message(Message::new(&THING, [size, field("inner", inner, false)]))
    }

    fn field<'v>(name: &'static str, value: Value<'v>, is_set: bool) -> MessageField<'v> {
        MessageField { name, value, is_set }
    }

    fn check(source: &str) -> Result<Option<bool>, String> {
        let environment =
            Environment::new().variable("thing", Type::Message(THING)).variable("bare", Type::Dyn);
        let program = environment.compile(source).map_err(|error| error.to_string())?;
        let (outcome, _) =
            program.evaluate_with([("thing", thing(Some(3))), ("bare", thing(None))], Limits::PER_CALL);
        outcome.map(|outcome| outcome.value.as_bool()).map_err(|error| error.to_string())
    }

    #[test]
    fn field_has_a_value_even_if_it_is_not_set() {
        assert_eq!(check("thing.size == 3 && has(thing.size)"), Ok(Some(true)));
        assert_eq!(
            check("thing.inner.size == 0 && !has(thing.inner) && !has(thing.inner.size)"),
            Ok(Some(true))
        );
        assert_eq!(check("bare.size == 0 && !has(bare.size)"), Ok(Some(true)));
    }

    #[test]
    fn messages_are_equal_if_their_fields_are() {
        assert_eq!(check("thing == thing && thing != bare && thing.inner != thing"), Ok(Some(true)));
        assert_eq!(check("type(thing) == type(bare)"), Ok(Some(true)));
    }

    #[test]
    fn field_that_does_not_exist_is_refused() {
        assert!(
            check("thing.nothing == 1")
                .unwrap_err()
                .starts_with("ERROR: <input>:1:6: undefined field 'nothing'")
        );
        assert_eq!(check("bare.nothing == 1"), Err("no such field 'nothing'".to_owned()));
        assert!(check("thing + 1 == 2").unwrap_err().contains("applied to '(example.Thing, int)'"));
    }
}
