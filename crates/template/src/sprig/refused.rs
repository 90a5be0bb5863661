//! Functions that are refused by name: a template must not read the environment of the process, and must not ask the
//! network.
//!
//! Our own design: function-go-templating leaves out `env` and `expandenv`, too, and has all the others.

use super::function;
use crate::{Failure, Function, Type};

use Type::String;

const ENVIRONMENT: &str = "it reads the environment of the process, which can hold secrets";
const NETWORK: &str = "it asks the network, so that the same input would not give the same output";

/// Makes a function that fails from a name, its parameters and a reason, and a table of all.
macro_rules! refused {
    ($($name:literal $parameters:tt $reason:ident,)*) => {
        pub(super) const FUNCTIONS: &[Function] =
            &[$(function($name, &$parameters, String, |_, _| Err(refusal($name, $reason)))),*];

        /// The functions that always fail, and why.
        pub const REFUSED: &[(&str, &str)] = &[$(($name, $reason)),*];
    };
}

refused! {
    "env" [String] ENVIRONMENT,
    "expandenv" [String] ENVIRONMENT,
    "getHostByName" [String] NETWORK,
}

fn refusal(name: &str, reason: &str) -> Failure {
    Failure::new(format!("{name} is not available: {reason}"))
}
