//! `ferroplane rollout history`: how rollouts ended.

use ferroplane_api::{Object, RolloutRecord, meta};

use crate::Verdict;
use crate::client::Access;
use crate::explain::block_on;
use crate::functions::table::table;
use crate::rollouts::{Rollouts, status};
use crate::terminal::Terminal;

/// List finished rollouts, newest first
///
/// A FunctionRollout keeps the last ten. RECORDING is the recording that shows the reason, for `ferroplane replay show`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ferroplane rollout history
  ferroplane rollout history own")]
pub(crate) struct History {
    /// The name of a FunctionRollout [default: all]
    name: Option<String>,

    #[command(flatten)]
    access: Access,
}

impl History {
    pub(crate) fn run(self, terminal: &mut Terminal) -> anyhow::Result<Verdict> {
        let rollouts = block_on(async {
            let rollouts = Rollouts::connect(&self.access)?;
            match &self.name {
                Some(name) => Ok(vec![rollouts.get(name).await?]),
                None => rollouts.list().await,
            }
        })?;
        let rows: Vec<_> = rollouts.iter().flat_map(rows).collect();
        if rows.is_empty() {
            terminal.note("no rollout has ended yet");
            return Ok(Verdict::Yes);
        }
        let head = ["NAME", "REVISION", "FROM", "RESULT", "STARTED", "ENDED", "MESSAGE", "RECORDING"];
        terminal.text(&table(&head, &rows, terminal.width()))?;
        Ok(Verdict::Yes)
    }
}

fn rows(rollout: &Object) -> Vec<Vec<String>> {
    let row = |record: RolloutRecord| {
        let RolloutRecord { revision, from, result, message, recording, started_at, ended_at } = record;
        let name = meta::name(rollout).to_owned();
        vec![name, revision, from, result.as_str().to_owned(), started_at, ended_at, message, recording]
    };
    status(rollout).history.into_iter().map(row).collect()
}
