//! `ferroplane`: arguments in, one call, one answer out.

mod actions;
mod address;
mod arguments;
#[cfg(feature = "wasm")]
mod cache;
mod client;
mod commands;
mod duration;
mod explain;
mod external;
mod follow;
mod functions;
mod intercepts;
mod interrupt;
mod object_events;
mod operations;
mod outage;
mod package_source;
mod plans;
mod random_values;
mod recordings;
mod remote_templates;
mod rollouts;
mod size;
mod start;
mod telemetry;
mod terminal;
mod up;
mod xpkg;

use std::process::ExitCode;

use arguments::Arguments;
use terminal::Terminal;

/// A control plane makes and drops many small objects on several threads, for months: this is faster at it than what the
/// system has, and gives memory back.
#[cfg(feature = "jemalloc")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// What a command found out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// All is well.
    Yes,
    /// A negative result: a fatal result, differences, not ready.
    No,
    /// A signal, such as that of Ctrl-C, stopped the command.
    Interrupted(u8),
}

impl From<Verdict> for ExitCode {
    fn from(verdict: Verdict) -> Self {
        Self::from(match verdict {
            Verdict::Yes => 0,
            Verdict::No => 3,
            // As shells say it.
            Verdict::Interrupted(signal) => 128 + signal,
        })
    }
}

fn main() -> ExitCode {
    let arguments = Arguments::read();
    let mut terminal = Terminal::new();
    #[cfg(feature = "wasm")]
    enable_webassembly();
    match arguments.run(&mut terminal) {
        Ok(verdict) => verdict.into(),
        Err(error) => {
            terminal.error(&error);
            ExitCode::FAILURE
        }
    }
}

/// Scripts can be run from now on, foreign code is compiled by a process of its own, and what is compiled is kept for the next process.
#[cfg(feature = "wasm")]
fn enable_webassembly() {
    ferroplane_runner::set_code_compiler(commands::internal::compiling_command());
    let cache = cache::code_cache();
    if let Some(directory) = cache.clone() {
        ferroplane_runner::set_code_cache(directory);
    }
    ferroplane_runner::enable_starlark(cache);
}
