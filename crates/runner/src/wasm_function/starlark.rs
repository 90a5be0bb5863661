//! Functions in Starlark: scripts in the input of a step, run by an interpreter that is WebAssembly itself.
//!
//! The interpreter is `guests/starlark`. It runs within the limits of foreign code, because a script can bring a native interpreter
//! down. An instance takes milliseconds to start, so it is kept for the next call with the same input, and serves no other.

use std::path::PathBuf;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use ferroplane_functions::{Effort, ScriptInterpreter, ScriptMistake, TakesLong, set_script_interpreter};
use ferroplane_wasm::{Call, Compiler, Error, Limits, Program, Runtime};
use ferroplane_wire::v1::{
    ResponseMeta, Result as FunctionResult, RunFunctionRequest, RunFunctionResponse, Severity,
};
use ferroplane_wire::{Struct, from_json, to_json};
use serde_json::{Value, json};

use super::{chain, explain, garbage, hashed, log, start_runtime, still};
use crate::error::CallError;
use crate::external::tenant_of;

const TARGET: &str = "wasm:starlark";

/// The interpreter, if it was built before we were.
#[cfg(has_starlark_guest)]
const GUEST: Option<&[u8]> = Some(include_bytes!("../../../../guests/built/starlark.wasm"));
#[cfg(not(has_starlark_guest))]
const GUEST: Option<&[u8]> = None;

/// How long a brief call may take, and how often a longer one asks whether anybody still waits for it.
const BRIEF: Duration = Duration::from_millis(3);

/// A script cannot have the composite resource reconciled sooner than after this, if nothing changes.
const SHORTEST_TTL: prost_types::Duration = prost_types::Duration { seconds: 1, nanos: 0 };

/// Runs scripts in Starlark.
#[derive(Debug)]
pub struct Starlark {
    program: Program,
    limits: Limits,
}

impl Starlark {
    /// Compile the interpreter. Takes seconds, unless the runtime has it in its cache.
    pub fn new(runtime: &Runtime, interpreter: &[u8], limits: Limits) -> Result<Self, Error> {
        Ok(Self { program: runtime.compile(interpreter)?, limits })
    }

    /// The same, with a runtime of its own, and a directory in which the compiled interpreter is kept.
    pub fn start(interpreter: &[u8], cache: Option<PathBuf>) -> Result<Self, Error> {
        // It is our own code, which takes what we measured.
        let runtime = start_runtime(cache, &Compiler::InProcess)?;
        Self::new(&runtime, interpreter, Limits { memory: 64 << 20, ..Limits::default() })
    }

    /// Run the script in the input of a request.
    pub async fn call(&self, request: &RunFunctionRequest) -> Result<RunFunctionResponse, CallError> {
        let json = to_json(request).map_err(|error| garbage(TARGET, error.to_string()))?;
        let digest = request.input.as_ref().map(Struct::digest).copied().unwrap_or_default();
        let (key, _) = digest.split_first_chunk::<8>().unwrap_or((&[0; 8], &[]));
        let call = Call {
            limits: self.limits.clone(),
            // Scripts see neither a clock nor random numbers.
            stillness: still(request, None),
            log: log(TARGET),
            tenant: hashed(&tenant_of(request, None)),
            caller: hashed(TARGET),
            warm: Some(u64::from_le_bytes(*key)),
            ..Call::new(json!({"run": json}).to_string())
        };
        let answer = self.program.call(call).await.map_err(|error| explain(TARGET, error))?;
        let answer = serde_json::from_slice(&answer).map_err(|error| garbage(TARGET, error.to_string()))?;
        let response = from_json(&answer).map_err(|error| garbage(TARGET, error.to_string()))?;
        Ok(with_a_pause(response))
    }

    /// Read the scripts of a request without running them.
    pub async fn check(&self, request: &RunFunctionRequest) -> Result<Vec<ScriptMistake>, Error> {
        let json = to_json(request).unwrap_or_default();
        let call = Call { limits: self.limits.clone(), ..Call::new(json!({"check": json}).to_string()) };
        let answer = self.program.call(call).await?;
        let mistakes = serde_json::from_slice::<Vec<Value>>(&answer).unwrap_or_default();
        Ok(mistakes.iter().map(mistake).collect())
    }
}

fn mistake(found: &Value) -> ScriptMistake {
    let text = |field: &str| found[field].as_str().unwrap_or_default().to_owned();
    let line = found["line"].as_u64().and_then(|line| usize::try_from(line).ok());
    ScriptMistake { field: text("field"), file: text("file"), line, message: text("message") }
}

/// Let function-starlark run scripts in this process, if the interpreter is in this build. It is compiled when the first script
/// comes, which takes seconds, unless a directory is given in which it was kept.
pub fn enable_starlark(cache: Option<PathBuf>) {
    let Some(guest) = GUEST else { return };
    let interpreter =
        Arc::new(Interpreter { guest, cache, starlark: OnceLock::new(), is_begun: AtomicBool::new(false) });
    let (run, check) = (interpreter.clone(), interpreter.clone());
    set_script_interpreter(ScriptInterpreter {
        run: Box::new(move |request, effort| run.run(request, effort)),
        check: Box::new(move |request| check.check(request)),
        prepare: Box::new(move || {
            let _ = interpreter.starlark();
        }),
    });
}

/// Whether the interpreter is in this build.
pub fn has_starlark() -> bool {
    GUEST.is_some()
}

/// The interpreter, once something needs it.
struct Interpreter {
    guest: &'static [u8],
    cache: Option<PathBuf>,
    starlark: OnceLock<Result<Starlark, String>>,
    /// Whether a thread gets it ready.
    is_begun: AtomicBool,
}

impl Interpreter {
    fn starlark(&self) -> Result<&Starlark, String> {
        let start = || Starlark::start(self.guest, self.cache.clone()).map_err(|error| chain(&error));
        self.starlark.get_or_init(start).as_ref().map_err(Clone::clone)
    }

    /// The interpreter, if it is ready. Otherwise it is compiled in the background: that takes seconds, and must not delay callers.
    fn ready(self: &Arc<Self>) -> Option<Result<&Starlark, String>> {
        if let Some(starlark) = self.starlark.get() {
            return Some(starlark.as_ref().map_err(Clone::clone));
        }
        if !self.is_begun.swap(true, Ordering::Relaxed) {
            let interpreter = self.clone();
            thread::spawn(move || interpreter.starlark().map(|_| ()));
        }
        None
    }

    fn run(
        self: &Arc<Self>,
        request: &RunFunctionRequest,
        effort: Effort<'_>,
    ) -> Result<RunFunctionResponse, TakesLong> {
        let began_at = Instant::now();
        let is_over = || match effort {
            Effort::Brief => began_at.elapsed() >= BRIEF,
            Effort::Full(elapsed) => elapsed() == Duration::MAX,
        };
        let starlark = loop {
            match (self.ready(), effort) {
                (Some(Ok(starlark)), _) => break starlark,
                (Some(Err(problem)), _) => {
                    return Ok(fatal(request, &format!("cannot start the interpreter: {problem}")));
                }
                (None, Effort::Brief) => return Err(TakesLong),
                (None, Effort::Full(_)) if is_over() => return Ok(fatal(request, UNREAD)),
                (None, Effort::Full(_)) => thread::sleep(BRIEF),
            }
        };
        match (wait_for(starlark.call(request), is_over), effort) {
            (Some(Ok(response)), _) => Ok(response),
            (Some(Err(error)), _) => Ok(fatal(request, &format!("cannot run the script: {}", chain(&error)))),
            (None, Effort::Brief) => Err(TakesLong),
            (None, Effort::Full(_)) => Ok(fatal(request, UNREAD)),
        }
    }

    fn check(self: &Arc<Self>, request: &RunFunctionRequest) -> Result<Vec<ScriptMistake>, String> {
        let Some(starlark) = self.ready() else { return Ok(Vec::new()) };
        let checked = wait_for(starlark?.check(request), || false);
        checked.unwrap_or(Ok(Vec::new())).map_err(|error| chain(&error))
    }
}

/// The response to a caller that does not wait for it.
const UNREAD: &str = "cannot run the script: the call was cancelled";

/// The response, without a time to live that would have the composite resource reconciled without pause.
fn with_a_pause(mut response: RunFunctionResponse) -> RunFunctionResponse {
    if let Some(ttl) = response.meta.as_mut().and_then(|meta| meta.ttl.as_mut())
        && ttl.seconds == 0
        && ttl.nanos > 0
    {
        *ttl = SHORTEST_TTL;
    }
    response
}

/// An answer that stops the pipeline.
fn fatal(request: &RunFunctionRequest, message: &str) -> RunFunctionResponse {
    let tag = request.meta.as_ref().map(|meta| meta.tag.clone()).unwrap_or_default();
    let result = FunctionResult {
        severity: Severity::Fatal.into(),
        message: message.to_owned(),
        ..FunctionResult::default()
    };
    RunFunctionResponse {
        meta: Some(ResponseMeta { tag, ttl: None }),
        desired: request.desired.clone(),
        context: request.context.clone(),
        results: vec![result],
        ..RunFunctionResponse::default()
    }
}

/// Waits for a future that needs no runtime, since a worker of the WebAssembly runtime completes it. Nothing if it is over before; the
/// call is stopped then.
fn wait_for<F: Future>(future: F, is_over: impl Fn() -> bool) -> Option<F::Output> {
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return Some(output);
        }
        if is_over() {
            return None;
        }
        thread::park_timeout(BRIEF);
    }
}

/// Wakes a thread that waits.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}
