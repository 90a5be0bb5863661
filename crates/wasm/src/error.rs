//! Why code could not be called, or did not answer.

use std::path::PathBuf;
use std::time::Duration;

use crate::compiler::CompilerLimit;
use crate::wishes::Wish;

/// What the WebAssembly engine says.
type Source = Box<dyn std::error::Error + Send + Sync>;

/// Why code could not be called, or did not answer. The words of a failed call are the same each time it fails for the same reason.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot start the WebAssembly engine")]
    Engine(#[source] Source),

    #[error("cannot use the cache of compiled code in {path}: {problem}")]
    Cache { path: PathBuf, problem: String },

    #[error("cannot compile {size} bytes of WebAssembly: at most {limit} are accepted")]
    TooLarge { size: usize, limit: usize },

    #[error("cannot compile the code: it has {size} {what}, and at most {limit} are accepted")]
    TooComplex { what: &'static str, size: usize, limit: usize },

    #[error(
        "cannot compile the code: the compiler met its limit of {limit}; split its longest functions, and leave out code that is not used, as \
         `wasm-opt -O` does"
    )]
    TooCostly { limit: CompilerLimit },

    #[error("cannot compile the code: the process that compiles failed")]
    Compiler(#[source] Source),

    #[error("cannot compile the code: the caller has given up")]
    Cancelled,

    #[error(
        "cannot compile the code: it is not a WebAssembly module or component; build it for wasm32-wasip1 or wasm32-wasip2"
    )]
    NotWebAssembly,

    #[error("cannot compile the code")]
    Invalid(#[source] Source),

    #[error("cannot link the code: it imports functions that are not provided")]
    Import(#[source] Source),

    #[error(
        "cannot call the code: it exports neither `_start` nor `wasi:cli/run` nor `ferroplane:function/handler@1.0.0`"
    )]
    NoEntry,

    #[error("cannot limit the code by fuel: this runtime does not meter it")]
    NotMetered,

    #[error(
        "cannot read the declaration of the code: it has the word `{word}`, which names nothing that can be granted"
    )]
    Wish { word: String },

    #[error("cannot grant `{wish}`: the code does not declare that it needs it")]
    NotDeclared { wish: Wish },

    #[error("cannot grant directory {path}")]
    Directory { path: PathBuf, source: Source },

    #[error("cannot queue the call: {limit} calls are waiting already")]
    QueueFull { limit: usize },

    #[error("the code was still running after {}s", .limit.as_secs_f64())]
    Time { limit: Duration },

    #[error("the code used up its fuel of {limit} instructions")]
    Fuel { limit: u64 },

    #[error("the code exceeded its limit of {limit} bytes of memory")]
    Memory { limit: usize },

    #[error("the code exceeded its limit of {limit} elements of a table")]
    Table { limit: usize },

    #[error("the code calls itself too deeply: its stack is used up")]
    Stack,

    #[error("the code answered with more than {limit} bytes")]
    Output { limit: usize },

    #[error("the code was stopped: {reason}{}", quoted(.said))]
    Trap { reason: String, said: String },

    #[error("the code ended with exit code {code}{}", quoted(.said))]
    Exit { code: i32, said: String },

    #[error("the code refused the request: {message}")]
    Refused { message: String },

    #[error("cannot give the code an instance to run in")]
    Instance(#[source] Source),

    #[error("the call was lost: the runtime was shut down, or failed")]
    Lost,
}

impl Error {
    /// What happened, in one word for programs.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Engine(_) | Self::Cache { .. } | Self::Compiler(_) | Self::Cancelled | Self::Lost => {
                "Runtime"
            }
            Self::TooLarge { .. }
            | Self::TooComplex { .. }
            | Self::TooCostly { .. }
            | Self::NotWebAssembly
            | Self::Invalid(_)
            | Self::NoEntry => "InvalidCode",
            Self::Import(_)
            | Self::Directory { .. }
            | Self::NotMetered
            | Self::Wish { .. }
            | Self::NotDeclared { .. } => "NotGranted",
            Self::QueueFull { .. } | Self::Instance(_) => "Busy",
            Self::Time { .. } => "Time",
            Self::Fuel { .. } => "Fuel",
            Self::Memory { .. } | Self::Table { .. } => "Memory",
            Self::Stack => "Stack",
            Self::Output { .. } => "Output",
            Self::Trap { .. } => "Trap",
            Self::Exit { .. } => "Exit",
            Self::Refused { .. } => "Refused",
        }
    }
}

fn quoted(said: &str) -> String {
    if said.is_empty() { String::new() } else { format!("; its last output was: {said}") }
}
