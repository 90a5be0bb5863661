//! What programs read and write that are no gRPC servers: one request on their standard input, one answer on their standard output.
//! Pure. `docs/alpha-functions.md` states the mapping for authors of functions.
//!
//! # Invariants
//! * A program that returns a list as it got it changes nothing about composed resources that earlier steps want.
//! * An answer without the composite resource is refused: a program that writes an empty list by mistake deletes nothing.
//! * Credentials for registries never reach the program.

mod items;
mod krm;
mod list;
mod text;

use ferroplane_engine::{ExternalCallee, ExternalFunction, FunctionProtocol};
use ferroplane_wire::v1::{RunFunctionRequest, RunFunctionResponse};
use ferroplane_wire::{Struct, StructError, from_json, to_json};
use serde_json::{Map, Value};

/// An answer may be this large, in bytes.
pub const MAX_ANSWER: usize = 16 << 20;

/// Why a request cannot be recorded, or an answer cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ExchangeError {
    #[error("cannot write the request")]
    Request(#[from] StructError),
    #[error("the answer has {size} bytes, and at most {MAX_ANSWER} are accepted")]
    TooLarge { size: usize },
    #[error("the answer is empty")]
    Empty,
    #[error("the answer is not text in UTF-8")]
    NotText,
    #[error("the answer is neither JSON nor YAML: {0}")]
    Syntax(String),
    #[error("the answer is not a RunFunctionResponse: {0}")]
    NotAResponse(String),
    #[error("the answer is not a ResourceList: {0}")]
    NotAList(String),
    #[error("items[{index}] of the answer: {problem}")]
    Item { index: usize, problem: String },
    #[error(
        "the answer has no {kind} with the annotation `{}: {}`: return the composite resource, also if it did not change",
        items::TYPE,
        items::COMPOSITE
    )]
    NoComposite { kind: String },
    #[error("results[{index}] of the answer: {problem}")]
    Result { index: usize, problem: String },
}

/// What a program reads.
pub fn encode(function: &ExternalFunction, request: &RunFunctionRequest) -> Result<Vec<u8>, ExchangeError> {
    let request = given(function, request)?;
    let json = match function.protocol {
        FunctionProtocol::RunFunction => to_json(&request)?,
        FunctionProtocol::ResourceList => list::encode(&request, function.sees_unwanted)?,
        FunctionProtocol::KRM => krm::encode(&request, function.sees_unwanted)?,
    };
    let mut text = json.to_string().into_bytes();
    // Programs that read lines wait for it.
    text.push(b'\n');
    Ok(text)
}

/// What a program meant with what it wrote.
pub fn decode(
    function: &ExternalFunction,
    request: &RunFunctionRequest,
    answer: &[u8],
) -> Result<RunFunctionResponse, ExchangeError> {
    let answer = text::parse(answer)?;
    let request = given(function, request)?;
    match function.protocol {
        FunctionProtocol::RunFunction => response(answer),
        FunctionProtocol::ResourceList => list::decode(&request, function.sees_unwanted, answer),
        FunctionProtocol::KRM => krm::decode(&request, function.sees_unwanted, answer),
    }
}

/// The fatal results in what a program wrote that failed, if it is an answer. KRM functions say so why they fail.
pub fn last_words(function: &ExternalFunction, answer: &[u8]) -> Option<String> {
    let answer = text::parse(answer).ok()?;
    let said = match function.protocol {
        FunctionProtocol::RunFunction => from_json::<RunFunctionResponse>(&answer).ok()?.results,
        // Both protocols have `results` at the same place.
        FunctionProtocol::ResourceList | FunctionProtocol::KRM => list::results(&answer).ok()?,
    };
    let said: Vec<_> =
        said.into_iter().map(|result| result.message).filter(|text| !text.is_empty()).collect();
    (!said.is_empty()).then(|| said.join("; "))
}

/// The request as the program is meant to see it: its config is its input, and what pulls its image is not its business.
fn given(
    function: &ExternalFunction,
    request: &RunFunctionRequest,
) -> Result<RunFunctionRequest, StructError> {
    let mut request = request.clone();
    request.input = function.config.clone().map(Struct::try_from).transpose()?;
    if let ExternalCallee::Image(image) = &function.callee {
        // In both directions, so that an answer is compared with exactly the request that the program read.
        request.credentials.retain(|name, _| !image.pull_credentials.contains(name));
    }
    Ok(request)
}

/// Fields of a request that an answer does not have. A program that changes the request and prints it is understood.
const REQUEST_ONLY: [&str; 9] = [
    "observed",
    "input",
    "credentials",
    "extraResources",
    "extra_resources",
    "requiredResources",
    "required_resources",
    "requiredSchemas",
    "required_schemas",
];

fn response(answer: Value) -> Result<RunFunctionResponse, ExchangeError> {
    let Value::Object(mut answer) = answer else {
        return Err(ExchangeError::NotAResponse("expected an object".to_owned()));
    };
    if is_state(&answer) {
        answer = Map::from_iter([("desired".to_owned(), Value::Object(answer))]);
    }
    for field in REQUEST_ONLY {
        answer.remove(field);
    }
    if let Some(Value::Object(meta)) = answer.get_mut("meta") {
        // `meta` of a request has what we can do; `meta` of an answer has no such field, and an unknown one would be
        // refused.
        meta.remove("capabilities");
    }
    from_json(&Value::Object(answer)).map_err(|error| ExchangeError::NotAResponse(error.to_string()))
}

/// Whether this is desired state without anything around it, as the example in the design of composition functions prints it.
fn is_state(answer: &Map<String, Value>) -> bool {
    !answer.is_empty() && answer.keys().all(|key| key == "composite" || key == "resources")
}

#[cfg(test)]
mod tests;
