//! Functions that are refused by name: a template must not read the environment of the process, and must not ask the
//! network. Keys and certificates are not made here.
//!
//! Our own design: function-go-templating leaves out `env` and `expandenv`, too, and has all the others.

use super::function;
use crate::{Failure, Function, Type};

use Type::{Any, Int, String};

const LIST: Type = Type::LIST;

const ENVIRONMENT: &str = "it reads the environment of the process, which can hold secrets";
const NETWORK: &str = "it asks the network, so that the same input would not give the same output";
const KEYS: &str = "keys and certificates are not made by templates here";

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
    "genPrivateKey" [String] KEYS,
    "genCA" [String, Int] KEYS,
    "genCAWithKey" [String, Int, String] KEYS,
    "genSelfSignedCert" [String, LIST, LIST, Int] KEYS,
    "genSelfSignedCertWithKey" [String, LIST, LIST, Int, String] KEYS,
    "genSignedCert" [String, LIST, LIST, Int, Any] KEYS,
    "genSignedCertWithKey" [String, LIST, LIST, Int, Any, String] KEYS,
    "buildCustomCert" [String, String] KEYS,
}

fn refusal(name: &str, reason: &str) -> Failure {
    Failure::new(format!("{name} is not available: {reason}"))
}
