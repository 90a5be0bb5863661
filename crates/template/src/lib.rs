//! Go's text templates: text and data in, text or a positioned error out. Pure: no I/O, no clock, no randomness.
//!
//! [`Templates::parse`] reads a text once; the result is immutable, can be shared between threads and is what a cache
//! keeps. [`Templates::execute`] runs it over data within a [`Budget`]. What a template may ask of the world (the
//! time, random bytes, whether to stop) is what its [`Host`] gives.
//!
//! Errors of parsing and executing read as Go's, with the name of the template, line and column.
//!
//! # Invariants
//! * Whatever the template and the data are, execution ends within its budget, and never overflows the stack.
//! * Values that contain themselves are possible, as in Go (`set $d "self" $d`); they are freed with their [`Heap`].
//!
//! Our own design: Go finds the types of values and functions by reflection; here a [`Value`] knows its Go type and a
//! [`Function`] carries its signature as data.

mod any_map;
mod budget;
mod builtins;
mod error;
mod execute;
mod function;
mod heap;
mod lex;
mod node;
mod parse;
pub mod print;
pub mod sprig;
mod templates;
mod text;
mod trace;
mod types;
mod value;

pub use any_map::AnyMap;
pub use budget::{Budget, Exhausted};
pub use error::{ExecuteError, ExecuteErrorDetails, Failure, ParseError};
pub use function::{CallSite, Callee, Context, Function, Functions, Host, NoHost};
pub use heap::{Heap, HeapHandle};
pub use templates::{MissingKey, Options, Templates};
pub use text::Text;
pub use trace::Trace;
pub use types::Type;
pub use value::{List, Map, Object, Value};
