//! Any JSON patch applies or does not, and the result is not much larger than what went in.
#![no_main]

use ferroplane_schema::patch::{json, merge};
use libfuzzer_sys::fuzz_target;
use serde_json::Value;

fuzz_target!(|input: (&str, &str)| {
    let (Ok(document), Ok(patch)) = (serde_json::from_str::<Value>(input.0), serde_json::from_str::<Value>(input.1))
    else {
        return;
    };
    if let Value::Object(mut object) = document.clone() {
        let _ = merge::apply(&mut object, patch.clone());
    }
    let Ok(patch) = json::Patch::decode(patch) else { return };
    if let Ok(result) = patch.apply(document) {
        let limit = 2 * (input.0.len() + input.1.len() + json::MAX_COPIED_BYTES);
        assert!(result.to_string().len() <= limit);
    }
});
