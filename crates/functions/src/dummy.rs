//! `function-dummy`: answers with what its input says. For examples, and for testing everything else.

use ferroplane_wire::v1::{RunFunctionRequest, RunFunctionResponse};
use ferroplane_wire::{Struct, merge_json};
use serde_json::Value;

use crate::response;

/// Merge the `response` of the input over what the request wants already.
pub(crate) fn run(request: &RunFunctionRequest) -> RunFunctionResponse {
    let mut response = response::to(request);
    match follow_script(request.input.as_ref(), &mut response) {
        Ok(()) => response,
        Err(problem) => {
            // From the start again: what was merged before the mistake must not be part of the answer.
            response::fatal(response::to(request), format!("cannot get Function input: {problem}"))
        }
    }
}

fn follow_script(input: Option<&Struct>, response: &mut RunFunctionResponse) -> Result<(), String> {
    let Some(input) = input else { return Ok(()) };
    let input = input.json().map_err(|error| error.to_string())?;
    match input.get("response") {
        None | Some(Value::Null) => Ok(()),
        Some(scripted) => merge_json(response, scripted).map_err(|error| error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use ferroplane_wire::{from_json, to_json};
    use serde_json::json;

    use super::*;

    fn answer(request: &Value) -> Value {
        to_json(&run(&from_json(request).unwrap())).unwrap()
    }

    #[test]
    fn scripted_response_is_merged_over_the_request() {
        let answer = answer(&json!({
            "meta": {"tag": "t"},
            "desired": {"composite": {"resource": {"status": {"old": 1}, "kept": true}}, "resources": {
                "a": {"resource": {"kind": "A"}}, "b": {"resource": {"kind": "B"}}
            }},
            "context": {"key": "value"},
            "input": {"response": {
                "desired": {"composite": {"resource": {"status": {"new": 2}}}, "resources": {
                    "b": {"resource": {"kind": "Other"}, "ready": "READY_TRUE"}
                }},
                "results": [{"severity": "SEVERITY_NORMAL", "message": "hi"}]
            }}
        }));
        assert_eq!(
            answer,
            json!({
                "meta": {"tag": "t", "ttl": "60s"},
                "desired": {"composite": {"resource": {"status": {"new": 2}, "kept": true}}, "resources": {
                    "a": {"resource": {"kind": "A"}}, "b": {"resource": {"kind": "Other"}, "ready": "READY_TRUE"}
                }},
                "context": {"key": "value"},
                "results": [{"severity": "SEVERITY_NORMAL", "message": "hi"}]
            })
        );
    }

    #[test]
    fn mistake_in_the_script_is_a_fatal_result() {
        let answer = answer(&json!({"input": {"response": {"results": [{"severity": "LOUD"}]}}}));
        assert_eq!(answer["results"][0]["severity"], "SEVERITY_FATAL");
        let message = answer["results"][0]["message"].as_str().unwrap();
        assert!(message.contains("RunFunctionResponse.results[0].severity: `LOUD` is none of"), "{message}");
    }

    #[test]
    fn without_input_nothing_changes() {
        assert_eq!(answer(&json!({"desired": {}})), json!({"meta": {"ttl": "60s"}, "desired": {}}));
    }
}
