//! Any text is a path or an error, and any path ends.
#![no_main]

use ferroplane_schema::jsonpath::{JsonPath, MAX_VALUES};
use libfuzzer_sys::fuzz_target;
use serde_json::json;

fuzz_target!(|text: &str| {
    let Ok(path) = JsonPath::parse(text) else { return };
    let object = json!({"a": [1, "b", 2.5, null, {"c": true, "a": [[1], [2, 3]]}], "b": {"c": "text"}, "n": 7});
    for found in [path.find(&object), path.find_strictly(&object)].into_iter().flatten() {
        let count = found.iter().flatten().filter(|found| !found.to_string().is_empty()).count();
        assert!(count <= MAX_VALUES);
    }
});
