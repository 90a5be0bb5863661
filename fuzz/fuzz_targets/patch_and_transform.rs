//! Whatever the input and the objects are, patch-and-transform answers, and answers the same twice.
#![no_main]

use ferroplane_functions::builtin;
use ferroplane_wire::v1::{Resource, RunFunctionRequest};
use ferroplane_wire::{State, Struct};
use libfuzzer_sys::fuzz_target;
use serde_json::{Map, Value};

fuzz_target!(|data: &[u8]| {
    // Three JSON objects, one after the other: the input, the composite resource, a composed resource.
    let mut objects = serde_json::Deserializer::from_slice(data).into_iter::<Map<String, Value>>();
    let mut next = || objects.next().and_then(Result::ok).and_then(|object| Struct::try_from(object).ok());
    let Some(input) = next() else { return };
    let resource = |object: Option<Struct>| Resource { resource: object, ..Resource::default() };
    let (xr, composed) = (resource(next()), next());
    let resources = composed.map(|object| ("a".to_owned(), resource(Some(object)))).into_iter().collect();
    let request = RunFunctionRequest {
        observed: Some(State::new(Some(xr), resources)),
        input: Some(input),
        ..RunFunctionRequest::default()
    };
    let function = builtin("function-patch-and-transform", None).expect("it is built in");
    assert_eq!(function.run(&request), function.run(&request));
});
