//! The command line.

use clap::{CommandFactory as _, Parser, Subcommand};

use crate::Verdict;
use crate::commands::backup::{Backup, Restore};
use crate::commands::completions::Completions;
use crate::commands::functions::Functions;
use crate::commands::internal::Internal;
use crate::commands::man::Man;
use crate::commands::render::Render;
use crate::commands::resource::Resource;
use crate::commands::start::Start;
use crate::commands::trace::Trace;
use crate::commands::up::Up;
use crate::commands::validate::Validate;
use crate::commands::version::Version;
use crate::commands::why::Why;
use crate::terminal::Terminal;

/// A control plane built around pipelines of functions
///
/// Exit codes: 0 all is well, 1 something went wrong, 2 the command line makes no sense, 3 the answer is no
/// (a function returned a fatal result, an object is invalid or not ready, or a step would break).
#[derive(Debug, Parser)]
#[command(name = "ferroplane", version, propagate_version = true, arg_required_else_help = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Up(Up),
    Start(Box<Start>),
    Why(Why),
    Trace(Trace),
    Render(Box<Render>),
    Validate(Box<Validate>),
    Functions(Functions),
    Backup(Backup),
    Restore(Restore),
    Version(Version),
    Completions(Completions),
    Man(Man),
    #[command(hide = true, alias = "beta")]
    Resource(Resource),
    #[command(hide = true)]
    Internal(Internal),
}

impl Arguments {
    pub(crate) fn read() -> Self {
        Self::parse()
    }

    pub(crate) fn run(self, terminal: &mut Terminal) -> anyhow::Result<Verdict> {
        match self.command {
            Command::Up(up) => up.run(terminal),
            Command::Start(start) => start.run(terminal),
            Command::Why(why) => why.run(terminal),
            Command::Trace(trace) => trace.run(terminal),
            Command::Backup(backup) => backup.run(terminal),
            Command::Restore(restore) => restore.run(terminal),
            Command::Render(render) => render.run(terminal),
            Command::Validate(validate) => validate.run(terminal),
            Command::Resource(resource) => resource.run(terminal),
            Command::Functions(functions) => functions.run(terminal),
            Command::Version(version) => version.run(terminal),
            Command::Completions(completions) => completions.run(Self::command(), terminal),
            Command::Man(man) => man.run(&Self::command()),
            Command::Internal(internal) => internal.run(terminal),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_line_is_consistent() {
        Arguments::command().debug_assert();
    }
}
