//! The request as templates see it: its JSON form, in the types that the decoder of the original gives it.
//!
//! Follows function-go-templating v0.4.1 and v0.12.2, fn.go (`convertToMap`): what is not set is not there, enums are their names, bytes are
//! base64. Made without writing JSON, because a request comes at every reconcile.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use ferroplane_template::{Heap, HeapHandle, List, Text, Type, Value};
use ferroplane_wire::v1::credentials::Source;
use ferroplane_wire::v1::{
    Capability, CredentialData, Credentials, Ready, RequestMeta, Resource, Resources, RunFunctionRequest,
    Schema,
};
use ferroplane_wire::{State, Struct, StructError};
use serde_json::{Map, Number, Value as Json};

use super::release::Release;

type Converted = Result<Value, StructError>;

/// The request, as a map.
pub(super) fn of(heap: &Heap, request: &RunFunctionRequest, release: Release) -> Converted {
    // In full, so that a field that the protocol gets later is not forgotten.
    let RunFunctionRequest {
        meta,
        observed,
        desired,
        input,
        context,
        extra_resources,
        credentials,
        required_resources,
        required_schemas,
    } = request;
    let mut fields = Fields::new(heap);
    fields.some("meta", meta.as_ref(), |meta| Ok(request_meta(heap, meta, release)))?;
    fields.some("observed", observed.as_ref(), |state| self::state(heap, state))?;
    fields.some("desired", desired.as_ref(), |state| self::state(heap, state))?;
    fields.some("input", input.as_ref(), |input| object(heap, input))?;
    fields.some("context", context.as_ref(), |context| object(heap, context))?;
    // A release sees what its version of the protocol has.
    if release.knows_extra_resources() {
        // Templates that were written for the old name find what was asked for by the new one.
        let is_copied = release.knows_required_resources() && extra_resources.is_empty();
        let extra = if is_copied { required_resources } else { extra_resources };
        fields.map("extraResources", extra, |found| resources(heap, found))?;
    }
    if release.knows_credentials() {
        fields.map("credentials", credentials, |one| self::credentials(heap, one))?;
    }
    if release.knows_required_resources() {
        fields.map("requiredResources", required_resources, |found| resources(heap, found))?;
        fields.map("requiredSchemas", required_schemas, |one| schema(heap, one))?;
    }
    Ok(fields.finish())
}

fn request_meta(heap: &Heap, RequestMeta { tag, capabilities }: &RequestMeta, release: Release) -> Value {
    let name = |number: &i32| Capability::try_from(*number).ok().map(|known| known.as_str_name());
    let mut fields = Fields::new(heap);
    if !tag.is_empty() {
        fields.put("tag", Value::text(tag.as_str()));
    }
    if !capabilities.is_empty() && release.knows_required_resources() {
        fields.put("capabilities", list(capabilities.iter().map(|it| enumerated(*it, name(it))).collect()));
    }
    fields.finish()
}

fn state(heap: &Heap, state: &State) -> Converted {
    let mut fields = Fields::new(heap);
    fields.some("composite", state.composite(), |composite| resource(heap, composite))?;
    fields.map("resources", state.resources(), |one| resource(heap, one))?;
    Ok(fields.finish())
}

fn resource(heap: &Heap, resource: &Resource) -> Converted {
    let Resource { resource, connection_details, ready } = resource;
    let mut fields = Fields::new(heap);
    fields.some("resource", resource.as_ref(), |resource| object(heap, resource))?;
    fields.map("connectionDetails", connection_details, |detail| Ok(bytes(detail)))?;
    if *ready != 0 {
        let name = Ready::try_from(*ready).ok().map(|known| known.as_str_name());
        fields.put("ready", enumerated(*ready, name));
    }
    Ok(fields.finish())
}

fn resources(heap: &Heap, Resources { items }: &Resources) -> Converted {
    let mut fields = Fields::new(heap);
    if !items.is_empty() {
        let items: Result<_, _> = items.iter().map(|item| resource(heap, item)).collect();
        fields.put("items", list(items?));
    }
    Ok(fields.finish())
}

fn credentials(heap: &Heap, Credentials { source }: &Credentials) -> Converted {
    let mut fields = Fields::new(heap);
    fields.some("credentialData", source.as_ref(), |Source::CredentialData(CredentialData { data })| {
        let mut fields = Fields::new(heap);
        fields.map("data", data, |secret| Ok(bytes(secret)))?;
        Ok(fields.finish())
    })?;
    Ok(fields.finish())
}

fn schema(heap: &Heap, Schema { openapi_v3 }: &Schema) -> Converted {
    let mut fields = Fields::new(heap);
    fields.some("openapiV3", openapi_v3.as_ref(), |schema| object(heap, schema))?;
    Ok(fields.finish())
}

fn bytes(bytes: &Bytes) -> Value {
    Value::text(STANDARD.encode(bytes))
}

/// The name of a value of an enum; its number if it has none.
fn enumerated(number: i32, name: Option<&'static str>) -> Value {
    name.map_or(Value::Int64(number.into()), Value::text)
}

fn list(items: Vec<Value>) -> Value {
    // What came over the wire has a limit of nesting of its own, far below that of lists.
    List::new(&Type::Any, items).map_or(Value::Nil, Value::List)
}

/// An object, whose fields are converted when a template reads one of them.
fn object(heap: &Heap, object: &Struct) -> Converted {
    // Whether it can be read is known at once, as in the original.
    object.json()?;
    let object = object.clone();
    let make = move |heap: &HeapHandle| object.json().map(|object| entries(heap, object)).unwrap_or_default();
    Ok(Value::Map(heap.map_on_demand(&Type::Any, make)))
}

fn entries(heap: &HeapHandle, object: &Map<String, Json>) -> BTreeMap<Text, Value> {
    object.iter().map(|(key, item)| (key.as_str().into(), value(heap, item))).collect()
}

fn value(heap: &HeapHandle, json: &Json) -> Value {
    match json {
        Json::Null => Value::Nil,
        Json::Bool(truth) => Value::Bool(*truth),
        Json::Number(number) => self::number(number),
        Json::String(text) => Value::text(text.as_str()),
        Json::Array(items) => list(items.iter().map(|item| value(heap, item)).collect()),
        Json::Object(object) => Value::Map(heap.map(&Type::Any, entries(heap, object))),
    }
}

/// A number as the decoder of Kubernetes reads it: whole ones that fit are integers. On the wire all are floats, so that those past
/// 2^53 are what a float makes of them, whether they crossed the wire or not.
fn number(number: &Number) -> Value {
    // The limits are exactly representable: -2^63 and 2^63.
    const LOWEST: f64 = -9_223_372_036_854_775_808.0;
    const PAST_HIGHEST: f64 = 9_223_372_036_854_775_808.0;
    let float = number.as_f64().unwrap_or_default();
    let is_whole = float.fract() == 0.0 && (LOWEST..PAST_HIGHEST).contains(&float);
    #[expect(clippy::cast_possible_truncation, reason = "it is whole and within the limits")]
    if is_whole { Value::Int64(float as i64) } else { Value::Float(float) }
}

/// The fields of a message that are set.
struct Fields<'h> {
    heap: &'h Heap,
    entries: BTreeMap<Text, Value>,
}

impl<'h> Fields<'h> {
    fn new(heap: &'h Heap) -> Self {
        Self { heap, entries: BTreeMap::new() }
    }

    fn put(&mut self, name: &str, value: Value) {
        self.entries.insert(name.into(), value);
    }

    fn some<T>(
        &mut self,
        name: &str,
        field: Option<T>,
        convert: impl FnOnce(T) -> Converted,
    ) -> Result<(), StructError> {
        if let Some(field) = field {
            self.put(name, convert(field)?);
        }
        Ok(())
    }

    /// A map of messages, which is not there if it is empty.
    fn map<T>(
        &mut self,
        name: &str,
        field: &BTreeMap<String, T>,
        convert: impl Fn(&T) -> Converted,
    ) -> Result<(), StructError> {
        if field.is_empty() {
            return Ok(());
        }
        let entries = field.iter().map(|(key, item)| Ok((key.as_str().into(), convert(item)?)));
        let entries = entries.collect::<Result<_, StructError>>()?;
        let map = Value::Map(self.heap.map(&Type::Any, entries));
        self.put(name, map);
        Ok(())
    }

    fn finish(self) -> Value {
        Value::Map(self.heap.map(&Type::Any, self.entries))
    }
}

#[cfg(test)]
mod tests {
    use ferroplane_golang::fmt::Numbers;
    use ferroplane_wire::{from_json, to_json};
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    /// A value with the types of all its parts.
    fn shown(value: &Value) -> String {
        match value {
            Value::List(items) => format!("{:?}", items.iter().map(shown).collect::<Vec<_>>()),
            Value::Map(map) => {
                let entries = map.to_vec().into_iter().map(|(key, item)| (key, shown(&item)));
                format!("{:?}", entries.collect::<BTreeMap<_, _>>())
            }
            other => format!("{other:?}"),
        }
    }

    fn direct(request: &RunFunctionRequest) -> String {
        let heap = Heap::new();
        shown(&of(&heap, request, Release::NEWEST).unwrap())
    }

    /// What the original does: writes JSON, and reads it.
    fn by_json(request: &RunFunctionRequest) -> String {
        let heap = Heap::new();
        let mut json = to_json(request).unwrap();
        if let Some(required) = json.get("requiredResources").cloned() {
            json.as_object_mut().unwrap().entry("extraResources").or_insert(required);
        }
        shown(&Value::from_json(&heap, &json, Numbers::Integers))
    }

    fn any_json() -> impl Strategy<Value = Json> {
        let number = prop_oneof![
            any::<i64>().prop_map(Json::from),
            any::<u64>().prop_map(Json::from),
            any::<f64>().prop_map(Json::from),
            (-3i32..3).prop_map(Json::from),
            Just(json!(-0.0)),
        ];
        let leaf = prop_oneof![
            Just(Json::Null),
            any::<bool>().prop_map(Json::from),
            number,
            ".{0,4}".prop_map(Json::from)
        ];
        leaf.prop_recursive(3, 12, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Json::from),
                prop::collection::btree_map("[a-c]", inner, 0..4)
                    .prop_map(|map| Json::Object(map.into_iter().collect())),
            ]
        })
    }

    fn any_object() -> impl Strategy<Value = Struct> {
        prop::collection::btree_map("[a-c]", any_json(), 0..4).prop_map(|map| {
            let object = Struct::try_from(map.into_iter().collect::<Map<_, _>>()).unwrap();
            // Half of them come from JSON, half over the wire.
            if map_is_even(&object) { object } else { Struct::from(object.wire().clone()) }
        })
    }

    fn map_is_even(object: &Struct) -> bool {
        object.json().unwrap().len().is_multiple_of(2)
    }

    fn any_resource() -> impl Strategy<Value = Resource> {
        let details = prop::collection::btree_map("[a-c]?", prop::collection::vec(any::<u8>(), 0..4), 0..3);
        (prop::option::of(any_object()), details, -1i32..5).prop_map(|(resource, details, ready)| {
            let connection_details = details.into_iter().map(|(key, value)| (key, value.into())).collect();
            Resource { resource, connection_details, ready }
        })
    }

    fn any_state() -> impl Strategy<Value = State> {
        (prop::option::of(any_resource()), prop::collection::btree_map("[a-c.]{1,2}", any_resource(), 0..3))
            .prop_map(|(composite, resources)| State::new(composite, resources))
    }

    fn any_resources() -> impl Strategy<Value = BTreeMap<String, Resources>> {
        let items = prop::collection::vec(any_resource(), 0..3).prop_map(|items| Resources { items });
        prop::collection::btree_map("[a-c]", items, 0..3)
    }

    fn any_request() -> impl Strategy<Value = RunFunctionRequest> {
        let meta = prop::option::of(("[a-c]?", prop::collection::vec(-1i32..9, 0..3)));
        let states = (prop::option::of(any_state()), prop::option::of(any_state()));
        let objects = (prop::option::of(any_object()), prop::option::of(any_object()));
        (meta, states, objects, any_resources(), any_resources()).prop_map(
            |(meta, (observed, desired), (input, context), extra_resources, required_resources)| {
                RunFunctionRequest {
                    meta: meta.map(|(tag, capabilities)| RequestMeta { tag, capabilities }),
                    observed,
                    desired,
                    input,
                    context,
                    extra_resources,
                    required_resources,
                    ..RunFunctionRequest::default()
                }
            },
        )
    }

    proptest! {
        #[test]
        fn data_is_what_the_json_of_the_request_is(request in any_request()) {
            prop_assert_eq!(direct(&request), by_json(&request));
        }
    }

    #[test]
    fn credentials_and_schemas_are_data_too() {
        let request = json!({
            "credentials": {"cloud": {"credentialData": {"data": {"token": "YQ==", "empty": ""}}}, "none": {}, "bare": {"credentialData": {}}},
            "requiredSchemas": {"s": {"openapiV3": {"type": "object"}}, "absent": {}},
        });
        let request: RunFunctionRequest = from_json(&request).unwrap();
        assert_eq!(direct(&request), by_json(&request));
        assert!(direct(&request).contains("YQ=="));
    }

    #[test]
    fn number_that_no_float_has_is_what_the_wire_makes_of_it() {
        let shown = |json: Json| match json {
            Json::Number(number) => self::shown(&self::number(&number)),
            other => unreachable!("{other} is no number"),
        };
        assert_eq!(shown(json!(9_007_199_254_740_993_i64)), "Int64(9007199254740992)");
        assert_eq!(shown(json!(u64::MAX)), "Float(1.8446744073709552e19)");
        assert_eq!(shown(json!(2.0)), "Int64(2)");
        assert_eq!(shown(json!(2.5)), "Float(2.5)");
    }

    #[test]
    fn required_resources_go_by_their_old_name_too_if_nothing_else_does() {
        let both = |request: Json| {
            let heap = Heap::new();
            let data = of(&heap, &from_json(&request).unwrap(), Release::NEWEST).unwrap();
            shown(&data)
        };
        let required = json!({"requiredResources": {"a": {"items": [{"resource": {"kind": "Y"}}]}}});
        assert_eq!(both(required.clone()).matches('Y').count(), 2);
        let mut other = required;
        other["extraResources"] = json!({"b": {}});
        assert_eq!(both(other).matches('Y').count(), 1);
    }
}
