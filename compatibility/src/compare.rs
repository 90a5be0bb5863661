//! Calls the original and the built-in function, and compares their answers.

use anyhow::{Context as _, Result};
use ferroplane_functions::Implementation;
use ferroplane_runner::{CallError, Program};
use ferroplane_wire::v1::{RunFunctionRequest, RunFunctionResponse};
use ferroplane_wire::{from_json, to_json};
use prost::Message as _;
use serde_json::Value;

use crate::corpus::{Corpus, Difference};

/// Why both differ where the original does not survive. It has to be started again.
pub(crate) const CRASHED: &str = "the original crashes";

/// The result of one case.
#[derive(Debug)]
pub(crate) enum Verdict {
    /// No built-in stands for this version.
    Uncovered,
    Same {
        is_fatal: bool,
    },
    Deliberate(&'static str),
    Fault {
        theirs: Value,
        ours: Value,
    },
}

/// Send the same request to both.
pub(crate) async fn compare(
    corpus: &Corpus,
    version: &str,
    original: &Program,
    builtin: Option<&Implementation>,
    request: &Value,
) -> Result<Verdict> {
    let Some(builtin) = builtin else { return Ok(Verdict::Uncovered) };
    let message = match (corpus.files)(request) {
        None => read(request)?,
        Some((name, files)) => {
            let mut request = request.clone();
            request["requiredResources"][name] = files;
            read(&request)?
        }
    };
    let Some(theirs) = ask(corpus, version, original, request).await? else {
        return Ok(Verdict::Deliberate(CRASHED));
    };
    let mut ours = to_value(&builtin.run(&message))?;
    (corpus.without_additions)(&mut ours);
    if theirs == ours {
        return Ok(Verdict::Same { is_fatal: is_fatal(&ours) });
    }
    let difference = Difference { version, request, theirs: &theirs, ours: &ours };
    Ok(match (corpus.deliberate)(&difference) {
        Some(reason) => Verdict::Deliberate(reason),
        None => Verdict::Fault { theirs, ours },
    })
}

/// The answer of the original. Nothing if it crashed.
pub(crate) async fn ask(
    corpus: &Corpus,
    version: &str,
    original: &Program,
    request: &Value,
) -> Result<Option<Value>> {
    let is_former = (corpus.asks_formerly)(version);
    let sent = if is_former { read(&former_request(request))? } else { read(request)? };
    let mut theirs = match original.call(&sent).await {
        Ok(answer) => to_value(&answer)?,
        Err(CallError::Ended { .. }) => return Ok(None),
        Err(error) => Value::String(format!("failed: {}", chain(&error))),
    };
    if let Some(requirements) = theirs.get_mut("requirements").filter(|_| is_former) {
        rename(requirements, "extraResources", "resources");
    }
    Ok(Some(theirs))
}

fn read(request: &Value) -> Result<RunFunctionRequest> {
    from_json(request).with_context(|| format!("the corpus made no request: {request}"))
}

/// The request with objects where the protocol had them before.
fn former_request(request: &Value) -> Value {
    let mut request = request.clone();
    // Some requests have both, to see which one is read.
    request.as_object_mut().and_then(|fields| fields.remove("extraResources"));
    rename(&mut request, "requiredResources", "extraResources");
    request
}

fn rename(object: &mut Value, from: &str, to: &str) {
    if let Some(fields) = object.as_object_mut()
        && let Some(value) = fields.remove(from)
    {
        fields.insert(to.to_owned(), value);
    }
}

/// Both answers as the plane would see them had both come over the wire, where every number is a double.
fn to_value(answer: &RunFunctionResponse) -> Result<Value> {
    let answer = RunFunctionResponse::decode(answer.encode_to_vec().as_slice())?;
    to_json(&answer).context("the answer has no JSON form")
}

fn is_fatal(answer: &Value) -> bool {
    let results = answer["results"].as_array();
    results.is_some_and(|results| results.iter().any(|result| result["severity"] == "SEVERITY_FATAL"))
}

fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(&format!(": {cause}"));
        source = cause.source();
    }
    text
}
