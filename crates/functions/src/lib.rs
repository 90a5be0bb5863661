//! The functions that are built in. Pure: they see the request and nothing else, and they never panic.

mod dummy;
mod response;

use ferroplane_wire::v1::{RunFunctionRequest, RunFunctionResponse};

/// A function that runs in our own process.
pub type Builtin = fn(&RunFunctionRequest) -> RunFunctionResponse;

/// The built-in function of this name, if there is one.
pub fn builtin(name: &str) -> Option<Builtin> {
    BUILTINS.iter().find(|(candidate, _)| *candidate == name).map(|(_, function)| *function)
}

/// The names of the built-in functions, in order.
pub fn names() -> impl Iterator<Item = &'static str> {
    BUILTINS.iter().map(|(name, _)| *name)
}

const BUILTINS: [(&str, Builtin); 1] = [("function-dummy", dummy::run)];
