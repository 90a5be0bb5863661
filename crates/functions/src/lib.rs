//! The functions that are built in, in all their versions. Pure: they see the request and nothing else, and they
//! never panic.

mod discovery;
mod dummy;
mod library;
mod response;

use ferroplane_wire::v1::{RunFunctionRequest, RunFunctionResponse};

pub use discovery::{Filter, Versions};
pub use library::{Contract, Declaration, Disorder, Implementation, Library, Native, Terms};

/// A function that runs in our own process.
pub type Builtin = fn(&RunFunctionRequest) -> RunFunctionResponse;

/// The code of a built-in function. Which versions there are is for the versions file to say.
struct Coded {
    function: &'static str,
    stable: &'static str,
    versions: &'static [(&'static str, Builtin)],
}

const BUILTINS: &[Coded] =
    &[Coded { function: "function-dummy", stable: "v0.4.1", versions: &[("v0.4.1", dummy::run)] }];

/// The code of a version of a built-in function; of the stable one if none is named.
pub fn builtin(function: &str, version: Option<&str>) -> Option<Builtin> {
    let coded = BUILTINS.iter().find(|coded| coded.function == function)?;
    let version = version.unwrap_or(coded.stable);
    coded.versions.iter().find(|(number, _)| *number == version).map(|(_, run)| *run)
}
