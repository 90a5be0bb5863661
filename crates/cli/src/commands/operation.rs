//! `ferroplane operation`: runs operations, and shows their results.

mod cancel;
mod history;
mod logs;
mod next;
mod retry;
mod run;

use clap::Subcommand;

use crate::Verdict;
use crate::terminal::Terminal;

/// Run operations, and show their results
///
/// An Operation is a pipeline of functions that runs to completion once. CronOperations make them on a schedule, WatchOperations when something
/// changes.
#[derive(Debug, clap::Args)]
pub(crate) struct Operation {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Run(run::Run),
    Logs(logs::Logs),
    History(history::History),
    Cancel(cancel::Cancel),
    Retry(retry::Retry),
    Next(next::Next),
}

impl Operation {
    pub(crate) fn run(self, terminal: &mut Terminal) -> anyhow::Result<Verdict> {
        match self.command {
            Command::Run(run) => run.run(terminal),
            Command::Logs(logs) => logs.run(terminal),
            Command::History(history) => history.run(terminal),
            Command::Cancel(cancel) => cancel.run(terminal),
            Command::Retry(retry) => retry.run(terminal),
            Command::Next(next) => next.run(terminal),
        }
    }
}
