//! `ferroplane rollout history`: how rollouts ended.

use ferroplane_api::{Object, RolloutRecord, meta};

use crate::Verdict;
use crate::client::Access;
use crate::explain::block_on;
use crate::rollouts::{Rollouts, status, table};
use crate::terminal::Terminal;

/// List how rollouts ended, newest first
///
/// A FunctionRollout keeps the last ten.
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
        let head =
            ["NAME", "REVISION", "FROM", "RESULT", "STARTED", "ENDED", "MESSAGE"].map(str::to_owned).to_vec();
        let rows: Vec<_> = std::iter::once(head).chain(rows).collect();
        terminal.text(&table(&rows))?;
        Ok(Verdict::Yes)
    }
}

fn rows(rollout: &Object) -> Vec<Vec<String>> {
    let row = |record: RolloutRecord| {
        let RolloutRecord { revision, from, result, message, started_at, ended_at } = record;
        let name = meta::name(rollout).to_owned();
        vec![name, revision, from, result.as_str().to_owned(), started_at, ended_at, message]
    };
    status(rollout).history.into_iter().map(row).collect()
}
