//! Any bytes are an object or an error, and an object stays the same on the wire.
#![no_main]

use ferroplane_wire::v1::{RunFunctionRequest, RunFunctionResponse};
use ferroplane_wire::{Struct, check, from_json, tag, to_json};
use libfuzzer_sys::fuzz_target;
use prost::Message as _;

fuzz_target!(|data: &[u8]| {
    let Ok(object) = Struct::decode(data) else { return };
    if let Ok(json) = object.json() {
        let again = Struct::try_from(json.clone()).expect("it was no deeper on the wire");
        let decoded = Struct::decode(again.encode_to_vec().as_slice()).expect("we encoded it");
        assert_eq!(decoded.json().expect("we encoded it"), json);
    }
    if let Ok(request) = RunFunctionRequest::decode(data) {
        assert_eq!(tag(&request), tag(&request.clone()));
        let _ = to_json(&request);
    }
    if let Ok(response) = RunFunctionResponse::decode(data) {
        let _ = check(&response);
        if let Ok(json) = to_json(&response) {
            let _ = from_json::<RunFunctionResponse>(&json);
        }
    }
});
