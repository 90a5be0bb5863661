//! `ferroplane internal compile`: compiles WebAssembly for the process that started it, within limits.

use std::ffi::OsString;

use ferroplane_runner::wasm::compile_for_parent;

/// The command that compiles foreign code for this program.
pub(crate) fn compiling_command() -> Vec<OsString> {
    // Also if the file has been replaced since, as by a build: another one would compile for another engine.
    ["/proc/self/exe", "internal", "compile"].map(OsString::from).into()
}

/// Compile the WebAssembly on standard input to native code
///
/// The input begins with limits. The code is written to standard output.
#[derive(Debug, clap::Args)]
pub(super) struct Compile {}

impl Compile {
    /// Does not return: the exit code says what the output is.
    pub(super) fn run(self) -> ! {
        let Self {} = self;
        compile_for_parent()
    }
}
