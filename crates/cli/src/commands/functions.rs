//! `ferroplane functions`: lists, documents and calls functions.

mod declare;
mod explain;
mod image;
mod run;
mod versions;
mod wasm;

use clap::Subcommand;

use crate::Verdict;
use crate::terminal::Terminal;

/// List and document the built-in functions, and call any function
#[derive(Debug, clap::Args)]
pub(crate) struct Functions {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Versions(versions::Versions),
    Explain(explain::Explain),
    Declare(declare::Declare),
    #[command(alias = "test")]
    Run(run::Run),
}

impl Functions {
    pub(crate) fn run(self, terminal: &mut Terminal) -> anyhow::Result<Verdict> {
        match self.command {
            Command::Versions(versions) => versions.run(terminal),
            Command::Explain(explain) => explain.run(terminal),
            Command::Declare(declare) => declare.run(terminal),
            Command::Run(run) => run.run(terminal),
        }
    }
}
