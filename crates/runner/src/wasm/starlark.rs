//! Functions in Starlark: scripts in the input of a step, run by an interpreter that is WebAssembly itself.
//!
//! The interpreter is `guests/starlark`. It runs within the limits of foreign code, because a script can bring a native interpreter
//! down. An instance takes milliseconds to start, so it is kept for the next call with the same input, and serves no other.

use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

use ferroplane_wasm::{Call, Error, Limits, Options, Program, Runtime};
use ferroplane_wire::v1::{RunFunctionRequest, RunFunctionResponse};
use ferroplane_wire::{Struct, from_json, methods, to_json};
use serde_json::{Value, json};

use super::{caller, explain, garbage, log, still};
use crate::error::CallError;
use crate::observer::Peer;

const TARGET: &str = "wasm:starlark";

/// Runs scripts in Starlark.
#[derive(Debug)]
pub struct Starlark {
    program: Program,
    limits: Limits,
}

/// What is wrong with a script, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScriptMistake {
    /// The script: `main.star`, or the name of a module.
    pub file: String,
    /// Counted from 1. Nothing if it is about the script as a whole.
    pub line: Option<u64>,
    pub message: String,
}

impl Starlark {
    /// Compile the interpreter. Takes seconds, unless the runtime has it in its cache.
    pub fn new(runtime: &Runtime, interpreter: &[u8], limits: Limits) -> Result<Self, Error> {
        Ok(Self { program: runtime.compile(interpreter)?, limits })
    }

    /// The same, with a runtime of its own, and a directory in which the compiled interpreter is kept.
    pub fn start(interpreter: &[u8], cache: Option<PathBuf>) -> Result<Self, Error> {
        let runtime = Runtime::new(Options { cache, ..Options::default() })?;
        Self::new(&runtime, interpreter, Limits { memory: 64 << 20, ..Limits::default() })
    }

    /// Run the script in the input of a request, and wait for it. Other work of the same thread goes on elsewhere.
    pub fn call_blocking(&self, request: &RunFunctionRequest) -> Result<RunFunctionResponse, CallError> {
        use tokio::runtime::{Handle, RuntimeFlavor};
        match Handle::try_current().map(|handle| handle.runtime_flavor()) {
            Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(|| wait_for(self.call(request))),
            _ => wait_for(self.call(request)),
        }
    }

    pub(crate) fn peer() -> Peer<'static> {
        Peer { target: TARGET, method: methods::V1 }
    }

    /// Run the script in the input of a request.
    pub async fn call(&self, request: &RunFunctionRequest) -> Result<RunFunctionResponse, CallError> {
        let json = to_json(request).map_err(|error| garbage(TARGET, error.to_string()))?;
        let digest = request.input.as_ref().map(Struct::digest).copied().unwrap_or_default();
        let (key, _) = digest.split_first_chunk::<8>().unwrap_or((&[0; 8], &[]));
        let call = Call {
            limits: self.limits.clone(),
            stillness: still(request),
            log: log(TARGET),
            caller: caller(TARGET),
            warm: Some(u64::from_le_bytes(*key)),
            ..Call::new(json!({"run": json}).to_string())
        };
        let answer = self.program.call(call).await.map_err(|error| explain(TARGET, error))?;
        let answer = serde_json::from_slice(&answer).map_err(|error| garbage(TARGET, error.to_string()))?;
        from_json(&answer).map_err(|error| garbage(TARGET, error.to_string()))
    }

    /// Read the scripts of an input without running them.
    pub async fn check(&self, input: &Value) -> Result<Vec<ScriptMistake>, Error> {
        let call = Call { limits: self.limits.clone(), ..Call::new(json!({"check": input}).to_string()) };
        let answer = self.program.call(call).await?;
        let mistakes = serde_json::from_slice::<Vec<Value>>(&answer).unwrap_or_default();
        Ok(mistakes.iter().map(mistake).collect())
    }
}

fn mistake(found: &Value) -> ScriptMistake {
    let text = |field: &str| found[field].as_str().unwrap_or_default().to_owned();
    ScriptMistake { file: text("file"), line: found["line"].as_u64(), message: text("message") }
}

/// Waits for a future that needs no runtime: it is a worker of the WebAssembly runtime that completes it.
fn wait_for<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return output;
        }
        thread::park();
    }
}

/// Wakes a thread that waits.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}
