//! `ferroplane operation logs`: the events about an operation, and its outputs.

use jiff::Timestamp;

use crate::Verdict;
use crate::client::Access;
use crate::explain::ask;
use crate::operations::{Operations, outputs};
use crate::terminal::Terminal;

/// Show the events and outputs of an operation
///
/// Prints the events about it, oldest first, and then the outputs of its steps. An API server keeps events for about an hour.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ferroplane operation logs nightly-1700000000")]
pub(crate) struct Logs {
    /// The name of the Operation
    name: String,

    #[command(flatten)]
    access: Access,
}

impl Logs {
    pub(crate) fn run(self, terminal: &mut Terminal) -> anyhow::Result<Verdict> {
        let (operation, events) = ask(terminal, async {
            let operations = Operations::connect(&self.access)?;
            let operation = operations.get("Operation", &self.name).await?;
            let events = operations.events(&operation).await?;
            Ok((operation, events))
        })?;
        let now = Timestamp::now();
        let lines: String = events.iter().map(|event| event.line_with_age(now) + "\n").collect();
        terminal.text(&(lines + &outputs(&operation)))?;
        Ok(Verdict::Yes)
    }
}
