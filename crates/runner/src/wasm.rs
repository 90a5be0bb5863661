//! Functions as WebAssembly: a request becomes bytes for the code, and its bytes become a response.

mod starlark;

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;

use ferroplane_functions::stillness;
use ferroplane_wasm::{Call, Contract, Error, Grants, Limits, LogSink, Program, Runtime, Stillness};
use ferroplane_wire::v1::{RunFunctionRequest, RunFunctionResponse};
use ferroplane_wire::{from_json, methods, to_json};
use prost::Message as _;
use tonic::Code;
use tracing::{Span, info};

use crate::error::CallError;
use crate::observer::Peer;
pub use starlark::{ScriptMistake, Starlark};

/// A function that is WebAssembly.
///
/// A command reads the request from stdin as JSON and writes the response to stdout as JSON. A component of our world takes
/// and gives protobuf. What was granted nothing sees the clock and the randomness of built-in functions
/// ([`ferroplane_functions::stillness`]), so the same request has the same answer.
#[derive(Debug)]
pub struct WasmFunction {
    target: String,
    program: Program,
    grants: Arc<Grants>,
    limits: Limits,
}

impl WasmFunction {
    /// Compile the code of a function. Takes from milliseconds to seconds, so it is nothing for a thread that serves others.
    pub fn new(
        runtime: &Runtime,
        name: &str,
        code: &[u8],
        grants: Grants,
        limits: Limits,
    ) -> Result<Self, Error> {
        let program = runtime.compile(code)?;
        Ok(Self { target: format!("wasm:{name}"), program, grants: Arc::new(grants), limits })
    }

    /// What it may see of the machine.
    pub fn grants(&self) -> &Grants {
        &self.grants
    }

    pub(crate) fn peer(&self) -> Peer<'_> {
        Peer { target: &self.target, method: methods::V1 }
    }

    pub(crate) async fn call(&self, request: &RunFunctionRequest) -> Result<RunFunctionResponse, CallError> {
        let call = Call {
            grants: self.grants.clone(),
            limits: self.limits.clone(),
            stillness: still(request),
            log: log(&self.target),
            caller: caller(&self.target),
            ..Call::new(self.encode(request)?)
        };
        let answer = self.program.call(call).await.map_err(|error| explain(&self.target, error))?;
        self.decode(&answer)
    }

    fn encode(&self, request: &RunFunctionRequest) -> Result<Vec<u8>, CallError> {
        match self.program.contract() {
            Contract::Component => Ok(request.encode_to_vec()),
            Contract::Command => {
                let json = to_json(request).map_err(|error| self.failed(error.to_string()))?;
                serde_json::to_vec(&json).map_err(|error| self.failed(error.to_string()))
            }
        }
    }

    fn decode(&self, answer: &[u8]) -> Result<RunFunctionResponse, CallError> {
        let garbage = |reason: String| garbage(&self.target, reason);
        match self.program.contract() {
            Contract::Component => {
                RunFunctionResponse::decode(answer).map_err(|error| garbage(error.to_string()))
            }
            Contract::Command => {
                let json = serde_json::from_slice(answer).map_err(|error| garbage(error.to_string()))?;
                from_json(&json).map_err(|error| garbage(error.to_string()))
            }
        }
    }

    fn failed(&self, message: String) -> CallError {
        CallError::Failed { target: self.target.clone(), code: Code::Internal, message }
    }
}

fn garbage(target: &str, reason: String) -> CallError {
    CallError::Garbage { target: target.to_owned(), reason }
}

/// Why code did not answer, as of any other function.
fn explain(target: &str, error: Error) -> CallError {
    let target = target.to_owned();
    match error {
        Error::Time { limit } => CallError::Timeout { target, after: limit },
        Error::Output { limit } => CallError::ResponseTooLarge { target, limit },
        Error::Refused { message } => CallError::Failed { target, code: Code::Unknown, message },
        Error::QueueFull { .. } => {
            CallError::Failed { target, code: Code::ResourceExhausted, message: error.to_string() }
        }
        other => CallError::Ended { how: chain(&other), said: String::new() },
    }
}

fn still(request: &RunFunctionRequest) -> Stillness {
    let (now, seed) = stillness(request);
    Stillness { now, seed }
}

/// Each function waits in a queue of its own.
fn caller(target: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    target.hash(&mut hasher);
    hasher.finish()
}

/// Lines go to the log of the step that calls, though another thread runs the code.
fn log(target: &str) -> LogSink {
    let (span, target) = (Span::current(), target.to_owned());
    Arc::new(move |line| span.in_scope(|| info!(function = target, "{line}")))
}

fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}
