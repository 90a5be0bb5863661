//! The functions of sprig, the library that most Go templates are written with.
//!
//! Each class of functions has a file of its own with a table `FUNCTIONS`. A function that fails says what its original
//! returns as an error or panics with. [`REFUSED`] are those that always fail; `docs/templates.md` lists all.
//!
//! Follows sprig 3.3.0, `functions.go`, with the versions of its libraries that function-go-templating has: cast 1.7.0,
//! mergo 1.0.2, decimal 1.4.0, semver 3.4.0, xstrings 1.5.0, goutils 1.1.1.

#![expect(
    clippy::unnecessary_wraps,
    reason = "all functions of a table have one signature, also those that cannot fail"
)]

mod arguments;
mod case;
mod cast;
mod crypto;
mod dates;
mod decimal;
mod defaults;
mod dicts;
mod encoding;
mod equality;
mod flow;
mod json;
mod lists;
mod math;
mod merge;
mod paths;
mod random;
mod reflection;
mod refused;
mod regex;
mod semver;
mod strings;
mod url;
mod words;

use std::cmp::Ordering;

use ferroplane_golang::time::layout::Parsed;
use ferroplane_golang::time::rfc3339::Moment;

use crate::{Callee, Context, Failure, Function, Functions, Object, Text, Type, Value};

pub use refused::REFUSED;

/// The functions that Go's templates always have, and those of sprig. Those that are refused are among them, and fail
/// when they are called.
pub fn functions() -> Functions {
    CLASSES.iter().fold(Functions::builtin(), |functions, (_, class)| functions.with(class))
}

/// The functions of sprig by class.
pub fn classes() -> impl Iterator<Item = (&'static str, &'static [Function])> {
    CLASSES.iter().copied()
}

static CLASSES: &[(&str, &[Function])] = &[
    ("strings", strings::FUNCTIONS),
    ("words", words::FUNCTIONS),
    ("regular expressions", regex::FUNCTIONS),
    ("integers and floats", math::FUNCTIONS),
    ("lists", lists::FUNCTIONS),
    ("dictionaries", dicts::FUNCTIONS),
    ("defaults and JSON", defaults::FUNCTIONS),
    ("reflection", reflection::FUNCTIONS),
    ("dates", dates::FUNCTIONS),
    ("encoding", encoding::FUNCTIONS),
    ("cryptography", crypto::FUNCTIONS),
    ("randomness", random::FUNCTIONS),
    ("semantic versions", semver::FUNCTIONS),
    ("paths", paths::FUNCTIONS),
    ("addresses", url::FUNCTIONS),
    ("flow control", flow::FUNCTIONS),
    ("refused", refused::FUNCTIONS),
];

/// A time in the local zone. Without a moment, the one that was never set.
pub fn time(moment: Option<Moment>) -> Value {
    dates::local_time(moment)
}

/// The time that a text says.
pub fn parsed_time(parsed: Parsed) -> Value {
    dates::parsed_time(parsed)
}

/// A time as RFC 3339 has it, with its fraction of a second; nothing if the object is no time.
pub fn rfc3339(object: &dyn Object) -> Option<Text> {
    dates::rfc3339(object)
}

/// The order in which Go prints keys that are times.
pub(crate) fn order_of_times(one: &dyn Object, other: &dyn Object) -> Ordering {
    dates::order(one, other)
}

/// A number in a template as a value of the named integer type.
pub(crate) fn named_integer(name: &str, whole: i64) -> Option<Value> {
    dates::named_integer(name, whole)
}

type Call = fn(&mut Context<'_>, &[Value]) -> Result<Value, Failure>;

const fn function(name: &'static str, parameters: &'static [Type], result: Type, call: Call) -> Function {
    Function { name, parameters, rest: None, result, callee: Callee::Values(call) }
}

/// A function with any number of further arguments.
const fn variadic(
    name: &'static str,
    parameters: &'static [Type],
    rest: Type,
    result: Type,
    call: Call,
) -> Function {
    Function { name, parameters, rest: Some(rest), result, callee: Callee::Values(call) }
}
