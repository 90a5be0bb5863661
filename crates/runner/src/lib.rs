//! Calls functions: drives a pipeline, and runs functions in process, over gRPC, as programs of their own, as images and as webhooks.
//!
//! Knows nothing of the Kubernetes API: what functions want to see, a [`Resources`] reads.
//!
//! # Invariants
//! * Every call ends: with an answer, an error that says what to do about it, or its deadline.
//! * A built-in function that takes long does not hold up others: it is called on threads of its own.
//! * A program ends with its [`Program`], and all that it started ends with it. If our own process is killed, nothing is left to end
//!   them, unless another program runs them that notices ([`Command::run_by`]).

mod directory;
mod drive;
mod error;
mod external;
mod images;
mod long_calls;
mod observer;
mod process;
mod remote_templates;
mod response_cache;
mod steps;
#[cfg(feature = "wasm")]
mod wasm_function;

pub mod exchange;
pub mod grpc;

pub use directory::{AsyncFunction, Directory, Runner};
pub use drive::{Resources, drive, drive_noting};
pub use error::CallError;
pub use external::{CallContext, External, ExternalRunner, ImageCall, ImageOutput, ImageRunner};
#[cfg(feature = "wasm")]
pub use ferroplane_wasm as wasm;
pub use images::{
    CallLimits, ContainerError, ContainerRunner, FunctionGrants, FunctionLog, ImageError, ImageSettings,
    ImageSource, Images, KeepImage, KeptImage, PROTOCOL_ANNOTATION, PullProgress, PullSecret, PullWhen,
    ReadyImage, ServeImage, ServeProgramError, ServedFunction, ServedImage, ServedProgram, function_protocol,
    serve_program,
};
pub use long_calls::LongCallSignal;
pub use observer::{Happening, Observer, Peer};
pub use process::{Command, CommandError, LineSink, Program, ProgramState, Reports, StartError, Supervisor};
pub use remote_templates::TemplateFetcher;
pub use response_cache::{ResponseCache, Unkeepable};
#[cfg(feature = "wasm")]
pub use wasm_function::{
    Starlark, WasmFunction, enable_starlark, has_starlark, set_code_cache, set_code_compiler,
    shared_wasm_runtime,
};
