//! Any template ends within its budget, whatever it does.
#![no_main]

use ferroplane_golang::fmt::Numbers;
use ferroplane_template::{Budget, Heap, NoHost, Options, Templates, Value, sprig};
use libfuzzer_sys::fuzz_target;
use serde_json::json;

fuzz_target!(|text: &str| {
    let budget = Budget { steps: 20_000, memory: 4 << 20, output: 1 << 16, depth: 200 };
    let Ok(templates) = Templates::parse("fuzz", text, &Options::default(), &sprig::functions()) else { return };
    let heap = Heap::new();
    let data = json!({"a": [1, "b", 2.5, null, {"c": true}], "s": "text", "n": 7, "m": {"x": {"y": "z"}}, "e": {}});
    let data = Value::from_json(&heap, &data, Numbers::AsWritten);
    if let Ok(output) = templates.execute(data, &heap, &mut NoHost, budget) {
        assert!(output.len() <= 1 << 16);
    }
});
