//! `ferroplane functions`: what can be called?

mod explain;
mod versions;

use clap::Subcommand;

use crate::Verdict;
use crate::terminal::Terminal;

/// List and document the built-in functions
#[derive(Debug, clap::Args)]
pub(crate) struct Functions {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Versions(versions::Versions),
    Explain(explain::Explain),
}

impl Functions {
    pub(crate) fn run(self, terminal: &mut Terminal) -> anyhow::Result<Verdict> {
        match self.command {
            Command::Versions(versions) => versions.run(terminal),
            Command::Explain(explain) => explain.run(terminal),
        }
    }
}
