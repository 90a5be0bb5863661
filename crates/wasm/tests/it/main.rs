//! Code that does its work, and code that wants more than it may have.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod cache;
mod calls;
mod code;
mod compiler;
mod components;
mod concurrency;
mod grants;
mod hostile;
mod limits;
mod malformed;

use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use ferroplane_wasm::{Call, Error, Limits, Options, Runtime};

/// One runtime for all tests, as in a plane.
static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Runtime::new(options()).expect("the runtime starts"));

fn options() -> Options {
    Options { workers: 4, warm: 4, memory: 64 << 20, ..Options::default() }
}

/// Small limits, so that hostile code is stopped soon.
fn limits() -> Limits {
    Limits {
        memory: 16 << 20,
        time: Duration::from_millis(200),
        fuel: None,
        output: 64 << 10,
        log: 4 << 10,
        table_elements: 10_000,
    }
}

fn wat(text: &str) -> Vec<u8> {
    wat::parse_str(text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn call(request: &[u8]) -> Call {
    Call { limits: limits(), ..Call::new(request.to_vec()) }
}

/// What code in text form answers to a request.
fn answer(text: &str, request: &[u8]) -> Result<Vec<u8>, Error> {
    answer_to(text, call(request))
}

fn answer_to(text: &str, call: Call) -> Result<Vec<u8>, Error> {
    let program = RUNTIME.compile(&wat(text))?;
    block_on(program.call(call))
}

/// What a call logged, beside its answer.
fn logged(text: &str, call: Call) -> (Result<Vec<u8>, Error>, Vec<String>) {
    let lines = Arc::new(Mutex::new(Vec::new()));
    let sink = lines.clone();
    let log = Arc::new(move |line: &str| sink.lock().unwrap().push(line.to_owned()));
    let result = answer_to(text, Call { log, ..call });
    let lines = lines.lock().unwrap().clone();
    (result, lines)
}

fn block_on<F: Future>(future: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(future)
}
