//! `ferroplane rollout resume`: continue with a rollout that is paused.

use anyhow::bail;
use serde_json::json;

use crate::Verdict;
use crate::client::Access;
use crate::explain::ask;
use crate::rollouts::{Rollouts, status};
use crate::terminal::Terminal;

/// Resume a paused rollout
///
/// It removes `spec.paused`. A rollout that is paused because its revision failed does not continue: promote the revision, or undo it.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ferroplane rollout resume own")]
pub(crate) struct Resume {
    /// The name of the FunctionRollout
    name: String,

    #[command(flatten)]
    access: Access,
}

impl Resume {
    pub(crate) fn run(self, terminal: &mut Terminal) -> anyhow::Result<Verdict> {
        ask(terminal, async {
            let rollouts = Rollouts::connect(&self.access)?;
            let status = status(&rollouts.get(&self.name).await?);
            if let Some(candidate) = status.candidate.filter(|it| status.rejected.as_ref() == Some(it)) {
                bail!(
                    "revision `{candidate}` failed: `ferroplane rollout promote` or `ferroplane rollout undo` decides about it"
                );
            }
            rollouts.change(&self.name, &json!({"spec": {"paused": null}})).await
        })?;
        terminal.line(&format!("FunctionRollout `{}` resumed", self.name));
        Ok(Verdict::Yes)
    }
}
