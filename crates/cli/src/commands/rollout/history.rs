//! `ferroplane rollout history`: lists finished rollouts.

use ferroplane_api::{Object, RolloutRecord, meta};
use ferroplane_offline::times;
use jiff::Timestamp;

use crate::Verdict;
use crate::client::Access;
use crate::explain::ask;
use crate::functions::table::table;
use crate::rollouts::{Rollouts, status};
use crate::terminal::Terminal;

/// List finished rollouts, newest first
///
/// A FunctionRollout keeps the last ten. AGE is the time since a rollout ended. RECORDING is the recording that shows the reason, for `ferroplane replay show`.
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
        let rollouts = ask(terminal, async {
            let rollouts = Rollouts::connect(&self.access)?;
            match &self.name {
                Some(name) => Ok(vec![rollouts.get(name).await?]),
                None => rollouts.list().await,
            }
        })?;
        let now = Timestamp::now();
        let rows: Vec<_> = rollouts.iter().flat_map(|rollout| rows(rollout, now)).collect();
        if rows.is_empty() {
            terminal.note("no rollout has ended yet");
            return Ok(Verdict::Yes);
        }
        let head = ["NAME", "REVISION", "FROM", "RESULT", "DURATION", "AGE", "MESSAGE", "RECORDING"];
        terminal.text(&table(&head, &rows, terminal.width()))?;
        Ok(Verdict::Yes)
    }
}

fn rows(rollout: &Object, now: Timestamp) -> Vec<Vec<String>> {
    let row = |record: RolloutRecord| {
        let RolloutRecord { revision, from, result, message, recording, started_at, ended_at } = record;
        let (name, result) = (meta::name(rollout).to_owned(), result.as_str().to_owned());
        let (took, age) = (times::between(&started_at, &ended_at), times::age_of(&ended_at, now));
        vec![name, revision, from, result, took, age, message, recording]
    };
    status(rollout).history.into_iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn finished_rollout_has_a_duration_and_an_age() {
        let rollout = json!({"metadata": {"name": "own"}, "status": {"history": [{
            "revision": "own-2", "from": "own-1", "result": "Promoted", "message": "done", "recording": "",
            "startedAt": "2026-01-01T00:00:00Z", "endedAt": "2026-01-01T00:05:00Z",
        }]}});
        let now = "2026-01-04T04:05:00Z".parse().unwrap();
        let rows = rows(rollout.as_object().unwrap(), now);
        assert_eq!(
            rows,
            [["own", "own-2", "own-1", "Promoted", "5m", "3d4h", "done", ""].map(str::to_owned)]
        );
    }
}
