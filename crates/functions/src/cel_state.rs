//! What a request has, as expressions in CEL see it: the messages of the protocol, field by field.

use ferroplane_cel::{Map, Message, MessageField, MessageType, Numbers, Type, Value};
use ferroplane_wire::v1::{Ready, Resource};
use ferroplane_wire::{State, Struct};

const STATE: MessageType = MessageType { name: "apiextensions.fn.proto.v1.State", field: state_field };
const RESOURCE: MessageType =
    MessageType { name: "apiextensions.fn.proto.v1.Resource", field: resource_field };

/// The type of a composite resource and what it is composed of.
pub(crate) fn state_type() -> Type {
    Type::Message(STATE)
}

/// The type of any JSON object.
pub(crate) fn struct_type() -> Type {
    map_of(Type::Dyn)
}

fn map_of(value: Type) -> Type {
    Type::Map(Box::new(Type::String), Box::new(value))
}

fn state_field(name: &str) -> Option<Type> {
    match name {
        "composite" => Some(Type::Message(RESOURCE)),
        "resources" => Some(map_of(Type::Message(RESOURCE))),
        _ => None,
    }
}

fn resource_field(name: &str) -> Option<Type> {
    match name {
        "resource" => Some(struct_type()),
        "connection_details" => Some(map_of(Type::Bytes)),
        "ready" => Some(Type::Int),
        _ => None,
    }
}

/// A state. If a readiness is given, it is that of the composite resource.
pub(crate) fn state(state: Option<&State>, ready: Option<Ready>) -> Value<'_> {
    let composite = state.and_then(State::composite);
    let resources = state.into_iter().flat_map(State::resources);
    let has_resources = state.is_some_and(|state| !state.resources().is_empty());
    let resources = Value::object(resources.map(|(name, one)| (name.as_str(), resource(Some(one), None))));
    Value::Message(Message::new(
        &STATE,
        [
            MessageField {
                name: "composite",
                value: resource(composite, ready),
                is_set: composite.is_some() || ready.is_some(),
            },
            MessageField { name: "resources", value: resources, is_set: has_resources },
        ],
    ))
}

fn resource(resource: Option<&Resource>, ready: Option<Ready>) -> Value<'_> {
    let details = resource.into_iter().flat_map(|resource| &resource.connection_details);
    let has_details = resource.is_some_and(|resource| !resource.connection_details.is_empty());
    let details = Value::object(details.map(|(name, detail)| (name.as_str(), Value::bytes(&**detail))));
    let content = resource.and_then(|resource| resource.resource.as_ref());
    let ready = ready.map_or_else(|| resource.map_or(0, |resource| resource.ready), i32::from);
    Value::Message(Message::new(
        &RESOURCE,
        [
            MessageField { name: "resource", value: object(content), is_set: content.is_some() },
            MessageField { name: "connection_details", value: details, is_set: has_details },
            MessageField { name: "ready", value: Value::Int(ready.into()), is_set: ready != 0 },
        ],
    ))
}

/// A JSON object, which is borrowed. One that cannot be read is seen as empty.
pub(crate) fn object(object: Option<&Struct>) -> Value<'_> {
    match object.map(Struct::json) {
        Some(Ok(object)) => Value::Map(Map::Json(object, Numbers::Double)),
        _ => Value::object([]),
    }
}
