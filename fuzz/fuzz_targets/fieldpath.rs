//! Whatever a field path and an object are, values can be copied by it: got, set, merged, and put to wildcards.
//!
//! Paths are private to the functions that follow them, so this goes through one.
#![no_main]

use ferroplane_functions::builtin;
use ferroplane_wire::v1::{Resource, RunFunctionRequest};
use ferroplane_wire::{State, Struct};
use libfuzzer_sys::fuzz_target;
use serde_json::{Map, Value, json};

fuzz_target!(|data: &[u8]| {
    // A byte for the policy, then two lines with paths, then an object.
    let Some((policy, rest)) = data.split_first() else { return };
    let Ok(text) = std::str::from_utf8(rest) else { return };
    let mut parts = text.splitn(3, '\n');
    let (Some(from), Some(to)) = (parts.next(), parts.next()) else { return };
    let Ok(mut object) = serde_json::from_str::<Map<String, Value>>(parts.next().unwrap_or("{}")) else { return };
    object.insert("kind".to_owned(), json!("Thing"));
    let policies = ["Replace", "MergeObjects", "MergeObjectsAppendArrays", "ForceMergeObjects", "AppendArray"];
    let policy = policies[usize::from(*policy) % policies.len()];
    let input = json!({"resources": [{"name": "a", "base": object, "patches": [
        {"fromFieldPath": from, "toFieldPath": to, "policy": {"toFieldPath": policy}}
    ]}]});
    let Value::Object(input) = input else { return };
    let (Ok(input), Ok(xr)) = (Struct::try_from(input), Struct::try_from(object)) else { return };
    let xr = Resource { resource: Some(xr), ..Resource::default() };
    let request = RunFunctionRequest {
        observed: Some(State::new(Some(xr), std::collections::BTreeMap::new())),
        input: Some(input),
        ..RunFunctionRequest::default()
    };
    let function = builtin("function-patch-and-transform", None).expect("it is built in");
    assert_eq!(function.run(&request), function.run(&request));
});
