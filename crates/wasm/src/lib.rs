//! Runs foreign code as WebAssembly in our own process, within limits.
//!
//! Knows neither Kubernetes nor the function protocol: bytes go in, bytes come out. Two kinds of code can be called: a WASI command,
//! which reads its request from stdin and writes its answer to stdout, and a component of the world in `wit/function.wit`.
//!
//! # Invariants
//! * Code sees no file, address, variable, clock or random number that [`Grants`] does not name. An ungranted clock stands still, and
//!   ungranted randomness is computed from the request: code that has no grants answers the same request the same way.
//! * Every call ends: with an answer, or with an [`Error`] that names the limit it met. Memory, time, output and log are bounded.
//! * No call runs on a thread of the caller's: calls wait in a queue that serves its tenants and their callers in turn.
//! * Native code is run only if it is sealed with our own key: code that this process compiled, or its helper ([`Compiler::Helper`]), or that
//!   a holder of the same key kept on the disk ([`Options::cache`]).

mod cache;
mod clocks;
mod compiler;
mod error;
mod grants;
mod guest;
mod limits;
mod log;
mod output;
mod program;
mod runtime;
mod sections;
mod wishes;

pub use compiler::{
    CancelOnDrop, Cancellation, Compilation, Compiler, CompilerLimit, CompilerLimits, compile_for_parent,
};
pub use error::Error;
pub use grants::{Directory, Grants, Stillness};
pub use limits::Limits;
pub use log::LogSink;
pub use program::{Call, Contract, Program};
pub use runtime::{InUse, Options, Runtime};
pub use sections::CodeSize;
pub use wishes::{Wish, Wishes};
