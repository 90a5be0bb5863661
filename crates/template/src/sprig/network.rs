//! Functions that are refused by name: a template must not read the environment of the process, and must not ask the
//! network.
//!
//! Our own design: function-go-templating leaves out `env` and `expandenv`, too, and looks names up.

use super::function;
use crate::{Context, Failure, Function, Type, Value};

use Type::String;

pub(super) const FUNCTIONS: &[Function] = &[
    function("env", &[String], String, |ctx, args| refuse(ctx, args, 0)),
    function("expandenv", &[String], String, |ctx, args| refuse(ctx, args, 1)),
    function("getHostByName", &[String], String, |ctx, args| refuse(ctx, args, 2)),
];

/// The functions that always fail, and why.
pub const REFUSED: [(&str, &str); 3] = [
    ("env", "it reads the environment of the process, which can hold secrets"),
    ("expandenv", "it reads the environment of the process, which can hold secrets"),
    ("getHostByName", "it asks the network, so that the same input would not give the same output"),
];

fn refuse(_: &mut Context<'_>, _: &[Value], at: usize) -> Result<Value, Failure> {
    let (name, reason) = REFUSED[at];
    Err(Failure::new(format!("{name} is not available: {reason}")))
}
