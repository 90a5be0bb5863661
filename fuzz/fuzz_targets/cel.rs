//! Any text is a program or an error, and any program ends within its budget.
#![no_main]

use ferroplane_cel::{Environment, Limits, Type};
use libfuzzer_sys::fuzz_target;
use serde_json::json;

fuzz_target!(|source: &str| {
    let environment = Environment::new().variable("self", Type::Dyn);
    let Ok(program) = environment.compile(source) else { return };
    let value = json!({"a": [1, "b", 2.5, null, {"c": true}], "s": "text", "n": 7});
    let limit = 10_000;
    let (outcome, cost) = program.evaluate_with([("self", program.borrow(&value))], Limits { cost: limit });
    assert!(cost <= limit || outcome.is_err());
    if let Ok(evaluated) = outcome {
        let _ = evaluated.value.to_json();
    }
});
