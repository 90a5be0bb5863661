//! `ferroplane rollout undo`: moves all composite resources back to the old revision.

use anyhow::{Context as _, bail};
use ferroplane_api::{FunctionRolloutStatus, PROMOTE_ANNOTATION, REQUESTED_AT_ANNOTATION, UNDO_ANNOTATION};
use jiff::Timestamp;
use serde_json::json;

use crate::Verdict;
use crate::client::Access;
use crate::explain::ask;
use crate::rollouts::{Rollouts, status};
use crate::terminal::Terminal;

/// Move all composite resources back to the old revision
///
/// It ends a rollout that is under way, or goes back from the revision that was promoted last, as long as the revision before is active. Resources that
/// only the new revision composes are deleted.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ferroplane rollout undo own")]
pub(crate) struct Undo {
    /// The name of the FunctionRollout
    name: String,

    #[command(flatten)]
    access: Access,
}

impl Undo {
    pub(crate) fn run(self, terminal: &mut Terminal) -> anyhow::Result<Verdict> {
        let revision = ask(terminal, async {
            let rollouts = Rollouts::connect(&self.access)?;
            let revision = undone(status(&rollouts.get(&self.name).await?))
                .with_context(|| format!("cannot undo FunctionRollout `{}`", self.name))?;
            // The same may have been requested before.
            let now = Timestamp::now().to_string();
            let annotations = json!({
                UNDO_ANNOTATION: revision, PROMOTE_ANNOTATION: null, REQUESTED_AT_ANNOTATION: now,
            });
            rollouts.change(&self.name, &json!({"metadata": {"annotations": annotations}})).await?;
            Ok(revision)
        })?;
        terminal.line(&format!("FunctionRollout `{}` undoes `{revision}`", self.name));
        Ok(Verdict::Yes)
    }
}

/// The revision that is not to be called any more.
fn undone(status: FunctionRolloutStatus) -> anyhow::Result<String> {
    if let Some(candidate) = status.candidate {
        return Ok(candidate);
    }
    match (status.stable, status.previous) {
        (Some(stable), Some(_)) => Ok(stable),
        _ => bail!("no revision is being rolled out, and none was promoted before"),
    }
}
