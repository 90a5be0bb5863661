//! Whatever a template prints, function-go-templating answers, the same twice, and the same briefly.
#![no_main]

use ferroplane_functions::builtin;
use ferroplane_wire::from_json;
use ferroplane_wire::v1::RunFunctionRequest;
use libfuzzer_sys::fuzz_target;
use serde_json::json;

fuzz_target!(|text: &str| {
    let request: RunFunctionRequest = from_json(&json!({
        "observed": {
            "composite": {"resource": {"apiVersion": "example.org/v1", "kind": "App", "metadata": {"name": "a", "uid": "b"}}},
            "resources": {"r": {"resource": {"kind": "R", "status": {"conditions": [{"type": "Ready", "status": "True"}]}}}}
        },
        "context": {"a": 1},
        "input": {
            "metadata": {"annotations": {"ferroplane.io/template-steps": "20000", "ferroplane.io/template-memory": "4Mi"}},
            "source": "Inline", "inline": {"template": text}
        }
    }))
    .expect("it is a request");
    let function = builtin("function-go-templating", None).expect("it is built in");
    let answer = function.run(&request);
    assert_eq!(answer, function.run(&request));
    if let Ok(brief) = function.run_briefly(&request) {
        assert_eq!(answer, brief);
    }
});
