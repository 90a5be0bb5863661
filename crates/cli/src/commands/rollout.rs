//! `ferroplane rollout`: see how new revisions of functions reach composite resources, and decide about them.

mod history;
mod pause;
mod preview;
mod promote;
mod resume;
mod status;
mod undo;

use clap::Subcommand;

use crate::Verdict;
use crate::terminal::Terminal;

/// Show and control rollouts of new function revisions
///
/// A FunctionRollout moves composite resources to new revisions of a Function in waves, and back when a revision fails.
#[derive(Debug, clap::Args)]
pub(crate) struct Rollout {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Status(status::Status),
    Preview(preview::Preview),
    Pause(pause::Pause),
    Resume(resume::Resume),
    Promote(promote::Promote),
    Undo(undo::Undo),
    History(history::History),
}

impl Rollout {
    pub(crate) fn run(self, terminal: &mut Terminal) -> anyhow::Result<Verdict> {
        match self.command {
            Command::Status(status) => status.run(terminal),
            Command::Preview(preview) => preview.run(terminal),
            Command::Pause(pause) => pause.run(terminal),
            Command::Resume(resume) => resume.run(terminal),
            Command::Promote(promote) => promote.run(terminal),
            Command::Undo(undo) => undo.run(terminal),
            Command::History(history) => history.run(terminal),
        }
    }
}
