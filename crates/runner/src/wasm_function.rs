//! Functions as WebAssembly: a request becomes bytes for the code, and its bytes become a response.

mod starlark;

use std::ffi::OsString;
use std::fmt;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use bytes::Bytes;
use ferroplane_functions::stillness;
use ferroplane_wasm::{
    Call, Compilation, Compiler, Contract, Error, Grants, Limits, LogSink, Options, Program, Runtime,
    Stillness, Wishes,
};
use ferroplane_wire::v1::{RunFunctionRequest, RunFunctionResponse};
use ferroplane_wire::{Struct, from_json, methods, to_json};
use prost::Message as _;
use tonic::Code;
use tracing::{Span, info, warn};

use crate::error::CallError;
use crate::external::tenant_of;
use crate::observer::Peer;
pub use starlark::{Starlark, enable_starlark, has_starlark};

/// Where compiled code is kept for the next process.
static CODE_CACHE: OnceLock<PathBuf> = OnceLock::new();

/// The command that compiles the code of functions.
static CODE_COMPILER: OnceLock<Vec<OsString>> = OnceLock::new();

/// What runs the code of all functions of this process, but for scripts.
static SHARED: Mutex<Option<Runtime>> = Mutex::new(None);

/// Keep compiled code in a directory. The first one counts.
pub fn set_code_cache(directory: PathBuf) {
    let _ = CODE_CACHE.set(directory);
}

/// Have the code of functions compiled by a process of its own: this command, which has to run [`ferroplane_wasm::compile_for_parent`]. The
/// first one counts. Without one, code is compiled in this process, which it can then keep busy. Our own interpreter always is.
pub fn set_code_compiler(command: Vec<OsString>) {
    let _ = CODE_COMPILER.set(command);
}

/// What runs the code of all functions of this process: its threads are started for the first one.
pub fn shared_wasm_runtime() -> Result<Runtime, Error> {
    let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(runtime) = &*shared {
        return Ok(runtime.clone());
    }
    let compiler = CODE_COMPILER.get().cloned().map_or(Compiler::InProcess, Compiler::Helper);
    let runtime = start_runtime(CODE_CACHE.get().cloned(), &compiler)?;
    *shared = Some(runtime.clone());
    Ok(runtime)
}

/// Starts a runtime that keeps what it compiled. Without a directory to keep it in, as in a container, all code is compiled at every start.
fn start_runtime(cache: Option<PathBuf>, compiler: &Compiler) -> Result<Runtime, Error> {
    let start = |cache| Runtime::new(Options { cache, compiler: compiler.clone(), ..Options::default() });
    match start(cache) {
        Err(error @ Error::Cache { .. }) => {
            warn!(error = chain(&error), "cannot cache compiled WebAssembly: it is compiled at every start");
            start(None)
        }
        started => started,
    }
}

/// A function that is WebAssembly.
///
/// A command reads the request from stdin as JSON and writes the response to stdout as JSON. A component of our world takes
/// and gives protobuf. What was granted nothing sees the clock and the randomness of built-in functions
/// ([`ferroplane_functions::stillness`]), so the same request has the same answer.
pub struct WasmFunction {
    target: String,
    program: Program,
    /// What its code declares to need.
    wishes: Wishes,
    grants: Arc<Grants>,
    limits: Limits,
    /// Takes what it logs. Without one, that goes to the log of the step.
    log: Option<LogSink>,
    /// Takes what it logs, too.
    also: Option<LogSink>,
}

impl fmt::Debug for WasmFunction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WasmFunction").field("target", &self.target).finish_non_exhaustive()
    }
}

impl WasmFunction {
    /// Compile the code of a function. Grants that the code does not declare to need are refused. Takes from milliseconds to seconds, so it is nothing for a thread that serves others.
    pub fn new(
        runtime: &Runtime,
        name: &str,
        code: &[u8],
        grants: Grants,
        limits: Limits,
    ) -> Result<Self, Error> {
        Self::compile(runtime, name, code, grants, limits, &Compilation::default())
    }

    /// The same, compiled within limits and until it is cancelled.
    pub(crate) fn compile(
        runtime: &Runtime,
        name: &str,
        code: &[u8],
        grants: Grants,
        limits: Limits,
        compilation: &Compilation,
    ) -> Result<Self, Error> {
        // A grant cannot be meant for what the code does not declare.
        let wishes = Wishes::of(code)?;
        wishes.allow(&grants)?;
        let program = runtime.compile_with(code, compilation)?;
        let (target, grants) = (format!("wasm:{name}"), Arc::new(grants));
        Ok(Self { target, program, wishes, grants, limits, log: None, also: None })
    }

    /// The same without grants, if its code need not be compiled.
    pub(crate) fn find(
        runtime: &Runtime,
        name: &str,
        code: &[u8],
        limits: Limits,
    ) -> Result<Option<Self>, Error> {
        let wishes = Wishes::of(code)?;
        let Some(program) = runtime.find(code)? else { return Ok(None) };
        let (target, grants) = (format!("wasm:{name}"), Arc::default());
        Ok(Some(Self { target, program, wishes, grants, limits, log: None, also: None }))
    }

    /// Send its log to another writer than the log of the step.
    #[must_use]
    pub fn logging_to(self, log: LogSink) -> Self {
        Self { log: Some(log), ..self }
    }

    /// The same with other limits for each call.
    #[must_use]
    pub(crate) fn within(self, limits: Limits) -> Self {
        Self { limits, ..self }
    }

    /// Send its log to another writer, too.
    #[must_use]
    pub(crate) fn also_logging_to(self, also: Option<LogSink>) -> Self {
        Self { also, ..self }
    }

    /// What it may see of the machine.
    pub fn grants(&self) -> &Grants {
        &self.grants
    }

    /// Where it runs, what it declares to need, and what it is granted, for a user who installed it.
    pub(crate) fn describe(&self) -> String {
        let named =
            |wishes: &Wishes| if wishes.is_empty() { "nothing".to_owned() } else { wishes.to_string() };
        let granted: Wishes = self.grants.wishes().collect();
        format!(
            "runs as WebAssembly in this process; it declares to need {}, and is granted {}",
            named(&self.wishes),
            named(&granted)
        )
    }

    /// Call it as a program: text from standard input to standard output. A component reads and answers the text of the protocol.
    pub(crate) async fn run_text(
        &self,
        tenant: &str,
        text: Bytes,
        stillness: Stillness,
        limits: Limits,
        log: LogSink,
    ) -> Result<Vec<u8>, CallError> {
        let request = match self.program.contract() {
            Contract::Command => text,
            Contract::Component => {
                let json = serde_json::from_slice(&text).map_err(|error| self.failed(error.to_string()))?;
                let request: RunFunctionRequest = from_json(&json).map_err(|error| {
                    self.failed(format!("a component speaks the protocol RunFunction only: {error}"))
                })?;
                request.encode_to_vec().into()
            }
        };
        let (grants, tenant, caller) = (self.grants.clone(), hashed(tenant), hashed(&self.target));
        let call = Call { grants, limits, stillness, log, tenant, caller, ..Call::new(request) };
        let answer = self.program.call(call).await.map_err(|error| explain(&self.target, error))?;
        match self.program.contract() {
            Contract::Command => Ok(answer),
            Contract::Component => {
                let json = to_json(&self.decode(&answer)?).map_err(|error| self.failed(error.to_string()))?;
                serde_json::to_vec(&json).map_err(|error| self.failed(error.to_string()))
            }
        }
    }

    pub(crate) fn peer(&self) -> Peer<'_> {
        Peer { target: &self.target, method: methods::V1 }
    }

    /// Call it, for this object if the request does not have what it is called for.
    pub(crate) async fn call(
        &self,
        request: &RunFunctionRequest,
        subject: Option<&Struct>,
    ) -> Result<RunFunctionResponse, CallError> {
        let call = Call {
            grants: self.grants.clone(),
            limits: self.limits.clone(),
            stillness: still(request, subject),
            log: self.log_of_call(),
            tenant: hashed(&tenant_of(request, subject)),
            caller: hashed(&self.target),
            ..Call::new(self.encode(request)?)
        };
        let answer = self.program.call(call).await.map_err(|error| explain(&self.target, error))?;
        self.decode(&answer)
    }

    fn log_of_call(&self) -> LogSink {
        let log = self.log.clone().unwrap_or_else(|| log(&self.target));
        match self.also.clone() {
            None => log,
            Some(also) => Arc::new(move |line: &str| {
                also(line);
                log(line);
            }),
        }
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
        // The code said no itself: it is the failure of a function, not of what runs it.
        Error::Refused { message } => CallError::Failed { target, code: Code::Unknown, message },
        Error::QueueFull { .. } => {
            // Not `Ended`: nothing ran, and the reconcile may be tried again without harm.
            CallError::Failed { target, code: Code::ResourceExhausted, message: error.to_string() }
        }
        other => CallError::Ended { how: chain(&other), said: String::new() },
    }
}

fn still(request: &RunFunctionRequest, subject: Option<&Struct>) -> Stillness {
    let (now, seed) = stillness(request, subject);
    Stillness { now, seed }
}

/// The number of a tenant or function in the queue.
fn hashed(name: &str) -> u64 {
    // A hash instead of the name: a queue is found by comparing numbers, and two that share one only wait for each
    // other.
    let mut hasher = DefaultHasher::new();
    name.hash(&mut hasher);
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
