//! `ferroplane actionset`: runs actions of Blueprints, and shows their results.

mod cancel;
mod create;
mod logs;

use clap::Subcommand;

use crate::Verdict;
use crate::terminal::Terminal;

/// Run actions of Blueprints, and show their results
///
/// A Blueprint has actions, each made of phases that call functions one after the other. An ActionSet runs actions, once.
#[derive(Debug, clap::Args)]
pub(crate) struct ActionSet {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Create(Box<create::Create>),
    Logs(logs::Logs),
    Cancel(cancel::Cancel),
}

impl ActionSet {
    pub(crate) fn run(self, terminal: &mut Terminal) -> anyhow::Result<Verdict> {
        match self.command {
            Command::Create(create) => create.run(terminal),
            Command::Logs(logs) => logs.run(terminal),
            Command::Cancel(cancel) => cancel.run(terminal),
        }
    }
}
