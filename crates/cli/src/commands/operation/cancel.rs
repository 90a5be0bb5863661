//! `ferroplane operation cancel`: stop an operation that runs.

use anyhow::bail;
use ferroplane_engine::operation::{Standing, standing};

use crate::Verdict;
use crate::client::Access;
use crate::explain::ask;
use crate::operations::Operations;
use crate::terminal::Terminal;

/// Cancel a running operation by deleting it
///
/// It stops between two calls or two writes. Objects that it has applied stay, except for ActionSets: those that run are cancelled, too.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ferroplane operation cancel nightly-1700000000")]
pub(crate) struct Cancel {
    /// The name of the Operation
    name: String,

    #[command(flatten)]
    access: Access,
}

impl Cancel {
    pub(crate) fn run(self, terminal: &mut Terminal) -> anyhow::Result<Verdict> {
        ask(terminal, async {
            let operations = Operations::connect(&self.access)?;
            let operation = operations.get("Operation", &self.name).await?;
            if standing(&operation) != Standing::Running {
                bail!("Operation `{}` is done: there is nothing to stop", self.name);
            }
            operations.delete(&operation).await
        })?;
        terminal.line(&format!("Operation `{}` deleted", self.name));
        Ok(Verdict::Yes)
    }
}
