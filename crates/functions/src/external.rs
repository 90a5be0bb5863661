//! `function-container`, `function-chroot` and `function-webhook`, where they are turned off.
//!
//! Nothing here runs or calls anything. Where these functions are turned on, the runner has something else in their place, which
//! reads the same inputs. What is left is to say what is wrong with an input, and that the functions are off.

use ferroplane_engine::{EXTERNAL_IS_OFF, ExternalFunction, FunctionType, external_name};
use ferroplane_wire::v1::{RunFunctionRequest, RunFunctionResponse};

use crate::response;

pub(crate) fn container(request: &RunFunctionRequest) -> RunFunctionResponse {
    answer(FunctionType::Container, request)
}

pub(crate) fn chroot(request: &RunFunctionRequest) -> RunFunctionResponse {
    answer(FunctionType::Chroot, request)
}

pub(crate) fn webhook(request: &RunFunctionRequest) -> RunFunctionResponse {
    answer(FunctionType::Webhook, request)
}

fn answer(kind: FunctionType, request: &RunFunctionRequest) -> RunFunctionResponse {
    let problem = match problem_of_input(kind, request) {
        // In the words that are taken for a mistake in the input when a Composition is checked.
        Some(problem) => format!("invalid Function input: {problem}"),
        None => format!("cannot run {}: {EXTERNAL_IS_OFF}", external_name(kind)),
    };
    response::fatal(response::to(request), problem)
}

fn problem_of_input(kind: FunctionType, request: &RunFunctionRequest) -> Option<String> {
    let Some(input) = &request.input else { return Some("input: it is missing".to_owned()) };
    match input.json() {
        Ok(input) => ExternalFunction::read(kind, input).err().map(|error| error.to_string()),
        Err(error) => Some(format!("input: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use ferroplane_wire::Struct;
    use serde_json::{Value, json};

    use super::*;

    fn said(input: Value) -> String {
        let Value::Object(input) = input else { panic!() };
        let input = Some(Struct::try_from(input).unwrap());
        container(&RunFunctionRequest { input, ..RunFunctionRequest::default() }).results[0].message.clone()
    }

    #[test]
    fn function_that_is_off_says_how_to_turn_it_on() {
        let input =
            json!({"apiVersion": "container.fn.ferroplane.io/v1alpha1", "kind": "Container", "image": "a"});
        assert!(said(input).contains("--enable-alpha-functions"));
    }

    #[test]
    fn mistake_in_an_input_is_said_before_that() {
        let input = json!({"apiVersion": "container.fn.ferroplane.io/v1alpha1", "kind": "Container"});
        assert!(said(input).starts_with("invalid Function input: input: missing field `image`"));
        assert!(
            said(json!({"kind": "Container"})).starts_with("invalid Function input: apiVersion: expected")
        );
    }
}
