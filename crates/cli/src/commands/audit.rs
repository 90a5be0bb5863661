//! `ferroplane audit`: analyses the rights on a control plane.

mod who_can;

use clap::Subcommand;

use crate::Verdict;
use crate::terminal::Terminal;

/// Find out who can cause a request
#[derive(Debug, clap::Args)]
pub(crate) struct Audit {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    WhoCan(who_can::WhoCan),
}

impl Audit {
    pub(crate) fn run(self, terminal: &mut Terminal) -> anyhow::Result<Verdict> {
        match self.command {
            Command::WhoCan(who_can) => who_can.run(terminal),
        }
    }
}
